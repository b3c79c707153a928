//! The tasks of the built-in queue, folded from the journal.

use std::collections::{BTreeSet, HashMap};

use super::{Change, Claim, Item, Priority, Progress, Refusal, Status};
use crate::record::{Glance, QueueAdded, QueueClaimed};
use crate::stamp::Stamp;
use crate::view::View;
use crate::view::bytes::Taker;

/// How far the number of a claim may lie behind the last one that is known. Damage may have swallowed
/// some; a leap is no work of ours, and believed it would leave no numbers for those to come.
const LARGEST_GAP: u64 = 1_000;

/// Every task there is, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    pub(super) all: Vec<Task>,
    pub(super) places: HashMap<String, usize>,
    /// The number of the last claim.
    pub(super) fence: u64,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub id: String,
    /// What it is, in a line.
    pub title: String,
    /// What it is, at length.
    pub description: String,
    /// How to tell that it is done.
    pub acceptance: String,
    /// How urgent it is.
    pub priority: Priority,
    /// The tasks that have to be closed before it is taken.
    pub after: Vec<String>,
    /// Who added it, where that was said.
    pub by: Option<String>,
    /// The last claim on it, until it was given back, closed or taken by somebody else. It may have
    /// expired.
    pub claim: Option<Claim>,
    /// Whether it is done.
    pub is_closed: bool,
    /// What was last said when it was given back, closed or reopened.
    pub reason: String,
}

impl Task {
    /// The claim, if it has not expired.
    pub fn live_claim(&self, now: Stamp) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| claim.until.is_none_or(|until| now < until))
    }
}

impl Tasks {
    /// All tasks, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Task> {
        self.all.iter()
    }

    /// A task by its id.
    pub fn get(&self, id: &str) -> Option<&Task> {
        self.places.get(id).map(|place| &self.all[*place])
    }

    /// The tasks that have to be closed before this one is taken, and are not.
    pub fn open_dependencies<'a>(&'a self, task: &'a Task) -> impl Iterator<Item = &'a str> {
        let is_open = |id: &&String| self.get(id).is_some_and(|task| !task.is_closed);
        task.after.iter().filter(is_open).map(String::as_str)
    }

    /// How a task stands.
    pub fn status(&self, task: &Task, now: Stamp) -> Status {
        if task.is_closed {
            Status::Closed
        } else if task.live_claim(now).is_some() {
            Status::InWork
        } else if self.open_dependencies(task).next().is_some() {
            Status::Blocked
        } else {
            Status::Ready
        }
    }

    /// The tasks that can be taken: the most urgent first, then in the order in which they were added.
    pub fn ready(&self, now: Stamp) -> Vec<&Task> {
        let mut ready: Vec<&Task> =
            self.iter().filter(|task| self.status(task, now) == Status::Ready).collect();
        ready.sort_by_key(|task| task.priority);
        ready
    }

    /// The task that is to be taken next.
    pub fn next(&self, now: Stamp) -> Option<&Task> {
        let ready = self.iter().filter(|task| self.status(task, now) == Status::Ready);
        // Of several, the first one.
        ready.min_by_key(|task| task.priority)
    }

    /// How many tasks stand how.
    pub fn progress(&self, now: Stamp) -> Progress {
        let mut progress = Progress::default();
        self.iter().for_each(|task| progress.count(self.status(task, now)));
        progress
    }

    /// A task as whoever does it is told.
    pub fn item(&self, task: &Task, now: Stamp) -> Item {
        Item {
            id: task.id.clone(),
            title: task.title.clone(),
            description: task.description.clone(),
            acceptance: task.acceptance.clone(),
            priority: task.priority,
            status: self.status(task, now),
            dependencies: task.after.clone(),
            owner: task.live_claim(now).map(|claim| claim.owner.clone()),
        }
    }

    /// Whether a step is possible now. Steps are checked before they are written and again when they
    /// are read, so one that breaks the rules does not count, whoever wrote it.
    ///
    /// # Errors
    ///
    /// When it is not.
    pub fn check(&self, change: &Change, now: Stamp) -> Result<(), Refusal> {
        match change {
            Change::Added(added) => self.check_added(added),
            Change::Claimed(claimed) => self.check_claimed(claimed, now),
            Change::Renewed(renewed) => self.holds(&renewed.task, Some(renewed.fence)),
            Change::Released(released) => self.holds(&released.task, Some(released.fence)),
            Change::Closed(closed) => self.holds(&closed.task, closed.fence),
            Change::Reopened(reopened) => match self.known(&reopened.task)?.is_closed {
                true => Ok(()),
                false => Err(Refusal::NotClosed { id: reopened.task.clone() }),
            },
            Change::Linked(linked) => self.check_linked(&linked.task, &linked.after),
            Change::Unlinked(unlinked) => {
                match self.known(&unlinked.task)?.after.contains(&unlinked.after) {
                    true => Ok(()),
                    false => Err(Refusal::NotAfter {
                        id: unlinked.task.clone(),
                        after: unlinked.after.clone(),
                    }),
                }
            }
        }
    }

    /// The task of this name.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn known(&self, id: &str) -> Result<&Task, Refusal> {
        self.get(id).ok_or_else(|| Refusal::Unknown { id: id.to_owned() })
    }

    fn check_added(&self, added: &QueueAdded) -> Result<(), Refusal> {
        if self.get(&added.task).is_some() {
            return Err(Refusal::Taken { id: added.task.clone() });
        }
        Refusal::of_texts(added)?;
        listed(added.after.as_deref()).try_for_each(|after| self.known(after).map(|_| ()))
    }

    fn check_claimed(&self, claimed: &QueueClaimed, now: Stamp) -> Result<(), Refusal> {
        let task = self.known(&claimed.task)?;
        Refusal::of_owner(&claimed.owner)?;
        if task.is_closed {
            return Err(Refusal::Closed { id: task.id.clone() });
        }
        // The same owner may take its own again: that is how a worker that was killed goes on, also
        // when the task was made to wait for another meanwhile.
        if let Some(claim) = task.live_claim(now)
            && claim.owner != claimed.owner
        {
            return Err(Refusal::held(claim));
        }
        let has_it = task.claim.as_ref().is_some_and(|claim| claim.owner == claimed.owner);
        let waits_for: Vec<_> = self.open_dependencies(task).map(str::to_owned).collect();
        if !has_it && !waits_for.is_empty() {
            return Err(Refusal::Blocked { id: task.id.clone(), waits_for });
        }
        let is_next = claimed.fence > self.fence && claimed.fence - self.fence <= LARGEST_GAP;
        match is_next && claimed.until.parse::<Stamp>().is_ok() {
            true => Ok(()),
            false => Err(self.lost(task, Some(claimed.fence))),
        }
    }

    /// Whether the task is open and this is the number of the claim on it; `None` for no claim.
    fn holds(&self, id: &str, fence: Option<u64>) -> Result<(), Refusal> {
        let task = self.known(id)?;
        if task.is_closed {
            return Err(Refusal::Closed { id: id.to_owned() });
        }
        match task.claim.as_ref().map(|claim| claim.fence) == fence {
            true => Ok(()),
            false => Err(self.lost(task, fence)),
        }
    }

    fn lost(&self, task: &Task, fence: Option<u64>) -> Refusal {
        let owner = task.claim.as_ref().map(|claim| claim.owner.clone());
        Refusal::Lost { id: task.id.clone(), fence: fence.unwrap_or_default(), owner }
    }

    fn check_linked(&self, id: &str, after: &str) -> Result<(), Refusal> {
        let task = self.known(id)?;
        self.known(after)?;
        if task.after.iter().any(|known| known == after) {
            return Err(Refusal::After { id: id.to_owned(), after: after.to_owned() });
        }
        // Would `after` have to wait for this one?
        let mut seen = BTreeSet::from([after]);
        let mut open = vec![after];
        while let Some(next) = open.pop() {
            if next == id {
                return Err(Refusal::Cycle { id: id.to_owned(), after: after.to_owned() });
            }
            let waits_for = self.get(next).into_iter().flat_map(|task| &task.after);
            open.extend(waits_for.map(String::as_str).filter(|id| seen.insert(id)));
        }
        Ok(())
    }

    /// Takes in a step that was checked.
    fn take(&mut self, change: Change) {
        if let Change::Added(added) = change {
            self.places.insert(added.task.clone(), self.all.len());
            self.all.push(Task::from(added));
            return;
        }
        let Some(task) = self.places.get(change.task()).map(|place| &mut self.all[*place]) else {
            return;
        };
        match change {
            Change::Added(_) => {}
            Change::Claimed(claimed) => {
                self.fence = claimed.fence;
                task.claim = Some(Claim {
                    item: claimed.task,
                    owner: claimed.owner,
                    until: claimed.until.parse().ok(),
                    fence: claimed.fence,
                });
            }
            Change::Renewed(renewed) => {
                let until = renewed.until.parse().ok();
                // An end that cannot be read leaves the one before.
                if let (Some(claim), Some(_)) = (&mut task.claim, until) {
                    claim.until = until;
                }
            }
            Change::Released(released) => {
                task.claim = None;
                // Whoever says nothing leaves what was said before.
                if !released.reason.is_empty() {
                    task.reason = released.reason;
                }
            }
            Change::Closed(closed) => {
                task.claim = None;
                task.is_closed = true;
                task.reason = closed.reason;
            }
            Change::Reopened(reopened) => {
                task.is_closed = false;
                task.reason = reopened.reason;
            }
            Change::Linked(linked) => task.after.push(linked.after),
            Change::Unlinked(unlinked) => task.after.retain(|after| *after != unlinked.after),
        }
    }
}

impl From<QueueAdded> for Task {
    fn from(added: QueueAdded) -> Self {
        let mut after: Vec<String> = Vec::new();
        for id in listed(added.after.as_deref()) {
            if !after.iter().any(|known| known == id) {
                after.push(id.to_owned());
            }
        }
        Task {
            id: added.task,
            title: added.title,
            description: added.description.unwrap_or_default(),
            acceptance: added.acceptance.unwrap_or_default(),
            priority: Priority::new(added.priority).unwrap_or_default(),
            after,
            by: added.by,
            ..Task::default()
        }
    }
}

/// Ids that stand in a list.
fn listed(ids: Option<&str>) -> impl Iterator<Item = &str> {
    ids.unwrap_or_default().split(',').filter(|id| !id.is_empty())
}

impl View for Tasks {
    const NAME: &'static str = "queue";
    const VERSION: u32 = 2;

    fn apply(&mut self, record: &Glance<'_>) {
        if let Some((change, now)) = Change::read(record)
            && self.check(&change, now).is_ok()
        {
            self.take(change);
        }
    }

    fn save(&self, out: &mut Vec<u8>) {
        super::save::save(self, out);
    }

    fn load(bytes: &[u8]) -> Option<Self> {
        let mut taker = Taker::new(bytes);
        let tasks = super::save::load(&mut taker)?;
        taker.is_done().then_some(tasks)
    }
}
