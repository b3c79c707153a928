//! Queues of items, for workers that take one after another.
//!
//! [`Builtin`] keeps its tasks in the journal, [`Beads`] asks the issue tracker of that name. Whoever
//! works knows only [`Queue`]. An item is never given to two owners: the built-in queue writes a claim
//! only where nothing came between looking and writing, the tracker decides about its own.

mod beads;
mod builtin;
mod error;

use autoloop_core::queue::{Claim, Item, Progress, Wanted};

pub use beads::{Beads, BeadsError, BeadsSettings};
pub use builtin::Builtin;
pub use error::QueueError;

/// Where items come from. Every method may be called from several threads, and by several processes.
pub trait Queue: Send + Sync {
    /// Takes the next item there is for an actor; `None` when there is none to be had now. Every
    /// worker needs an actor name of its own.
    fn claim_next(&self, actor: &str) -> Result<Option<Claimed>, QueueError> {
        self.claim_next_of(actor, &Wanted::default())
    }

    /// Takes the next one that is wanted.
    fn claim_next_of(&self, actor: &str, wanted: &Wanted) -> Result<Option<Claimed>, QueueError>;

    /// A mark of what the queue holds now, by which items that are added later can be told.
    fn mark(&self) -> Result<String, QueueError>;

    /// The ids of items that were added after a mark was made, and can be taken.
    fn added_since(&self, mark: &str) -> Result<Vec<String>, QueueError>;

    /// Takes this one. An actor that has it already gets it again, under a new number: that is how a
    /// worker goes on after it was killed, and what tells the late word of its dead self apart.
    fn claim(&self, id: &str, actor: &str) -> Result<Claimed, QueueError>;

    /// Keeps an item for longer. A claim that was lost says so.
    fn renew(&self, claim: &Claim) -> Result<Claim, QueueError>;

    /// Gives an item back, for others to take.
    fn release(&self, claim: &Claim, reason: &str) -> Result<(), QueueError>;

    /// Says that an item is done.
    fn close(&self, claim: &Claim, reason: &str) -> Result<(), QueueError>;

    /// Looks at an item.
    fn show(&self, id: &str) -> Result<Item, QueueError>;

    /// How many items stand how: what tells "all done" from "all blocked or taken".
    fn progress(&self) -> Result<Progress, QueueError>;

    /// Gives back whatever these actors have, and says which items that were. For actors whose
    /// processes are known to be dead.
    fn release_all(
        &self,
        is_dead: &dyn Fn(&str) -> bool,
        reason: &str,
    ) -> Result<Vec<String>, QueueError>;
}

/// An item that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// What is to be done.
    pub item: Item,
    /// What shows that it is ours.
    pub claim: Claim,
}
