//! What becomes of a request: the record that is to be written, or why not.

use super::{Claim, Priority, Refusal, Tasks};
use crate::record::{
    Heading, QueueAdded, QueueClaimed, QueueClosed, QueueLinked, QueueReleased, QueueRenewed,
    QueueReopened, QueueUnlinked, Record,
};
use crate::timestamp::Timestamp;

/// A task that somebody wants to add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct New {
    /// What it is, in a line.
    pub title: String,
    /// What it is, at length.
    pub description: Option<String>,
    /// How to tell that it is done.
    pub acceptance: Option<String>,
    /// How urgent it is.
    pub priority: Priority,
    /// The tasks that have to be closed before it is taken.
    pub after: Vec<String>,
    /// Who adds it.
    pub by: Option<String>,
}

impl Tasks {
    /// Adds a task under the next free id, which is returned too.
    pub fn add(&self, new: New, now: Timestamp) -> Result<(Record, String), Refusal> {
        // Before they become a list: what has a comma in it is no id.
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

    /// Gives a task to somebody. The claim that comes of it is returned too.
    pub fn claim(
        &self,
        id: &str,
        owner: &str,
        (now, until): (Timestamp, Timestamp),
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

    /// Lets a claim last longer.
    pub fn renew(
        &self,
        claim: &Claim,
        (now, until): (Timestamp, Timestamp),
    ) -> Result<(Record, Claim), Refusal> {
        let renewed =
            QueueRenewed { task: claim.item.clone(), until: until.to_string(), fence: claim.fence };
        self.check_renewed(&renewed, now)?;
        Ok((renewed.record(&heading(now)), Claim { until: Some(until), ..claim.clone() }))
    }

    /// Gives back what was claimed, on behalf of somebody who need not be the owner.
    pub fn release(
        &self,
        claim: &Claim,
        (by, reason): (&str, &str),
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

    /// Closes what was claimed.
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

    /// Closes a task on behalf of somebody who need not have claimed it, unless another has.
    pub fn close_as(
        &self,
        id: &str,
        (owner, reason): (&str, &str),
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

    /// The claim that somebody may give back: the own one, or with [`Whose::Anybodys`] every one.
    pub fn claim_to_release(&self, id: &str, whose: Whose<'_>) -> Result<&Claim, Refusal> {
        let task = self.known(id)?;
        let nobodys = || match task.is_closed {
            true => Refusal::Closed { id: id.to_owned() },
            false => Refusal::NotClaimed { id: id.to_owned() },
        };
        let claim = task.claim.as_ref().ok_or_else(nobodys)?;
        match whose {
            Whose::Of(owner) if claim.owner != owner => Err(Refusal::held(claim)),
            Whose::Of(_) | Whose::Anybodys => Ok(claim),
        }
    }

    /// Opens a task that was closed.
    pub fn reopen(
        &self,
        id: &str,
        (owner, reason): (&str, &str),
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

    /// Lets a task wait for another.
    pub fn link(&self, id: &str, after: &str, now: Timestamp) -> Result<Record, Refusal> {
        let linked = QueueLinked { task: id.to_owned(), after: after.to_owned() };
        self.check_linked(&linked)?;
        Ok(linked.record(&heading(now)))
    }

    /// Lets it not wait any more.
    pub fn unlink(&self, id: &str, after: &str, now: Timestamp) -> Result<Record, Refusal> {
        let unlinked = QueueUnlinked { task: id.to_owned(), after: after.to_owned() };
        self.check_unlinked(&unlinked)?;
        Ok(unlinked.record(&heading(now)))
    }
}

/// The heading of a record of the queue. It belongs to no run: a queue outlives them.
fn heading(now: Timestamp) -> Heading {
    Heading { run: String::new(), iteration: String::new(), now }
}

/// Whose claim may be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    /// That of this owner.
    Of(&'a str),
    /// Everybody's.
    Anybodys,
}
