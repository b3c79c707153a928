//! Holding a reviewer to its bounds: what is done before it starts, and after it ended.
//!
//! All of this is about real files and the kernel, so it knows no simulated world ([`Bounds`]).
//! docs/review-permissions.md says what the bounds are, and which layer stops what.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_core::config::Layer;
use autoloop_core::env::{DOOR, TICKET};
use autoloop_core::permissions::AllowList;
use autoloop_core::plan::Plan;
use autoloop_core::wave::Parallel;

use super::findings::Findings;
use super::iteration::LoopTurn;
use super::others::{self, Others};
use super::{Drive, DriveError};

use crate::emit::{Emitter, Speaker};
use crate::ipc::{Handler, Server, Ticket};
use crate::journal::FileSettings;
use crate::journal::sidecar::sidecar_dir;
use crate::layout::{RunDir, StateDir};
use crate::memory::Tiers;
use crate::permissions::{
    Confinement, Enforcement, Overlay, Reach, Rules, SandboxError, Scratch, Snapshot, Vault,
    Watched, probe, quiet_git, repository_paths, siblings, sweep_placeholders,
};
use crate::process::token;
use crate::project::Loaded;
use crate::world::{Job, Leftovers, World};

/// Whether reviewers are held to their bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// They are: by copies of real files and by the kernel.
    Enforced,
    /// They are not, in a simulated world whose files no kernel knows of.
    Unenforced,
}

/// A reviewer that is bound as far as its own process goes.
pub(super) struct Confined {
    grounds: Grounds,
    allow: AllowList,
    overlay: Option<Overlay>,
    /// Where it speaks to us; closed when it has ended.
    server: Option<Server>,
    /// Held until the reviewer has ended.
    scratch: Option<Scratch>,
    pub(super) enforcement: Enforcement,
}

/// What holds one reviewer.
pub(super) struct Bound {
    confined: Confined,
    snapshot: Snapshot,
    others: Others,
}

impl Drive<'_> {
    /// Binds the job of a reviewer.
    pub(super) fn confine(
        &self,
        enforcement: Enforcement,
        turn: &LoopTurn<'_>,
        job: &mut Job,
    ) -> io::Result<Confined> {
        // Nothing that it started may write when everything is looked at again.
        job.leftovers = Leftovers::Kill;
        job.env.push(quiet_git_variable());
        let grounds = Grounds::of(self)?;
        let allow = grounds.allow_list();
        let mut confined =
            Confined { grounds, allow, overlay: None, server: None, scratch: None, enforcement };
        if let Enforcement::Landlock { abi } = enforcement {
            confined.grounds.make_growing();
            let (scratch, bounds) = self.confinement(&confined.grounds, &confined.allow)?;
            if bounds.overlay.is_some() {
                confined.enforcement = Enforcement::Overlay { abi };
                confined.overlay.clone_from(&bounds.overlay);
            }
            let ticket = Ticket::draw(&*self.world.entropy);
            let server = Server::open(scratch.socket(), ticket.clone(), self.handler(turn))?;
            job.env.extend([
                ("TMPDIR".into(), scratch.temporary().into_os_string()),
                (DOOR.into(), server.path().into()),
                (TICKET.into(), ticket.as_str().into()),
            ]);
            job.confinement = Some(bounds);
            confined.server = Some(server);
            confined.scratch = Some(scratch);
        }
        Ok(confined)
    }

    /// Does for a reviewer what it may not do itself.
    fn handler(&self, turn: &LoopTurn<'_>) -> Handler {
        let run = &self.harness.run().id;
        let iteration = turn.iteration.to_string();
        let settings = FileSettings { lock_timeout: self.loaded.plan.journal.lock_timeout };
        let memory = self.memory_places();
        Handler {
            memory: Tiers::at(memory, self.world, settings).for_author(Some(run), Some(&iteration)),
            emitter: Emitter {
                speaker: Speaker {
                    run: Some(run.clone()),
                    iteration,
                    recent_event: turn.recent_event.to_owned(),
                    route: turn.route.clone(),
                    parallel: Parallel::Off,
                },
                journal: self.harness.journal().handle(),
                durability: self.durability(),
                clock: Arc::clone(&self.world.clock),
            },
        }
    }

    /// Remembers everything, as the last thing before the reviewer starts: what is on record by then
    /// can be put back.
    pub(super) fn watch(&mut self, confined: Confined, job: &Job) -> io::Result<Bound> {
        let vault = match self.vault.take() {
            Some(vault) => vault,
            None => Vault::new(&confined.grounds.state_dir)?,
        };
        let mut watched = confined.grounds.watched(&confined.allow, job);
        let scratch = confined.scratch.iter();
        watched.ours.extend(scratch.map(|scratch| confined.grounds.seen(scratch.dir())));
        // What the kernel keeps from being written need not be watched, and others may work there.
        let is_safe = confined.enforcement != Enforcement::Snapshot;
        let note = self.dir.placeholders();
        let is_left_alone = |tree: &PathBuf| is_safe || others::work_in(tree, &watched, self.world);
        let trees = siblings(&watched.project_dir);
        watched.busy_worktrees = trees.into_iter().filter(is_left_alone).collect();
        let others = Others::before(&confined.grounds.state_dir, self.world);
        let mut snapshot = Snapshot::take(vault, watched)?;
        if is_safe {
            snapshot.make_placeholders(confined.overlay.as_ref(), &note)?;
        }
        Ok(Bound { confined, snapshot, others })
    }

    /// The tightest bounds that the kernel offers, and the private place that belongs to them.
    fn confinement(
        &self,
        grounds: &Grounds,
        allow: &AllowList,
    ) -> io::Result<(Scratch, Confinement)> {
        let scratch = Scratch::new(&token(&*self.world.entropy), &self.dir.scratch())?;
        let mut rules = Rules::new(&grounds.project, allow).free_in(&scratch.temporary());
        if let Some(home) = &self.project.surroundings.home {
            rules = rules.with_agent_state(home);
        }
        let protected = grounds.protected();
        let outside = protected.iter().filter(|path| !path.starts_with(&grounds.project)).cloned();
        let behind = rules.clone().keeping(&outside.collect::<Vec<_>>());
        let plain = Confinement { rules: rules.keeping(&protected), ..Confinement::default() };
        // What the reviewer would add there itself would be lost with the layer, so that is an error.
        let behind = Confinement { rules: behind, ..Confinement::default() }
            .behind(scratch.overlay(&grounds.project))
            .with_sealed(grounds.growing_in_project());
        // A layer inside of what it covers would have the reviewer's temporary files in it.
        let is_elsewhere = !scratch.dir().starts_with(&grounds.project);
        let is_possible = is_elsewhere && behind.is_possible(&self.program);
        Ok((scratch, if is_possible { behind } else { plain }))
    }

    /// Finds out what the reviewer did, and undoes what it may not. It has to have ended, with
    /// everything that it started.
    pub(super) fn release(&mut self, bound: Bound, kind: &str) -> Findings {
        let Bound { mut confined, snapshot, others } = bound;
        // What it said last is on record when this returns.
        drop(confined.server.take());
        let mut findings = Findings::of(kind);
        if let Some(overlay) = &confined.overlay {
            match overlay.bring_over(&confined.allow) {
                Ok(kept_out) => findings.add_violations(&kept_out),
                Err(error) => findings.fail("what it wrote cannot be brought over", &error),
            }
        }
        let state_dir = &confined.grounds.state_dir;
        let held_by = (confined.enforcement, self.world);
        let reach = match others.were_at_work(state_dir, &self.harness.run().id, held_by) {
            true => Reach::LoopFiles,
            false => Reach::Everywhere,
        };
        match snapshot.compare_and_restore(reach) {
            Ok((restored, vault)) => {
                self.vault = Some(vault);
                findings.add(&restored);
            }
            Err(error) => findings.fail("the project cannot be looked at", &error),
        }
        findings
    }
}

/// Which layers the settings want and the kernel has.
///
/// # Errors
///
/// When the settings require more than there is.
pub(super) fn enforcement(
    plan: &Plan,
    bounds: Bounds,
) -> Result<Option<Enforcement>, SandboxError> {
    match (&plan.review, bounds) {
        (Some(review), Bounds::Enforced) => Enforcement::choose(review.sandbox, probe()).map(Some),
        _ => Ok(None),
    }
}

/// Removes the private directories of reviews whose harness was killed. The notes of a run that another
/// harness drives belong to that one.
pub(super) fn sweep(state_dir: &Path, world: &World) {
    for run in others::abandoned(state_dir, world) {
        Scratch::sweep(&run.scratch());
        // Slots have their notes one level deeper.
        for inside in fs::read_dir(&run).into_iter().flatten().flatten() {
            if inside.file_type().is_ok_and(|kind| kind.is_dir()) {
                Scratch::sweep(&RunDir::at(inside.path()).scratch());
            }
        }
    }
}

impl Drive<'_> {
    /// Removes the empty files that killed harnesses made for their reviewers. Those of a harness that
    /// still runs cannot be told from them, so while another one does nothing is removed.
    pub(super) fn sweep_placeholders(&self) {
        let state_dir = &self.loaded.files.state_dir;
        let notes = others::abandoned(state_dir, self.world);
        let mut notes = notes.iter().map(RunDir::placeholders).filter(|note| note.exists());
        let Some(first) = notes.next() else { return };
        let Ok(grounds) = Grounds::of(self) else { return };
        if !Others::before(state_dir, self.world).were_driven() {
            // The settings are on this list whether they count or not: the empty file must go.
            let allow =
                AllowList::metareview(&grounds.seen(&grounds.loop_dir), &grounds.seen(state_dir));
            for note in std::iter::once(first).chain(notes) {
                sweep_placeholders(&note, &grounds.project, &allow);
            }
        }
    }
}

/// The places of a review, without links in their paths.
struct Grounds {
    project: PathBuf,
    loop_dir: PathBuf,
    state_dir: PathBuf,
    growing: Vec<PathBuf>,
    ours: Vec<PathBuf>,
    /// Whether the settings of the loop may be edited: a file that the run began without does not count,
    /// and none is made.
    has_settings: bool,
    /// The layers of settings beneath those of the loop.
    beneath: Vec<Layer>,
}

impl Grounds {
    fn of(drive: &Drive<'_>) -> io::Result<Grounds> {
        let Loaded { files, .. } = &drive.loaded;
        let project = drive.project.dir.canonicalize()?;
        let state_dir = files.state_dir.canonicalize()?;
        let memory = drive.memory_places().run;
        let own = &drive.dir;
        Ok(Grounds {
            loop_dir: drive.project.loop_dir.canonicalize()?,
            growing: [files.journal.clone(), files.memory.clone()]
                .into_iter()
                .chain(memory)
                .collect(),
            ours: vec![
                own.lock(),
                own.scratch(),
                own.placeholders(),
                StateDir::new(&state_dir).shims(),
                sidecar_dir(&files.journal),
            ],
            has_settings: drive.project.has_settings(&*drive.world.disk),
            beneath: drive.project.settings_beneath(&*drive.world.disk).unwrap_or_default(),
            project,
            state_dir,
        })
    }

    fn allow_list(&self) -> AllowList {
        let loop_dir = self.seen(&self.loop_dir);
        let list = AllowList::metareview(&loop_dir, &self.seen(&self.state_dir));
        let list = match self.has_settings {
            true => list,
            false => list.without(&loop_dir.join("autoloops.toml")),
        };
        self.growing.iter().fold(list, |list, file| list.growing(&self.seen(file)))
    }

    /// Makes the files that may grow, where they are missing: a view remembers what it did not find, and
    /// the reviewer would not see what it had us write. One that cannot be made is not seen.
    fn make_growing(&self) {
        for path in &self.growing {
            let _ = fs::OpenOptions::new().append(true).create_new(true).mode(0o600).open(path);
        }
    }

    /// Those of them that the view of a reviewer covers.
    fn growing_in_project(&self) -> Vec<PathBuf> {
        let real = self.growing.iter().filter_map(|path| path.canonicalize().ok());
        real.filter(|path| path.starts_with(&self.project)).collect()
    }

    /// What no directory in which a reviewer may do anything can contain.
    fn protected(&self) -> Vec<PathBuf> {
        let mut protected =
            vec![self.project.clone(), self.loop_dir.clone(), self.state_dir.clone()];
        protected.extend(self.growing.iter().filter_map(|path| path.canonicalize().ok()));
        protected.extend(repository_paths(&self.project));
        protected
    }

    fn watched(&self, allow: &AllowList, job: &Job) -> Watched {
        let spool = job.spool.iter().flat_map(|spool| [&spool.stdout, &spool.stderr]);
        let mut watched = Watched::new(&self.project, &self.seen(&self.state_dir), allow.clone());
        watched.beneath.clone_from(&self.beneath);
        watched.ours = self.ours.iter().chain(spool).map(|path| self.seen(path)).collect();
        watched
    }

    /// A path as seen from the project. Its directory may be reached by links.
    fn seen(&self, path: &Path) -> PathBuf {
        let real = path
            .parent()
            .and_then(|dir| Some(dir.canonicalize().ok()?.join(path.file_name()?)))
            .unwrap_or_else(|| path.to_owned());
        real.strip_prefix(&self.project).map(Path::to_owned).unwrap_or(real)
    }
}

pub(super) fn quiet_git_variable() -> (OsString, OsString) {
    let (name, value) = quiet_git();
    (name.into(), value.into())
}

impl From<SandboxError> for DriveError {
    fn from(error: SandboxError) -> Self {
        DriveError::Sandbox(error)
    }
}
