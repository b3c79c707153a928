//! What is to be carried out: which run, of which loop, in which project.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use autoloop_core::chain::Budget;
use autoloop_core::coordinator::Kind;
use autoloop_core::plan::Files;
use autoloop_core::record::LoopStart;
use autoloop_core::run::{Run, Runs};
use autoloop_core::run_id::{RunId, RunIdSeed};
use autoloop_runtime::drive::{Agents, Request};
use autoloop_runtime::journal::Journal;
use autoloop_runtime::layout::RunDir;
use autoloop_runtime::private_files;
use autoloop_runtime::project::{Loaded, Outline, Overrides, Project, SettingsFiles};
use autoloop_runtime::runs::{self, RunList};
use autoloop_runtime::site::{Site, Trust};
use autoloop_runtime::world::World;

use super::drive_failure;
use super::resolve_args::{Choice, Loop, Old, existing};
use crate::commands::resume;
use crate::commands::settings;
use crate::commands::trust::{ResumedRun, kept_request};
use crate::diagnostic;
use crate::failure::Failure;
use crate::presets::{self, Preset};

/// What to do where nothing can be kept.
pub(in crate::commands) const WRITABLE: &str = "the state directory has to be writable";

/// A run that is about to be carried out.
#[derive(Debug)]
pub(in crate::commands) struct Errand {
    pub(in crate::commands) project: Project,
    pub(in crate::commands) run: Which,
    /// The directory that was made for a new run, to keep its name.
    pub(in crate::commands) claimed: Option<RunDir>,
    /// How far the chains may go that it asks for, if it is a step of one; else their file says so.
    pub(in crate::commands) limits: Option<Budget>,
    /// Which records of earlier harnesses are believed.
    pub(in crate::commands) trust: Trust,
    /// The files of the loop, read once for the start of the run.
    pub(in crate::commands) loaded: OnceLock<Loaded>,
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
    /// One that is resumed.
    Old {
        id: RunId,
        /// What it was begun for, if that was said.
        objective: Option<String>,
    },
}

impl Which {
    pub(in crate::commands) fn id(&self) -> &RunId {
        match self {
            Which::New { id, .. } | Which::Old { id, .. } => id,
        }
    }
}

impl Errand {
    /// The command that resumes the run; `None` for a step, which is resumed with its chain.
    pub(super) fn resume_command(&self) -> Option<String> {
        let is_step = self.limits.is_some();
        (!is_step)
            .then(|| resume::command_of(Kind::Loop, self.run.id().as_str(), &self.project.dir))
    }

    /// A new run. Of a preset it gets its own copy, which is found again when it is taken up.
    pub(in crate::commands) fn begin(
        choice: Choice,
        overrides: Overrides,
        world: &World,
    ) -> Result<Errand, Failure> {
        let mut project = project_for(&choice, overrides)?;
        let outline = project.outline(&*world.disk).map_err(diagnostic::refuse)?;
        let id = claim_run_id(&outline, world)?;
        if let Loop::Preset(preset) = &choice.runs {
            project.loop_dir = copy(preset, &id, &outline)?;
        }
        let settings = project.existing_settings(&*world.disk).map_err(diagnostic::refuse)?;
        project.settings_files = Some(settings);
        let claimed = Some(outline.files.state_dir.run(Kind::Loop, &id));
        let run = Which::New { id, objective: choice.objective };
        let (trust, loaded) = (Trust::Proven, OnceLock::new());
        Ok(Errand { project, run, claimed, limits: None, trust, loaded })
    }

    /// A run that was begun before, with the files and the flags that it was begun with.
    pub(in crate::commands) fn resume(
        old: &Old,
        overrides: Overrides,
        (world, trust): (&World, Trust),
    ) -> Result<Errand, Failure> {
        let dir = existing(&old.dir)?;
        let mut project = project_in(&dir, &dir)?;
        project.overrides = overrides;
        project.surroundings = settings::surroundings()?;
        // The run may be one of a preset, and what the project's own loop says about itself no matter.
        let unknown_loop = Project { loop_dir: PathBuf::new(), ..project.clone() };
        let outline = unknown_loop.outline(&*world.disk).map_err(diagnostic::refuse)?;
        let run = run_to_resume(&outline, &old.run, (world, trust))?;
        let id: RunId = run.id.parse()?;
        let run_dir = outline.files.state_dir.run(Kind::Loop, &id);
        let resumed = ResumedRun { dir: &run_dir, run: &run.id, command: "run", trust };
        let request = kept_request(resumed, world)?;
        project.overrides = project.overrides.above(request.overrides);
        // Where nothing is proven, the run begins again as it was asked for.
        let start = run.start.clone().unwrap_or_else(|| LoopStart {
            preset: request.preset,
            preset_dir: request.preset_dir,
            ..LoopStart::default()
        });
        if let Some(preset) = start.preset {
            project.loop_dir = start.preset_dir.map_or_else(|| run_dir.loop_copy(), PathBuf::from);
            project.preset = preset;
            if !project.loop_dir.is_dir() {
                return Err(files_are_gone(&run.id, &project));
            }
        }
        project.settings_files = request.settings_files.as_deref().map(SettingsFiles::from_text);
        let run = Which::Old { id, objective: request.objective };
        Ok(Errand { project, run, claimed: None, limits: None, trust, loaded: OnceLock::new() })
    }

    /// Reads the files of the loop and looks up its agents, once. Where a new run cannot use them, its
    /// directory is removed.
    pub(in crate::commands) fn load(&self, world: &World) -> Result<&Loaded, Failure> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let loaded = self.project.load(&*world.disk).map_err(diagnostic::refuse);
        let usable = loaded.and_then(|loaded| {
            let agents = Agents::of_loop(&loaded).check(&self.project.dir, world);
            agents.map(|()| loaded).map_err(drive_failure)
        });
        let usable = usable.inspect_err(|_| {
            if let Some(dir) = &self.claimed {
                // What cannot be removed is an empty directory that no later run uses.
                let _ = fs::remove_dir_all(dir);
            }
        })?;
        Ok(self.loaded.get_or_init(|| usable))
    }

    /// Keeps what the run was asked to do for the day it is resumed. Only the process that drives the run may.
    pub(super) fn keep_request(&self, files: &Files, world: &World) -> Result<(), Failure> {
        let Project { loop_dir, preset, overrides, .. } = &self.project;
        let run = self.run.id();
        let is_preset = self.project.is_preset();
        let dir = files.state_dir.run(Kind::Loop, run);
        let has_copy = *loop_dir == dir.loop_copy();
        let (Which::New { objective, .. } | Which::Old { objective, .. }) = &self.run;
        let request = Request {
            overrides: overrides.clone(),
            objective: objective.clone(),
            preset: is_preset.then(|| preset.clone()),
            preset_dir: (is_preset && !has_copy).then(|| loop_dir.display().to_string()),
            settings_files: self.project.settings_files.as_ref().map(SettingsFiles::to_text),
            steps: None,
        };
        let kept = request.keep(&dir, run.as_str(), world);
        kept.map_err(|error| drive_failure(error).hint(WRITABLE))
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

fn journal(outline: &Outline, world: &World) -> Box<dyn Journal> {
    settings::journal(outline.files.journal.clone(), world, &outline.config)
}

/// Takes an id that no run in the journal has, by making its directory: of several runs that begin at
/// the same moment only one can.
fn claim_run_id(outline: &Outline, world: &World) -> Result<RunId, Failure> {
    claim_id(outline, Kind::Loop, world)
}

/// The same for a chain, which is no run and has a directory elsewhere.
pub(in crate::commands) fn claim_chain_id(
    outline: &Outline,
    world: &World,
) -> Result<RunId, Failure> {
    claim_id(outline, Kind::Chain, world)
}

/// The same for a run over a queue.
pub(in crate::commands) fn claim_slots_id(
    outline: &Outline,
    world: &World,
) -> Result<RunId, Failure> {
    claim_id(outline, Kind::Slots, world)
}

fn claim_id(outline: &Outline, kind: Kind, world: &World) -> Result<RunId, Failure> {
    let runs = journal(outline, world).fold::<Runs>()?.view;
    let seed = RunIdSeed {
        random: world.entropy.number(),
        now: world.clock.now(),
        runs_so_far: runs.iter().filter(|run| run.kind() == Some(Kind::Loop)).count() as u64,
    };
    let state_dir = &outline.files.state_dir;
    let is_there = |id: &str| Kind::ALL.iter().any(|kind| state_dir.runs(*kind).join(id).exists());
    loop {
        let is_taken = |id: &str| runs.get(id).is_some() || is_there(id);
        let id = outline.config.run_id_format.make(&seed, &is_taken);
        let dir = state_dir.run(kind, &id);
        match make_dir(&dir) {
            Ok(()) => return Ok(id),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(no_place(&dir, &error)),
        }
    }
}

/// Makes a directory that must not be there yet, and those on the way to it.
fn make_dir(dir: &Path) -> io::Result<()> {
    private_files::create_dirs(dir.parent().unwrap_or(dir))?;
    private_files::create_dir(dir)
}

fn no_place(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", path.display())).hint(WRITABLE)
}

/// Gives a run its own copy of a preset.
fn copy(preset: &Preset, id: &RunId, outline: &Outline) -> Result<PathBuf, Failure> {
    let dir = outline.files.state_dir.run(Kind::Loop, id).loop_copy();
    presets::place(&preset.files()?, &dir).map_err(|error| {
        let to = dir.display();
        Failure::failed(format!(
            "cannot write the files of preset '{}' to {to}: {error}",
            preset.name()
        ))
        .hint("the state directory has to be writable")
    })?;
    Ok(dir)
}

/// The run that is to go on, as far as it got by the records of its own harness.
fn run_to_resume(
    outline: &Outline,
    name: &str,
    (world, trust): (&World, Trust),
) -> Result<Run, Failure> {
    let journal = journal(outline, world);
    let state_dir = &outline.files.state_dir;
    let list = RunList::read(&*journal, state_dir, world)?;
    let site = Site { trust, ..Site::new(world, &*journal, state_dir) };
    let id = match name {
        "" => {
            let latest = runs::latest_resumable(&site, Kind::Loop).map_err(drive_failure)?;
            resume::latest(latest, (&list, Kind::Loop), journal.path())?
        }
        name => resume::named(&list, name, Kind::Loop)?,
    };
    match runs::state::<Run>(&site, &id).map_err(drive_failure)? {
        Some(run) if run.status().can_resume() => Ok(run),
        _ => Err(resume::completed(Kind::Loop, &id)),
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
