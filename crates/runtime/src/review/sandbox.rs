//! The sandbox of a reviewer: how it is confined, and what is checked after it ended.
//!
//! Where the system permits an overlay, that is the mechanism: only allowed files leave the view of the
//! reviewer, and nothing is copied before. A snapshot is taken and restored where files are written in place.
//! In every mode a proof compares the reviewed tree and its repository before and after.

#![expect(
    clippy::disallowed_methods,
    reason = "prepares a sandbox of the kernel with real directories and the environment of the reviewer"
)]

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use autoloop_core::agents::{Adapter, Options, StateDir};
use autoloop_core::config::{Layer, Leftovers, Sandbox};
use autoloop_core::permissions::{AllowList, Shape};
use autoloop_core::plan::BackendPlan;
use autoloop_core::review::Contract;
use autoloop_core::slot::HeldBy;

use super::concurrent::{self, ConcurrentRuns};
use super::violations::Violations;
use crate::error::DriveError;
use crate::ipc::{Handler, Server};
use crate::layout::RunDir;
use crate::private_files;
use crate::process::token;
use crate::sandbox::{
    Attribution, BackupStore, Enforcement, Extent, Proof, QUIET_GIT, SandboxError, Scope, Scratch,
    Snapshot, probe, siblings,
};
use crate::shim::can_confine;
use crate::site::Site;
use crate::world::{Confinement, Job, Overlay, Rules, World};

pub(crate) struct ReviewSandbox {
    /// `None` where no process is confined.
    enforcement: Option<Enforcement>,
    /// Whether an overlay can be mounted, once that was tried.
    has_overlay: OnceLock<bool>,
    /// The copies of the last snapshot, for the next one.
    store: Mutex<Option<BackupStore>>,
}

/// What a reviewer needs besides its subject.
#[derive(Clone, Copy)]
pub(crate) struct ReviewSite<'s> {
    pub(crate) world: &'s World,
    pub(crate) program: &'s Path,
    /// The client that reviews, if it is known.
    pub(crate) client: Option<&'static Adapter>,
}

/// What is reviewed. All paths are canonical.
pub(crate) struct Subject {
    pub(crate) contract: Contract,
    /// The project, or a worktree.
    pub(crate) tree: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) run: String,
    /// The directory for notes about this review.
    pub(crate) dir: RunDir,
    /// What the reviewer may change, relative to the tree.
    pub(crate) allow: AllowList,
    /// The append-only files: the journal and the memory.
    pub(crate) growing: Vec<PathBuf>,
    /// What else is read-only in the overlay.
    pub(crate) sealed: Vec<PathBuf>,
    /// The reviewer may not write in a directory of an agent's state that contains one of these.
    pub(crate) protected: Vec<PathBuf>,
    /// What the harness itself writes during the review.
    pub(crate) ours: Vec<PathBuf>,
    /// The layers of settings below those of the loop.
    pub(crate) beneath: Vec<Layer>,
    /// How far changes are looked for.
    pub(crate) extent: Extent,
    pub(crate) neighbours: OtherWriters,
}

/// Whose changes cannot be distinguished from those of the reviewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherWriters {
    /// None: it is a worktree of its own, and no other slot is open.
    None,
    /// None, but other slots work in their own worktrees of the repository.
    Worktrees,
    /// Those of other runs, if there are any.
    Runs,
    /// Those of other slots in the same tree.
    Slots,
}

/// A reviewer whose job is confined.
pub(crate) struct Confined {
    subject: Subject,
    enforcement: Enforcement,
    overlay: Option<Overlay>,
    /// Through which it emits, remembers and calls its tools.
    server: Option<Server>,
    /// Kept until the reviewer has ended.
    scratch: Option<Scratch>,
}

/// A reviewer that may start.
pub(crate) struct Held {
    confined: Confined,
    snapshot: Option<Snapshot>,
    proof: Proof,
    /// Whether other runs work in other worktrees of the repository.
    is_busy: bool,
    runs: ConcurrentRuns,
}

impl ReviewSandbox {
    /// Chooses the layer that the settings request and the kernel has; `None` where nothing is reviewed.
    pub(crate) fn choose(mode: Option<Sandbox>, world: &World) -> Result<Self, SandboxError> {
        let enforcement = Self::layers(mode, world)?;
        Ok(ReviewSandbox { enforcement, has_overlay: OnceLock::new(), store: Mutex::default() })
    }

    /// The layer alone, to be [set](Self::set_layers) later.
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

    /// The reviewer with exactly one sandbox: that of the harness, or else that of its client. Without that of the
    /// harness, the client keeps the tools of a reviewer from changing files that it may not change; `dir` has what it
    /// reads for that.
    pub(crate) fn around(
        &self,
        reviewer: &BackendPlan,
        contract: Contract,
        dir: &RunDir,
        site: &Site<'_>,
    ) -> Result<BackendPlan, DriveError> {
        let mut around = reviewer.clone();
        match (reviewer.kind.adapter(), self.enforcement) {
            (Some(client), Some(Enforcement::Snapshot)) => {
                let state_dir = site.state_dir.canonicalize();
                let state_dir = state_dir.unwrap_or_else(|_| site.state_dir.to_path_buf());
                around.args = client.with_sandbox(&reviewer.args, &state_dir.to_string_lossy());
                if !contract.allows_edits() {
                    make_read_only(&mut around, client, dir, site)?;
                }
            }
            (Some(client), Some(_)) => around.args = client.without_sandbox(&reviewer.args),
            _ => {}
        }
        Ok(around)
    }

    /// Confines the job of a reviewer, whose events the handler stores; `None` in a simulated world.
    pub(crate) fn confine(
        &self,
        subject: impl FnOnce() -> io::Result<(Subject, Handler)>,
        job: &mut Job,
        site: ReviewSite<'_>,
    ) -> io::Result<Option<Confined>> {
        let Some(enforcement) = self.enforcement else { return Ok(None) };
        // No process that it started may write when its changes are compared.
        job.leftovers = Leftovers::Kill;
        let (name, value) = QUIET_GIT;
        job.env.push((name.into(), value.into()));
        let (subject, handler) = subject()?;
        let mut confined =
            Confined { subject, enforcement, overlay: None, server: None, scratch: None };
        let Enforcement::Landlock { abi } = enforcement else {
            if handler.tools.is_some() {
                let server = Server::open(confined.subject.dir.door("agent"), handler)?;
                job.env.extend(server.variables());
                confined.server = Some(server);
            }
            return Ok(Some(confined));
        };
        let scratch = Scratch::new(&token(&*site.world.entropy), &confined.subject.dir.scratch())?;
        confined.subject.make_append_only();
        let confinement = self.confinement(&confined.subject, &scratch, job, site);
        if confinement.overlay.is_some() {
            confined.enforcement = Enforcement::Overlay { abi };
            confined.overlay.clone_from(&confinement.overlay);
        }
        let server = Server::open(scratch.socket(), handler)?;
        job.env.push(("TMPDIR".into(), scratch.temporary().into_os_string()));
        job.env.extend(server.variables());
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
        job: &Job,
        site: ReviewSite<'_>,
    ) -> Confinement {
        let Subject { tree, allow, protected, .. } = subject;
        let rules = Rules::new(tree, allow).free_in(&scratch.temporary());
        // The kernel permits writing in a directory only where it exists, and this may be the first start of the client.
        if let Some(client) = site.client {
            let is_project = |dir: &PathBuf| protected.iter().any(|path| dir.starts_with(path));
            let dirs = client.state.iter().filter(|state| !state.is_file());
            for dir in state_paths(dirs, job).iter().filter(|dir| !is_project(dir)) {
                // What cannot be created, the client reports itself.
                let _ = private_files::create_dirs(dir);
            }
        }
        let states = state_dirs(site.client, job);
        let rules = states.iter().fold(rules, |rules, dir| rules.free_in(dir));
        let with = |rules| Confinement { rules, ..Confinement::default() };
        let outside: Vec<PathBuf> =
            protected.iter().filter(|path| !path.starts_with(tree)).cloned().collect();
        let behind = with(rules.clone().keeping(&outside))
            .behind(scratch.overlay(tree), subject.sealed_in_view());
        // A layer inside of what it covers would contain the reviewer's temporary files.
        let is_elsewhere = !scratch.dir().starts_with(tree);
        let is_possible = || *self.has_overlay.get_or_init(|| can_confine(&behind, site.program));
        match is_elsewhere && is_possible() {
            true => behind,
            false => with(rules.keeping(protected)),
        }
    }

    /// Lists or copies the tree, right before the reviewer starts: what is recorded by then is restored.
    pub(crate) fn hold(&self, confined: Confined, job: &Job, world: &World) -> io::Result<Held> {
        let subject = &confined.subject;
        let runs = ConcurrentRuns::before(&subject.state_dir, world);
        let mut scope = confined.scope(job);
        // Worktrees that the kernel protects are left out: other runs may work there.
        let is_of_kernel = confined.enforcement != Enforcement::Snapshot;
        let is_left_out = |tree: &PathBuf| is_of_kernel || concurrent::work_in(tree, &scope, world);
        let trees = siblings(&scope.project_dir);
        scope.busy_worktrees = trees.into_iter().filter(is_left_out).collect();
        let is_busy = !scope.busy_worktrees.is_empty();
        let needs_snapshot = confined.needs_snapshot();
        let proof = Proof::before(&scope, needs_snapshot)?;
        let snapshot = if needs_snapshot {
            let store = match self.store.lock().unwrap_or_else(PoisonError::into_inner).take() {
                Some(store) => store,
                None => BackupStore::new(&subject.state_dir)?,
            };
            let mut snapshot = Snapshot::take(store, scope)?;
            if is_of_kernel {
                let note = subject.dir.placeholders();
                snapshot.make_placeholders(confined.overlay.as_ref(), &note)?;
            }
            Some(snapshot)
        } else {
            None
        };
        Ok(Held { confined, snapshot, proof, is_busy, runs })
    }

    /// Takes over what the reviewer was allowed to change, and lists what else it did. All of its processes
    /// have to have ended. `rewind` restores the commit of a checkout, before a snapshot is restored;
    /// `have_slots_worked` is whether agents of other slots wrote to the same tree since.
    pub(crate) fn release(
        &self,
        held: Held,
        world: &World,
        rewind: impl FnOnce(&mut Violations),
        have_slots_worked: impl Fn() -> bool,
    ) -> (Violations, HeldBy) {
        let Held { mut confined, snapshot, proof, is_busy, runs } = held;
        // The last events of the reviewer are recorded when this returns.
        drop(confined.server.take());
        let Subject { contract, allow, beneath, run, neighbours, extent, .. } = &confined.subject;
        let mut violations = Violations::of(contract.name());
        if let Some(overlay) = &confined.overlay {
            match overlay.take_over(allow, beneath) {
                Ok(changes) => violations.add(&changes),
                Err(error) => violations.fail("its changes cannot be taken over", &error),
            }
        }
        let have_others_worked = || match neighbours {
            OtherWriters::None | OtherWriters::Worktrees => false,
            OtherWriters::Runs => runs.were_at_work(run, confined.enforcement, world),
            OtherWriters::Slots => {
                have_slots_worked() || runs.were_at_work(run, confined.enforcement, world)
            }
        };
        let attribution = || match neighbours {
            _ if have_others_worked() => Attribution::Settings,
            OtherWriters::Worktrees | OtherWriters::Slots => Attribution::Worktree,
            _ if is_busy => Attribution::Worktree,
            _ => Attribution::Repository,
        };
        let at_first = attribution();
        let mut held_by = match confined.enforcement {
            Enforcement::Snapshot => HeldBy::Snapshot,
            Enforcement::Landlock { .. } => HeldBy::Landlock,
            Enforcement::Overlay { .. } => HeldBy::Overlay,
        };
        match snapshot {
            Some(_) if at_first == Attribution::Settings && *extent == Extent::Worktree => {
                held_by = HeldBy::Nothing;
            }
            Some(snapshot) => {
                rewind(&mut violations);
                match snapshot.compare_and_restore(at_first) {
                    Ok((changes, store)) => {
                        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
                        violations.add(&changes);
                    }
                    Err(error) => violations.fail("the project cannot be compared", &error),
                }
            }
            None if held_by == HeldBy::Snapshot => held_by = HeldBy::Nothing,
            None => {}
        }
        match proof.violations(allow, || at_first.min(attribution())) {
            Ok(noticed) => violations.add_violations(&noticed),
            Err(error) => violations.fail("the tree cannot be compared", &error),
        }
        (violations, held_by)
    }
}

fn make_read_only(
    reviewer: &mut BackendPlan,
    client: &Adapter,
    dir: &RunDir,
    site: &Site<'_>,
) -> Result<(), DriveError> {
    let path = std::path::absolute(dir.policy()).unwrap_or_else(|_| dir.policy());
    if let Some(policy) = client.policy() {
        let written = site.world.disk.replace(&path, policy.as_bytes());
        written.map_err(|source| DriveError::Write { path: path.clone(), source })?;
    }
    let Options { args, env } = client.read_only(&reviewer.args, &path.to_string_lossy());
    reviewer.args.extend(args);
    reviewer.env.extend(env.into_iter().map(|(name, value)| format!("{name}={value}")));
    Ok(())
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
            Enforcement::Snapshot => *neighbours != OtherWriters::Slots,
            // Without an overlay, and outside of it, files are written in place.
            Enforcement::Landlock { .. } => edited.next().is_some(),
            Enforcement::Overlay { .. } => {
                edited.any(|place| !tree.join(&place.path).starts_with(tree))
            }
        }
    }

    fn scope(&self, job: &Job) -> Scope {
        let subject = &self.subject;
        let relative = |path: &Path| seen_from(&subject.tree, path);
        let mut scope =
            Scope::new(&subject.tree, &relative(&subject.state_dir), subject.allow.clone());
        scope.beneath.clone_from(&subject.beneath);
        scope.extent = subject.extent;
        if subject.extent == Extent::Worktree {
            scope.put_aside = None;
        }
        let spool = job.spool.iter().flat_map(|spool| [&*spool.stdout, &*spool.stderr]);
        let scratch = self.scratch.iter().map(Scratch::dir);
        let ours = subject.ours.iter().map(PathBuf::as_path);
        scope.ours = ours.chain(spool).chain(scratch).map(relative).collect();
        scope
    }
}

impl Subject {
    /// Creates missing append-only files: an overlay does not show files that are created later, and what
    /// does not exist cannot be sealed. Where the harness cannot create one, a reviewer cannot either.
    fn make_append_only(&self) {
        for path in &self.growing {
            let _ = fs::OpenOptions::new().append(true).create_new(true).mode(0o600).open(path);
        }
    }

    /// What is read-only in the overlay, without what is inside another. What a reviewer appended there
    /// itself would be lost with the overlay, so it has to fail.
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
}

/// Where the client of a job keeps its sessions, credentials and caches; that of any known client, where the program is
/// not known.
fn state_dirs(client: Option<&'static Adapter>, job: &Job) -> Vec<PathBuf> {
    const CACHE: StateDir = StateDir { variable: "XDG_CACHE_HOME", below: "", usual: ".cache" };
    let clients = client.map_or(Adapter::ALL.to_vec(), |client| vec![client]);
    state_paths(clients.into_iter().flat_map(|client| client.state).chain([&CACHE]), job)
}

/// The paths that the environment of a job leads to.
fn state_paths<'s>(states: impl Iterator<Item = &'s StateDir>, job: &Job) -> Vec<PathBuf> {
    let environment = job.clone().with_environment(std::env::vars_os().collect()).env;
    let variable = |name: &str| {
        let (_, value) = environment.iter().find(|(known, _)| known == name)?;
        Some(value.clone())
    };
    let dir = job.dir.as_deref().unwrap_or(Path::new("."));
    states.filter_map(|state| Some(dir.join(state.path(variable)?))).collect()
}

/// A path relative to a tree, absolute if it is outside. Its directory may be reached by links.
pub(crate) fn seen_from(tree: &Path, path: &Path) -> PathBuf {
    let real = path
        .parent()
        .and_then(|dir| Some(dir.canonicalize().ok()?.join(path.file_name()?)))
        .unwrap_or_else(|| path.to_owned());
    real.strip_prefix(tree).map(Path::to_owned).unwrap_or(real)
}

/// Removes the private directories of reviews whose harness was killed.
pub(crate) fn sweep(state_dir: &Path, world: &World) {
    for run in concurrent::abandoned(state_dir, world) {
        Scratch::sweep(&run.scratch());
        Scratch::sweep(&run.checkout());
        // Slots and the turns of squads have their notes one level deeper.
        for inside in fs::read_dir(&run).into_iter().flatten().flatten() {
            if inside.file_type().is_ok_and(|kind| kind.is_dir()) {
                let inside = RunDir::at(inside.path());
                Scratch::sweep(&inside.scratch());
                Scratch::sweep(&inside.checkout());
            }
        }
    }
}

/// Removes the empty files that killed harnesses made for their reviewers. Those of a running harness look the
/// same, so nothing is removed while there is another one.
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
    // The settings are on this list whether they count or not: the empty file must be removed.
    let allow = AllowList::metareview(
        &seen_from(&project, &loop_dir.canonicalize()?),
        &seen_from(&project, &state_dir.canonicalize()?),
    );
    for note in notes {
        crate::sandbox::sweep_placeholders(&note, &project, &allow);
    }
    Ok(())
}
