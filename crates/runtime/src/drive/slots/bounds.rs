//! Holding the reviewer of a slot to its bounds: it may read everything and change nothing.
//!
//! The kernel keeps it from writing where it can. Where it cannot, the tree is remembered before the
//! review and put back after it, unless other slots work in the same tree meanwhile: their changes cannot
//! be told from those of the reviewer.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use autoloop_core::env::{DOOR, TICKET};
use autoloop_core::memory::Places;
use autoloop_core::permissions::AllowList;
use autoloop_core::plan::SlotsPlan;
use autoloop_core::slot::{HeldBy, Slot};

use super::SlotDrive;

use crate::drive::bounds::quiet_git_variable;
use crate::drive::findings::Findings;
use crate::drive::others::Others;
use crate::drive::{Bounds, DriveError, durability};
use crate::emit::{Emitter, Speaker};
use crate::git::Stand;
use crate::ipc::{Handler, Server, Ticket};
use crate::journal::FileSettings;
use crate::journal::sidecar::sidecar_dir;
use crate::layout::RunDir;
use crate::memory::Tiers;
use crate::permissions::{
    Confinement, Enforcement, Overlay, Reach, Rules, Scope, Scratch, Snapshot, Vault, Watched,
    probe, siblings,
};
use crate::process::token;
use crate::world::{Job, Leftovers};

/// What such reviews are called in records.
const KIND: &str = "slot";

/// How the reviewers of a run are bound.
pub(super) struct ReviewerBounds {
    enforcement: Option<Enforcement>,
    /// Whether a view of the tree can be mounted, once that was tried.
    has_overlay: OnceLock<bool>,
}

/// What holds one reviewer.
pub(super) struct Bound {
    /// The socket through which it emits and remembers; closed when it has ended.
    server: Option<Server>,
    overlay: Option<Overlay>,
    remembered: Option<Remembered>,
    /// Held until the reviewer has ended.
    scratch: Option<Scratch>,
}

/// A tree as it was before a review that nothing else holds.
struct Remembered {
    files: Snapshot,
    /// Where the checkout stood, if there is one.
    stand: Option<Stand>,
    others: Others,
}

impl ReviewerBounds {
    /// Which layers the settings want and the kernel has.
    ///
    /// # Errors
    ///
    /// When the settings require more than there is.
    pub(super) fn choose(plan: &SlotsPlan, bounds: Bounds) -> Result<Self, DriveError> {
        let enforcement = match bounds {
            Bounds::Enforced => Some(Enforcement::choose(plan.sandbox, probe())?),
            Bounds::Unenforced => None,
        };
        Ok(ReviewerBounds { enforcement, has_overlay: OnceLock::new() })
    }

    /// Whether the kernel holds reviewers.
    pub(super) fn has_sandbox(&self) -> bool {
        matches!(self.enforcement, Some(Enforcement::Landlock { .. } | Enforcement::Overlay { .. }))
    }

    /// Binds the job of a reviewer, as the last thing before it starts.
    pub(super) fn bind(
        &self,
        job: &mut Job,
        (slot, slot_dir): (&Slot, &RunDir),
        drive: &SlotDrive<'_>,
    ) -> io::Result<Bound> {
        let nothing = Bound { server: None, overlay: None, remembered: None, scratch: None };
        let Some(enforcement) = self.enforcement else { return Ok(nothing) };
        // Nothing that it started may write when everything is looked at again.
        job.leftovers = Leftovers::Kill;
        job.env.push(quiet_git_variable());
        let tree = Path::new(&slot.start.tree).canonicalize()?;
        match enforcement {
            Enforcement::Snapshot => {
                let remembered = (!drive.is_shared(slot)).then(|| {
                    Ok::<_, io::Error>(Remembered {
                        others: Others::before(&drive.loaded.files.state_dir, drive.scene.world),
                        stand: drive.grounds.stand(slot, slot_dir),
                        files: remember(&tree, drive)?,
                    })
                });
                Ok(Bound { remembered: remembered.transpose()?, ..nothing })
            }
            Enforcement::Landlock { .. } | Enforcement::Overlay { .. } => {
                let scratch =
                    Scratch::new(&token(&*drive.scene.world.entropy), &slot_dir.scratch())?;
                make_files(drive);
                let bounds = self.confinement(&tree, &scratch, drive);
                let ticket = Ticket::draw(&*drive.scene.world.entropy);
                let server = Server::open(scratch.socket(), ticket.clone(), drive.handler(slot))?;
                job.env.extend([
                    ("TMPDIR".into(), scratch.temporary().into_os_string()),
                    (DOOR.into(), server.path().into()),
                    (TICKET.into(), ticket.as_str().into()),
                ]);
                let overlay = bounds.overlay.clone();
                job.confinement = Some(bounds);
                Ok(Bound { server: Some(server), overlay, scratch: Some(scratch), ..nothing })
            }
        }
    }

    /// The tightest bounds that the kernel offers.
    fn confinement(&self, tree: &Path, scratch: &Scratch, drive: &SlotDrive<'_>) -> Confinement {
        let mut rules = Rules::new(tree, &AllowList::read_only()).free_in(&scratch.temporary());
        if let Some(home) = &drive.scene.project.surroundings.home {
            rules = rules.with_agent_state(home);
        }
        let sealed = sealed(tree, drive);
        let protected = [&sealed[..], &[tree.to_owned()]].concat();
        let plain = Confinement { rules: rules.keeping(&protected), ..Confinement::default() };
        // A layer inside of what it covers would have the reviewer's temporary files in it.
        let is_elsewhere = sealed.iter().all(|dir| !scratch.dir().starts_with(dir))
            && !scratch.dir().starts_with(tree);
        let behind = Confinement::sealing(sealed, scratch.overlay(tree));
        let is_possible =
            || *self.has_overlay.get_or_init(|| behind.is_possible(&drive.scene.program));
        if is_elsewhere && is_possible() { behind } else { plain }
    }
}

impl Bound {
    /// Finds out what the reviewer did, and undoes it; says besides what held it. It has to have ended,
    /// with everything that it started.
    pub(super) fn release(
        mut self,
        (slot, slot_dir): (&Slot, &RunDir),
        drive: &SlotDrive<'_>,
    ) -> (Findings, HeldBy) {
        // What it said last is on record before its verdict.
        drop(self.server.take());
        let mut findings = Findings::of(KIND);
        let mut held_by = match (&self.overlay, &self.scratch) {
            (Some(_), _) => HeldBy::Overlay,
            (None, Some(_)) => HeldBy::Landlock,
            (None, None) => HeldBy::Nothing,
        };
        if let Some(overlay) = &self.overlay {
            match overlay.bring_over(&AllowList::read_only()) {
                Ok(kept_out) => findings.add_violations(&kept_out),
                Err(error) => findings.fail("what it wrote cannot be looked at", &error),
            }
        }
        if let Some(remembered) = self.remembered
            && !remembered.is_shared(slot, drive)
        {
            remembered.put_back((slot, slot_dir), drive, &mut findings);
            held_by = HeldBy::Snapshot;
        }
        (findings, held_by)
    }
}

impl Remembered {
    /// Whether another run was at work there meanwhile. In the project itself that may be; in a tree of
    /// its own nobody is.
    fn is_shared(&self, slot: &Slot, drive: &SlotDrive<'_>) -> bool {
        let run = drive.look(|slots| slots.id.clone());
        let held_by = (Enforcement::Snapshot, drive.scene.world);
        let state_dir = &drive.loaded.files.state_dir;
        slot.start.branch.is_empty() && self.others.were_at_work(state_dir, &run, held_by)
    }

    fn put_back(
        self,
        (slot, slot_dir): (&Slot, &RunDir),
        drive: &SlotDrive<'_>,
        findings: &mut Findings,
    ) {
        let moved = self.stand.map(|stand| drive.grounds.stand_at(&stand, (slot, slot_dir)));
        match moved {
            Some(Ok(true)) => findings.add_moved(),
            Some(Err(error)) => {
                findings.fail("its commits cannot be undone", &io::Error::other(error));
            }
            Some(Ok(false)) | None => {}
        }
        match self.files.compare_and_restore(Reach::Everywhere) {
            Ok((restored, _)) => findings.add(&restored),
            Err(error) => findings.fail("the tree cannot be looked at", &error),
        }
    }
}

impl SlotDrive<'_> {
    /// Stores for a reviewer what it cannot write itself.
    fn handler(&self, slot: &Slot) -> Handler {
        let (files, world) = (&self.loaded.files, self.scene.world);
        let run = self.look(|slots| slots.id.clone());
        let iteration = slot.iteration.to_string();
        let settings = FileSettings { lock_timeout: self.loaded.plan.journal.lock_timeout };
        let places = Places {
            project: files.memory.clone(),
            run: Places::of_run(&files.state_dir, &run).run,
        };
        let memory = Tiers::at(places, world, settings).for_author(Some(&run), Some(&iteration));
        Handler {
            memory,
            emitter: Emitter {
                speaker: Speaker { run: Some(run), iteration, ..Speaker::default() },
                journal: self.scene.journal.handle(),
                durability: durability(&self.loaded.plan),
                clock: Arc::clone(&world.clock),
            },
        }
    }
}

/// The journal and the memory of the project, which may only become longer.
fn growing(drive: &SlotDrive<'_>) -> [PathBuf; 2] {
    let files = &drive.loaded.files;
    [files.journal.clone(), files.memory.clone()]
}

/// Makes the files that may grow, where they are missing: a file that does not exist cannot be sealed. One
/// that cannot be made here cannot be made by a reviewer either.
fn make_files(drive: &SlotDrive<'_>) {
    for path in growing(drive) {
        let _ = fs::OpenOptions::new().append(true).create_new(true).mode(0o600).open(path);
    }
}

/// What belongs to the project and is for reading only: whatever is not beneath the tree, the other working
/// trees of the repository, and the state directory, the journal and the memory wherever they are. What a reviewer wrote there would be lost
/// with the layer, or would be believed.
fn sealed(tree: &Path, drive: &SlotDrive<'_>) -> Vec<PathBuf> {
    let real = |path: PathBuf| path.canonicalize().ok();
    let files = &drive.loaded.files;
    let own = [files.state_dir.to_path_buf(), sidecar_dir(&files.journal)];
    let own: Vec<PathBuf> = own.into_iter().chain(growing(drive)).filter_map(real).collect();
    let others = drive.grounds.checkout().into_iter().chain(drive.grounds.git_dir());
    let mut sealed: Vec<PathBuf> = others.filter(|path| !path.starts_with(tree)).collect();
    let siblings = siblings(&drive.scene.project.dir).into_iter().filter_map(real);
    for path in own.into_iter().chain(siblings.filter(|path| path != tree)) {
        if !sealed.iter().any(|other| path.starts_with(other)) {
            sealed.push(path);
        }
    }
    sealed
}

/// Remembers a tree. Its repository and the state directory are not looked at: other slots, and the
/// harness itself, write there meanwhile.
fn remember(tree: &Path, drive: &SlotDrive<'_>) -> io::Result<Snapshot> {
    let state_dir = drive.loaded.files.state_dir.canonicalize()?;
    let seen = |path: &Path| match path.strip_prefix(tree) {
        Ok(inside) => inside.to_owned(),
        Err(_) => path.to_owned(),
    };
    let mut watched = Watched::new(tree, &seen(&state_dir), AllowList::read_only());
    watched.scope = Scope::Tree;
    watched.put_aside = None;
    let files = growing(drive).into_iter().map(|path| path.canonicalize().unwrap_or(path));
    watched.allow = files.fold(watched.allow, |allow, path| allow.growing(&seen(&path)));
    watched.ours = vec![seen(&state_dir)];
    watched.ours.extend(drive.grounds.git_dir().map(|dir| seen(&dir)));
    Snapshot::take(Vault::new(&state_dir)?, watched)
}
