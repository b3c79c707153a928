//! The chains that a run asks for: what is on record about them, and what they need next.
//!
//! An agent asks under the topic `chain.spawn`. Between two iterations the harness grants it under the
//! same topic, or refuses it; a chain that was granted is carried out, and then the run goes on.

use super::refusal::Refusal;
use super::{Chain, Definitions, StepDefinition};
use crate::record::{ChainSpawned, ChainStart};
use crate::run::{Run, SpawnRequest};
use crate::text::clip;

/// How many characters of the objective of the run that asked the steps are told.
const OBJECTIVE_TOLD: usize = 2_000;

/// What is to be done about the chains of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum SpawnStep {
    /// Find out whether a chain can be, and put it on record.
    Consider(SpawnRequest),
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
