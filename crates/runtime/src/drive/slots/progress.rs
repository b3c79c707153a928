//! What is told while a run over a queue goes on.

use autoloop_core::record::{SlotFinish, SlotReview};
use autoloop_core::slot::{FinishedIteration, Phase, Slot, SlotRules, Slots};

/// Something worth telling.
#[derive(Clone, Copy, Debug)]
pub enum SlotProgress<'a> {
    /// The run begins, or is taken up again, with these rules.
    Began(&'a Slots, &'a SlotRules),
    /// An iteration begins.
    Iteration(u64),
    /// A phase of a slot begins.
    Phase {
        /// The slot.
        slot: &'a Slot,
        /// Which phase.
        phase: Phase,
        /// Which attempt.
        attempt: u64,
    },
    /// A review ended.
    Reviewed(&'a Slot, &'a SlotReview<'a>),
    /// A slot ended.
    Finished(&'a Slot, &'a SlotFinish),
    /// All slots of an iteration ended.
    IterationFinished(&'a FinishedIteration),
    /// Something that a person should know.
    Note(&'a str),
}
