//! The tasks of the built-in queue, folded from the journal.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{Claim, Item, LONGEST_CLAIM, Priority, Progress, Refusal, Status, Wanted};
use crate::record::{
    Event, Glance, QueueAdded, QueueClaimed, QueueLinked, QueueRenewed, QueueReopened,
    QueueUnlinked,
};
use crate::timestamp::Timestamp;
use crate::view::View;

/// The family of its records.
const FAMILY: &str = "queue.task.";
/// How far the number of a claim may lie behind the last one that is known. Damage may have swallowed
/// some; a leap is no work of ours, and believed it would leave no numbers for those to come.
const LARGEST_GAP: u64 = 1_000;

/// Every task there is, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(Vec<Task>, u64)")]
pub struct Tasks {
    pub(super) all: Vec<Task>,
    #[serde(skip)]
    pub(super) places: HashMap<String, usize>,
    /// The number of the last claim.
    pub(super) fence: u64,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The claim under which its owner closed it, as long as it is closed.
    pub closed_under: Option<Claim>,
    /// What was last said when it was given back, closed or reopened.
    pub reason: String,
}

impl Task {
    /// The claim, if it has not expired.
    pub fn live_claim(&self, now: Timestamp) -> Option<&Claim> {
        let is_live = |until| now < until && !is_too_long(now, until);
        self.claim.as_ref().filter(|claim| claim.until.is_none_or(is_live))
    }
}

/// Whether a claim could not last from the one moment to the other.
fn is_too_long(from: Timestamp, until: Timestamp) -> bool {
    let millis = until.millis().saturating_sub(from.millis());
    i128::from(millis) > LONGEST_CLAIM.as_millis().cast_signed()
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
    pub fn status(&self, task: &Task, now: Timestamp) -> Status {
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
    pub fn ready(&self, now: Timestamp) -> Vec<&Task> {
        let mut ready: Vec<&Task> =
            self.iter().filter(|task| self.status(task, now) == Status::Ready).collect();
        ready.sort_by_key(|task| task.priority);
        ready
    }

    /// A mark of the queue as it is: the number of its tasks, as none is ever removed.
    pub fn mark(&self) -> String {
        self.all.len().to_string()
    }

    /// The number of tasks that a mark stands for. One that cannot be read excludes nothing.
    fn held_at(mark: Option<&str>) -> usize {
        mark.and_then(|mark| mark.parse().ok()).unwrap_or(usize::MAX)
    }

    /// The tasks that were added after a mark was made and can be taken.
    pub fn added_since(&self, mark: &str, now: Timestamp) -> impl Iterator<Item = &Task> {
        let added = self.iter().skip(Tasks::held_at(Some(mark)));
        added.filter(move |task| self.status(task, now) == Status::Ready)
    }

    /// The wanted task that is to be taken next.
    pub fn next(&self, now: Timestamp, wanted: &Wanted) -> Option<&Task> {
        let held = self.iter().take(Tasks::held_at(wanted.held_at.as_deref()));
        let wanted = held.filter(|task| !wanted.but.contains(&task.id));
        let ready = wanted.filter(|task| self.status(task, now) == Status::Ready);
        // Of several, the first one.
        ready.min_by_key(|task| task.priority)
    }

    /// How many tasks stand how.
    pub fn progress(&self, now: Timestamp) -> Progress {
        let mut progress = Progress::default();
        self.iter().for_each(|task| progress.count(self.status(task, now)));
        progress
    }

    /// A task as whoever does it is told.
    pub fn item(&self, task: &Task, now: Timestamp) -> Item {
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

    /// Whether a task was closed under this claim. Its owner may not have done that itself: its agent
    /// knows the name too.
    pub fn is_closed_under(&self, claim: &Claim) -> bool {
        let closed = self.get(&claim.item).and_then(|task| task.closed_under.as_ref());
        closed.is_some_and(|closed| closed.fence == claim.fence)
    }

    /// The task of this name.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn known(&self, id: &str) -> Result<&Task, Refusal> {
        self.get(id).ok_or_else(|| Refusal::Unknown { id: id.to_owned() })
    }

    fn known_mut(&mut self, id: &str) -> Result<&mut Task, Refusal> {
        let place = self.places.get(id).ok_or_else(|| Refusal::Unknown { id: id.to_owned() })?;
        Ok(&mut self.all[*place])
    }

    pub(super) fn check_added(&self, added: &QueueAdded) -> Result<(), Refusal> {
        if self.get(&added.task).is_some() {
            return Err(Refusal::Taken { id: added.task.clone() });
        }
        Refusal::of_texts(added)?;
        listed(added.after.as_deref()).try_for_each(|after| self.known(after).map(|_| ()))
    }

    pub(super) fn check_claimed(
        &self,
        claimed: &QueueClaimed,
        now: Timestamp,
    ) -> Result<(), Refusal> {
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
        match (ends_in_time(&task.id, &claimed.until, now)?, is_next) {
            (Some(_), true) => Ok(()),
            _ => Err(self.lost(task, Some(claimed.fence))),
        }
    }

    /// Whether the task is open and this is the number of the claim on it; `None` for no claim.
    pub(super) fn holds(&self, id: &str, fence: Option<u64>) -> Result<(), Refusal> {
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

    pub(super) fn check_renewed(
        &self,
        renewed: &QueueRenewed,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        self.holds(&renewed.task, Some(renewed.fence))?;
        ends_in_time(&renewed.task, &renewed.until, now).map(drop)
    }

    pub(super) fn check_reopened(&self, reopened: &QueueReopened) -> Result<(), Refusal> {
        match self.known(&reopened.task)?.is_closed {
            true => Ok(()),
            false => Err(Refusal::NotClosed { id: reopened.task.clone() }),
        }
    }

    pub(super) fn check_unlinked(&self, unlinked: &QueueUnlinked) -> Result<(), Refusal> {
        let QueueUnlinked { task: id, after } = unlinked;
        match self.known(id)?.after.contains(after) {
            true => Ok(()),
            false => Err(Refusal::NotAfter { id: id.clone(), after: after.clone() }),
        }
    }

    pub(super) fn check_linked(&self, linked: &QueueLinked) -> Result<(), Refusal> {
        let (id, after) = (linked.task.as_str(), linked.after.as_str());
        let task = self.known(id)?;
        self.known(after)?;
        if task.after.iter().any(|known| known == after) {
            return Err(Refusal::After { id: id.to_owned(), after: after.to_owned() });
        }
        match self.way(after, id) {
            None => Ok(()),
            Some(_) if id == after => Err(Refusal::Itself { id: id.to_owned() }),
            Some(way) => Err(Refusal::Cycle { id: id.to_owned(), way }),
        }
    }

    /// How one task waits for another: it, the one that it waits for, and so on up to the other.
    fn way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        // By which task each was come across.
        let mut before: BTreeMap<&str, &str> = BTreeMap::from([(from, from)]);
        let mut open = vec![from];
        while let Some(next) = open.pop().filter(|next| *next != to) {
            for after in self.get(next).into_iter().flat_map(|task| &task.after) {
                if !before.contains_key(after.as_str()) {
                    before.insert(after, next);
                    open.push(after);
                }
            }
        }
        let mut way = vec![*before.get_key_value(to)?.0];
        while let Some(at) = way.last().filter(|at| **at != from) {
            way.push(before[at]);
        }
        Some(way.into_iter().rev().map(str::to_owned).collect())
    }

    /// Takes in an event. Events are checked before they are written and again when they are read, so one
    /// that breaks the rules does not count, whatever wrote it.
    fn take(&mut self, event: Event<'_>, now: Timestamp) -> Result<(), Refusal> {
        match event {
            Event::QueueAdded(added) => {
                self.check_added(&added)?;
                self.places.insert(added.task.clone(), self.all.len());
                self.all.push(Task::from(added));
            }
            Event::QueueClaimed(claimed) => {
                self.check_claimed(&claimed, now)?;
                self.fence = claimed.fence;
                let task = self.known_mut(&claimed.task)?;
                task.claim = Some(Claim {
                    until: claimed.until.parse().ok(),
                    item: claimed.task,
                    owner: claimed.owner,
                    fence: claimed.fence,
                });
            }
            Event::QueueRenewed(renewed) => {
                self.check_renewed(&renewed, now)?;
                let until = renewed.until.parse().ok();
                // An end that cannot be read leaves the one before.
                if let (Some(claim), Some(_)) = (&mut self.known_mut(&renewed.task)?.claim, until) {
                    claim.until = until;
                }
            }
            Event::QueueReleased(released) => {
                self.holds(&released.task, Some(released.fence))?;
                let task = self.known_mut(&released.task)?;
                task.claim = None;
                // A release without a reason leaves the last reason.
                if !released.reason.is_empty() {
                    task.reason = released.reason;
                }
            }
            Event::QueueClosed(closed) => {
                self.holds(&closed.task, closed.fence)?;
                let task = self.known_mut(&closed.task)?;
                // A claim that is over does not keep others from closing the task, and then it is not
                // its owner's to open again.
                let is_own = |claim: &Claim| closed.by.as_ref().is_none_or(|by| *by == claim.owner);
                task.closed_under = task.claim.take().filter(is_own);
                task.is_closed = true;
                task.reason = closed.reason;
            }
            Event::QueueReopened(reopened) => {
                self.check_reopened(&reopened)?;
                let task = self.known_mut(&reopened.task)?;
                task.closed_under = None;
                task.is_closed = false;
                task.reason = reopened.reason;
            }
            Event::QueueLinked(linked) => {
                self.check_linked(&linked)?;
                self.known_mut(&linked.task)?.after.push(linked.after);
            }
            Event::QueueUnlinked(unlinked) => {
                self.check_unlinked(&unlinked)?;
                let task = self.known_mut(&unlinked.task)?;
                task.after.retain(|after| *after != unlinked.after);
            }
            _ => {}
        }
        Ok(())
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
            priority: added.priority.and_then(Priority::new).unwrap_or_default(),
            after,
            by: added.by,
            ..Task::default()
        }
    }
}

/// When a claim ends, unless that is later than any does; `None` where nobody can tell.
fn ends_in_time(id: &str, until: &str, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
    let until = until.parse().ok();
    match until.is_some_and(|until| is_too_long(now, until)) {
        true => Err(Refusal::Endless { id: id.to_owned() }),
        false => Ok(until),
    }
}

/// Ids that stand in a list.
fn listed(ids: Option<&str>) -> impl Iterator<Item = &str> {
    ids.unwrap_or_default().split(',').filter(|id| !id.is_empty())
}

impl From<(Vec<Task>, u64)> for Tasks {
    fn from((all, fence): (Vec<Task>, u64)) -> Self {
        let places = all.iter().enumerate().map(|(place, task)| (task.id.clone(), place)).collect();
        Tasks { all, places, fence }
    }
}

impl View for Tasks {
    const NAME: &'static str = "queue";
    const VERSION: u32 = 3;

    fn apply(&mut self, record: &Glance<'_>) {
        // A queue outlives runs: a record of one says nothing about it.
        if !record.topic().starts_with(FAMILY) || !record.run().is_empty() {
            return;
        }
        if let Some(now) = record.ts().and_then(|ts| ts.parse().ok()) {
            // What is refused here does not count.
            let _ = self.take(record.event(), now);
        }
    }
}
