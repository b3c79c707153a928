//! The queue that the issue tracker `bd` keeps, or another program that is used like it.
//!
//! The tracker decides who gets what. Every call has a deadline; its exit code is looked at first, and
//! its answer is read in whichever shape it comes. What a program does not understand is asked for in
//! the older way, once and from then on.

mod call;
mod error;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use autoloop_core::queue::beads::{Issue, remark};
use autoloop_core::queue::{Claim, Item, Progress, Refusal, Status, Wanted};
use autoloop_core::timestamp::Timestamp;

pub use error::BeadsError;

use super::{Claimed, Queue, QueueError};
use crate::world::World;

/// How often it is asked what is ready, when nothing of it can be claimed.
const ROUNDS: usize = 3;

/// How many issues of a list are tried to be claimed, one after another, before it is asked again.
const CANDIDATES: usize = 1_000;

/// How the tracker is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeadsSettings {
    /// The program.
    pub program: OsString,
    /// What always comes first behind it.
    pub args: Vec<OsString>,
    /// Where it is started.
    pub dir: PathBuf,
    /// How long it may take to answer.
    pub deadline: Duration,
}

impl BeadsSettings {
    /// `bd`, in this directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        BeadsSettings {
            program: "bd".into(),
            args: Vec::new(),
            dir: dir.into(),
            deadline: Duration::from_secs(60),
        }
    }
}

/// The tracker.
pub struct Beads {
    settings: BeadsSettings,
    world: World,
    /// Whether it is known that the program cannot find and claim the next issue in one step.
    takes_two_steps: AtomicBool,
}

impl Beads {
    /// The tracker that is called so.
    pub fn new(settings: BeadsSettings, world: &World) -> Self {
        Beads { settings, world: world.clone(), takes_two_steps: AtomicBool::new(false) }
    }

    /// Asks for the next item in one step; `Err(None)` when the program does not know how.
    fn claim_in_one(&self, actor: &str) -> Result<Option<Issue>, Option<BeadsError>> {
        let answer = match self.ask(&["ready", "--claim"], actor) {
            Err(BeadsError::Failed { complaint, .. }) if complaint.is_unknown_option() => {
                return Err(None);
            }
            answer => answer.map_err(Some)?,
        };
        match answer.as_slice() {
            [] => Ok(None),
            [issue] if is_of(&issue.item, actor) => Ok(Some(issue.clone())),
            // It may tell how the issue was before.
            [issue] if is_of(&self.look(&issue.item.id).map_err(Some)?, actor) => {
                Ok(Some(issue.clone()))
            }
            // It took no notice of `--claim`, and only lists what is ready.
            _ => Err(None),
        }
    }

    /// Claims what is ready and wanted, one after another, until it works. What somebody else was faster
    /// with is ready no more when it is asked again; what is ready again and again and cannot be claimed is
    /// told.
    fn claim_in_two(&self, actor: &str, wanted: &Wanted) -> Result<Option<Issue>, BeadsError> {
        let mark = moment(wanted.held_at.as_deref());
        let mut last = None;
        for _ in 0..ROUNDS {
            let mut ready = Vec::new();
            self.ready(actor, &mut |issue| {
                let is_new = mark.is_some_and(|mark| issue.is_newer_than(mark));
                let is_wanted = !is_new && !wanted.but.contains(&issue.item.id);
                if is_wanted && ready.len() < CANDIDATES {
                    ready.push(issue);
                }
            })?;
            if ready.is_empty() {
                return Ok(None);
            }
            for issue in ready {
                match self.ask(&["update", &issue.item.id, "--claim"], actor) {
                    Ok(_) => return Ok(Some(issue)),
                    // Somebody was faster, probably.
                    Err(error @ BeadsError::Failed { .. }) => last = Some(error),
                    Err(error) => return Err(error),
                }
            }
        }
        last.map_or(Ok(None), Err)
    }

    fn ready(&self, actor: &str, keep: &mut dyn FnMut(Issue)) -> Result<(), BeadsError> {
        self.ask_either([&["ready", "--limit", "0"], &["ready"]], actor, keep)
    }

    fn all(&self, keep: &mut dyn FnMut(Issue)) -> Result<(), BeadsError> {
        let everything = ["--readonly", "list", "--all", "--limit", "0"];
        self.ask_either([&everything, &["list", "-a"]], "", keep)
    }

    /// Whether an issue is not in the list of all. One that is empty proves nothing: the tracker may be
    /// ill.
    fn lacks(&self, id: &str) -> Result<bool, BeadsError> {
        let (mut is_empty, mut is_there) = (true, false);
        self.all(&mut |issue| {
            is_empty = false;
            is_there |= issue.item.id == id;
        })?;
        Ok(!is_empty && !is_there)
    }

    fn look(&self, id: &str) -> Result<Item, BeadsError> {
        let issues = match self.ask(&["show", id], "") {
            // What cannot be shown may be there all the same, unless a list of everything lacks it.
            Err(error @ BeadsError::Failed { .. }) => match self.lacks(id) {
                Ok(true) => Vec::new(),
                _ => return Err(error),
            },
            shown => shown?,
        };
        // A program may take a part of an id, and we may not.
        let found = issues.into_iter().find(|issue| issue.item.id == id);
        found.map(|issue| issue.item).ok_or_else(|| BeadsError::Unknown { id: id.to_owned() })
    }

    /// The item, if it is still the owner's. An agent may have closed it: whether it is done is for
    /// others to say, so until then it is the owner's as before.
    fn held(&self, claim: &Claim) -> Result<Item, QueueError> {
        let item = self.look(&claim.item)?;
        let is_taken = matches!(item.status, Status::InWork | Status::Closed);
        if is_taken && may_be_of(&item, &claim.owner) {
            return Ok(item);
        }
        if item.status == Status::Closed {
            return Err(Refusal::Closed { id: item.id }.into());
        }
        let (id, fence) = (item.id, claim.fence);
        Err(Refusal::Lost { id, fence, owner: item.owner }.into())
    }

    fn try_to_close(&self, claim: &Claim, reason: &str) -> Result<(), QueueError> {
        match self.held(claim) {
            // The agent did it itself, or somebody else who knows.
            Ok(Item { status: Status::Closed, .. })
            | Err(QueueError::Refused(Refusal::Closed { .. })) => return Ok(()),
            held => held?,
        };
        match self.ask(&["close", &claim.item, "--reason", &remark(reason)], &claim.owner) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.refused(&claim.item).into()),
        }
    }

    /// Opens an issue again for others to take, also where an agent closed it, and leaves a comment
    /// that says why.
    fn give_back(&self, id: &str, (actor, reason): (&str, &str)) -> Result<(), BeadsError> {
        self.ask(&["update", id, "--status", "open", "--assignee", ""], actor)?;
        let why = remark(reason);
        if !why.is_empty() {
            // A program may know no comments, and the reason is in the journal too.
            let _ = self.ask(&["comments", "add", id, &format!("given back: {why}")], actor);
        }
        Ok(())
    }
}

/// The moment that a mark of this queue stands for.
fn moment(mark: Option<&str>) -> Option<Timestamp> {
    mark?.parse().ok()
}

/// Whether somebody is at an issue, and as far as the tracker tells, it is this one.
fn is_of(item: &Item, actor: &str) -> bool {
    item.status == Status::InWork && may_be_of(item, actor)
}

/// Whether an issue is nobody else's, as far as the tracker tells.
fn may_be_of(item: &Item, actor: &str) -> bool {
    item.owner.as_deref().is_none_or(|owner| owner == actor)
}

/// What shows that an issue is somebody's. The tracker knows neither an end nor a number of a claim.
fn taken(mut item: Item, actor: &str) -> Claimed {
    let claim = Claim { item: item.id.clone(), owner: actor.to_owned(), until: None, fence: 0 };
    item.owner = Some(actor.to_owned());
    item.status = Status::InWork;
    Claimed { item, claim }
}

impl Queue for Beads {
    fn mark(&self) -> Result<String, QueueError> {
        Ok(self.world.clock.now().to_string())
    }

    fn added_since(&self, mark: &str) -> Result<Vec<String>, QueueError> {
        let Some(mark) = moment(Some(mark)) else { return Ok(Vec::new()) };
        let mut added = Vec::new();
        self.ready("", &mut |issue| {
            if issue.is_newer_than(mark) {
                added.push(issue.item.id);
            }
        })?;
        Ok(added)
    }

    fn claim_next_of(&self, actor: &str, wanted: &Wanted) -> Result<Option<Claimed>, QueueError> {
        // In one step the tracker chooses, and it does not know what is not wanted.
        let in_one = *wanted == Wanted::default() && !self.takes_two_steps.load(Ordering::Relaxed);
        let found = match in_one.then(|| self.claim_in_one(actor)) {
            Some(Ok(found)) => found,
            Some(Err(Some(error))) => return Err(error.into()),
            Some(Err(None)) => {
                self.takes_two_steps.store(true, Ordering::Relaxed);
                self.claim_in_two(actor, wanted)?
            }
            None => self.claim_in_two(actor, wanted)?,
        };
        let Some(issue) = found else { return Ok(None) };
        // Lists leave things out; where the whole cannot be had, the claim is what counts.
        let item = self.look(&issue.item.id).unwrap_or(issue.item);
        Ok(Some(taken(item, actor)))
    }

    fn claim(&self, id: &str, actor: &str) -> Result<Claimed, QueueError> {
        let item = self.look(id)?;
        // It is the actor's, whose process ended; its agent may have closed it before.
        let is_taken = matches!(item.status, Status::InWork | Status::Closed);
        if is_taken && item.owner.as_deref() == Some(actor) {
            return Ok(taken(item, actor));
        }
        match self.ask(&["update", id, "--claim"], actor) {
            Ok(_) => Ok(taken(item, actor)),
            // Where it is still to be had, it was not refused: something else is wrong.
            Err(error) => match self.look(id)?.status {
                Status::Ready => Err(error.into()),
                _ => Err(error.refused(id).into()),
            },
        }
    }

    fn renew(&self, claim: &Claim) -> Result<Claim, QueueError> {
        // It lasts until it is given back; all there is to know is whether it still holds.
        self.held(claim).map(|_| claim.clone())
    }

    fn release(&self, claim: &Claim, reason: &str) -> Result<(), QueueError> {
        self.held(claim)?;
        Ok(self.give_back(&claim.item, (&claim.owner, reason))?)
    }

    fn close(&self, claim: &Claim, reason: &str) -> Result<(), QueueError> {
        // A tracker that stumbles may have done it, or do it now.
        self.try_to_close(claim, reason).or_else(|_| self.try_to_close(claim, reason))
    }

    fn show(&self, id: &str) -> Result<Item, QueueError> {
        Ok(self.look(id)?)
    }

    fn progress(&self) -> Result<Progress, QueueError> {
        let (mut progress, mut open) = (Progress::default(), BTreeSet::new());
        self.all(&mut |Issue { item, .. }| match item.status {
            Status::Ready => {
                open.insert(item.id);
            }
            status => progress.count(status),
        })?;
        self.ready("", &mut |issue| {
            if open.remove(&issue.item.id) {
                progress.count(Status::Ready);
            }
        })?;
        // A list does not tell why something open is not ready.
        open.iter().for_each(|_| progress.count(Status::Blocked));
        Ok(progress)
    }

    fn release_all(
        &self,
        is_dead: &dyn Fn(&str) -> bool,
        reason: &str,
    ) -> Result<Vec<String>, QueueError> {
        let in_work = ["list", "--status", "in_progress"];
        let with_limit = [&in_work[..], &["--limit", "0"]].concat();
        let mut dead = Vec::new();
        self.ask_either([&with_limit, &in_work], "", &mut |Issue { item, .. }| {
            if let (Status::InWork, Some(owner)) = (item.status, item.owner)
                && is_dead(&owner)
            {
                dead.push((item.id, owner));
            }
        })?;
        let mut released = Vec::new();
        for (id, owner) in dead {
            self.give_back(&id, (&owner, reason))?;
            released.push(id);
        }
        Ok(released)
    }
}
