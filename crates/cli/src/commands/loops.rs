//! `autoloop loops`: which runs there are, and how they are.

mod artifacts;
mod row;
mod show;
mod watch;

use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::coordinator::Status;
use autoloop_core::format::json_text;
use autoloop_core::run::SomeRun;
use autoloop_runtime::journal::Journal;
use autoloop_runtime::runs::RunList;
use autoloop_runtime::world::World;
use clap::Subcommand;

use self::row::Row;
use super::settings::{self, Located};
use crate::failure::Failure;
use crate::style::Color;
use crate::terminal;

/// How many runs that are over are listed when nobody asks for all.
const LAST_FEW: usize = 5;

/// List runs.
///
/// Lists loops, chains and slots, the latest first: all that are running, crashed or interrupted, and the last five
/// that ended. A run is running while a process holds its lock; it crashed when no process does and the journal
/// records no end of it. Branches of waves, and chains that a run asked for, are shown with --all. No run is
/// disturbed.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Project whose runs are listed [default: the current one].
    project_dir: Option<PathBuf>,
    /// Every run in the journal.
    #[arg(long)]
    all: bool,
    /// Print an array of objects.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    Show(show::Args),
    Watch(watch::Args),
    Artifacts(artifacts::Args),
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match &args.what {
        None => list(args, world),
        Some(What::Show(args)) => show::run(args, world),
        Some(What::Watch(args)) => watch::run(args, world),
        Some(What::Artifacts(args)) => artifacts::run(args, world),
    }
}

fn list(args: &Args, world: &World) -> Result<(), Failure> {
    let scene = Scene::of(args.project_dir.as_deref(), world)?;
    let rows: Vec<Row<'_>> = match args.all {
        true => scene.list.runs.iter().rev().map(|run| scene.row(run, world)).collect(),
        false => scene.recent().map(|run| scene.row(run, world)).collect(),
    };
    let text = match args.json {
        true => json_text(&rows.iter().map(Row::facts).collect::<Vec<_>>()),
        false if rows.is_empty() => {
            format!("no run has begun in {} yet\n", scene.journal.path().display())
        }
        false => {
            let color = Color::of(&io::stdout());
            let text = row::print(&rows, color) + &left_out(&scene, rows.len());
            return Ok(terminal::print_painted(&text, color)?);
        }
    };
    Ok(terminal::print(&text)?)
}

fn left_out(scene: &Scene, shown: usize) -> String {
    match scene.list.runs.iter().count().saturating_sub(shown) {
        0 => String::new(),
        1 => "and 1 more that is over; --all shows it too\n".to_owned(),
        more => format!("and {more} more that are over; --all shows them too\n"),
    }
}

/// A project and the runs in its journal.
struct Scene {
    located: Located,
    journal: Box<dyn Journal>,
    list: RunList,
}

impl Scene {
    fn of(project: Option<&Path>, world: &World) -> Result<Scene, Failure> {
        let located = settings::locate(project, world)?;
        let journal = located.journal(world);
        let list = RunList::read(&*journal, &located.files.state_dir, world)?;
        Ok(Scene { located, journal, list })
    }

    /// The unfinished runs, and the last few that ended; the latest first.
    fn recent(&self) -> impl Iterator<Item = &SomeRun> {
        let mut ended = 0;
        let is_part = |run: &&SomeRun| run.kind().is_some() && !run.stands_alone();
        self.list.runs.iter().rev().filter(move |run| !is_part(run)).filter(move |run| {
            let is_open = self.list.runs.status(run).is_some_and(Status::is_unfinished);
            ended += usize::from(!is_open);
            is_open || ended <= LAST_FEW
        })
    }

    fn row<'r>(&self, run: &'r SomeRun, world: &World) -> Row<'r> {
        let (status, process) = (self.list.status(run), self.list.holder(run).process());
        Row { run, status, process, now: world.clock.now() }
    }
}
