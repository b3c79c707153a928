//! The chains that a run asks for, as far as they are on record.

use serde::{Deserialize, Serialize};

use crate::record::{ChainOutcome, ChainSpawned, Event};
use crate::text::{Shortened, head};
use crate::wire_enum::Word;

/// How many characters of what a chain left are kept for the run that asked for it.
const OUTPUT_KEPT: usize = 24_000;
/// The longest request, in characters, that is looked at.
pub const LONGEST_REQUEST: usize = 10_000;

/// Somebody asks for a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// What was said; of more than is looked at, only that it is more.
    pub payload: String,
    /// Who asked.
    pub asker: Asker,
}

/// Who asks for a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asker {
    /// The agent of an iteration.
    #[default]
    Agent,
    /// One that only says again what an agent said in another run.
    Replay,
    /// A metareview.
    Review,
}

impl SpawnRequest {
    /// The request that an event makes.
    pub fn new(payload: &str, asker: Asker) -> SpawnRequest {
        SpawnRequest { payload: head(payload, LONGEST_REQUEST + 1).to_owned(), asker }
    }
}

/// A chain that a run asked for and that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// The chain.
    pub chain: String,
    /// How it ended.
    pub outcome: Word<ChainOutcome>,
    /// What its steps left.
    pub output: Shortened,
}

/// The chains of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawns {
    /// What was asked for and is not decided yet, in order.
    pub requests: Vec<SpawnRequest>,
    /// The one that is under way.
    pub open: Option<ChainSpawned>,
    /// Those that ended since the last iteration did.
    pub returned: Vec<Returned>,
    /// How many were granted.
    pub count: u64,
    /// How many of the last ones failed, one after another.
    pub failures: u64,
}

impl Spawns {
    /// Takes in an event of the run's harness.
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

    /// The first request is decided.
    fn decided(&mut self) {
        if !self.requests.is_empty() {
            self.requests.remove(0);
        }
    }
}
