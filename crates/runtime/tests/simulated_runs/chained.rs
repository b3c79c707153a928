//! Generated chains: their steps as defined and as run.

use std::ops::Range;

use autoloop_core::chain::{Budget, Definitions};
use autoloop_core::record::ChainStart;
use autoloop_testkit::Dice;

use crate::chain_request::Grant;

/// The names of steps.
const STEPS: [&str; 4] = ["plan", "build", "check", "ship"];
/// What all steps are for.
const OBJECTIVE: &str = "build it all";
/// The name of the chain.
const NAME: &str = "all";

/// A chain.
#[derive(Clone, Debug)]
pub(crate) struct Chained {
    /// How many steps there are.
    count: usize,
    /// The steps that are in a nested chain.
    nested: Range<usize>,
    /// How long all steps may take before another one begins.
    budget_ms: Option<u64>,
}

/// A chain, whether defined or requested.
#[derive(Clone, Debug)]
pub(crate) struct Outline {
    pub(crate) name: String,
    pub(crate) steps: Vec<String>,
    pub(crate) objective: String,
    /// The run that requested it.
    pub(crate) parent: Option<String>,
    pub(crate) budget_ms: Option<u64>,
}

impl Outline {
    /// A chain that a run with this objective was granted.
    pub(crate) fn granted(grant: &Grant, parent: &str, objective: &str) -> Outline {
        let Grant { steps, why, .. } = grant;
        let asked = "Requested by a run with this objective:";
        Outline {
            name: steps.clone(),
            steps: steps.split(',').map(|step| step.trim().to_owned()).collect(),
            objective: match why.as_str() {
                "" => objective.to_owned(),
                why => format!("{why}\n\n{asked} {objective}"),
            },
            parent: Some(parent.to_owned()),
            budget_ms: None,
        }
    }
}

impl Chained {
    pub(crate) fn any(dice: &mut Dice) -> Chained {
        let count = 1 + dice.index(STEPS.len());
        let from = dice.index(count);
        let nested =
            if dice.chance(1, 2) { from..from + 1 + dice.index(count - from) } else { 0..0 };
        let budget_ms = dice.chance(1, 5).then(|| 1 + dice.below(300_000));
        Chained { count, nested, budget_ms }
    }

    /// The loops that are run, in order.
    pub(crate) fn steps(&self) -> &'static [&'static str] {
        &STEPS[..self.count]
    }

    /// What is expected of it.
    pub(crate) fn outline(&self) -> Outline {
        Outline {
            name: NAME.to_owned(),
            steps: self.steps().iter().map(ToString::to_string).collect(),
            objective: OBJECTIVE.to_owned(),
            parent: None,
            budget_ms: self.budget_ms,
        }
    }

    /// Its start and its limits, as read from a file of chains.
    pub(crate) fn begin(&self) -> (ChainStart, Budget) {
        let (definitions, unknown) = Definitions::read(&self.text()).expect("a good file");
        assert_eq!(unknown, []);
        let chain = definitions.named(NAME).expect("it is there");
        let steps = definitions.expand(NAME, &chain.steps).expect("it does not run itself");
        let names: Vec<_> = steps.iter().map(|step| step.preset.as_str()).collect();
        let start = ChainStart {
            name: NAME.to_owned(),
            steps: names.join(","),
            step_count: names.len() as u64,
            objective: Some(OBJECTIVE.to_owned()),
            ..ChainStart::default()
        };
        (start, definitions.budget)
    }

    fn text(&self) -> String {
        let steps = self.steps();
        let Range { start, end } = self.nested;
        let inner = &steps[start..end];
        let outer = match inner {
            [] => steps.to_vec(),
            _ => [&steps[..start], &["inner"], &steps[end..]].concat(),
        };
        let mut text = format!("[[chain]]\nname = {NAME:?}\nsteps = {outer:?}\n");
        if !inner.is_empty() {
            text += &format!("[[chain]]\nname = \"inner\"\nsteps = {inner:?}\n");
        }
        if let Some(budget) = self.budget_ms {
            text += &format!("[budget]\nmax_runtime_ms = {budget}\n");
        }
        text
    }
}
