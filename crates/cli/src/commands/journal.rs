//! `autoloop journal`: the file itself.

mod follow;
mod verify;

use autoloop_runtime::world::World;
use clap::Subcommand;

use crate::failure::Failure;

/// Look after the journal file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Verify(verify::Args),
    Follow(follow::Args),
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match &args.what {
        What::Verify(args) => verify::run(args, world),
        What::Follow(args) => follow::run(args, world),
    }
}
