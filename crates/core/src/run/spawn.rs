//! The state of the chains that a run requests.

use serde::{Deserialize, Serialize};

use crate::record::{ChainOutcome, ChainSpawned, Event};
use crate::text::{Shortened, head};
use crate::wire_enum::Word;

/// How many characters of a chain's reports are kept for the run that requested it.
const OUTPUT_KEPT: usize = 24_000;
pub const LONGEST_REQUEST: usize = 10_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// A longer payload is cut one character after the maximum.
    pub payload: String,
    pub asker: Asker,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asker {
    #[default]
    Agent,
    Replay,
    Review,
}

impl SpawnRequest {
    pub fn new(payload: &str, asker: Asker) -> SpawnRequest {
        SpawnRequest { payload: head(payload, LONGEST_REQUEST + 1).to_owned(), asker }
    }
}

/// A requested chain that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    pub chain: String,
    pub outcome: Word<ChainOutcome>,
    /// The reports of its steps.
    pub output: Shortened,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawns {
    /// The undecided requests, in order.
    pub requests: Vec<SpawnRequest>,
    pub open: Option<ChainSpawned>,
    /// Those that ended after the last iteration.
    pub returned: Vec<Returned>,
    pub count: u64,
    /// How many of the last ones failed in succession.
    pub failures: u64,
}

impl Spawns {
    /// Applies an event of the run's harness.
    pub fn apply(&mut self, event: &Event<'_>) {
        match event {
            Event::ChainSpawned(spawned) => {
                self.decided();
                self.count += 1;
                self.open = Some(spawned.clone());
            }
            Event::ChainInvalid(_) => self.decided(),
            Event::ChainSpawnFinish(finish) => {
                let is_failure = finish.outcome != ChainOutcome::AllStepsComplete;
                self.failures = if is_failure { self.failures + 1 } else { 0 };
                self.open = None;
                self.returned.push(Returned {
                    chain: finish.chain_id.clone(),
                    outcome: finish.outcome.clone(),
                    output: Shortened::new(&finish.output.read(), OUTPUT_KEPT),
                });
            }
            _ => {}
        }
    }

    fn decided(&mut self) {
        if !self.requests.is_empty() {
            self.requests.remove(0);
        }
    }
}
