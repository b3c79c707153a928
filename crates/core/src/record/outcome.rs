//! How things end, and what phase a slot is in: one word each on the wire.

use crate::wire_enum::{Word, words};

words! {
    /// Why a run ended.
    StopReason {
        /// The completion event was emitted.
        CompletionEvent = "completion_event",
        /// The agent printed the completion promise.
        CompletionPromise = "completion_promise",
        /// It had as many iterations as it may have.
        MaxIterations = "max_iterations",
        /// The agent failed.
        BackendFailed = "backend_failed",
        /// The agent exceeded its time limit.
        BackendTimeout = "backend_timeout",
        /// The harness was asked to stop.
        Interrupted = "interrupted",
        /// A step of a chain could not begin.
        CannotBegin = "cannot_begin",
    }
}

impl Word<StopReason> {
    /// Whether a run that is a part of something larger did its part: it reached its goal, or did all
    /// that it was allowed to.
    pub fn is_success(&self) -> bool {
        use StopReason::{CompletionEvent, CompletionPromise, MaxIterations};
        matches!(self.known(), Some(MaxIterations | CompletionEvent | CompletionPromise))
    }
}

words! {
    /// How a chain ends.
    ChainOutcome {
        /// Every step ended well.
        AllStepsComplete = "all_steps_complete",
        /// A step did not.
        StepFailed = "step_failed",
        /// The steps took longer than they may.
        BudgetExceeded = "budget_exceeded",
    }
}

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
    SlotOutcome {
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
    SlotsEnd {
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

/// What an agent says to have worked on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Picked {
    /// It does not say.
    #[default]
    Unsaid,
    /// On nothing.
    Nothing,
    /// On this item.
    Item(String),
}

impl Picked {
    /// How "nothing" is written.
    pub(crate) const NOTHING: &str = "none";

    /// The word of the journal for it.
    pub fn word(&self) -> &str {
        match self {
            Picked::Unsaid => "",
            Picked::Nothing => Picked::NOTHING,
            Picked::Item(id) => id,
        }
    }

    /// What a word of the journal means.
    pub fn from_word(word: &str) -> Picked {
        match word {
            "" => Picked::Unsaid,
            Picked::NOTHING => Picked::Nothing,
            id => Picked::Item(id.to_owned()),
        }
    }

    /// Whether it is something else than what was claimed.
    pub fn differs_from(&self, claimed: &str) -> bool {
        match self {
            Picked::Unsaid => false,
            Picked::Nothing => true,
            Picked::Item(id) => id != claimed,
        }
    }
}
