//! Connected chains: a chain, the chains that its steps requested, and so on.

use std::collections::BTreeMap;

use super::{Budget, Chain};

/// The chains that a run is connected with, as far as limits apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ancestry {
    /// The names of the chains that it is in, the outermost first.
    pub above: Vec<String>,
    pub steps: u64,
    pub spent_ms: u64,
}

impl Ancestry {
    /// Whether depth, steps and time allow another chain.
    pub fn has_room(&self, budget: Budget) -> bool {
        (self.above.len() as u64) < budget.max_depth
            && self.steps < budget.max_steps
            && self.spent_ms < budget.max_runtime_ms
    }

    /// `chains` are all chains of a journal, in the order in which they started.
    pub fn of(run: &str, chains: &[Chain]) -> Ancestry {
        let mut ancestry = Ancestry::default();
        // The outermost run, unless it is a step of the outermost chain.
        let (mut outermost_run, mut outermost_chain) = (Some(run), None);
        // Bounded, because forged records may make a chain its own ancestor.
        for _ in chains {
            let is_above =
                |chain: &&Chain| outermost_run.is_some_and(|it| chain.step_of(it).is_some());
            let Some(chain) = chains.iter().find(is_above) else { break };
            ancestry.above.insert(0, chain.name().to_owned());
            outermost_run = chain.parent();
            outermost_chain = Some(&chain.id).filter(|_| outermost_run.is_none());
        }
        // The connected runs, and whether their time is part of an ended step.
        let mut runs: BTreeMap<&str, bool> =
            outermost_run.map(|run| (run, false)).into_iter().collect();
        for chain in chains {
            let parent = chain.parent().and_then(|parent| runs.get(parent));
            let is_counted = match parent {
                Some(is_counted) => *is_counted,
                None if outermost_chain == Some(&chain.id) => false,
                None => continue,
            };
            ancestry.steps += chain.presets().len() as u64;
            if !is_counted {
                ancestry.spent_ms = ancestry.spent_ms.saturating_add(chain.spent_ms());
            }
            for step in &chain.steps {
                if let Some(run) = &step.run {
                    runs.insert(run, is_counted || step.stop_reason.is_some());
                }
            }
        }
        ancestry
    }
}
