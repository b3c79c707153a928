//! What can be typed. The doc comments are the help texts.

use clap::error::{ContextKind, ErrorKind};
use clap::{Args as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::{
    chain, config, demo, doctor, emit, init, inspect, journal, loops, memory, presets, replay,
    review, run, script, settings, slots, tasks, watch,
};
use crate::failure::Failure;
use crate::presets::Preset;

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
    Chain(chain::Args),
    Presets(presets::Args),
    Init(init::Args),
    Emit(emit::Args),
    Inspect(inspect::Args),
    Loops(loops::Args),
    Watch(watch::Args),
    Journal(journal::Args),
    Config(config::Args),
    Memory(memory::Args),
    Tasks(tasks::Args),
    Review(review::Args),
    Slots(slots::Args),
    Doctor(doctor::Args),
    Demo(demo::Args),
    #[command(name = "__script", hide = true)]
    Script(script::Args),
    #[command(name = "__replay", hide = true)]
    Replay(replay::Args),
}

/// Reads the command line.
///
/// Agents call `emit` for every event, and to describe all commands to the parser takes longer than to
/// store one. So `emit` is read by a parser that knows nothing else; what it accepts and what it says
/// are the same.
pub(crate) fn read() -> Result<Args, Failure> {
    if std::env::args_os().nth(1).is_some_and(|word| word == "emit") {
        let parser = emit::Args::augment_args(clap::Command::new("emit").bin_name("autoloop emit"));
        let words = parser.get_matches_from(std::env::args_os().skip(1));
        let emit = emit::Args::from_arg_matches(&words).unwrap_or_else(|error| error.exit());
        return Ok(Args { command: Command::Emit(emit) });
    }
    Args::try_parse().or_else(|error| match without_run(&error) {
        Some(failure) => Err(failure),
        None => error.exit(),
    })
}

/// The failure of a command line whose first word is no command but what `run` expects.
fn without_run(error: &clap::Error) -> Option<Failure> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let invalid = error.get(ContextKind::InvalidSubcommand)?.to_string();
    if words.first() != Some(&invalid) {
        return None;
    }
    // Settings that cannot be read are reported by the commands that need them.
    let presets = Preset::all(&settings::surroundings().ok()?);
    run::suggest::without_run(&words, &presets)
}
