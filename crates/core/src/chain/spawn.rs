//! The chains that a run requests: whether they are granted, and what they need next.
//!
//! An agent requests a chain under the topic `chain.spawn`. Between two iterations the harness grants it under
//! the same topic, or refuses it; a granted chain runs to its end, then the run continues.

use std::collections::HashSet;
use std::path::{Component, Path};

use super::config::Fault;
use super::{Ancestry, Chain, Definitions, StepDefinition};
use crate::payload::Payload;
use crate::record::{ChainInvalid, ChainSpawned, ChainStart};
use crate::run::{Asker, LONGEST_REQUEST, Run, SpawnRequest};
use crate::run_id::RunId;
use crate::text::{clip, length, one_line};

/// How many characters of the run's objective its chain repeats.
const OBJECTIVE_SHOWN: usize = 2_000;
/// How many characters of a request are repeated.
const SHOWN: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum SpawnStep {
    Decide(SpawnRequest),
    Refuse(Refusal),
    CarryOut(ChainSpawned),
}

/// Decides what the chains of a run need next. One runs at a time.
pub fn next(run: &Run) -> Option<SpawnStep> {
    match (&run.spawns.open, run.spawns.requests.first()) {
        (Some(chain), _) => Some(SpawnStep::CarryOut(chain.clone())),
        (None, Some(request)) => Some(SpawnStep::Decide(request.clone())),
        (None, None) => None,
    }
}

pub fn at_the_end(run: &Run) -> Option<SpawnStep> {
    let request = run.spawns.requests.first()?;
    let refusal = Refusal::for_any_request(run, request).unwrap_or(Refusal::RunEnds);
    Some(SpawnStep::Refuse(refusal))
}

/// The steps of a granted chain. A started chain keeps its steps; their agents are those of the
/// current `chains.toml`.
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

/// The start of a granted chain. The objective of its steps is the justification of the request.
pub fn start(spawned: &ChainSpawned, steps: &[StepDefinition], objective: &str) -> ChainStart {
    let names: Vec<&str> = steps.iter().map(|step| step.preset.as_str()).collect();
    let objective = match spawned.justification.as_str() {
        "" => objective.to_owned(),
        why => format!(
            "{why}\n\nRequested by a run with this objective: {}",
            clip(objective.trim_end(), OBJECTIVE_SHOWN)
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

/// What a decision about a requested chain depends on.
#[derive(Clone, Debug, Default)]
pub struct SpawnContext {
    pub definitions: Definitions,
    pub ancestry: Ancestry,
    /// The ids of all runs and chains.
    pub ids: HashSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub spawned: ChainSpawned,
    pub steps: Vec<StepDefinition>,
}

/// Decides about a chain that a run requests. Returns the first reason to refuse it. The harness
/// sets the parent, whatever the request says.
pub fn admit(
    run: &Run,
    request: &SpawnRequest,
    context: &SpawnContext,
) -> Result<Proposal, Refusal> {
    let budget = context.definitions.budget;
    if let Some(refusal) = Refusal::for_any_request(run, request) {
        return Err(refusal);
    }
    if budget.max_children == 0 {
        return Err(Refusal::Off);
    }
    if length(&request.payload) > LONGEST_REQUEST {
        return Err(Refusal::TooLong);
    }
    if run.spawns.count >= budget.max_children {
        return Err(Refusal::Children(budget.max_children));
    }
    if run.spawns.failures >= budget.max_consecutive_failures {
        return Err(Refusal::Failures(budget.max_consecutive_failures));
    }
    let payload = Payload::parse(&request.payload);
    let text = |key: &str| payload.get(key).unwrap_or_default().trim();
    let asked = match text("steps") {
        "" => return Err(Refusal::NoSteps),
        steps => steps,
    };
    let steps = requested_steps(asked, context)?;
    let spawned = ChainSpawned {
        chain_id: id(run, text("chain_id"), &context.ids)?,
        parent_id: run.id.clone(),
        steps: asked.to_owned(),
        justification: text("justification").to_owned(),
    };
    Ok(Proposal { spawned, steps })
}

/// The requested steps, if depth, number and time are within the budget.
fn requested_steps(asked: &str, context: &SpawnContext) -> Result<Vec<StepDefinition>, Refusal> {
    let SpawnContext { definitions, ancestry, .. } = context;
    if let Some(step) = asked.split(',').map(str::trim).find(|step| leads_out(step)) {
        return Err(Refusal::Outside(step.to_owned()));
    }
    let found = definitions.listed_below(asked, &ancestry.above).map_err(|fault| {
        Refusal::Steplist(match fault {
            Fault::TooDeep { most, .. } => Fault::TooDeep { name: short(asked), most },
            Fault::TooLong { most, .. } => Fault::TooLong { name: short(asked), most },
            fault => fault,
        })
    })?;
    let budget = definitions.budget;
    let wanted = found.len() as u64;
    let total = ancestry.steps + wanted;
    if total > budget.max_steps {
        return Err(Refusal::Steps { wanted, total, most: budget.max_steps });
    }
    if ancestry.spent_ms >= budget.max_runtime_ms {
        return Err(Refusal::Runtime(budget.max_runtime_ms));
    }
    Ok(found)
}

fn short(asked: &str) -> String {
    clip(asked, 60).into_owned()
}

/// Whether a step is a path out of the project. Only `chains.toml`, which a user wrote, may name
/// one.
fn leads_out(step: &str) -> bool {
    let path = Path::new(step);
    path.is_absolute() || path.components().any(|part| part == Component::ParentDir)
}

fn id(run: &Run, asked: &str, taken: &HashSet<String>) -> Result<String, Refusal> {
    if asked.is_empty() {
        let name = |number: u64| format!("{}-chain-{number}", run.id);
        let free = (run.spawns.count + 1..).map(name).find(|id| !taken.contains(id));
        // The id of the run may leave no room.
        let free = free.filter(|id| id.parse::<RunId>().is_ok());
        return free.ok_or_else(|| Refusal::BadId(run.id.clone()));
    }
    match (asked.parse::<RunId>().is_ok(), taken.contains(asked)) {
        (false, _) => Err(Refusal::BadId(asked.to_owned())),
        (true, true) => Err(Refusal::UsedId(asked.to_owned())),
        (true, false) => Ok(asked.to_owned()),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("a metareview cannot start chains")]
    InReview,
    #[error("a replay cannot start chains: it starts no agents")]
    Replayed,
    #[error("a branch of a wave cannot start chains; report in your answer what should follow")]
    InBranch,
    #[error("the run ended with the turn that requested it")]
    RunEnds,
    #[error("this loop cannot start chains")]
    Off,
    #[error("the request exceeds {LONGEST_REQUEST} characters; move the rest to a file")]
    TooLong,
    #[error(
        "the request has no steps: emit chain.spawn \"steps=first,second; justification=why;\""
    )]
    NoSteps,
    #[error("step '{}' is outside of the project; name a preset, a chain or a directory of the project", shown(.0))]
    Outside(String),
    #[error("invalid chain id '{}': expected lower-case letters, digits, '.', '_' and '-', or no id", shown(.0))]
    BadId(String),
    #[error("duplicate id '{0}': a chain or a run has it; choose another, or none")]
    UsedId(String),
    #[error("this run has started as many chains as it may: budget.max_children = {0}")]
    Children(u64),
    #[error("the last {0} chains of this run failed: budget.max_consecutive_failures = {0}")]
    Failures(u64),
    #[error("{wanted} more steps make {total} in all related chains: budget.max_steps = {most}")]
    Steps { wanted: u64, total: u64, most: u64 },
    /// Counted over all connected chains.
    #[error("all related chains took longer than budget.max_runtime_ms = {0}")]
    Runtime(u64),
    #[error("{0}")]
    Steplist(Fault),
    #[error("{}", shown(.0))]
    Unfit(String),
    #[error("chains.toml cannot be used: {}", shown(.0))]
    BadFile(String),
}

fn shown(text: &str) -> String {
    clip(&one_line(text), SHOWN).into_owned()
}

impl Refusal {
    /// Why a request is refused whatever it asks for.
    pub(super) fn for_any_request(run: &Run, request: &SpawnRequest) -> Option<Refusal> {
        let is_branch = run.start.as_ref().is_some_and(|start| start.parent.is_some());
        match request.asker {
            Asker::Review => Some(Refusal::InReview),
            Asker::Replay => Some(Refusal::Replayed),
            Asker::Agent => is_branch.then_some(Refusal::InBranch),
        }
    }

    pub fn reason(&self) -> &'static str {
        match self {
            Refusal::InReview => "in_review",
            Refusal::Replayed => "replayed",
            Refusal::InBranch => "in_branch",
            Refusal::RunEnds => "run_ends",
            Refusal::Off => "off",
            Refusal::TooLong => "too_long",
            Refusal::NoSteps => "no_steps",
            Refusal::Outside(_) => "outside",
            Refusal::BadId(_) => "bad_id",
            Refusal::UsedId(_) => "used_id",
            Refusal::Children(_) => "max_children",
            Refusal::Failures(_) => "max_consecutive_failures",
            Refusal::Steps { .. } | Refusal::Steplist(Fault::TooLong { .. }) => "max_steps",
            Refusal::Runtime(_) => "max_runtime_ms",
            Refusal::Steplist(Fault::TooDeep { .. }) => "max_depth",
            Refusal::Steplist(Fault::Circle { .. }) => "circle",
            Refusal::Steplist(_) => "bad_step",
            Refusal::Unfit(_) => "unfit_step",
            Refusal::BadFile(_) => "bad_file",
        }
    }

    fn limit(&self) -> Option<u64> {
        match self {
            Refusal::Children(most)
            | Refusal::Failures(most)
            | Refusal::Runtime(most)
            | Refusal::Steps { most, .. }
            | Refusal::Steplist(Fault::TooLong { most, .. } | Fault::TooDeep { most, .. }) => {
                Some(*most)
            }
            _ => None,
        }
    }

    pub fn record(&self) -> ChainInvalid {
        ChainInvalid {
            trigger_topic: ChainSpawned::TOPIC.to_owned(),
            reason: self.reason().to_owned(),
            limit: self.limit(),
            detail: clip(&one_line(&self.to_string()), 2 * SHOWN).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
