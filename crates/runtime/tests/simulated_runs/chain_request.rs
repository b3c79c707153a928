//! Requests for chains: what agents request, and the expected outcome.

use autoloop_core::chain::{Budget, Definitions};
use autoloop_testkit::Dice;

use crate::rules::one_of;

/// The topic that requests a chain and that grants it.
pub(crate) const SPAWN: &str = "chain.spawn";
/// A step that cannot start.
pub(crate) const GHOST: &str = "ghost";

/// The limits of chains that agents request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    depth: u64,
    steps: u64,
    children: u64,
    failures: u64,
}

/// The place of the run that requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kin {
    /// How many chains it is in.
    pub(crate) depth: u64,
    /// How many steps the related chains have.
    pub(crate) steps: u64,
    /// How many chains it was granted, and how many of the last ones failed.
    pub(crate) children: u64,
    pub(crate) failures: u64,
}

impl Limits {
    pub(crate) fn any(dice: &mut Dice) -> Limits {
        Limits {
            depth: 1 + dice.below(2),
            steps: 2 + dice.below(4),
            children: 1 + dice.below(3),
            failures: 1 + dice.below(2),
        }
    }

    /// The same, as they are read from a file of chains.
    pub(crate) fn definitions(self) -> Definitions {
        let budget = Budget {
            max_depth: self.depth,
            max_steps: self.steps,
            max_runtime_ms: u64::MAX,
            max_children: self.children,
            max_consecutive_failures: self.failures,
        };
        Definitions { budget, ..Definitions::default() }
    }

    /// Whether another chain is possible.
    pub(crate) fn leave_room(self, kin: Kin) -> bool {
        kin.children < self.children
            && kin.failures < self.failures
            && kin.depth < self.depth
            && kin.steps < self.steps
    }
}

/// A request for a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChainRequest {
    pub(crate) payload: String,
    pub(crate) in_review: bool,
}

/// A valid chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) id: String,
    pub(crate) steps: String,
    pub(crate) why: String,
}

/// A request of a run's agent: often a valid one.
pub(crate) fn any_chain_request(dice: &mut Dice, run: &str) -> String {
    match dice.below(20) {
        0 => "delegate it".to_owned(),
        1 => "steps= ; justification=nothing;".to_owned(),
        2 => "steps=plan,../build;".to_owned(),
        3 => format!("steps=plan,{GHOST};"),
        4 => "steps=plan; chain_id=A/../b;".to_owned(),
        5 => format!("steps=plan; chain_id={run};"),
        6 | 7 => format!("steps=build; chain_id={run}-chain-7;"),
        8 => format!("steps=plan; justification={};", "x".repeat(10_000)),
        9 => "steps=plan,build,check,ship,plan,build;".to_owned(),
        _ => valid_chain_request(dice),
    }
}

/// A valid request, if any chain is possible.
pub(crate) fn valid_chain_request(dice: &mut Dice) -> String {
    let steps = one_of(dice, &["plan", "build", "plan,build", "build , check"]);
    let why = one_of(dice, &["", "justification=split it off;", "parent_id=other;"]);
    format!("steps={steps}; {why}")
}

impl ChainRequest {
    /// The expected outcome: the chain, or why there is none.
    pub(crate) fn fate(
        &self,
        run: &str,
        (kin, limits): (Kin, Limits),
        taken: &[String],
    ) -> Result<Grant, &'static str> {
        let said = |key: &str| {
            let mut parts = self.payload.split(';').filter_map(|part| part.split_once('='));
            let found = parts.find(|(name, _)| name.trim() == key);
            found.map_or(String::new(), |(_, value)| value.trim().to_owned())
        };
        let (steps, id) = (said("steps"), said("chain_id"));
        let wanted = steps.split(',').count() as u64;
        let is_taken = id == run || taken.contains(&id);
        match () {
            () if self.in_review => Err("in_review"),
            () if self.payload.len() > 10_000 => Err("too_long"),
            () if kin.children >= limits.children => Err("max_children"),
            () if kin.failures >= limits.failures => Err("max_consecutive_failures"),
            () if steps.is_empty() => Err("no_steps"),
            () if steps.contains("..") => Err("outside"),
            () if kin.depth >= limits.depth => Err("max_depth"),
            () if kin.steps + wanted > limits.steps => Err("max_steps"),
            () if id.contains('/') => Err("bad_id"),
            () if is_taken => Err("used_id"),
            () if steps.contains(GHOST) => Err("unfit_step"),
            () if id.is_empty() => {
                let id = format!("{run}-chain-{}", kin.children + 1);
                Ok(Grant { id, steps, why: said("justification") })
            }
            () => Ok(Grant { id, steps, why: said("justification") }),
        }
    }
}
