//! `autoloop slots`: a queue of items worked off, each implemented, reviewed and fixed.

mod progress_ui;
mod prompts;
mod report;
mod run;
mod verdict;

use autoloop_runtime::world::World;
use clap::Subcommand;

use crate::failure::Failure;

/// Work off a queue of items: implement, review, fix.
///
/// In every iteration each slot takes an item and an agent implements it. With --review a reviewer then
/// looks at the work: it passes, or it is fixed and looked at again, until it passes or may be fixed no
/// more. What passed is closed in the queue; what failed is given back, with the reason. Items come from
/// `autoloop tasks`, or from beads with --source beads.
///
/// With more than one slot, each works in a git working tree of its own, and what passed is brought back
/// into the project, one slot at a time.
///
/// Exits with 0 only when every item that was taken passed, with 1 when one did not or the run could not
/// go on, with 2 when the settings or prompts cannot be used or an agent is not there, with 4 when another
/// process drives the run, and with 128 and the number of the signal when it was interrupted; `autoloop
/// slots --resume` goes on with a run that did not end.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    flags: run::Flags,
}

#[derive(Debug, Subcommand)]
enum What {
    Verdict(verdict::Args),
    Prompts(prompts::Args),
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match &args.what {
        Some(What::Verdict(args)) => verdict::run(args),
        Some(What::Prompts(args)) => prompts::run(args, world),
        None => run::run(&args.flags, world),
    }
}
