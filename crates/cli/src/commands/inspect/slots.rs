//! `autoloop inspect slots`: how far a run over a queue is.

use std::path::PathBuf;

use autoloop_core::coordinator::{Holder, Kind};
use autoloop_core::format::Format;
use autoloop_runtime::runs::{self, holder, slot_runs};
use autoloop_runtime::site::Site;
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
    /// The run: an id, the beginning of it, or `latest` [default: the latest run of slots].
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// How to print it: md, terminal or json.
    #[arg(long, default_value = "terminal", value_parser = super::parse_format)]
    format: Format,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let located = settings::locate(args.project_dir.as_deref(), world)?;
    let journal = located.journal(world);
    let site = Site::new(world, &*journal, &located.files.state_dir);
    let slots = slot_runs(&site).map_err(drive_failure)?;
    let path = journal.path().display();
    let id = match &args.run {
        Some(name) => Some(runs::find(&*journal, name)?.id().to_owned()),
        None => slots.last().map(|run| run.id.clone()),
    };
    match (id.as_ref().and_then(|id| slots.iter().find(|run| run.id == *id)), id) {
        (Some(run), _) => {
            let dir = run.id.parse().map(|id| located.files.state_dir.run(Kind::Slots, &id));
            let holder = dir.map_or(Holder::None, |dir| holder(&dir, &*world.disk));
            let status = run.status().with_holder(holder);
            Ok(terminal::print(&run.render(status, args.format))?)
        }
        (None, Some(id)) => Err(Failure::failed(format!("'{id}' is not a run of slots"))
            .hint(format!("show it with `autoloop loops show {id}`"))),
        (None, None) => Err(Failure::failed(format!("no run of slots has begun in {path} yet"))
            .hint("`autoloop slots` begins one")),
    }
}
