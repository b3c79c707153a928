//! Holding a reviewer to its bounds: what is done before it starts, and after it ended.
//!
//! All of this is about real files and the kernel, so it knows no simulated world ([`Bounds`]).
//! docs/review-permissions.md says what the bounds are, and which layer stops what.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_core::env::{DOOR, TICKET};
use autoloop_core::memory::Places;
use autoloop_core::permissions::AllowList;
use autoloop_core::plan::Plan;
use autoloop_core::record::ReviewViolation;

use super::launch::Turn;
use super::{Drive, DriveError};
use crate::door::{Door, Keeper, Ticket};
use crate::emit::{Emitter, Speaker};
use crate::journal::sidecar::sidecar_dir;
use crate::journal::{FileJournal, FileSettings};
use crate::memory::Tiers;
use crate::permissions::{
    Confinement, Enforcement, Overlay, Reach, Restored, Rules, SandboxError, Scratch, Snapshot,
    Vault, Violation, Watched, probe, quiet_git,
};
use crate::process::{notes_dir, token};
use crate::project::Loaded;
use crate::world::{Access, Job, Leftovers};

/// So many violations are put on record one by one.
const MOST_TOLD: usize = 100;
/// The longest diff that is put on record.
const LONGEST_DIFF: usize = 1024 * 1024;

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
    door: Option<Door>,
    /// Held until the reviewer has ended.
    _scratch: Option<Scratch>,
    pub(super) enforcement: Enforcement,
}

/// What holds one reviewer.
pub(super) struct Bound {
    confined: Confined,
    snapshot: Snapshot,
    /// The runs of the project when the review began.
    runs: BTreeSet<OsString>,
}

/// What a reviewer did to files.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub(super) violations: Vec<ReviewViolation>,
    /// What it changed and may have changed.
    pub(super) diff: Option<String>,
    /// What the next prompt should say about it.
    pub(super) notices: Vec<String>,
}

impl Drive<'_> {
    /// Binds the job of a reviewer.
    pub(super) fn confine(
        &self,
        enforcement: Enforcement,
        turn: &Turn<'_>,
        job: &mut Job,
    ) -> io::Result<Confined> {
        // Nothing that it started may write when everything is looked at again.
        job.leftovers = Leftovers::Kill;
        job.env.push(quiet_git_variable());
        let grounds = Grounds::of(self)?;
        let allow = grounds.allow_list();
        let mut confined =
            Confined { grounds, allow, overlay: None, door: None, _scratch: None, enforcement };
        if let Enforcement::Landlock { abi } = enforcement {
            let (scratch, bounds) = self.confinement(&confined.grounds, &confined.allow)?;
            if bounds.overlay.is_some() {
                confined.enforcement = Enforcement::Overlay { abi };
                confined.overlay.clone_from(&bounds.overlay);
            }
            let ticket = Ticket::draw(&*self.world.entropy);
            let door = Door::open(scratch.door(), ticket.clone(), self.keeper(turn))?;
            job.env.extend([
                ("TMPDIR".into(), scratch.temporary().into_os_string()),
                (DOOR.into(), door.path().into()),
                (TICKET.into(), ticket.as_str().into()),
            ]);
            job.confinement = Some(bounds);
            confined.door = Some(door);
            confined._scratch = Some(scratch);
        }
        Ok(confined)
    }

    /// Does for a reviewer what it may not do itself.
    fn keeper(&self, turn: &Turn<'_>) -> Keeper {
        let files = &self.loaded.files;
        let run = &self.ledger.run().id;
        let iteration = turn.iteration.to_string();
        let settings = FileSettings { lock_timeout: self.loaded.plan.journal.lock_timeout };
        let memory =
            Places { project: files.memory.clone(), ..Places::of_run(&files.state_dir, run) };
        Keeper {
            memory: Tiers::at(memory, self.world, settings).for_author(Some(run), Some(&iteration)),
            emitter: Emitter {
                speaker: Speaker {
                    run: Some(run.clone()),
                    iteration,
                    recent_event: turn.recent_event.to_owned(),
                    route: turn.route.clone(),
                },
                journal: FileJournal::new(files.journal.clone(), self.world, settings),
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
        let watched = confined.grounds.watched(&confined.allow, job);
        let runs = runs_in(&confined.grounds.state_dir);
        let mut snapshot = Snapshot::take(vault, watched)?;
        if matches!(confined.enforcement, Enforcement::Landlock { .. }) {
            snapshot.make_placeholders()?;
        }
        Ok(Bound { confined, snapshot, runs })
    }

    /// The tightest bounds that the kernel offers, and the private place that belongs to them.
    fn confinement(
        &self,
        grounds: &Grounds,
        allow: &AllowList,
    ) -> io::Result<(Scratch, Confinement)> {
        let scratch = Scratch::new(&token(&*self.world.entropy))?;
        fs::write(scratch_note(&self.run_dir()), scratch.dir().as_os_str().as_bytes())?;
        let mut rules = Rules::new(&grounds.project, allow).free_in(&scratch.temporary());
        if let Some(home) = &self.project.surroundings.home {
            rules = rules.with_agent_state(home);
        }
        let plain = Confinement { rules, overlay: None };
        let behind = plain.clone().behind(scratch.overlay(&grounds.project));
        let is_possible = behind.is_possible(&self.program);
        Ok((scratch, if is_possible { behind } else { plain }))
    }

    /// Finds out what the reviewer did, and undoes what it may not. It has to have ended, with
    /// everything that it started.
    pub(super) fn release(&mut self, bound: Bound, kind: &str) -> Findings {
        let Bound { mut confined, snapshot, runs } = bound;
        // What it said last is on record when this returns.
        drop(confined.door.take());
        let mut told = Vec::new();
        let mut failed = |error: io::Error, what: &str| {
            told.push(ReviewViolation {
                kind: kind.to_owned(),
                path: ".".to_owned(),
                what: format!("{what}: {error}"),
                outcome: "not put back".to_owned(),
                beneath: None,
            });
        };
        let overlay = confined.overlay.as_ref();
        let kept_out = overlay.map(|overlay| overlay.bring_over(&confined.allow));
        let kept_out = kept_out.transpose().unwrap_or_else(|error| {
            failed(error, "what the reviewer wrote cannot be brought over");
            None
        });
        let reach = match self.others_at_work(&confined.grounds.state_dir, &runs) {
            true => Reach::LoopFiles,
            false => Reach::Everywhere,
        };
        let restored = match snapshot.compare_and_restore(reach) {
            Ok((restored, vault)) => {
                self.vault = Some(vault);
                restored
            }
            Err(error) => {
                failed(error, "the project cannot be looked at");
                Restored::default()
            }
        };
        let _ = fs::remove_file(scratch_note(&self.run_dir()));
        let violations = restored.violations.iter().chain(kept_out.iter().flatten());
        told.extend(told_of(kind, violations));
        let unreadable = restored.violations.iter().filter(|violation| violation.is_unreadable());
        Findings {
            violations: told,
            diff: diff(&restored),
            notices: unreadable.map(|broken| format!("a metareview broke {broken}")).collect(),
        }
    }

    /// Whether another run was driven in this project while the reviewer was at work.
    fn others_at_work(&self, state_dir: &Path, before: &BTreeSet<OsString>) -> bool {
        let now = runs_in(state_dir);
        let is_held = |run: &OsString| {
            let lock = state_dir.join("runs").join(run).join("lock");
            let file = self.world.disk.open(&lock, Access::Read);
            file.is_ok_and(|file| file.lock_holder().is_some())
        };
        let own = OsString::from(&self.ledger.run().id);
        now.iter().filter(|run| **run != own).any(|run| !before.contains(run) || is_held(run))
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

/// Takes away what a review left that was cut off.
pub(super) fn sweep(run_dir: &Path) {
    let note = scratch_note(run_dir);
    if let Ok(dir) = fs::read(&note) {
        Scratch::sweep(Path::new(OsStr::from_bytes(&dir)));
        let _ = fs::remove_file(note);
    }
}

/// Where it is noted which private place a review has.
fn scratch_note(run_dir: &Path) -> PathBuf {
    run_dir.join("scratch")
}

/// The places of a review, without links in their paths.
struct Grounds {
    project: PathBuf,
    loop_dir: PathBuf,
    state_dir: PathBuf,
    growing: Vec<PathBuf>,
    ours: Vec<PathBuf>,
}

impl Grounds {
    fn of(drive: &Drive<'_>) -> io::Result<Grounds> {
        let Loaded { files, .. } = &drive.loaded;
        let project = drive.project.dir.canonicalize()?;
        let state_dir = files.state_dir.canonicalize()?;
        let run = &drive.ledger.run().id;
        let memory = Places::of_run(&files.state_dir, run).run;
        let own = drive.run_dir();
        Ok(Grounds {
            loop_dir: drive.project.loop_dir.canonicalize()?,
            growing: [files.journal.clone(), files.memory.clone()]
                .into_iter()
                .chain(memory)
                .collect(),
            ours: vec![
                own.join("lock"),
                scratch_note(&own),
                notes_dir(&state_dir),
                sidecar_dir(&files.journal),
            ],
            project,
            state_dir,
        })
    }

    fn allow_list(&self) -> AllowList {
        let list = AllowList::metareview(&self.seen(&self.loop_dir), &self.seen(&self.state_dir));
        self.growing.iter().fold(list, |list, file| list.growing(&self.seen(file)))
    }

    fn watched(&self, allow: &AllowList, job: &Job) -> Watched {
        let spool = job.spool.iter().flat_map(|spool| [&spool.stdout, &spool.stderr]);
        let mut watched = Watched::new(&self.project, &self.seen(&self.state_dir), allow.clone());
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

fn quiet_git_variable() -> (OsString, OsString) {
    let (name, value) = quiet_git();
    (name.into(), value.into())
}

fn runs_in(state_dir: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(state_dir.join("runs")).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect()
}

fn told_of<'v>(
    kind: &str,
    violations: impl Iterator<Item = &'v Violation>,
) -> Vec<ReviewViolation> {
    let one = |violation: &Violation| ReviewViolation {
        kind: kind.to_owned(),
        path: violation.place().display().to_string(),
        what: violation.what.to_string(),
        outcome: violation.outcome().to_owned(),
        beneath: Some(violation.beneath as u64).filter(|count| *count > 0),
    };
    let all: Vec<&Violation> = violations.collect();
    let mut told: Vec<ReviewViolation> =
        all.iter().take(MOST_TOLD).map(|violation| one(violation)).collect();
    if let Some(rest) = all.get(MOST_TOLD..).filter(|rest| !rest.is_empty()) {
        told.push(ReviewViolation {
            kind: kind.to_owned(),
            path: ".".to_owned(),
            what: format!("{} more changes of this review", rest.len()),
            outcome: match rest.iter().find(|violation| !violation.restored) {
                Some(stays) => stays.outcome().to_owned(),
                None => "put back".to_owned(),
            },
            beneath: None,
        });
    }
    told
}

/// All allowed changes in one text; those that would make it too long are only named.
fn diff(restored: &Restored) -> Option<String> {
    let mut text = String::new();
    for change in &restored.allowed {
        let Some(diff) = &change.diff else { continue };
        if text.len() + diff.text.len() <= LONGEST_DIFF {
            text.push_str(&diff.text);
        } else {
            let path = change.path.display();
            text.push_str(&format!("--- a/{path}\n+++ b/{path}\n# too much to be shown\n"));
        }
    }
    (!text.is_empty()).then_some(text)
}

impl From<SandboxError> for DriveError {
    fn from(error: SandboxError) -> Self {
        DriveError::Sandbox(error)
    }
}
