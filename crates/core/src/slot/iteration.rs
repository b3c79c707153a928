//! How an iteration ended, by the slots that it had.

use super::{Outcome, Slot, Slots};
use crate::record::SlotsIterationFinish;
use crate::text;
use crate::wire_enum::Word;

/// So many items are named of those that did not pass.
const NAMED: usize = 10;

/// An iteration that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinishedIteration {
    /// Which one, counted from 1.
    pub iteration: u64,
    /// Its items, each with the outcome of its slot, in the order of the slots.
    pub items: Vec<(String, Word<Outcome>)>,
}

impl FinishedIteration {
    /// How many items passed.
    pub fn passed(&self) -> u64 {
        let passed = self.items.iter().filter(|(_, outcome)| *outcome == Outcome::Passed);
        passed.count() as u64
    }

    /// How many items were worked on and did not pass.
    pub fn failed(&self) -> u64 {
        self.failures().count() as u64
    }

    fn failures(&self) -> impl Iterator<Item = &str> {
        let is_failure =
            |outcome: &Word<Outcome>| *outcome != Outcome::Passed && *outcome != Outcome::NoItem;
        self.items.iter().filter(move |(_, outcome)| is_failure(outcome)).map(|(id, _)| id.as_str())
    }

    /// The record of its end.
    pub fn finish(&self) -> SlotsIterationFinish {
        let items = self.items.iter().map(|(id, outcome)| format!("{id}={outcome}"));
        SlotsIterationFinish {
            passed: self.passed(),
            failed: self.failed(),
            items: items.collect::<Vec<_>>().join(","),
        }
    }

    /// That it failed, in a line; `None` for one that did not.
    pub fn failure(&self) -> Option<String> {
        let failed = self.failed();
        if failed == 0 {
            return None;
        }
        let worked_on = failed + self.passed();
        let items = if worked_on == 1 { "item" } else { "items" };
        let mut named: Vec<&str> = self.failures().take(NAMED).collect();
        if self.failures().nth(NAMED).is_some() {
            named.push("...");
        }
        let named = text::one_line(&named.join(", "));
        let iteration = self.iteration;
        Some(format!(
            "iteration {iteration} failed: {failed} of {worked_on} {items} did not pass ({named})"
        ))
    }
}

impl Slots {
    /// An iteration by what its slots came to so far.
    pub fn iteration_so_far(&self, iteration: u64) -> FinishedIteration {
        let slots = self.slots.iter().filter(|slot| slot.iteration == iteration);
        let item = |slot: &Slot| {
            let outcome = slot.finish.as_ref()?.outcome.clone();
            Some((slot.start.item_id.clone(), outcome))
        };
        let items = slots.filter(|slot| slot.has_item()).filter_map(item).collect();
        FinishedIteration { iteration, items }
    }

    /// Whether the end of an iteration is on record.
    pub(super) fn has_finished(&self, iteration: u64) -> bool {
        self.finished.last().is_some_and(|last| last.iteration >= iteration)
    }

    /// Takes in that an iteration ended.
    pub(super) fn finish_iteration(&mut self, iteration: u64) {
        if iteration == self.iteration()
            && !self.has_finished(iteration)
            && self.open().next().is_none()
        {
            self.finished.push(self.iteration_so_far(iteration));
        }
    }
}
