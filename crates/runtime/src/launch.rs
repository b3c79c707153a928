//! Starts runs: finds the loop, the settings and the id of a run that begins or is resumed.
//!
//! A [`Launch`] is all that a harness needs to carry a run out; the drivers in [`drive`](crate::drive) take one. The
//! settings are read here once, and the driver reads them again only between iterations.

#![expect(
    clippy::disallowed_methods,
    reason = "presets and the directory of a run are real files; paths are shown as seen from here"
)]

mod agents;
mod chains;
pub mod presets;
mod request;
mod tool;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use autoloop_core::chain::Budget;
use autoloop_core::coordinator::Kind;
use autoloop_core::exchange::Exchange;
use autoloop_core::plan::PromptSource;
use autoloop_core::run::{Run, Runs, SomeRun};
use autoloop_core::run_id::{RunId, RunIdSeed};
use autoloop_core::slot::Slots;
use autoloop_core::squad::Squad;

use crate::error::DriveError;
pub use crate::error::LaunchError;
pub use crate::harness::Opening;
use crate::harness::{RequestText, RunPlace, read_request};
use crate::journal::Journal;
use crate::layout::RunDir;
use crate::private_files;
use crate::process::sweep;
use crate::project::{Environment, LoadError, Loaded, Project, SettingsFiles, Sources};
use crate::runs::{self, RunList};
use crate::site::{Progress, Site, Trust};
use crate::world::{CRASH_GRACE, World};

pub use agents::NO_ACP_PROGRAM;
pub(crate) use agents::look_up;
pub use chains::{ChainLaunch, ChainStep, StepLauncher, chain_limits, chain_named, read_chains};
use presets::{Preset, is_loop};
use request::KeptRequest;

#[derive(Clone, Debug)]
pub struct RunRequest {
    pub project: Project,
    /// The preset that the run gets a copy of; `None` where the files of the loop are used as they are.
    pub preset: Option<Preset>,
    pub objective: Option<String>,
}

impl RunRequest {
    pub fn of_loop(dir: &Path, loop_dir: &Path) -> Result<RunRequest, LaunchError> {
        let project = Project::with_preset(dir, loop_dir)
            .map_err(|source| LaunchError::NotFound { path: dir.to_owned(), source })?;
        Ok(RunRequest { project, preset: None, objective: None })
    }

    pub fn of_preset(dir: &Path, preset: Preset) -> RunRequest {
        let project = Project::before_preset(dir, preset.name());
        RunRequest { project, preset: Some(preset), objective: None }
    }

    /// A run in `dir` of the loop that `--preset` or a step names: a preset, or a directory relative to `base`.
    pub fn named(
        word: &str,
        base: &Path,
        dir: &Path,
        env: &Environment,
    ) -> Result<RunRequest, LaunchError> {
        let loop_dir = base.join(word);
        if !loop_dir.is_dir() && !is_path(Path::new(word)) {
            return Ok(RunRequest::of_preset(dir, Preset::named(word, env)?));
        }
        let loop_dir = existing_dir(&loop_dir)?;
        match is_loop(&loop_dir) {
            true => RunRequest::of_loop(dir, &loop_dir),
            false => Err(LaunchError::NoLoop(word.to_owned())),
        }
    }

    /// Reads the loop before anything is created. The files of a shipped preset are not in place yet; they contain
    /// neither an objective nor agents.
    fn preview(&self, sources: &Sources<'_>) -> Result<Loaded, LoadError> {
        match &self.preset {
            Some(Preset::Shipped(_)) => self.project.outline(sources),
            Some(Preset::Own { dir, .. }) => {
                Project { loop_dir: dir.clone(), ..self.project.clone() }.load_from(sources)
            }
            None => self.project.load_from(sources),
        }
    }

    /// Refuses a preset, or a loop of a known client, without an objective: its agents would have to invent one. A
    /// command of the user's own may know what to do.
    fn require_objective(&self, preview: &Loaded) -> Result<(), LaunchError> {
        let is_set = self.objective.is_some()
            || preview.plan.objective != PromptSource::None
            || preview.objective.is_some()
            || preview.files.state_dir.plan().exists();
        let subject = match &self.preset {
            _ if is_set => return Ok(()),
            Some(preset) => format!("'{}'", preset.name()),
            None if agents::has_known_client(preview) => {
                format!("the loop in {}", seen_from_here(&self.project.loop_dir))
            }
            None => return Ok(()),
        };
        Err(LaunchError::NoObjective(subject))
    }
}

#[derive(Debug)]
pub struct Launch {
    pub kind: Kind,
    pub id: RunId,
    pub opening: Opening,
    pub project: Project,
    pub loaded: Loaded,
    /// The objective of the request, which takes precedence over that of the settings.
    pub objective: Option<String>,
    /// Remarks for the user about the choice of the run and of its flags.
    pub notes: Vec<String>,
}

impl Launch {
    /// A run in the simulated world, which has neither presets nor kept requests.
    pub fn new(
        kind: Kind,
        id: RunId,
        opening: Opening,
        project: Project,
        loaded: Loaded,
    ) -> Launch {
        let (objective, notes) = (None, Vec::new());
        Launch { kind, id, opening, project, loaded, objective, notes }
    }

    pub fn dir(&self) -> RunDir {
        self.loaded.files.state_dir.run(self.kind, &self.id)
    }

    fn place<'p>(&'p self, world: &'p World) -> RunPlace<'p> {
        RunPlace { kind: self.kind, dir: self.dir(), run: self.id.as_str(), world }
    }

    /// Reports the warnings about the loop and the remarks about the run.
    pub(crate) fn report(&self, site: &Site<'_>) {
        if !self.loaded.warnings.is_empty() {
            site.report(Progress::Warnings(&self.loaded.warnings));
        }
        self.notes.iter().for_each(|note| site.note(note));
    }

    /// Keeps the request for a resume. Only the process that holds the lock of the run may.
    pub(crate) fn keep_request(&self, world: &World) -> Result<(), DriveError> {
        let Project { loop_dir, preset, overrides, settings_files, .. } = &self.project;
        let is_preset = self.project.is_preset();
        let has_copy = *loop_dir == self.dir().loop_copy();
        let request = KeptRequest {
            overrides: overrides.clone(),
            objective: self.objective.clone(),
            preset: is_preset.then(|| preset.clone()),
            preset_dir: (is_preset && !has_copy).then(|| loop_dir.display().to_string()),
            settings_files: settings_files.as_ref().map(SettingsFiles::to_text),
            steps: None,
        };
        request.keep(&self.place(world))
    }

    /// Removes the directory that was created for a run which could not begin. One that was locked has begun.
    pub fn discard(&self) {
        let dir = self.dir();
        if self.opening == Opening::Begin && !dir.lock().exists() {
            // What remains is a directory that no later run uses.
            let _ = fs::remove_dir_all(&*dir);
        }
    }
}

#[derive(Clone)]
pub struct Launcher<'a> {
    pub world: &'a World,
    pub program: &'a Path,
    pub trust: Trust,
    /// The limits of chains that runs request, whatever an agent writes to `chains.toml`.
    pub limits: Budget,
}

impl Launcher<'_> {
    /// Prepares a new run of a loop. Nothing is created before the objective and the agents are checked.
    pub fn begin(&self, mut request: RunRequest) -> Result<Launch, DriveError> {
        let sources = Sources::new(&*self.world.disk);
        if request.preset.is_none() {
            let files = request.project.existing_settings(sources.disk)?;
            request.project.settings_files = Some(files);
        }
        let loaded = request.preview(&sources)?;
        request.require_objective(&loaded)?;
        agents::check(&loaded, &request.project.dir, self.world)?;
        let RunRequest { project, preset, objective } = request;
        let id = claim_id(&loaded, Kind::Loop, self.world)?;
        let launch = Launch::new(Kind::Loop, id, Opening::Begin, project, loaded);
        let mut launch = Launch { objective, ..launch };
        let prepared =
            self.place_preset(&mut launch, preset, &sources).and_then(|()| self.prepare(&launch));
        prepared.inspect_err(|_| launch.discard())?;
        Ok(launch)
    }

    fn place_preset(
        &self,
        launch: &mut Launch,
        preset: Option<Preset>,
        sources: &Sources<'_>,
    ) -> Result<(), DriveError> {
        let Some(preset) = preset else { return Ok(()) };
        let copy = launch.dir().loop_copy();
        preset.copy_to(&copy)?;
        launch.project.loop_dir = copy;
        launch.project.settings_files = Some(launch.project.existing_settings(sources.disk)?);
        launch.loaded = launch.project.load_from(sources)?;
        Ok(agents::check(&launch.loaded, &launch.project.dir, self.world)?)
    }

    /// Prepares a new run of slots, or a review by message. Its agents are checked by the driver.
    pub fn begin_of(&self, kind: Kind, project: Project) -> Result<Launch, DriveError> {
        let loaded = project.load(&*self.world.disk)?;
        let id = claim_id(&loaded, kind, self.world)?;
        let launch = Launch::new(kind, id, Opening::Begin, project, loaded);
        self.prepare(&launch).inspect_err(|_| launch.discard())?;
        Ok(launch)
    }

    /// Prepares to resume a run of a loop or of slots, with the files and flags that it was begun with. An empty
    /// name means the latest that can be resumed.
    pub fn resume(
        &self,
        kind: Kind,
        mut project: Project,
        name: &str,
    ) -> Result<Launch, DriveError> {
        // The run may be one of a preset, so only the settings about the project apply.
        let unknown_loop = Project { loop_dir: PathBuf::new(), ..project.clone() };
        let sources = Sources::new(&*self.world.disk);
        let outline = unknown_loop.outline(&sources)?;
        let journal = outline.journal(self.world);
        let site = self.site(&outline, &journal);
        let (id, mut notes) = find_resumable(&site, kind, name)?;
        let completed = || LaunchError::Completed { kind, id: id.to_string() };
        let start = match kind {
            Kind::Loop => {
                let run = runs::state::<Run>(&site, id.as_str())?;
                run.filter(|run| run.status().can_resume()).ok_or_else(completed)?.start
            }
            Kind::Exchange => {
                let run = runs::state::<Exchange>(&site, id.as_str())?;
                run.filter(|run| run.status().can_resume()).ok_or_else(completed)?;
                None
            }
            Kind::Squad => {
                let run = runs::state::<Squad>(&site, id.as_str())?;
                run.filter(|run| run.status().can_resume()).ok_or_else(completed)?;
                None
            }
            _ => {
                let can_resume = |run: &Slots| run.status().can_resume() || run.start.is_none();
                let run = runs::state::<Slots>(&site, id.as_str())?;
                run.filter(can_resume).ok_or_else(completed)?;
                None
            }
        };
        let dir = outline.files.state_dir.run(kind, &id);
        let (request, note) = self.kept_request(kind, &dir, &id)?;
        notes.extend(note);
        project.overrides = project.overrides.above(request.overrides);
        // Where nothing is proven, the run begins again as it was requested.
        let (preset, preset_dir) = match start {
            Some(start) => (start.preset, start.preset_dir),
            None => (request.preset, request.preset_dir),
        };
        if let Some(preset) = preset {
            project.loop_dir = preset_dir.map_or_else(|| dir.loop_copy(), PathBuf::from);
            project.preset = preset;
            if !project.loop_dir.is_dir() {
                let Project { preset, loop_dir: dir, .. } = project;
                return Err(LaunchError::PresetGone { run: id.to_string(), preset, dir }.into());
            }
        }
        project.settings_files = request.settings_files.as_deref().map(SettingsFiles::from_text);
        let loaded = project.load_from(&sources)?;
        if kind == Kind::Loop {
            agents::check(&loaded, &project.dir, self.world)?;
        }
        let launch = Launch::new(kind, id, Opening::Resume, project, loaded);
        let launch = Launch { objective: request.objective, notes, ..launch };
        self.prepare(&launch)?;
        Ok(launch)
    }

    fn site<'s>(&'s self, loaded: &'s Loaded, journal: &'s dyn Journal) -> Site<'s> {
        let state_dir = &loaded.files.state_dir;
        Site { trust: self.trust, ..Site::new(self.world, journal, state_dir) }
    }

    /// What a run was begun with, and a note where that had to be restored.
    fn kept_request(
        &self,
        kind: Kind,
        dir: &RunDir,
        id: &RunId,
    ) -> Result<(KeptRequest, Option<String>), LaunchError> {
        let place = RunPlace { kind, dir: dir.clone(), run: id.as_str(), world: self.world };
        match read_request(&place, self.trust) {
            RequestText::Intact(text) => Ok((KeptRequest::parse(&text), None)),
            RequestText::Restored(text) => {
                let flags = dir.flags();
                let note = format!(
                    "{} was edited or removed: using the original flags of '{id}'",
                    flags.display()
                );
                Ok((KeptRequest::parse(&text), Some(note)))
            }
            RequestText::Unproven => {
                let secret = self.world.secret.place().filter(|_| self.world.key().is_none());
                let key_dir = secret.map(|place| place.parent().unwrap_or(place).to_owned());
                Err(LaunchError::Unproven { kind, run: id.to_string(), key_dir })
            }
        }
    }

    fn prepare(&self, launch: &Launch) -> Result<(), DriveError> {
        let files = &launch.loaded.files;
        // Processes that a killed harness left running must not write into this run.
        let _ = sweep(&files.state_dir.shims(), CRASH_GRACE);
        tool::install(files, &launch.project.dir, self.program)
            .map_err(|source| DriveError::Write { path: files.state_dir.tool(), source })
    }
}

/// The run that a name means, with notes about later runs that are running.
fn find_resumable(
    site: &Site<'_>,
    kind: Kind,
    name: &str,
) -> Result<(RunId, Vec<String>), DriveError> {
    let list = RunList::read(site.journal, site.state_dir, site.world)?;
    if !name.is_empty() {
        let run = list.find(name).map_err(|source| LaunchError::Lookup { kind, source })?;
        return match run.kind() {
            Some(found) if found != kind => {
                let id = run.id().to_owned();
                Err(LaunchError::OtherKind { id, found, wanted: kind }.into())
            }
            _ => Ok((run.id().parse()?, Vec::new())),
        };
    }
    let latest = runs::latest_resumable(site, kind)?;
    if let Some(run) = latest.run {
        let note = |(later, process): &(String, u32)| {
            format!("'{later}' is running in process {process}; resuming '{run}'")
        };
        return Ok((run.parse()?, latest.running.iter().map(note).collect()));
    }
    let journal = site.journal.path().to_owned();
    if let Some((run, process)) = latest.running.into_iter().next() {
        return Err(LaunchError::Running { kind, journal, run, process }.into());
    }
    let is_meant = |run: &&SomeRun| run.kind() == Some(kind) && run.stands_alone();
    let latest = list.runs.iter().rfind(is_meant).map(|run| run.id().to_owned());
    Err(LaunchError::NothingToResume { kind, journal, latest }.into())
}

/// Claims an id that no run has, by creating its directory: of several processes only one can.
fn claim_id(loaded: &Loaded, kind: Kind, world: &World) -> Result<RunId, DriveError> {
    let runs = loaded.journal(world).fold::<Runs>()?.view;
    let seed = RunIdSeed {
        random: world.entropy.number(),
        now: world.clock.now(),
        runs_so_far: runs.iter().filter(|run| run.kind() == Some(Kind::Loop)).count() as u64,
    };
    let state_dir = &loaded.files.state_dir;
    let has_dir = |id: &str| Kind::ALL.iter().any(|kind| state_dir.runs(*kind).join(id).exists());
    let is_taken = |id: &str| runs.get(id).is_some() || has_dir(id);
    loop {
        let id = loaded.plan.run_id_format.make(&seed, &is_taken);
        let dir = state_dir.run(kind, &id);
        let parent = dir.parent().unwrap_or(&dir);
        match private_files::create_dirs(parent).and_then(|()| private_files::create_dir(&dir)) {
            Ok(()) => return Ok(id),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(source) => return Err(DriveError::Write { path: dir.to_path_buf(), source }),
        }
    }
}

/// A directory without links and `..` in its path, because it is recorded and read again later.
pub fn existing_dir(dir: &Path) -> Result<PathBuf, LaunchError> {
    if !dir.is_dir() {
        return Err(LoadError::NoDirectory(dir.to_owned()).into());
    }
    dir.canonicalize().map_err(|source| LaunchError::NotFound { path: dir.to_owned(), source })
}

pub fn is_path(word: &Path) -> bool {
    let bytes = word.as_os_str().as_encoded_bytes();
    bytes.contains(&b'/') || bytes == b"." || bytes == b".."
}

fn seen_from_here(dir: &Path) -> String {
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
    match dir.strip_prefix(&here) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => inside.display().to_string(),
        Err(_) => dir.display().to_string(),
    }
}
