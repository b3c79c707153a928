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

/// How many characters the parts of a prompt may take.
///
/// Memory and scratchpad come with budgets of their own; see [`crate::memory::Block`] and
/// [`Scratchpad::compact`](crate::views::scratchpad::Scratchpad::compact).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// The objective.
    pub objective: usize,
    /// What the earlier steps of a chain left.
    pub handoff: usize,
    /// The instructions of `harness.md`, or those of `metareview.md`.
    pub instructions: usize,
    /// The whole prompt of one acting role.
    pub role: usize,
    /// One note of the harness, or the note about a refused event.
    pub note: usize,
    /// One name: an event, a role, a path.
    pub name: usize,
    /// Of what all branches of a wave printed together.
    pub branches: usize,
    /// Of what all chains left that ended before an iteration.
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

/// How full the context is, and how well the agents keep to the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// How many characters the whole memory would take.
    pub memory_chars: usize,
    /// How many it may take; 0 is no limit.
    pub memory_budget: usize,
    /// What is in it.
    pub entries: Counts,
    /// What of it was left out of this prompt.
    pub dropped: Counts,
    /// How many events were refused in this run.
    pub invalid_emits: u64,
    /// The last of them.
    pub last_rejected: Option<String>,
}

impl Pressure {
    /// The pressure of a memory and of the refused events of a run.
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

/// Who there is and who is to act.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cast {
    /// The event that routes.
    pub recent_event: String,
    /// Who is to act, and what may be said.
    pub route: Route,
    /// All roles, in the order of the topology.
    pub roles: Vec<RoleText>,
}

/// One role, with its prompt read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleText {
    /// Its name.
    pub id: String,
    /// The events that it may emit, as written.
    pub emits: Vec<String>,
    /// What it is told to do.
    pub prompt: String,
}

/// When the run is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The event that completes it.
    pub event: String,
    /// The text in the output that completes it; empty when none does.
    pub promise: String,
    /// The events that have to be seen before.
    pub required_events: Vec<String>,
}

/// What the agent can call, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// The program, as an agent types it: the path of the wrapper.
    pub bin: String,
    /// The directory of the loop's state.
    pub state_dir: String,
    /// Where the files of the loop are; empty when they are in the project itself.
    pub loop_dir: String,
}

#[cfg(test)]
mod fixture;
