//! `autoloop memory`: what outlives an iteration.

mod add;
mod list;
mod remove;
mod status;
mod tiers;

use autoloop_runtime::world::World;
use clap::Subcommand;

use crate::failure::Failure;

pub(crate) use list::{Format, show};
pub(crate) use tiers::{Tier, Tiers};

/// Remember things across iterations and runs.
///
/// There are two tiers: the memory of the project, which every run reads, and that of one run. Inside
/// a loop, learnings and notes go to the run unless --project is given; preferences always go to the
/// project. Nothing is ever deleted from the files: a removed entry is hidden by a tombstone.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    List(list::ListArgs),
    Status(status::Args),
    Find(list::FindArgs),
    Add(add::Args),
    Remove(remove::RemoveArgs),
    Promote(remove::PromoteArgs),
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match &args.what {
        What::List(args) => list::list(args, world),
        What::Status(args) => status::run(args, world),
        What::Find(args) => list::find(args, world),
        What::Add(args) => add::run(args, world),
        What::Remove(args) => remove::remove(args, world),
        What::Promote(args) => remove::promote(args, world),
    }
}
