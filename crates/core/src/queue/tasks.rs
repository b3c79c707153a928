//! The tasks of the built-in queue, folded from the journal.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{Claim, Item, LONGEST_CLAIM, Priority, Progress, Refusal, Status, Wanted};
use crate::record::{
    Event, Glance, Heading, QueueAdded, QueueClaimed, QueueClosed, QueueLinked, QueueReleased,
    QueueRenewed, QueueReopened, QueueUnlinked, Record,
};
use crate::timestamp::Timestamp;
use crate::view::View;

const FAMILY: &str = "queue.task.";
/// How far the number of a claim may exceed the last known one. Damage may have removed some claims; a larger
/// jump is forged and would use up the numbers.
const LARGEST_GAP: u64 = 1_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "KeptTasks")]
pub struct Tasks {
    pub(super) all: Vec<Task>,
    #[serde(skip)]
    pub(super) places: HashMap<String, usize>,
    /// The number of the last claim.
    pub(super) fence: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub id: String,
    pub title: String,
    pub description: String,
    pub acceptance: String,
    pub priority: Priority,
    /// The tasks that have to be closed first.
    pub after: Vec<String>,
    pub by: Option<String>,
    /// The last claim until it is released, closed or replaced. It may have expired.
    pub claim: Option<Claim>,
    pub is_closed: bool,
    /// The claim under which its owner closed it, while it is closed.
    pub closed_under: Option<Claim>,
    /// The last reason given for a release, a close or a reopening.
    pub reason: String,
}

impl Task {
    /// The claim, unless it has expired.
    pub fn live_claim(&self, now: Timestamp) -> Option<&Claim> {
        let is_live = |until| now < until && !is_too_long(now, until);
        self.claim.as_ref().filter(|claim| claim.until.is_none_or(is_live))
    }
}

fn is_too_long(from: Timestamp, until: Timestamp) -> bool {
    let millis = until.millis().saturating_sub(from.millis());
    i128::from(millis) > LONGEST_CLAIM.as_millis().cast_signed()
}

impl Tasks {
    pub fn iter(&self) -> impl Iterator<Item = &Task> {
        self.all.iter()
    }

    pub fn get(&self, id: &str) -> Option<&Task> {
        self.places.get(id).map(|place| &self.all[*place])
    }

    pub fn open_dependencies<'a>(&'a self, task: &'a Task) -> impl Iterator<Item = &'a str> {
        let is_open = |id: &&String| self.get(id).is_some_and(|task| !task.is_closed);
        task.after.iter().filter(is_open).map(String::as_str)
    }

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

    /// The tasks that can be claimed, the most urgent first, then in the order in which they were added.
    pub fn ready(&self, now: Timestamp) -> Vec<&Task> {
        let mut ready: Vec<&Task> =
            self.iter().filter(|task| self.status(task, now) == Status::Ready).collect();
        ready.sort_by_key(|task| task.priority);
        ready
    }

    /// A mark of the current state of the queue: the number of its tasks, since none is ever removed.
    pub fn mark(&self) -> String {
        self.all.len().to_string()
    }

    /// The number of tasks at a mark; an invalid mark excludes no task.
    fn held_at(mark: Option<&str>) -> usize {
        mark.and_then(|mark| mark.parse().ok()).unwrap_or(usize::MAX)
    }

    /// The ready tasks that were added after a mark.
    pub fn added_since(&self, mark: &str, now: Timestamp) -> impl Iterator<Item = &Task> {
        let added = self.iter().skip(Tasks::held_at(Some(mark)));
        added.filter(move |task| self.status(task, now) == Status::Ready)
    }

    pub fn next(&self, now: Timestamp, wanted: &Wanted) -> Option<&Task> {
        let held = self.iter().take(Tasks::held_at(wanted.held_at.as_deref()));
        let wanted = held.filter(|task| !wanted.but.contains(&task.id));
        let ready = wanted.filter(|task| self.status(task, now) == Status::Ready);
        ready.min_by_key(|task| task.priority)
    }

    pub fn progress(&self, now: Timestamp) -> Progress {
        let mut progress = Progress::default();
        self.iter().for_each(|task| progress.count(self.status(task, now)));
        progress
    }

    /// A task as it is shown to a worker.
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

    /// Whether a task was closed under this claim, by its owner or by the owner's agent, which knows the name
    /// too.
    pub fn is_closed_under(&self, claim: &Claim) -> bool {
        let closed = self.get(&claim.item).and_then(|task| task.closed_under.as_ref());
        closed.is_some_and(|closed| closed.fence == claim.fence)
    }

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
        // An owner may claim its own task again, even if the task got a dependency meanwhile: so a worker
        // resumes that was killed.
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

    /// Checks that the task is open and that this is the number of its claim; `None` for no claim.
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
        match self.path(after, id) {
            None => Ok(()),
            Some(_) if id == after => Err(Refusal::Itself { id: id.to_owned() }),
            Some(path) => Err(Refusal::Cycle { id: id.to_owned(), path }),
        }
    }

    fn path(&self, from: &str, to: &str) -> Option<Vec<String>> {
        // From which task each was reached.
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
        let mut path = vec![*before.get_key_value(to)?.0];
        while let Some(at) = path.last().filter(|at| **at != from) {
            path.push(before[at]);
        }
        Some(path.into_iter().rev().map(str::to_owned).collect())
    }

    /// Applies an event. Events are checked before they are written and again when they are read, so an
    /// invalid one has no effect, whatever its writer.
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
                // An invalid end keeps the previous one.
                if let (Some(claim), Some(_)) = (&mut self.known_mut(&renewed.task)?.claim, until) {
                    claim.until = until;
                }
            }
            Event::QueueReleased(released) => {
                self.holds(&released.task, Some(released.fence))?;
                let task = self.known_mut(&released.task)?;
                task.claim = None;
                // A release without a reason keeps the last one.
                if !released.reason.is_empty() {
                    task.reason = released.reason;
                }
            }
            Event::QueueClosed(closed) => {
                self.holds(&closed.task, closed.fence)?;
                let task = self.known_mut(&closed.task)?;
                // Others may close a task whose claim has expired; then its owner may not reopen it.
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct New {
    pub title: String,
    pub description: Option<String>,
    pub acceptance: Option<String>,
    pub priority: Priority,
    /// The tasks that have to be closed first.
    pub after: Vec<String>,
    pub by: Option<String>,
}

/// Decisions: each returns the record to append, or why the request is refused.
impl Tasks {
    /// Adds a task under the next free id, which is returned.
    pub fn add(&self, new: New, now: Timestamp) -> Result<(Record, String), Refusal> {
        // Checked before they become a list: an id contains no comma.
        new.after.iter().try_for_each(|id| self.known(id).map(|_| ()))?;
        let mut number = self.all.len() + 1;
        while self.get(&format!("t-{number}")).is_some() {
            number += 1;
        }
        let added = QueueAdded {
            task: format!("t-{number}"),
            title: new.title,
            description: new.description.filter(|text| !text.is_empty()),
            acceptance: new.acceptance.filter(|text| !text.is_empty()),
            priority: Some(new.priority.number()),
            after: (!new.after.is_empty()).then(|| new.after.join(",")),
            by: new.by,
        };
        self.check_added(&added)?;
        Ok((added.record(&heading(now)), added.task))
    }

    pub fn claim(
        &self,
        id: &str,
        owner: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<(Record, Claim), Refusal> {
        let fence = self.fence.saturating_add(1);
        let claimed = QueueClaimed {
            task: id.to_owned(),
            owner: owner.to_owned(),
            until: until.to_string(),
            fence,
        };
        self.check_claimed(&claimed, now)?;
        let claim =
            Claim { item: id.to_owned(), owner: owner.to_owned(), until: Some(until), fence };
        Ok((claimed.record(&heading(now)), claim))
    }

    pub fn renew(
        &self,
        claim: &Claim,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<(Record, Claim), Refusal> {
        let renewed =
            QueueRenewed { task: claim.item.clone(), until: until.to_string(), fence: claim.fence };
        self.check_renewed(&renewed, now)?;
        Ok((renewed.record(&heading(now)), Claim { until: Some(until), ..claim.clone() }))
    }

    /// Releases a claim in the name of `by`, who need not be its owner.
    pub fn release(
        &self,
        claim: &Claim,
        by: &str,
        reason: &str,
        now: Timestamp,
    ) -> Result<Record, Refusal> {
        let released = QueueReleased {
            task: claim.item.clone(),
            reason: reason.to_owned(),
            by: Some(by.to_owned()),
            fence: claim.fence,
        };
        self.holds(&released.task, Some(released.fence))?;
        Ok(released.record(&heading(now)))
    }

    pub fn close(&self, claim: &Claim, reason: &str, now: Timestamp) -> Result<Record, Refusal> {
        let closed = QueueClosed {
            task: claim.item.clone(),
            reason: reason.to_owned(),
            by: Some(claim.owner.clone()),
            fence: Some(claim.fence),
        };
        self.holds(&closed.task, closed.fence)?;
        Ok(closed.record(&heading(now)))
    }

    /// Closes a task for an owner who need not have claimed it, unless another one has.
    pub fn close_as(
        &self,
        id: &str,
        owner: &str,
        reason: &str,
        now: Timestamp,
    ) -> Result<Record, Refusal> {
        let task = self.known(id)?;
        if let Some(claim) = task.live_claim(now)
            && claim.owner != owner
        {
            return Err(Refusal::held(claim));
        }
        let closed = QueueClosed {
            task: id.to_owned(),
            reason: reason.to_owned(),
            by: Some(owner.to_owned()),
            fence: task.claim.as_ref().map(|claim| claim.fence),
        };
        self.holds(&closed.task, closed.fence)?;
        Ok(closed.record(&heading(now)))
    }

    /// The claim on a task, if it is that of `owner`; of any owner without one.
    pub fn claim_to_release(&self, id: &str, owner: Option<&str>) -> Result<&Claim, Refusal> {
        let task = self.known(id)?;
        match &task.claim {
            Some(claim) if owner.is_some_and(|owner| claim.owner != owner) => {
                Err(Refusal::held(claim))
            }
            Some(claim) => Ok(claim),
            None if task.is_closed => Err(Refusal::Closed { id: id.to_owned() }),
            None => Err(Refusal::NotClaimed { id: id.to_owned() }),
        }
    }

    pub fn reopen(
        &self,
        id: &str,
        owner: &str,
        reason: &str,
        now: Timestamp,
    ) -> Result<Record, Refusal> {
        let reopened = QueueReopened {
            task: id.to_owned(),
            reason: reason.to_owned(),
            by: Some(owner.to_owned()),
        };
        self.check_reopened(&reopened)?;
        Ok(reopened.record(&heading(now)))
    }

    pub fn link(&self, id: &str, after: &str, now: Timestamp) -> Result<Record, Refusal> {
        let linked = QueueLinked { task: id.to_owned(), after: after.to_owned() };
        self.check_linked(&linked)?;
        Ok(linked.record(&heading(now)))
    }

    pub fn unlink(&self, id: &str, after: &str, now: Timestamp) -> Result<Record, Refusal> {
        let unlinked = QueueUnlinked { task: id.to_owned(), after: after.to_owned() };
        self.check_unlinked(&unlinked)?;
        Ok(unlinked.record(&heading(now)))
    }
}

fn heading(now: Timestamp) -> Heading {
    Heading { run: String::new(), iteration: String::new(), now }
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

/// The end of a claim; `None` if it cannot be parsed.
fn ends_in_time(id: &str, until: &str, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
    let until = until.parse().ok();
    match until.is_some_and(|until| is_too_long(now, until)) {
        true => Err(Refusal::Endless { id: id.to_owned() }),
        false => Ok(until),
    }
}

fn listed(ids: Option<&str>) -> impl Iterator<Item = &str> {
    ids.unwrap_or_default().split(',').filter(|id| !id.is_empty())
}

/// What is kept of a queue.
#[derive(Deserialize)]
struct KeptTasks(Vec<Task>, u64);

impl From<KeptTasks> for Tasks {
    fn from(KeptTasks(all, fence): KeptTasks) -> Self {
        let places = all.iter().enumerate().map(|(place, task)| (task.id.clone(), place)).collect();
        Tasks { all, places, fence }
    }
}

impl View for Tasks {
    const NAME: &'static str = "queue";
    const VERSION: u32 = 3;

    fn apply(&mut self, record: &Glance<'_>) {
        // A queue outlives runs: records of a run do not count.
        if !record.topic().starts_with(FAMILY) || !record.run().is_empty() {
            return;
        }
        if let Some(now) = record.ts().and_then(|ts| ts.parse().ok()) {
            // A refused event has no effect.
            let _ = self.take(record.event(), now);
        }
    }
}
