//! How things end, and what phase a slot is in: one word each on the wire.

use crate::wire_enum::{Word, words};

words! {
    StopReason {
        CompletionEvent = "completion_event",
        CompletionPromise = "completion_promise",
        MaxIterations = "max_iterations",
        MaxCost = "max_cost",
        MaxTokens = "max_tokens",
        MaxRuntime = "max_runtime",
        /// Iteration after iteration brought nothing new.
        Stalled = "stalled",
        BackendFailed = "backend_failed",
        BackendTimeout = "backend_timeout",
        Interrupted = "interrupted",
        CannotBegin = "cannot_begin",
    }

    ChainOutcome {
        AllStepsComplete = "all_steps_complete",
        StepFailed = "step_failed",
        BudgetExceeded = "budget_exceeded",
    }

    Phase {
        Implement = "implement",
        Review = "review",
        Fix = "fix",
        Merge = "merge",
    }

    /// Changes in the working directory of a slot since the slot began.
    #[derive(Default)]
    Changes {
        Empty = "empty",
        Made = "some",
        /// There is no git repository, or other slots changed the same directory.
        #[default]
        Unknown = "unknown",
    }

    SlotOutcome {
        Passed = "passed",
        /// The last review still had findings.
        Drift = "drift",
        Violation = "violation",
        /// An agent failed, the merge back failed, or nothing was changed and no review confirmed
        /// that no change was needed.
        Failed = "failed",
        /// The queue had no item, or the implementer reported that there is nothing to do.
        NoItem = "no_item",
    }

    HeldBy {
        /// A view of the worktree that is discarded with everything written to it.
        Overlay = "overlay",
        Landlock = "landlock",
        Snapshot = "snapshot",
        Nothing = "nothing",
    }

    /// What happened to a change that a reviewer may not make.
    ViolationOutcome {
        /// It never reached the project.
        KeptOut = "kept out",
        /// An allowed file could not be copied from the reviewer's view to the project.
        NotBroughtOver = "not brought over",
        PutBack = "put back",
        NotPutBack = "not put back",
        /// The record stands for the violations beyond the ones that are recorded one by one.
        NotListed = "not told one by one",
    }

    /// One of the two agents of a review by message.
    Side {
        Author = "author",
        Reviewer = "reviewer",
    }

    /// How a review by message ended.
    ExchangeOutcome {
        Approved = "approved",
        /// Blocking findings are left after the last round.
        BlockersRemain = "blockers_remain",
        BudgetExceeded = "budget_exceeded",
        /// A limit of the run on cost or tokens leaves no room for another turn.
        LimitReached = "limit_reached",
        /// The reviewer gave no usable answer.
        Undelivered = "undelivered",
        /// The agent of the author failed, or changed nothing.
        AuthorFailed = "author_failed",
        /// It was asked to stop, and can be resumed.
        Interrupted = "interrupted",
    }

    /// What an agent of a squad works on.
    SquadPhase {
        Enumerate = "enumerate",
        Plan = "plan",
        Build = "build",
        Review = "review",
        Checkpoint = "checkpoint",
        Revise = "revise",
        Conflict = "conflict",
    }

    /// What a builder reports about its task.
    SquadClaim {
        Complete = "complete",
        Fail = "fail",
    }

    /// How a loop of a squad ends that is not merged.
    LoopEnd {
        /// It got no further: no revision is left, or it made no progress.
        Stuck = "stuck",
        /// Its builder gave the task up.
        Failed = "failed",
    }

    /// Whether checks of the harness support the verdict of a review.
    Support {
        Verified = "verified",
        /// No check is configured, and the reviewer cited none.
        Unverified = "unverified",
    }

    /// What the user decides about a loop that is stuck or failed.
    Resolution {
        Retry = "retry",
        Skip = "skip",
        Accept = "accept",
    }

    SquadEnd {
        /// All tasks are merged, and the merged work passed its review.
        Completed = "completed",
        /// The plan is ready, and was not to be built yet.
        Planned = "planned",
        /// Loops that are stuck or failed block their group.
        Blocked = "blocked",
        /// The list of tasks, the plan or the merged work did not pass its review.
        ReviewFailed = "review_failed",
        /// The agent of a phase produced nothing usable.
        PhaseFailed = "phase_failed",
        /// Passed work cannot be merged into the project, which has changes in the same files.
        MergeRefused = "merge_refused",
        MaxCost = "max_cost",
        MaxTokens = "max_tokens",
        MaxRuntime = "max_runtime",
        /// It was asked to stop, and can be resumed.
        Interrupted = "interrupted",
    }

    SlotsEnd {
        Iterations = "iterations",
        StopMarker = "stop_marker",
        NoItems = "no_items",
        MaxItems = "max_items",
        MaxCost = "max_cost",
        MaxTokens = "max_tokens",
        MaxRuntime = "max_runtime",
        /// It was asked to stop, and can be resumed.
        Interrupted = "interrupted",
    }
}

impl SquadEnd {
    /// Whether a limit ended the run.
    pub fn is_limit(self) -> bool {
        matches!(self, SquadEnd::MaxCost | SquadEnd::MaxTokens | SquadEnd::MaxRuntime)
    }
}

impl SlotsEnd {
    /// Whether a limit ended the run, which did not finish its open slots.
    pub fn is_limit(self) -> bool {
        matches!(self, SlotsEnd::MaxCost | SlotsEnd::MaxTokens | SlotsEnd::MaxRuntime)
    }
}

impl Word<StopReason> {
    /// Whether a run that is a part of a wave or a chain did its part: it reached its goal or its
    /// limit.
    pub fn is_success(&self) -> bool {
        use StopReason::{CompletionEvent, CompletionPromise, MaxIterations};
        matches!(self.known(), Some(MaxIterations | CompletionEvent | CompletionPromise))
    }
}

/// The item that an agent reports having worked on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Picked {
    #[default]
    Unsaid,
    Nothing,
    Item(String),
}

impl Picked {
    /// How [`Picked::Nothing`] is written.
    pub(crate) const NOTHING: &str = "none";

    pub fn word(&self) -> &str {
        match self {
            Picked::Unsaid => "",
            Picked::Nothing => Picked::NOTHING,
            Picked::Item(id) => id,
        }
    }

    pub fn from_word(word: &str) -> Picked {
        match word {
            "" => Picked::Unsaid,
            Picked::NOTHING => Picked::Nothing,
            id => Picked::Item(id.to_owned()),
        }
    }

    pub fn differs_from(&self, claimed: &str) -> bool {
        match self {
            Picked::Unsaid => false,
            Picked::Nothing => true,
            Picked::Item(id) => id != claimed,
        }
    }
}
