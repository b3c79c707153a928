//! `autoloop inspect slots`: how far a run over a queue is.

use std::path::PathBuf;

use autoloop_core::format::Format;
use autoloop_core::slot::Slots;
use autoloop_runtime::drive::slot_runs;
use autoloop_runtime::world::World;

use crate::commands::run::drive_failure;
use crate::commands::settings;
use crate::failure::Failure;
use crate::terminal;

/// How far a run over a queue is: its slots, their items, reviews and fixes, and how they ended.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Project whose journal is read [default: the current one].
    project_dir: Option<PathBuf>,
    /// The run, by its id [default: the one that began last].
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// How to print it: md, terminal or json.
    #[arg(long, default_value = "terminal", value_parser = super::parse_format)]
    format: Format,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let located = settings::locate(args.project_dir.as_deref(), world)?;
    let journal = located.journal(world);
    let runs = slot_runs(&journal, &located.files.state_dir, world).map_err(drive_failure)?;
    let path = journal.path().display();
    let found: Option<&Slots> = match &args.run {
        Some(id) => runs.iter().find(|run| run.id == *id),
        None => runs.last(),
    };
    match (found, &args.run, runs.last()) {
        (Some(run), ..) => Ok(terminal::print(&run.render(args.format))?),
        (None, Some(id), Some(last)) => {
            Err(Failure::failed(format!("there is no run of slots '{id}' in {path}"))
                .hint(format!("the latest one is '{}'", last.id)))
        }
        (None, ..) => Err(Failure::failed(format!("no run of slots has begun in {path} yet"))
            .hint("`autoloop slots` begins one")),
    }
}
