//! Connected chains: a chain, the chains that its steps requested, and so on.

use std::collections::BTreeMap;

use super::{Budget, Chain};

/// The chains that a run is connected with, as far as limits apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ancestry {
    /// The names of the chains that it is in, the outermost first.
    pub above: Vec<String>,
    /// The steps of all connected chains, started or not.
    pub steps: u64,
    /// The time of their ended steps.
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
        let (above, root) = ancestors(run, chains);
        let mut ancestry = Ancestry { above, ..Ancestry::default() };
        // The connected runs, and whether their time is part of an ended step.
        let mut runs = BTreeMap::from([(root.run.as_str(), false)]);
        for chain in chains {
            let parent = chain.parent().and_then(|parent| runs.get(parent));
            let is_counted = match parent {
                Some(is_counted) => *is_counted,
                None if root.chain == Some(chain.id.as_str()) => false,
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

/// The outermost run or chain.
struct Root<'a> {
    run: String,
    chain: Option<&'a str>,
}

fn ancestors<'a>(run: &str, chains: &'a [Chain]) -> (Vec<String>, Root<'a>) {
    let mut above = Vec::new();
    let mut root = Root { run: run.to_owned(), chain: None };
    // Bounded, because forged records may make a chain its own ancestor.
    for _ in chains {
        let Some(chain) = chains.iter().find(|chain| chain.step_of(&root.run).is_some()) else {
            break;
        };
        above.insert(0, chain.start.as_ref().map_or_else(String::new, |start| start.name.clone()));
        match chain.parent() {
            Some(parent) => parent.clone_into(&mut root.run),
            None => {
                root = Root { run: String::new(), chain: Some(&chain.id) };
                break;
            }
        }
    }
    (above, root)
}
