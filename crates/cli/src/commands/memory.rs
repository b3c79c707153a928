//! `autoloop memory`: what outlives an iteration.

mod add;
mod list;
mod remove;
mod status;
mod tiers;

use std::path::Path;

use autoloop_runtime::journal::{AppendError, ReadError, Unsuitable};
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

/// Why something was not remembered. The file is kept with the care of a journal, and is none.
fn not_stored(error: AppendError) -> Failure {
    match error {
        AppendError::Unsuitable { path, why } => unsuitable("not stored: ", &path, why),
        AppendError::Locked { holder: None, .. } => Failure::failed(format!("not stored: {error}"))
            .hint("`lsof` on the file shows who has it open"),
        error => error.into(),
    }
}

/// Why what is remembered cannot be told.
fn not_read(error: ReadError) -> Failure {
    match error {
        ReadError::Unsuitable { path, why } => unsuitable("", &path, why),
        error => error.into(),
    }
}

fn unsuitable(what: &str, path: &Path, why: Unsuitable) -> Failure {
    let failure =
        Failure::failed(format!("{what}{} {}", path.display(), why.told_of("memory file")));
    match why {
        Unsuitable::HardLinks(_) => {
            failure.hint("`find -samefile` shows the other names; remove them")
        }
        Unsuitable::Directory | Unsuitable::Symlink | Unsuitable::Special => {
            failure.hint("move it away, or name another file in core.memory_file")
        }
    }
}
