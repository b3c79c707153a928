//! Whether a chain that an agent asks for can be: a value, from what is on record and from the limits.

use std::collections::HashSet;
use std::path::{Component, Path};

use super::ancestry::Family;
use super::config::{Definitions, Fault, StepDefinition};
use super::refusal::Refusal;
use crate::payload::Payload;
use crate::record::ChainSpawned;
use crate::run::{LONGEST_REQUEST, Run, SpawnRequest};
use crate::run_id::RunId;
use crate::text::length;

/// What else there is.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// The chains that have a name, and how far any may go.
    pub definitions: Definitions,
    /// The chains that the run belongs to, and those that belong to it.
    pub family: Family,
    /// The ids of all runs and chains.
    pub ids: HashSet<String>,
}

/// A chain that can be, unless one of its steps cannot begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// What is put on record.
    pub spawned: ChainSpawned,
    /// Its steps, with those of the chains that it names in their place.
    pub steps: Vec<StepDefinition>,
}

/// Finds out whether a chain that a run asks for can be. Who its parent is, nobody has to say.
///
/// # Errors
///
/// With the first reason why not.
pub fn consider(
    run: &Run,
    request: &SpawnRequest,
    around: &Circumstances,
) -> Result<Proposal, Refusal> {
    let budget = around.definitions.budget;
    if let Some(refusal) = Refusal::for_anything(run, request) {
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
    let steps = steps(asked, around)?;
    let spawned = ChainSpawned {
        chain_id: id(run, text("chain_id"), &around.ids)?,
        parent_id: run.id.clone(),
        steps: asked.to_owned(),
        justification: text("justification").to_owned(),
    };
    Ok(Proposal { spawned, steps })
}

/// The steps that were asked for, if there may be so many, so deep, and now.
fn steps(asked: &str, around: &Circumstances) -> Result<Vec<StepDefinition>, Refusal> {
    let Circumstances { definitions, family, .. } = around;
    if let Some(step) = asked.split(',').map(str::trim).find(|step| leads_out(step)) {
        return Err(Refusal::Outside(step.to_owned()));
    }
    let found = definitions.listed_below(asked, &family.above).map_err(|fault| {
        Refusal::Steplist(match fault {
            Fault::TooDeep { most, .. } => Fault::TooDeep { name: short(asked), most },
            Fault::TooLong { most, .. } => Fault::TooLong { name: short(asked), most },
            fault => fault,
        })
    })?;
    let budget = definitions.budget;
    let wanted = found.len() as u64;
    let total = family.steps + wanted;
    if total > budget.max_steps {
        return Err(Refusal::Steps { wanted, total, most: budget.max_steps });
    }
    if family.spent_ms >= budget.max_runtime_ms {
        return Err(Refusal::Runtime(budget.max_runtime_ms));
    }
    Ok(found)
}

fn short(asked: &str) -> String {
    crate::text::clip(asked, 60).into_owned()
}

/// Whether a step is a path to somewhere else. What a person wrote into `chains.toml` may lead there.
fn leads_out(step: &str) -> bool {
    let path = Path::new(step);
    path.is_absolute() || path.components().any(|part| part == Component::ParentDir)
}

/// The id that was asked for, or one named after the run.
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

#[cfg(test)]
mod tests;
