//! What can be typed. The doc comments are the help texts.

use clap::{Parser, Subcommand};

use crate::commands::{config, demo, emit, inspect, journal, memory, run, script};

/// Runs coding agents in loops that can be trusted.
///
/// Every step is a line in an append-only journal; what you see anywhere is read from it.
#[derive(Debug, Parser)]
#[command(
    name = "autoloop",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Emit(emit::Args),
    Inspect(inspect::Args),
    Journal(journal::Args),
    Config(config::Args),
    Memory(memory::Args),
    Demo(demo::Args),
    #[command(name = "__script", hide = true)]
    Script(script::Args),
}
