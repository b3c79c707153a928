//! Generated chains: their steps, as they are defined and as they are done.

use std::ops::Range;

use autoloop_core::chain::{Budget, Definitions};
use autoloop_core::record::ChainStart;
use autoloop_testkit::Dice;

/// The names of steps.
const STEPS: [&str; 4] = ["plan", "build", "check", "ship"];
/// What all steps are for.
pub(crate) const OBJECTIVE: &str = "build it all";
/// The name of the chain.
const NAME: &str = "all";

/// A chain.
#[derive(Clone, Debug)]
pub(crate) struct Chained {
    /// How many steps there are.
    count: usize,
    /// Those that stand in a chain of their own, within the other one.
    nested: Range<usize>,
    /// How long all steps may take before another one begins.
    pub(crate) budget_ms: Option<u64>,
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

    pub(crate) fn name(&self) -> &'static str {
        NAME
    }

    /// What it is begun with, and how far it may go, as read from a file of chains.
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
