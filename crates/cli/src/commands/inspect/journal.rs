//! `autoloop inspect journal`: the records themselves.

use std::path::PathBuf;

use autoloop_runtime::journal::Position;
use autoloop_runtime::world::World;

use super::{named_run, note};
use crate::commands::listing::{Filter, Format, Listing};
use crate::commands::settings;
use crate::failure::Failure;

/// The records themselves.
///
/// With `--format json`, the lines of the journal as they stand, of all runs unless one is named.
/// Lines that are not records are passed over; `autoloop journal verify` names them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Project whose journal is shown [default: the current one].
    project_dir: Option<PathBuf>,
    /// Only the records of this run; `latest` is the one that began last.
    #[arg(long)]
    run: Option<String>,
    /// Only records with this topic. Can be given more than once.
    #[arg(long, value_name = "TOPIC")]
    topic: Vec<String>,
    /// How to print them.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let journal = settings::locate(args.project_dir.as_deref(), world)?.journal(world);
    let run = named_run(&*journal, args.run.as_deref())?;
    let filter = Filter { run, topics: args.topic.clone() };
    let mut listing = Listing::new(&*journal, args.format, filter);
    let head = journal.read(Position::START, &mut |line| listing.show(line))?;
    listing.flush()?;

    if head == Position::START {
        note(&format!("there is nothing in {}", journal.path().display()));
    }
    if listing.bad > 0 {
        let bad = listing.bad;
        note(&format!(
            "{bad} {} not a record and passed over; `autoloop journal verify` names each",
            if bad == 1 { "piece is" } else { "pieces are" }
        ));
    }
    Ok(())
}
