//! `autoloop loops`: which runs there are, and how they are.

mod artifacts;
mod named;
mod row;
mod show;
mod state;
mod watch;

use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::run::{Run, Runs};
use autoloop_runtime::drive::driver;
use autoloop_runtime::journal::sidecar::Kept;
use autoloop_runtime::journal::{FileJournal, Position};
use autoloop_runtime::world::World;
use clap::Subcommand;

use self::row::Row;
use self::state::State;
use super::json::Json;
use super::settings::{self, Located};
use crate::failure::Failure;
use crate::style::Color;
use crate::terminal;

/// How many runs that are over are listed when nobody asks for all.
const LAST_FEW: usize = 5;

/// List runs.
///
/// The runs that are under way, cut off or interrupted, and the last five of those that are over, the
/// latest first. A run is under way while a process holds its lock; it is cut off when nobody does and
/// the journal knows no end of it. The branches of a wave are runs as well, and shown with --all.
/// Nothing that is asked here disturbs a run.
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
        true => scene.runs.iter().rev().map(|run| scene.row(run, world)).collect(),
        false => scene.recent().map(|run| scene.row(run, world)).collect(),
    };
    let text = match args.json {
        true => format!("{}\n", Json::List(rows.iter().map(Row::json).collect())),
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
    match scene.runs.iter().count().saturating_sub(shown) {
        0 => String::new(),
        1 => "and 1 more that is over; --all shows it too\n".to_owned(),
        more => format!("and {more} more that are over; --all shows them too\n"),
    }
}

/// A project and the runs in its journal.
struct Scene {
    located: Located,
    journal: FileJournal,
    runs: Runs,
    /// How far the journal was read.
    position: Position,
}

impl Scene {
    fn of(project: Option<&Path>, world: &World) -> Result<Scene, Failure> {
        let located = settings::locate(project, world)?;
        let journal = located.journal(world);
        let Kept { view: runs, position } = journal.fold::<Runs>()?;
        Ok(Scene { located, journal, runs, position })
    }

    /// The runs that are not over, and the last few that are; the latest first.
    fn recent(&self) -> impl Iterator<Item = &Run> {
        let mut over = 0;
        let is_branch = |run: &&Run| run.start.is_some() && !run.stands_alone();
        self.runs.iter().rev().filter(move |run| !is_branch(run)).filter(move |run| {
            let is_open = run.start.is_some() && run.is_unfinished();
            over += usize::from(!is_open);
            is_open || over <= LAST_FEW
        })
    }

    fn state(&self, run: &Run, world: &World) -> State {
        State::of(run, driver(&self.located.files, &run.id, &*world.disk))
    }

    fn row<'r>(&self, run: &'r Run, world: &World) -> Row<'r> {
        Row { run, state: self.state(run, world), now: world.clock.now() }
    }

    /// The run that a name means.
    fn named(&self, name: &str) -> Result<&Run, Failure> {
        named::find(&self.runs, name)
            .map_err(|miss| miss.told(name, &self.journal.path().display().to_string()))
    }
}
