//! The sandbox of a reviewer: how it is confined, and what is checked after it ended.
//!
//! Where the kernel has an overlay, it is the mechanism: only allowed files leave the view of the reviewer,
//! and nothing is copied before. A listing of the reviewed tree before and after proves that nothing else
//! changed. A snapshot is taken and restored where files have to be written in place: without an overlay.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use autoloop_core::config::{Layer, Sandbox};
use autoloop_core::env::{DOOR, TICKET};
use autoloop_core::permissions::{AllowList, Shape};
use autoloop_core::review::Contract;
use autoloop_core::slot::HeldBy;

use super::concurrent::{self, ConcurrentRuns};
use super::violations::Violations;
use crate::ipc::{Handler, Server, Ticket};
use crate::layout::RunDir;
use crate::process::token;
use crate::sandbox::{
    BackupStore, Enforcement, Extent, Listing, QUIET_GIT, Reach, SandboxError, Scope, Scratch,
    Snapshot, probe, siblings,
};
use crate::shim::can_confine;
use crate::world::{Confinement, Job, Leftovers, Overlay, Rules, World};

/// How the reviewers of a run are confined.
pub(crate) struct ReviewSandbox {
    enforcement: Option<Enforcement>,
    /// Whether a view of the tree can be mounted, once that was tried.
    has_overlay: OnceLock<bool>,
    /// Copies that the last snapshot needed, for the next one.
    vault: Mutex<Option<BackupStore>>,
}

/// What a reviewer is confined by, besides its subject.
#[derive(Clone, Copy)]
pub(crate) struct ReviewSite<'s> {
    pub(crate) world: &'s World,
    /// This program.
    pub(crate) program: &'s Path,
    /// The home directory of the user, where agents keep their state.
    pub(crate) home: Option<&'s Path>,
}

/// What is reviewed. All paths are without links.
pub(crate) struct Subject {
    pub(crate) contract: Contract,
    /// The tree under review: the project, or a worktree.
    pub(crate) tree: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) run: String,
    /// The directory that has the notes about this review.
    pub(crate) dir: RunDir,
    /// What the reviewer may change, as seen from the tree.
    pub(crate) allow: AllowList,
    /// The journal and the memory, which may only become longer.
    pub(crate) growing: Vec<PathBuf>,
    /// What is read-only in its view of the tree, besides these.
    pub(crate) sealed: Vec<PathBuf>,
    /// What no directory contains in which the reviewer may do anything.
    pub(crate) protected: Vec<PathBuf>,
    /// What the harness itself writes during the review.
    pub(crate) ours: Vec<PathBuf>,
    /// The layers of settings beneath those of the loop.
    pub(crate) beneath: Vec<Layer>,
    /// How far changes are looked for.
    pub(crate) extent: Extent,
    pub(crate) neighbours: Neighbours,
}

/// Whose changes cannot be distinguished from those of the reviewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbours {
    /// None: it is a worktree of its own.
    None,
    /// Those of other runs, if there are any.
    Runs,
    /// Those of other slots, which work in the same tree.
    Slots,
}

/// A reviewer whose job is confined.
pub(crate) struct Confined {
    subject: Subject,
    enforcement: Enforcement,
    overlay: Option<Overlay>,
    /// The socket through which it emits and remembers; closed when it has ended.
    server: Option<Server>,
    /// Held until the reviewer has ended.
    scratch: Option<Scratch>,
}

/// A reviewer that may start.
pub(crate) struct Held {
    confined: Confined,
    before: Before,
    runs: ConcurrentRuns,
}

/// What is known about the tree before a review.
enum Before {
    /// Everything, so that it can be restored.
    Snapshot(Box<Snapshot>),
    /// What there was, so that changes are noticed.
    Listing(Listing),
    Nothing,
}

impl ReviewSandbox {
    /// Chooses the layers that the settings want and the kernel has; `None` where nothing is reviewed.
    ///
    /// # Errors
    ///
    /// When the settings require more than there is.
    pub(crate) fn choose(mode: Option<Sandbox>, world: &World) -> Result<Self, SandboxError> {
        let enforcement = Self::layers(mode, world)?;
        Ok(ReviewSandbox { enforcement, has_overlay: OnceLock::new(), vault: Mutex::default() })
    }

    /// The layers alone, to be [set](Self::set_layers) later.
    pub(crate) fn layers(
        mode: Option<Sandbox>,
        world: &World,
    ) -> Result<Option<Enforcement>, SandboxError> {
        let mode = mode.filter(|_| !world.spawner.is_simulated());
        mode.map(|mode| Enforcement::choose(mode, probe())).transpose()
    }

    pub(crate) fn set_layers(&mut self, layers: Option<Enforcement>) {
        self.enforcement = layers;
    }

    /// Whether the kernel confines reviewers.
    pub(crate) fn is_of_kernel(&self) -> bool {
        matches!(self.enforcement, Some(Enforcement::Landlock { .. }))
    }

    /// Confines the job of a reviewer, whose events the handler stores; `None` in a simulated world.
    pub(crate) fn confine(
        &self,
        subject: impl FnOnce() -> io::Result<(Subject, Handler)>,
        job: &mut Job,
        site: ReviewSite<'_>,
    ) -> io::Result<Option<Confined>> {
        let Some(enforcement) = self.enforcement else { return Ok(None) };
        // Nothing that it started may write when its changes are looked at.
        job.leftovers = Leftovers::Kill;
        let (name, value) = QUIET_GIT;
        job.env.push((name.into(), value.into()));
        let (subject, handler) = subject()?;
        let mut confined =
            Confined { subject, enforcement, overlay: None, server: None, scratch: None };
        let Enforcement::Landlock { abi } = enforcement else { return Ok(Some(confined)) };
        let entropy = &*site.world.entropy;
        let scratch = Scratch::new(&token(entropy), &confined.subject.dir.scratch())?;
        confined.subject.make_growing();
        let confinement = self.confinement(&confined.subject, &scratch, site);
        if confinement.overlay.is_some() {
            confined.enforcement = Enforcement::Overlay { abi };
            confined.overlay.clone_from(&confinement.overlay);
        }
        let ticket = Ticket::draw(entropy);
        let server = Server::open(scratch.socket(), ticket.clone(), handler)?;
        job.env.extend([
            ("TMPDIR".into(), scratch.temporary().into_os_string()),
            (DOOR.into(), server.path().into()),
            (TICKET.into(), ticket.as_str().into()),
        ]);
        job.confinement = Some(confinement);
        confined.server = Some(server);
        confined.scratch = Some(scratch);
        Ok(Some(confined))
    }

    /// The tightest confinement that the kernel offers.
    fn confinement(
        &self,
        subject: &Subject,
        scratch: &Scratch,
        site: ReviewSite<'_>,
    ) -> Confinement {
        let Subject { tree, allow, protected, .. } = subject;
        let mut rules = Rules::new(tree, allow).free_in(&scratch.temporary());
        if let Some(home) = site.home {
            rules = rules.with_agent_state(home);
        }
        let outside: Vec<PathBuf> =
            protected.iter().filter(|path| !path.starts_with(tree)).cloned().collect();
        // What the reviewer would add to sealed files itself would be lost with the layer: that is an error.
        let behind =
            Confinement { rules: rules.clone().keeping(&outside), ..Confinement::default() }
                .behind(scratch.overlay(tree))
                .with_sealed(subject.sealed_in_view());
        // A layer inside of what it covers would have the reviewer's temporary files in it.
        let is_elsewhere = !scratch.dir().starts_with(tree);
        let is_possible = || *self.has_overlay.get_or_init(|| can_confine(&behind, site.program));
        match is_elsewhere && is_possible() {
            true => behind,
            false => Confinement { rules: rules.keeping(protected), ..Confinement::default() },
        }
    }

    /// Looks at the tree, as the last thing before the reviewer starts: what is on record by then can be
    /// restored.
    pub(crate) fn hold(&self, confined: Confined, job: &Job, world: &World) -> io::Result<Held> {
        let runs = ConcurrentRuns::before(&confined.subject.state_dir, world);
        let mut watched = confined.watched(job);
        // What the kernel keeps from being written need not be watched, and others may work there.
        let is_of_kernel = confined.enforcement != Enforcement::Snapshot;
        let is_busy = |tree: &PathBuf| is_of_kernel || concurrent::work_in(tree, &watched, world);
        let trees = siblings(&watched.project_dir);
        watched.busy_worktrees = trees.into_iter().filter(is_busy).collect();
        let before = match confined.subject.neighbours {
            _ if confined.needs_snapshot() => {
                let kept = self.vault.lock().unwrap_or_else(PoisonError::into_inner).take();
                let vault = match kept {
                    Some(vault) => vault,
                    None => BackupStore::new(&confined.subject.state_dir)?,
                };
                let mut snapshot = Snapshot::take(vault, watched)?;
                if is_of_kernel {
                    let note = confined.subject.dir.placeholders();
                    snapshot.make_placeholders(confined.overlay.as_ref(), &note)?;
                }
                Before::Snapshot(Box::new(snapshot))
            }
            Neighbours::None | Neighbours::Runs => Before::Listing(Listing::of_scope(&watched)?),
            Neighbours::Slots => Before::Nothing,
        };
        Ok(Held { confined, before, runs })
    }

    /// Takes over what the reviewer may change, and lists what else it did. It has to have ended, with
    /// everything that it started. `rewind` puts a checkout back where a snapshot is restored.
    pub(crate) fn release(
        &self,
        held: Held,
        world: &World,
        rewind: impl FnOnce(&mut Violations),
    ) -> (Violations, HeldBy) {
        let Held { mut confined, before, runs } = held;
        // What it said last is on record when this returns.
        drop(confined.server.take());
        let Subject { contract, allow, beneath, run, .. } = &confined.subject;
        let mut violations = Violations::of(contract.name());
        if let Some(overlay) = &confined.overlay {
            match overlay.take_over(allow, beneath) {
                Ok(taken) => violations.add(&taken),
                Err(error) => violations.fail("what it wrote cannot be brought over", &error),
            }
        }
        let held_by = confined.held_by();
        let others_worked = confined.subject.neighbours != Neighbours::None
            && runs.were_at_work(run, confined.enforcement, world);
        match before {
            Before::Snapshot(_) if others_worked && confined.subject.extent == Extent::Worktree => {
                return (violations, HeldBy::Nothing);
            }
            Before::Snapshot(snapshot) => {
                rewind(&mut violations);
                let reach = match others_worked {
                    true => Reach::LoopFiles,
                    false => Reach::Everywhere,
                };
                match snapshot.compare_and_restore(reach) {
                    Ok((restored, vault)) => {
                        *self.vault.lock().unwrap_or_else(PoisonError::into_inner) = Some(vault);
                        violations.add(&restored);
                    }
                    Err(error) => violations.fail("the project cannot be looked at", &error),
                }
            }
            Before::Listing(_) if others_worked => {}
            Before::Listing(listing) => match listing.violations(allow) {
                Ok(changes) => violations.add_violations(&changes),
                Err(error) => violations.fail("the tree cannot be looked at", &error),
            },
            Before::Nothing if confined.enforcement == Enforcement::Snapshot => {
                return (violations, HeldBy::Nothing);
            }
            Before::Nothing => {}
        }
        (violations, held_by)
    }
}

impl Confined {
    /// The layers in force, for `review.start`.
    pub(crate) fn enforcement(&self) -> String {
        match self.enforcement {
            Enforcement::Snapshot => self.enforcement.to_string(),
            layers if self.needs_snapshot() => format!("{}, {layers}", Enforcement::Snapshot),
            layers => layers.to_string(),
        }
    }

    /// Whether the tree is restored after the review.
    pub(crate) fn needs_snapshot(&self) -> bool {
        let Subject { tree, allow, neighbours, .. } = &self.subject;
        let mut edited = allow.places().iter().filter(|place| place.shape != Shape::Growing);
        match self.enforcement {
            Enforcement::Snapshot => *neighbours != Neighbours::Slots,
            // Files are written in place where there is no view, and outside of it.
            Enforcement::Landlock { .. } => edited.next().is_some(),
            Enforcement::Overlay { .. } => {
                edited.any(|place| !tree.join(&place.path).starts_with(tree))
            }
        }
    }

    fn held_by(&self) -> HeldBy {
        match self.enforcement {
            Enforcement::Snapshot => HeldBy::Snapshot,
            Enforcement::Landlock { .. } => HeldBy::Landlock,
            Enforcement::Overlay { .. } => HeldBy::Overlay,
        }
    }

    fn watched(&self, job: &Job) -> Scope {
        let subject = &self.subject;
        let mut watched =
            Scope::new(&subject.tree, &subject.seen(&subject.state_dir), subject.allow.clone());
        watched.beneath.clone_from(&subject.beneath);
        watched.extent = subject.extent;
        if subject.extent == Extent::Worktree {
            watched.put_aside = None;
        }
        let spool = job.spool.iter().flat_map(|spool| [&*spool.stdout, &*spool.stderr]);
        let scratch = self.scratch.iter().map(Scratch::dir);
        let ours = subject.ours.iter().map(PathBuf::as_path);
        watched.ours = ours.chain(spool).chain(scratch).map(|path| subject.seen(path)).collect();
        watched
    }
}

impl Subject {
    /// Makes the files that may grow, where they are missing: a view remembers what it did not find, and
    /// what does not exist cannot be sealed. One that cannot be made here cannot be made by a reviewer.
    fn make_growing(&self) {
        for path in &self.growing {
            let _ = fs::OpenOptions::new().append(true).create_new(true).mode(0o600).open(path);
        }
    }

    /// What is read-only in the view of the reviewer, without what is inside another.
    fn sealed_in_view(&self) -> Vec<PathBuf> {
        let mut sealed: Vec<PathBuf> = Vec::new();
        let all = self.sealed.iter().chain(&self.growing);
        for path in all.filter_map(|path| path.canonicalize().ok()) {
            let is_inside = sealed.iter().any(|other| path.starts_with(other));
            if path.starts_with(&self.tree) && !is_inside {
                sealed.push(path);
            }
        }
        sealed
    }

    fn seen(&self, path: &Path) -> PathBuf {
        seen_from(&self.tree, path)
    }
}

/// A path as seen from a tree. Its directory may be reached by links.
pub(crate) fn seen_from(tree: &Path, path: &Path) -> PathBuf {
    let real = path
        .parent()
        .and_then(|dir| Some(dir.canonicalize().ok()?.join(path.file_name()?)))
        .unwrap_or_else(|| path.to_owned());
    real.strip_prefix(tree).map(Path::to_owned).unwrap_or(real)
}

/// Removes the private directories of reviews whose harness was killed. The notes of a run that another
/// harness drives belong to that one.
pub(crate) fn sweep(state_dir: &Path, world: &World) {
    for run in concurrent::abandoned(state_dir, world) {
        Scratch::sweep(&run.scratch());
        // Slots have their notes one level deeper.
        for inside in fs::read_dir(&run).into_iter().flatten().flatten() {
            if inside.file_type().is_ok_and(|kind| kind.is_dir()) {
                Scratch::sweep(&RunDir::at(inside.path()).scratch());
            }
        }
    }
}

/// Removes the empty files that killed harnesses made for their reviewers. Those of a harness that still
/// runs look the same, so while another one does nothing is removed.
pub(crate) fn sweep_placeholders(
    project: &Path,
    loop_dir: &Path,
    state_dir: &Path,
    world: &World,
) -> io::Result<()> {
    let runs = concurrent::abandoned(state_dir, world);
    let notes: Vec<PathBuf> =
        runs.iter().map(RunDir::placeholders).filter(|note| note.exists()).collect();
    if notes.is_empty() || ConcurrentRuns::before(state_dir, world).were_driven() {
        return Ok(());
    }
    let project = project.canonicalize()?;
    // The settings are on this list whether they count or not: the empty file must go.
    let allow = AllowList::metareview(
        &seen_from(&project, &loop_dir.canonicalize()?),
        &seen_from(&project, &state_dir.canonicalize()?),
    );
    for note in notes {
        crate::sandbox::sweep_placeholders(&note, &project, &allow);
    }
    Ok(())
}
