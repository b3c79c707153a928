//! The runs of a project: which there are, how they are, and which process carries one out.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_core::coordinator::{Holder, Kind, Status};
use autoloop_core::run::{Miss, Runs, SomeRun};

use crate::journal::sidecar::Kept;
use crate::journal::{Journal, Position, ReadError};
use crate::layout::{RunDir, StateDir};
use crate::world::{Access, Disk, World};

/// Where Linux lists the holders of locks.
const LOCKS: &str = "/proc/locks";

/// The runs of a project, as commands show and look them up.
pub struct RunList {
    /// The runs by the records of the journal.
    pub runs: Runs,
    /// How far the journal was read.
    pub position: Position,
    journal: PathBuf,
    state_dir: StateDir,
    disk: Arc<dyn Disk>,
}

/// Why a name means no run.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// No run has begun.
    #[error("no run has begun in {journal} yet")]
    Empty {
        /// The journal.
        journal: String,
    },
    /// No run has this name.
    #[error("there is no run '{name}' in {journal}")]
    Unknown {
        /// The name.
        name: String,
        /// The journal.
        journal: String,
        /// The run that was perhaps meant.
        meant: Option<String>,
    },
    /// Several runs begin with it.
    #[error("{} runs begin with '{name}'", .ids.len())]
    Ambiguous {
        /// The name.
        name: String,
        /// The runs, the latest first.
        ids: Vec<String>,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl LookupError {
    fn new(miss: Miss, name: &str, journal: &Path) -> Self {
        let (name, journal) = (name.to_owned(), journal.display().to_string());
        match miss {
            Miss::Unknown(None) if name == "latest" => LookupError::Empty { journal },
            Miss::Unknown(meant) => LookupError::Unknown { name, journal, meant },
            Miss::Ambiguous(ids) => LookupError::Ambiguous { name, ids },
        }
    }
}

/// Finds a run by its id, by the beginning of it, or as `latest`.
///
/// # Errors
///
/// When the name means no run, or several.
pub fn find(journal: &dyn Journal, name: &str) -> Result<SomeRun, LookupError> {
    let runs = journal.fold::<Runs>()?.view;
    let run = runs.find(name).cloned();
    run.map_err(|miss| LookupError::new(miss, name, journal.path()))
}

/// The latest run of a coordinator that can be resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latest {
    /// The run; `None` where every run completed or is running.
    pub run: Option<String>,
    /// Later runs that processes carry out.
    pub running: Vec<(String, u32)>,
}

impl Latest {
    /// The first of these runs that no process carries out.
    pub(crate) fn of<'r>(
        runs: impl Iterator<Item = &'r str>,
        dir: impl Fn(&str) -> Option<RunDir>,
        disk: &dyn Disk,
    ) -> Latest {
        let mut latest = Latest::default();
        for run in runs {
            match dir(run).map_or(Holder::None, |dir| holder(&dir, disk)) {
                Holder::Process(process) => latest.running.push((run.to_owned(), process)),
                Holder::None | Holder::Unknown => {
                    latest.run = Some(run.to_owned());
                    break;
                }
            }
        }
        latest
    }
}

impl RunList {
    /// Reads the runs of a journal.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub fn read(
        journal: &dyn Journal,
        state_dir: &StateDir,
        world: &World,
    ) -> Result<RunList, ReadError> {
        let Kept { view: runs, position } = journal.fold::<Runs>()?;
        Ok(RunList {
            runs,
            position,
            journal: journal.path().to_owned(),
            state_dir: state_dir.clone(),
            disk: Arc::clone(&world.disk),
        })
    }

    /// Finds a run by its id, by the beginning of it, or as `latest`.
    ///
    /// # Errors
    ///
    /// When the name means no run, or several.
    pub fn find(&self, name: &str) -> Result<&SomeRun, LookupError> {
        self.runs.find(name).map_err(|miss| LookupError::new(miss, name, &self.journal))
    }

    /// The directory of a run; `None` where its name is no id.
    pub fn dir(&self, run: &SomeRun) -> Option<RunDir> {
        let id = run.id().parse().ok()?;
        Some(self.state_dir.run(run.kind().unwrap_or(Kind::Loop), &id))
    }

    /// Which process carries a run out.
    pub fn holder(&self, run: &SomeRun) -> Holder {
        self.dir(run).map_or(Holder::None, |dir| holder(&dir, &*self.disk))
    }

    /// How a run is; `None` where no record begins it.
    pub fn status(&self, run: &SomeRun) -> Option<Status> {
        Some(self.runs.status(run)?.with_holder(self.holder(run)))
    }

    /// The run that is running, or else the one that began last.
    pub fn current(&self) -> Option<&SomeRun> {
        let unfinished = |run: &&SomeRun| self.runs.status(run).is_some_and(Status::is_unfinished);
        let is_running = |run: &&SomeRun| self.status(run) == Some(Status::Running);
        let running = self.runs.iter().rev().filter(unfinished).find(is_running);
        running.or_else(|| self.runs.latest())
    }
}

/// Looks up which process carries a run out: the one that holds its lock.
///
/// The lock is looked up in the system's list and never taken, not even for a moment. A harness tries
/// it once and gives up when it is held, so taking it to see whether it is free could keep a run from
/// being started.
pub fn holder(dir: &RunDir, disk: &dyn Disk) -> Holder {
    let Ok(lock) = disk.open(&dir.lock(), Access::Read) else { return Holder::None };
    match lock.lock_holder() {
        Some(process) => Holder::Process(process),
        None if disk.stat(Path::new(LOCKS)).is_ok() => Holder::None,
        None => Holder::Unknown,
    }
}

/// The runs that other processes carry out in this project, loops and slots, each with its process.
pub fn concurrent_runs(state_dir: &StateDir, disk: &dyn Disk) -> Vec<(String, u32)> {
    let own = std::process::id();
    let dirs = [Kind::Loop, Kind::Slots].map(|kind| fs::read_dir(state_dir.runs(kind)));
    let entries = dirs.into_iter().flatten().flatten().flatten();
    let held = entries.filter_map(|entry| {
        let process = holder(&RunDir::at(entry.path()), disk).process()?;
        let name = entry.file_name().into_string().ok()?;
        (process != own).then_some((name, process))
    });
    held.collect()
}
