//! How many items of a run passed.

use std::collections::BTreeMap;

use super::Slots;
use crate::record::SlotOutcome as Outcome;

/// What the items of a run came to. An item that was taken twice counts once, by its last slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many were taken.
    pub taken: u64,
    /// How many of them passed.
    pub passed: u64,
}

impl Tally {
    /// Counts.
    pub fn of(slots: &Slots) -> Tally {
        let taken = slots.slots.iter().filter(|slot| slot.has_item());
        let taken = taken.filter(|slot| slot.outcome() != Some(Outcome::NoItem));
        let last: BTreeMap<&str, Option<Outcome>> =
            taken.map(|slot| (slot.start.item_id.as_str(), slot.outcome())).collect();
        let passed = last.values().filter(|outcome| **outcome == Some(Outcome::Passed));
        Tally { taken: last.len() as u64, passed: passed.count() as u64 }
    }

    /// Whether everything that was taken passed.
    pub fn is_well(self) -> bool {
        self.taken == self.passed
    }
}
