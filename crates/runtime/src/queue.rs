//! Queues of items, for workers that claim one after another.
//!
//! [`Builtin`] keeps its tasks in the journal, [`Beads`] asks the issue tracker of that name. Workers know only
//! [`Queue`]. An item is never given to two owners: the built-in queue writes a claim only if nothing was appended
//! since it was decided, the tracker decides about its own.

mod beads;
mod builtin;

use std::time::Duration;

use autoloop_core::duration;
use autoloop_core::queue::{Claim, Item, Progress, Refusal, Wanted};

use crate::failure::Failure;
use crate::journal::{AppendError, ReadError};

pub use beads::{Beads, BeadsError, BeadsSettings};
pub use builtin::Builtin;

/// A source of items. Every method may be called by several threads and processes.
pub trait Queue: Send + Sync {
    /// Claims the next item for an actor; `None` when none can be claimed now. Every worker needs an actor name of
    /// its own.
    fn claim_next(&self, actor: &str) -> Result<Option<Claimed>, QueueError> {
        self.claim_next_of(actor, &Wanted::default())
    }

    fn claim_next_of(&self, actor: &str, wanted: &Wanted) -> Result<Option<Claimed>, QueueError>;

    /// A mark of the current contents, by which items that are added later can be recognised.
    fn mark(&self) -> Result<String, QueueError>;

    /// The ids of items that were added after a mark was made, and can be claimed.
    fn added_since(&self, mark: &str) -> Result<Vec<String>, QueueError>;

    /// Claims this item. An actor that has it already gets it again, under a new number: so a worker resumes after it
    /// was killed, and requests of its dead process are refused.
    fn claim(&self, id: &str, actor: &str) -> Result<Claimed, QueueError>;

    fn renew(&self, claim: &Claim) -> Result<Claim, QueueError>;

    fn release(&self, claim: &Claim, reason: &str) -> Result<(), QueueError>;

    fn close(&self, claim: &Claim, reason: &str) -> Result<(), QueueError>;

    fn show(&self, id: &str) -> Result<Item, QueueError>;

    /// Counts items by status: distinguishes "all done" from "all blocked or claimed".
    fn progress(&self) -> Result<Progress, QueueError>;

    /// Releases all items of actors whose processes are known to be dead. Returns their ids.
    fn release_all(
        &self,
        is_dead: &dyn Fn(&str) -> bool,
        reason: &str,
    ) -> Result<Vec<String>, QueueError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub item: Item,
    pub claim: Claim,
}

#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Other writers were faster each time.
    #[error(
        "other processes appended to the journal during all {attempts} attempts to change the queue, in {}",
        duration::print(*.waited)
    )]
    Busy { attempts: u64, waited: Duration },
    #[error(transparent)]
    Beads(#[from] BeadsError),
}

impl QueueError {
    /// Whether the item cannot be had: closed, blocked, claimed, removed, or under an expired claim. The queue itself
    /// works.
    pub fn is_refusal(&self) -> bool {
        match self {
            QueueError::Refused(_) => true,
            QueueError::Beads(error) => {
                matches!(error, BeadsError::Refused { .. } | BeadsError::Unknown { .. })
            }
            _ => false,
        }
    }
}

impl From<QueueError> for Failure {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Refused(refusal) => of_refusal(&refusal),
            QueueError::Append(error) => error.into(),
            QueueError::Read(error) => error.into(),
            QueueError::Busy { .. } => Failure::failed(error.to_string()).hint("try again later"),
            QueueError::Beads(error) => error.into(),
        }
    }
}

fn of_refusal(refusal: &Refusal) -> Failure {
    let message = refusal.to_string();
    if let Refusal::Unknown { .. } = refusal {
        return Failure::failed(message).hint("list all tasks with `autoloop tasks list --all`");
    }
    let complaint = match refusal.is_mistake() {
        true => Failure::usage(message),
        false => Failure::refused(message),
    };
    match refusal {
        Refusal::Held { id, .. } => complaint
            .hint(format!("wait for it, or release it with `autoloop tasks release {id} --force`")),
        Refusal::Closed { id } => {
            complaint.hint(format!("reopen it with `autoloop tasks reopen {id}`"))
        }
        Refusal::Cycle { path, .. } => match path.as_slice() {
            [first, second, ..] => complaint
                .hint(format!("remove a dependency with `autoloop tasks dep rm {first} {second}`")),
            _ => complaint,
        },
        Refusal::Blocked { id, .. } | Refusal::After { id, .. } | Refusal::NotAfter { id, .. } => {
            complaint.hint(format!("list its dependencies with `autoloop tasks dep list {id}`"))
        }
        Refusal::NotClaimed { id } | Refusal::NotClosed { id } => {
            complaint.hint(format!("show it with `autoloop tasks show {id}`"))
        }
        Refusal::Itself { .. } => complaint.hint("name a task that it depends on"),
        Refusal::Endless { .. } => {
            complaint.hint("claim it for less, and claim it again to extend the time")
        }
        Refusal::BadOwner { .. } => complaint.hint("name an owner with --as"),
        Refusal::TooLong { .. } => {
            complaint.hint("write it to a file of the project, and name the file")
        }
        _ => complaint,
    }
}
