//! Results: of an iteration by its slots, and of a run by its items.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Outcome, Slot, Slots};
use crate::record::SlotsIterationFinish;
use crate::text;
use crate::wire_enum::Word;

const NAMED: usize = 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinishedIteration {
    /// Counted from 1.
    pub iteration: u64,
    /// In the order of the slots.
    pub items: Vec<ItemOutcome>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ItemOutcome {
    pub item: String,
    pub outcome: Word<Outcome>,
}

impl FinishedIteration {
    pub fn passed(&self) -> u64 {
        let passed = self.items.iter().filter(|it| it.outcome == Outcome::Passed);
        passed.count() as u64
    }

    pub fn failed(&self) -> u64 {
        self.failures().count() as u64
    }

    fn failures(&self) -> impl Iterator<Item = &str> {
        let is_failure =
            |it: &&ItemOutcome| it.outcome != Outcome::Passed && it.outcome != Outcome::NoItem;
        self.items.iter().filter(is_failure).map(|it| it.item.as_str())
    }

    pub fn finish(&self) -> SlotsIterationFinish {
        let items = self.items.iter().map(|it| format!("{}={}", it.item, it.outcome));
        SlotsIterationFinish {
            passed: self.passed(),
            failed: self.failed(),
            items: items.collect::<Vec<_>>().join(","),
        }
    }

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
    pub fn iteration_so_far(&self, iteration: u64) -> FinishedIteration {
        let slots = self.slots.iter().filter(|slot| slot.iteration == iteration);
        let item = |slot: &Slot| {
            let outcome = slot.finish.as_ref()?.outcome.clone();
            Some(ItemOutcome { item: slot.start.item_id.clone(), outcome })
        };
        let items = slots.filter(|slot| slot.has_item()).filter_map(item).collect();
        FinishedIteration { iteration, items }
    }

    pub(super) fn has_finished(&self, iteration: u64) -> bool {
        self.finished.last().is_some_and(|last| last.iteration >= iteration)
    }

    pub(super) fn finish_iteration(&mut self, iteration: u64) {
        if iteration == self.iteration()
            && !self.has_finished(iteration)
            && self.open().next().is_none()
        {
            self.finished.push(self.iteration_so_far(iteration));
        }
    }
}

/// The results of a run. An item that was taken twice counts once, by its last slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub taken: u64,
    pub passed: u64,
}

impl Tally {
    pub fn of(slots: &Slots) -> Tally {
        let taken = slots.slots.iter().filter(|slot| slot.has_item());
        let taken = taken.filter(|slot| slot.outcome() != Some(Outcome::NoItem));
        let last: BTreeMap<&str, Option<Outcome>> =
            taken.map(|slot| (slot.start.item_id.as_str(), slot.outcome())).collect();
        let passed = last.values().filter(|outcome| **outcome == Some(Outcome::Passed));
        Tally { taken: last.len() as u64, passed: passed.count() as u64 }
    }

    pub fn is_success(self) -> bool {
        self.taken == self.passed
    }
}
