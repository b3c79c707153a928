//! A queue of items that several workers claim.
//!
//! The built-in queue is a fold of the journal ([`Tasks`]); every event is checked in the same way before it
//! is written and when it is read back. [`beads`] reads the answers of the issue tracker of that name.

pub mod beads;
mod refusal;
mod tasks;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::timestamp::Timestamp;
use crate::wire_enum::words;

pub use refusal::Refusal;
pub use tasks::{New, Task, Tasks};

/// The maximum size of a description or of acceptance criteria in bytes. Even if every character is escaped,
/// both fit into a line that readers of the journal hold completely.
pub const LONGEST_TEXT: usize = 256 * 1024;
/// In bytes.
pub const LONGEST_TITLE: usize = 1024;
/// The longest time for which a task may be claimed. A claim that ends later was made with a wrong clock or
/// forged, and blocks no other owner.
pub const LONGEST_CLAIM: Duration = Duration::from_secs(30 * 86_400);
/// The maximum length of the name of an owner or a task in bytes.
pub const LONGEST_NAME: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    pub id: String,
    pub title: String,
    pub description: String,
    pub acceptance: String,
    pub priority: Priority,
    pub status: Status,
    /// The items that have to be done first.
    pub dependencies: Vec<String>,
    pub owner: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub but: BTreeSet<String>,
    /// Only those that the queue contained at this mark; `None` for any.
    pub held_at: Option<String>,
}

/// 0 is the most urgent, 4 the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Priority(u8);

impl Priority {
    pub const LEAST: u64 = 4;

    pub fn new(number: u64) -> Option<Priority> {
        u8::try_from(number).ok().filter(|_| number <= Priority::LEAST).map(Priority)
    }

    pub fn number(self) -> u64 {
        self.0.into()
    }
}

impl Default for Priority {
    fn default() -> Self {
        Priority(2)
    }
}

words! {
    #[derive(Default)]
    Status {
        #[default]
        Ready = "ready",
        Blocked = "blocked",
        InWork = "claimed",
        Closed = "closed",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub item: String,
    pub owner: String,
    /// `None` if the queue has no leases.
    pub until: Option<Timestamp>,
    /// Increases with every claim of a queue, so that a late request of a former owner is recognized. 0 if
    /// the queue does not number its claims.
    pub fence: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub done: usize,
    pub in_work: usize,
    pub ready: usize,
    pub blocked: usize,
}

impl Progress {
    pub fn count(&mut self, status: Status) {
        match status {
            Status::Closed => self.done += 1,
            Status::InWork => self.in_work += 1,
            Status::Ready => self.ready += 1,
            Status::Blocked => self.blocked += 1,
        }
    }

    pub fn total(&self) -> usize {
        self.done + self.in_work + self.ready + self.blocked
    }

    /// Whether all items are closed, as opposed to none being ready.
    pub fn is_done(&self) -> bool {
        self.done == self.total()
    }
}
