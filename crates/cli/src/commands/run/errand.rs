//! What is to be carried out: which run, of which loop, in which project.

use std::fs;
use std::path::{Path, PathBuf};

use autoloop_core::run::{Ending, Run, Runs, Stage};
use autoloop_core::run_id::{RunId, RunIdSeed};
use autoloop_runtime::drive;
use autoloop_runtime::journal::FileJournal;
use autoloop_runtime::project::{LoadError, Loaded, Outline, Overrides, Project, loop_copy};
use autoloop_runtime::world::World;

use super::drive_failure;
use super::which::{Choice, Loop, existing};
use crate::commands::settings;
use crate::diagnostic;
use crate::failure::{Failure, Kind};
use crate::presets::{self, Preset};

/// A run that is about to be carried out.
#[derive(Debug)]
pub(in crate::commands) struct Errand {
    pub(in crate::commands) project: Project,
    pub(in crate::commands) run: Which,
}

/// Which run it is.
#[derive(Debug)]
pub(in crate::commands) enum Which {
    /// One that begins now.
    New {
        id: RunId,
        /// What it is for, if that was said.
        objective: Option<String>,
    },
    /// One that goes on.
    Old(String),
}

impl Errand {
    /// A new run. Of a preset it gets its own copy, which is found again when it is taken up.
    pub(in crate::commands) fn begin(
        choice: Choice,
        overrides: Overrides,
        world: &World,
    ) -> Result<Errand, Failure> {
        let mut project = project_for(&choice, overrides)?;
        let outline = project.outline(&*world.disk).map_err(diagnostic::refuse)?;
        let id = new_run_id(&outline, world)?;
        if let Loop::Preset(preset) = &choice.runs {
            project.loop_dir = copy(preset, &id, &outline)?;
        }
        Ok(Errand { project, run: Which::New { id, objective: choice.objective } })
    }

    /// A run that was begun before, with the files that it was begun with.
    pub(in crate::commands) fn resume(
        dir: &Path,
        name: &str,
        overrides: Overrides,
        world: &World,
    ) -> Result<Errand, Failure> {
        let dir = existing(dir)?;
        let mut project = project_in(&dir, &dir)?;
        project.overrides = overrides;
        project.surroundings = settings::surroundings()?;
        // The run may be one of a preset, and what the project's own loop says about itself no matter.
        let unknown_loop = Project { loop_dir: PathBuf::new(), ..project.clone() };
        let outline = unknown_loop.outline(&*world.disk).map_err(diagnostic::refuse)?;
        let run = run_to_resume(&outline, name, world)?;
        let start = run.start.clone().unwrap_or_default();
        if let Some(preset) = start.preset {
            let copy = || loop_copy(&outline.files.state_dir, &run.id);
            project.loop_dir = start.preset_dir.map_or_else(copy, PathBuf::from);
            project.preset = preset;
            if !project.loop_dir.is_dir() {
                return Err(files_are_gone(&run.id, &project));
            }
        }
        Ok(Errand { project, run: Which::Old(run.id) })
    }

    /// Reads the files of the loop. Where a new run cannot use its copy, the copy goes again.
    pub(in crate::commands) fn load(&self, world: &World) -> Result<Loaded, Failure> {
        self.project.load(&*world.disk).map_err(|error| self.refuse(error))
    }

    fn refuse(&self, error: LoadError) -> Failure {
        if let (Which::New { id, .. }, Some(dir)) = (&self.run, self.project.loop_dir.parent())
            && self.project.is_preset()
            && dir.ends_with(Path::new("runs").join(id.as_str()))
        {
            // What is left of it would be in nobody's way.
            let _ = fs::remove_dir_all(dir);
        }
        diagnostic::refuse(error)
    }
}

/// The project of a choice. Of a preset the files are not in place yet.
pub(in crate::commands) fn project_for(
    choice: &Choice,
    overrides: Overrides,
) -> Result<Project, Failure> {
    let mut project = match &choice.runs {
        Loop::Own => project_in(&choice.dir, &choice.dir)?,
        Loop::In(dir) => project_in(&choice.dir, dir)?,
        Loop::Preset(preset) => Project::before_preset(&choice.dir, preset.name()),
    };
    project.overrides = overrides;
    project.surroundings = settings::surroundings()?;
    Ok(project)
}

fn project_in(dir: &Path, loop_dir: &Path) -> Result<Project, Failure> {
    Project::with_preset(dir, loop_dir)
        .map_err(|error| Failure::failed(format!("cannot find {}: {error}", dir.display())))
}

fn journal(outline: &Outline, world: &World) -> FileJournal {
    settings::journal(outline.files.journal.clone(), world, &outline.config)
}

/// An id that no run in the journal has, and no directory of runs.
pub(in crate::commands) fn new_run_id(outline: &Outline, world: &World) -> Result<RunId, Failure> {
    let runs = journal(outline, world).fold::<Runs>()?.view;
    let seed = RunIdSeed {
        random: world.entropy.number(),
        now: world.clock.now(),
        runs_so_far: runs.iter().filter(|run| run.start.is_some()).count() as u64,
    };
    // A run of a preset has a copy of it before it is on record; a chain is no run and has a directory.
    let state_dir = &outline.files.state_dir;
    let has_copy =
        |id: &str| loop_copy(state_dir, id).exists() || state_dir.join("chains").join(id).exists();
    Ok(outline.config.run_id_format.make(&seed, &|id| runs.get(id).is_some() || has_copy(id)))
}

/// Gives a run its own copy of a preset.
fn copy(preset: &Preset, id: &RunId, outline: &Outline) -> Result<PathBuf, Failure> {
    let dir = loop_copy(&outline.files.state_dir, id.as_str());
    presets::place(&preset.files()?, &dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::new(Kind::Busy, format!("another run '{id}' begins at this moment"))
                .hint("try again")
        }
        _ => Failure::failed(format!(
            "cannot write the files of preset '{}' to {}: {error}",
            preset.name(),
            dir.display()
        ))
        .hint("the state directory has to be writable"),
    })?;
    Ok(dir)
}

/// The run that is to go on, as far as it got by the records of its own harness.
fn run_to_resume(outline: &Outline, name: &str, world: &World) -> Result<Run, Failure> {
    let journal = journal(outline, world);
    let (state_dir, disk) = (&outline.files.state_dir, &*world.disk);
    let nothing =
        |message: String| Err(Failure::failed(message).hint("`autoloop run DIR` begins a new run"));
    let name = match name {
        "" => drive::latest_unfinished(&journal, state_dir, disk).map_err(drive_failure)?,
        name => Some(name.to_owned()),
    };
    let path = journal.path().display();
    let Some(name) = name else {
        return nothing(format!("there is no unfinished run in {path}"));
    };
    let run = drive::standing(&journal, state_dir, (&name, disk)).map_err(drive_failure)?;
    match run {
        None => nothing(format!("there is no run '{name}' in {path}")),
        Some(Run { stage: Stage::Ended(Ending::Complete { .. }), .. }) => {
            nothing(format!("run '{name}' is complete"))
        }
        Some(run) => Ok(run),
    }
}

fn files_are_gone(run: &str, project: &Project) -> Failure {
    Failure::failed(format!(
        "run '{run}' cannot go on: the files of its preset '{}' are gone from {}",
        project.preset,
        project.loop_dir.display()
    ))
    .hint(format!("`autoloop run -p {} …` begins a new run", project.preset))
}
