//! `autoloop journal follow`: records as they come.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use autoloop_core::config::Config;
use autoloop_runtime::journal::{Journal, Position, ReadError};
use autoloop_runtime::world::World;

use crate::commands::listing::{Filter, Format, Listing};
use crate::commands::settings;
use crate::failure::Failure;
use crate::terminal;

/// The journal itself wakes us when it grows; this is how often it is looked whether somebody still reads.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Print records as they come, from whichever process.
///
/// First what is there, then everything that is added, until it is interrupted. The journal need not
/// exist yet.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The journal [default: that of the current project].
    file: Option<PathBuf>,
    /// Leave out what is there already.
    #[arg(long)]
    new: bool,
    /// Only the records of this run.
    #[arg(long)]
    run: Option<String>,
    /// Only records with this topic. Can be given more than once.
    #[arg(long, value_name = "TOPIC")]
    topic: Vec<String>,
    /// How to print them.
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let path = match &args.file {
        Some(path) => path.clone(),
        None => settings::locate(None, world)?.files.journal,
    };
    let journal = settings::journal(path, world, &Config::default());
    let filter = Filter { run: args.run.clone(), topics: args.topic.clone() };
    let mut listing = Listing::new(&*journal, args.format, filter);
    let mut position = if args.new { journal.head()? } else { Position::START };
    loop {
        position = read_on(&*journal, position, &mut listing)?;
        listing.flush()?;
        journal.wait(position, LOOK_AGAIN)?;
        terminal::ensure_read()?;
    }
}

fn read_on(
    journal: &dyn Journal,
    from: Position,
    listing: &mut Listing<'_>,
) -> Result<Position, Failure> {
    match journal.read(from, &mut |line| listing.show(line)) {
        Err(ReadError::Changed { path }) => {
            // Whoever reads along has to know that what follows is another journal.
            let note = format!(
                "autoloop: {} was cut, replaced or edited; following it from its beginning\n",
                path.display()
            );
            let _ = io::stderr().write_all(terminal::harmless(&note).as_bytes());
            Ok(journal.read(Position::START, &mut |line| listing.show(line))?)
        }
        result => Ok(result?),
    }
}
