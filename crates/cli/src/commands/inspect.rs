//! `autoloop inspect`: what a journal says.

use std::io::{self, Write};
use std::path::PathBuf;

use autoloop_core::config::Config;
use autoloop_core::project::metrics::{self, Metrics};
use autoloop_runtime::journal::{FileJournal, Journal, Position};
use autoloop_runtime::world::World;
use clap::Subcommand;

use super::listing::{Filter, Format, Listing};
use super::settings;
use crate::failure::Failure;
use crate::terminal;

/// Show what happened.
///
/// Everything is read from the journal, so a run can be looked at while it goes on, after it ended and
/// years later.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Journal(JournalArgs),
    Metrics(MetricsArgs),
}

/// The records themselves.
///
/// With `--format json`, the lines of the journal as they stand, of all runs unless one is named.
/// Lines that are not records are passed over; `autoloop journal verify` names them.
#[derive(Debug, clap::Args)]
struct JournalArgs {
    /// The project whose journal is shown [default: the one of the environment, or this directory].
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

/// What each iteration did and cost.
#[derive(Debug, clap::Args)]
struct MetricsArgs {
    /// The project whose journal is read [default: the one of the environment, or this directory].
    project_dir: Option<PathBuf>,
    /// The run [default: the one that began last].
    #[arg(long, conflicts_with = "all_runs")]
    run: Option<String>,
    /// All runs in the journal.
    #[arg(long)]
    all_runs: bool,
    /// How to print it: md, csv or json.
    #[arg(long, default_value = "md", value_parser = parse_format)]
    format: metrics::Format,
}

fn parse_format(text: &str) -> Result<metrics::Format, &'static str> {
    text.parse()
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match &args.what {
        What::Journal(args) => show_journal(args, world),
        What::Metrics(args) => show_metrics(args, world),
    }
}

fn show_journal(args: &JournalArgs, world: &World) -> Result<(), Failure> {
    let path = settings::journal_path(args.project_dir.as_deref())?;
    let journal = settings::journal(path, world, &Config::default());
    let run = named_run(&journal, args.run.as_deref())?;
    let filter = Filter { run: run.clone(), topics: args.topic.clone() };
    let mut listing = Listing::new(&journal, args.format, filter);
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
    match run {
        Some(run) if listing.printed == 0 && args.topic.is_empty() => {
            Err(no_such_run(&journal, &run))
        }
        _ => Ok(()),
    }
}

fn show_metrics(args: &MetricsArgs, world: &World) -> Result<(), Failure> {
    let path = settings::journal_path(args.project_dir.as_deref())?;
    let journal = settings::journal(path, world, &Config::default());
    let metrics = journal.fold::<Metrics>()?.view;
    let run = match &args.run {
        _ if args.all_runs => None,
        None => Some(journal.latest_run()?.0),
        named => named_run(&journal, named.as_deref())?,
    };
    if let (Some(run), Some(_)) = (&run, &args.run)
        && metrics.iterations(Some(run)).next().is_none()
    {
        return Err(no_such_run(&journal, run));
    }
    Ok(terminal::print(&metrics.render(run.as_deref(), args.format))?)
}

/// The run that `--run` means.
fn named_run(journal: &FileJournal, name: Option<&str>) -> Result<Option<String>, Failure> {
    match name {
        Some("latest") => match journal.latest_run()?.0 {
            none if none.is_empty() => Err(Failure::failed(format!(
                "no run has begun in {} yet",
                journal.path().display()
            ))),
            run => Ok(Some(run)),
        },
        name => Ok(name.map(str::to_owned)),
    }
}

fn no_such_run(journal: &FileJournal, run: &str) -> Failure {
    let failure =
        Failure::failed(format!("there is no run '{run}' in {}", journal.path().display()));
    match journal.latest_run() {
        Ok(latest) if !latest.0.is_empty() => {
            failure.hint(format!("the latest run is '{}'", latest.0))
        }
        _ => failure.hint("no run has begun there yet"),
    }
}

/// Something that belongs beside the output, not in it.
fn note(text: &str) {
    // Where standard error is closed, nobody wanted to know.
    let _ = writeln!(io::stderr(), "autoloop: {}", terminal::harmless(text));
}
