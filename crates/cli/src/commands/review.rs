//! `autoloop review`: what becomes of the changes of a metareview.

mod revert;

use autoloop_runtime::world::World;
use clap::Subcommand;

use crate::failure::Failure;

/// Undo what a metareview changed.
///
/// `autoloop inspect review` shows what that was.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Revert(revert::Args),
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match &args.what {
        What::Revert(args) => revert::run(args, world),
    }
}
