//! The chains that a run asks for: what is on record about them, and what they need next.
//!
//! An agent asks under the topic `chain.spawn`. Between two iterations the harness grants it under the
//! same topic, or refuses it; a chain that was granted is carried out, and then the run goes on.

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;
use super::{Chain, Definitions, Outcome, StepDefinition};
use crate::record::{ChainSpawned, ChainStart, Event};
use crate::run::Run;
use crate::text::{Shortened, clip, head};
use crate::wire_enum::Word;

/// How many characters of what a chain left are kept for the run that asked for it.
const OUTPUT_KEPT: usize = 24_000;
/// How many characters of the objective of the run that asked the steps are told.
const OBJECTIVE_TOLD: usize = 2_000;
/// The longest request, in characters, that is looked at.
pub const LONGEST_REQUEST: usize = 10_000;

/// Somebody asks for a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
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

impl Request {
    /// The request that an event makes.
    pub fn new(payload: &str, asker: Asker) -> Request {
        Request { payload: head(payload, LONGEST_REQUEST + 1).to_owned(), asker }
    }
}

/// A chain that a run asked for and that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// The chain.
    pub chain: String,
    /// How it ended.
    pub outcome: Word<Outcome>,
    /// What its steps left.
    pub output: Shortened,
}

/// The chains of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawns {
    /// What was asked for and is not decided yet, in order.
    pub requests: Vec<Request>,
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
                let is_failure = finish.outcome != Outcome::AllStepsComplete;
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

/// What is to be done about the chains of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum SpawnStep {
    /// Find out whether a chain can be, and put it on record.
    Consider(Request),
    /// Put on record that it cannot.
    Refuse(Refusal),
    /// Carry it out, from wherever it is.
    CarryOut(ChainSpawned),
}

/// Decides what the chains of a run that goes on need. One is carried out at a time.
pub fn next(run: &Run) -> Option<SpawnStep> {
    match (&run.spawns.open, run.spawns.requests.first()) {
        (Some(chain), _) => Some(SpawnStep::CarryOut(chain.clone())),
        (None, Some(request)) => Some(SpawnStep::Consider(request.clone())),
        (None, None) => None,
    }
}

/// What a run that is about to end has to say to what was asked for in its last iteration.
pub fn at_the_end(run: &Run) -> Option<SpawnStep> {
    let request = run.spawns.requests.first()?;
    let refusal = Refusal::for_anything(run, request).unwrap_or(Refusal::RunEnds);
    Some(SpawnStep::Refuse(refusal))
}

/// The steps of a chain that was granted. One that began keeps those that it began with; what
/// `chains.toml` says about their agents counts as it is now.
pub fn steps(
    spawned: &ChainSpawned,
    known: Option<&Chain>,
    definitions: &Definitions,
) -> Vec<StepDefinition> {
    let listed = definitions.listed(&spawned.steps);
    let begun_with: Vec<&str> = match known {
        Some(chain) => chain.presets(),
        None => spawned.steps.split(',').map(str::trim).collect(),
    };
    let is_same = |steps: &Vec<StepDefinition>| {
        known.is_none() || steps.iter().map(|step| step.preset.as_str()).eq(begun_with.clone())
    };
    listed.ok().filter(is_same).unwrap_or_else(|| {
        let step =
            |name: &&str| StepDefinition { preset: (*name).to_owned(), ..Default::default() };
        begun_with.iter().map(step).collect()
    })
}

/// How a chain that was granted begins. Its steps are for what it was asked for.
pub fn start(spawned: &ChainSpawned, steps: &[StepDefinition], objective: &str) -> ChainStart {
    let names: Vec<&str> = steps.iter().map(|step| step.preset.as_str()).collect();
    let objective = match spawned.justification.as_str() {
        "" => objective.to_owned(),
        why => format!(
            "{why}\n\nA run asked for this while it was at work on: {}",
            clip(objective.trim_end(), OBJECTIVE_TOLD)
        ),
    };
    ChainStart {
        name: spawned.steps.clone(),
        steps: names.join(","),
        step_count: names.len() as u64,
        objective: Some(objective),
        parent_id: Some(spawned.parent_id.clone()),
    }
}
