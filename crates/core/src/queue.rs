//! A queue of items that several workers take from: what an item is, whoever keeps it.
//!
//! The built-in queue is a fold of the journal ([`Tasks`]); every event is checked in the same way before it
//! is written and when it is read back. [`beads`] reads the answers of the issue tracker of that name.

pub mod beads;
mod decide;
mod refusal;
mod tasks;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::timestamp::Timestamp;

pub use decide::{New, Whose};
pub use refusal::Refusal;
pub use tasks::{Task, Tasks};

/// The most bytes that a description or the acceptance criteria of a task may have. Escaped at worst,
/// both still fit into a line that readers of the journal take whole.
pub const LONGEST_TEXT: usize = 256 * 1024;
/// The most bytes that a title may have.
pub const LONGEST_TITLE: usize = 1024;
/// The longest time for which a task may be claimed at once. A claim that ends later than that was made by a
/// clock that ran ahead, or by somebody who may not make one, and keeps nobody away.
pub const LONGEST_CLAIM: Duration = Duration::from_secs(30 * 86_400);
/// The most bytes that the name of an owner or of a task may have.
pub const LONGEST_NAME: usize = 200;

/// Something to be done, as whoever does it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Its name in the queue.
    pub id: String,
    /// What it is, in a line.
    pub title: String,
    /// What it is, at length.
    pub description: String,
    /// How to tell that it is done.
    pub acceptance: String,
    /// How urgent it is.
    pub priority: Priority,
    /// How it stands.
    pub status: Status,
    /// The items that have to be done before it.
    pub dependencies: Vec<String>,
    /// Who is at it.
    pub owner: Option<String>,
}

/// Which items a worker may take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Not these.
    pub but: BTreeSet<String>,
    /// Only those that the queue held at this mark of it; `None` for any.
    pub held_at: Option<String>,
}

/// How urgent something is: 0 is the most urgent, 4 the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Priority(u8);

impl Priority {
    /// The least urgent.
    pub const LEAST: u64 = 4;

    /// A priority by its number, if there is one.
    pub fn new(number: u64) -> Option<Priority> {
        u8::try_from(number).ok().filter(|_| number <= Priority::LEAST).map(Priority)
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.0.into()
    }
}

impl Default for Priority {
    fn default() -> Self {
        Priority(2)
    }
}

/// How an item stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// It can be taken.
    #[default]
    Ready,
    /// It waits for something.
    Blocked,
    /// Somebody is at it.
    InWork,
    /// It is done.
    Closed,
}

impl Status {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Ready => "ready",
            Status::Blocked => "blocked",
            Status::InWork => "claimed",
            Status::Closed => "closed",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// That somebody has an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The item.
    pub item: String,
    /// Who has it.
    pub owner: String,
    /// Until when, unless it is renewed; `None` where the queue knows no such thing.
    pub until: Option<Timestamp>,
    /// Every claim of a queue has a larger number than those before it, so a late word of an owner
    /// whose item was given to another is recognised. 0 where the queue counts no claims.
    pub fence: u64,
}

/// How many items stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Closed.
    pub done: usize,
    /// Somebody is at them.
    pub in_work: usize,
    /// To be taken.
    pub ready: usize,
    /// Waiting for something.
    pub blocked: usize,
}

impl Progress {
    /// Counts one more item.
    pub fn count(&mut self, status: Status) {
        match status {
            Status::Closed => self.done += 1,
            Status::InWork => self.in_work += 1,
            Status::Ready => self.ready += 1,
            Status::Blocked => self.blocked += 1,
        }
    }

    /// How many items there are.
    pub fn total(&self) -> usize {
        self.done + self.in_work + self.ready + self.blocked
    }

    /// Whether nothing is left to be done, as opposed to nothing that could be taken now.
    pub fn is_done(&self) -> bool {
        self.done == self.total()
    }
}
