//! `autoloop chain`: several loops, one after another.

mod file;
mod list;
mod report;
mod run;
mod spawn;
mod steps;

use autoloop_runtime::world::World;
use clap::Subcommand;

use crate::failure::Failure;

pub(super) use self::report::Manner;
pub(super) use self::run::run_listed;
pub(super) use self::spawn::{Spawner, limits};

/// Run several loops, one after another.
///
/// The chains of a project are in its `chains.toml`. Each step is a run of its own; it is told what the
/// steps before it left, and all of them have the same objective.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    List(list::Args),
    Run(run::Args),
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match &args.what {
        What::List(args) => list::run(args, world),
        What::Run(args) => run::run(args, world),
    }
}
