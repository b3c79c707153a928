//! The words of slots: phases, verdicts and outcomes, and what a run came to by them.

use std::collections::BTreeMap;

use super::Slots;
use crate::wire_enum::words;

words! {
    /// What a slot is at.
    Phase {
        /// An agent does what the item asks for.
        Implement = "implement",
        /// A reviewer looks at it.
        Review = "review",
        /// An agent does what the reviewer asks for.
        Fix = "fix",
        /// What passed is brought back into the project.
        Merge = "merge",
    }
}

words! {
    /// What changed in the working directory of a slot since the slot began.
    #[derive(Default)]
    Changes {
        /// Nothing.
        Empty = "empty",
        /// Something, and no other slot can have done it.
        Made = "some",
        /// Not known: there is no git repository, or other slots changed the same directory.
        #[default]
        Unknown = "unknown",
    }
}

words! {
    /// How a slot ended.
    Outcome {
        /// The item is done.
        Passed = "passed",
        /// The last review still found something.
        Drift = "drift",
        /// A reviewer broke the contract.
        Violation = "violation",
        /// An agent failed, the work could not be brought back, or nothing was changed and no review
        /// confirmed that no change was needed.
        Failed = "failed",
        /// There was no item, or the implementer reported that there is nothing to do.
        NoItem = "no_item",
    }
}

words! {
    /// What kept a reviewer from changing the tree.
    HeldBy {
        /// A view of the tree, which took what it wrote and was thrown away.
        Overlay = "overlay",
        /// The kernel, which let it write nowhere else.
        Landlock = "landlock",
        /// The tree was put back.
        Snapshot = "snapshot",
        /// Nothing did.
        Nothing = "nothing",
    }
}

words! {
    /// Why a run over a queue ended.
    End {
        /// It had as many iterations as it may have.
        Iterations = "iterations",
        /// An agent printed the stop marker.
        StopMarker = "stop_marker",
        /// There was nothing left to take.
        NoItems = "no_items",
        /// It took as many items as it may take.
        MaxItems = "max_items",
    }
}

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
