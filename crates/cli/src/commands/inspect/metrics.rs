//! `autoloop inspect metrics`: what each iteration did.

use std::path::PathBuf;

use autoloop_core::views::metrics::{Format, Metrics};
use autoloop_runtime::world::World;

use super::named_run;
use crate::commands::settings;
use crate::failure::Failure;
use crate::terminal;

/// Show what each iteration did; no cost is recorded yet.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Project whose journal is read [default: the current one].
    project_dir: Option<PathBuf>,
    /// The run [default: the one that began last].
    #[arg(long, conflicts_with = "all_runs")]
    run: Option<String>,
    /// All runs in the journal.
    #[arg(long)]
    all_runs: bool,
    /// How to print it: md, csv or json.
    #[arg(long, default_value = "md", value_parser = parse_format)]
    format: Format,
}

fn parse_format(text: &str) -> Result<Format, &'static str> {
    text.parse()
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let journal = settings::locate(args.project_dir.as_deref(), world)?.journal(world);
    let metrics = journal.fold::<Metrics>()?.view;
    let run = match &args.run {
        _ if args.all_runs => None,
        None => Some(journal.latest_run()?.0),
        named => named_run(&*journal, named.as_deref())?,
    };
    Ok(terminal::print(&metrics.render(run.as_deref(), args.format))?)
}
