//! The prompts of agents: sections with budgets, rendered from plain data.
//!
//! Text of the user (the objective, instructions, prompts of roles) is instruction and is inserted as it is.
//! Output and events of agents are data: they are put on one line or between fences, so that they cannot look
//! like a section. A text over the budget of its section is cut between characters, with a note.

pub mod chain;
pub mod exchange;
pub mod iteration;
pub mod review;
mod section;
pub mod slot;
pub mod squad;
pub mod wave;

use crate::memory::Block;
use crate::topology::Route;

/// The maximum number of characters of each part of a prompt. Memory and scratchpad have their own budgets;
/// see [`crate::memory::Block`] and [`Scratchpad::compact`](crate::views::scratchpad::Scratchpad::compact).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    pub objective: usize,
    pub handoff: usize,
    /// `harness.md` or `metareview.md`.
    pub instructions: usize,
    pub role: usize,
    pub note: usize,
    pub name: usize,
    pub branches: usize,
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

/// What the prompts of an iteration and of a metareview have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoopContext {
    pub run: String,
    /// The next iteration, counted from 1.
    pub iteration: u64,
    /// Messages of the harness, such as a loop file that does not parse.
    pub notices: Vec<String>,
    pub invalid_emits: u64,
    pub last_rejected: Option<String>,
    /// The note about a refused event; set only if no event was accepted since.
    pub backpressure: Option<String>,
    pub memory: Block,
    pub routing: Routing,
    pub scratchpad: String,
    pub tools: Tools,
    pub budgets: Budgets,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    pub recent_event: String,
    pub route: Route,
    /// In the order of the topology.
    pub roles: Vec<RoleText>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleText {
    pub id: String,
    /// As written.
    pub emits: Vec<String>,
    pub prompt: String,
}

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
