//! What agents are told: sections, each with a budget, rendered from plain data.
//!
//! Two sorts of text meet in a prompt. What the user wrote (the objective, instructions, prompts of
//! roles) is instruction and stands as it is. What agents printed or emitted is data: it stands in one
//! line of ours or between fences, so that it cannot pass for a section.
//!
//! A text that is longer than the budget of its section is cut between characters, and the cut is
//! told of. [`Budgets`] says how much each may take.

pub mod chain;
pub mod iteration;
pub mod review;
mod section;
pub mod slot;
pub mod wave;

use crate::memory::Counts;
use crate::topology::Route;

/// The maximum number of characters of each part of a prompt. Memory and scratchpad have their own budgets;
/// see [`crate::memory::Block`] and [`Scratchpad::compact`](crate::views::scratchpad::Scratchpad::compact).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    pub objective: usize,
    /// The output of the earlier steps of a chain.
    pub handoff: usize,
    /// `harness.md` or `metareview.md`.
    pub instructions: usize,
    /// The prompt of an acting role.
    pub role: usize,
    /// One note of the harness, or the note about a refused event.
    pub note: usize,
    /// An event, a role, a path.
    pub name: usize,
    /// The output of all branches of a wave.
    pub branches: usize,
    /// The output of all chains that ended before an iteration.
    pub chains: usize,
}

impl Default for Budgets {
    fn default() -> Self {
        Budgets {
            objective: 100_000,
            handoff: 50_000,
            instructions: 50_000,
            role: 50_000,
            note: 2_000,
            name: 400,
            branches: 24_000,
            chains: 24_000,
        }
    }
}

/// How full the memory is and how many events were refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// The characters of the whole memory.
    pub memory_chars: usize,
    /// The limit for that; 0 is no limit.
    pub memory_budget: usize,
    pub entries: Counts,
    /// Entries left out of this prompt.
    pub dropped: Counts,
    /// In this run.
    pub invalid_emits: u64,
    pub last_rejected: Option<String>,
}

impl Pressure {
    pub fn new(
        memory: &crate::memory::Block,
        invalid_emits: u64,
        last_rejected: Option<String>,
    ) -> Self {
        Pressure {
            memory_chars: memory.chars,
            memory_budget: memory.budget,
            entries: memory.entries,
            dropped: memory.dropped,
            invalid_emits,
            last_rejected,
        }
    }
}

/// The roles and the next route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cast {
    /// The event that routes.
    pub recent_event: String,
    pub route: Route,
    /// In the order of the topology.
    pub roles: Vec<RoleText>,
}

/// A role with the text of its prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleText {
    pub id: String,
    /// As written.
    pub emits: Vec<String>,
    pub prompt: String,
}

/// How the run completes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    pub event: String,
    /// The text in the output that completes it; may be empty.
    pub promise: String,
    pub required_events: Vec<String>,
}

/// The paths that an agent needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// The program as an agent types it: the path of the wrapper.
    pub bin: String,
    pub state_dir: String,
    /// The directory of the loop's files; empty if it is the project.
    pub loop_dir: String,
}

#[cfg(test)]
mod fixture;
