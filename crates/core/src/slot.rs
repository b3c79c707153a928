//! Slots: several agents process a queue of items at once; each item is implemented, reviewed and fixed until it
//! passes or fails.
//!
//! [`Slots`] is the fold of the records of a run. [`next_step`] decides for the run and [`slot_step`] for one slot,
//! from the fold and the [`SlotRules`] only.

mod iteration;
mod picked;
mod render;
mod step;

pub use crate::record::{Changes, HeldBy, Phase, Picked, SlotOutcome as Outcome, SlotsEnd as End};
pub use crate::review::Verdict;
pub use iteration::{FinishedIteration, ItemOutcome, Tally};
pub use picked::picked;
pub use step::{
    Commit, NewItems, Review, SlotRules, SlotStep, Step, begins, next_step, slot_step,
    within_limits,
};

use serde::{Serialize, Serializer};

use crate::coordinator::{Fold, Kind, Status};
use crate::failure::TurnFailure;
use crate::limits::Ledger;
use crate::merge::MergeOutcome;
use crate::record::{
    Event, ExitCode, Glance, SlotFinish, SlotMerge, SlotPhase, SlotRunFinish, SlotRunPrompts,
    SlotRunResume, SlotRunStart, SlotStart, Text,
};
use crate::wire_enum::Word;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    pub id: String,
    /// `None` without a `slot.run.start`.
    pub start: Option<SlotRunStart>,
    /// `None` for a run of an older version.
    pub prompts: Option<SlotRunPrompts>,
    /// The first and the last timestamp, as written.
    pub times: (String, String),
    /// In the order in which they started.
    pub slots: Vec<Slot>,
    pub finished: Vec<FinishedIteration>,
    /// Whether an implementer or a fixer printed the stop marker.
    pub is_stopping: bool,
    /// `None` before the end.
    pub finish: Option<SlotRunFinish>,
    /// The last iteration before a finished run was resumed; 0 where it was not.
    pub resumed_after: u64,
    /// What its turns took.
    pub ledger: Ledger,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Counted from 1.
    pub iteration: u64,
    pub start: SlotStart,
    /// The current phase and its attempt.
    pub phase: Option<(Word<Phase>, u64)>,
    pub implement: Option<Implemented>,
    pub reviews: Vec<Reviewed>,
    pub fixes: Vec<Turn>,
    pub merge: Option<SlotMerge>,
    /// How often the work had changed after its review when it was about to be merged.
    pub changed: u64,
    pub finish: Option<SlotFinish>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Implemented {
    pub turn: Turn,
    pub picked: Picked,
    pub is_marked: bool,
    pub changes: Changes,
}

/// The turn of an implementer or a fixer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// The fix, counted from 1; 0 for the implementer.
    pub attempt: u64,
    pub exit_code: i32,
    #[serde(serialize_with = "as_text")]
    pub failure: Option<TurnFailure>,
    /// Shortened; empty once the slot has ended.
    #[serde(skip)]
    pub output: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reviewed {
    /// Counted from 0: the number of fixes before it.
    pub attempt: u64,
    pub verdict: Word<Verdict>,
    #[serde(rename = "followUpPrompt")]
    pub follow_up: String,
    /// Why the reviewer gave no verdict.
    pub reason: String,
    /// As the reviewer was told.
    #[serde(skip)]
    pub changes: Changes,
    /// The git tree object that was reviewed; empty where there is none.
    #[serde(skip)]
    pub tree: String,
}

impl Slots {
    /// The status by the records, which cannot tell a crashed run from a running one. A run
    /// completes when every item that it took passed.
    pub fn status(&self) -> Status {
        match &self.finish {
            None => Status::Running,
            Some(finish) => Status::of_slots(&finish.reason, Tally::of(self).is_success()),
        }
    }

    /// The flag, with a leading space, that raises the limit that the run reached; empty where it ended otherwise.
    pub fn raised_limit(&self) -> String {
        if let Some(raise) = self.finish.as_ref().and_then(|finish| finish.raise.as_ref()) {
            return format!(" {raise}");
        }
        let reason = self.finish.as_ref().map(|finish| finish.reason.to_string());
        Kind::Slots.raised_limit(&reason.unwrap_or_default(), self.iteration(), 0)
    }

    pub fn iteration(&self) -> u64 {
        self.slots.iter().map(|slot| slot.iteration).max().unwrap_or_default()
    }

    pub fn slot(&self, iteration: u64, number: u64) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.is(iteration, number))
    }

    pub fn open(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.finish.is_none())
    }

    /// Applies an event of one slot. An ended slot does not change.
    fn apply_slot_event(&mut self, iteration: u64, event: Event<'_>) {
        let (number, stop_marker) = match &event {
            Event::SlotPhase(phase) => (phase.slot, None),
            Event::SlotImplement(end) => (end.slot, end.stop_marker),
            Event::SlotReview(review) => (review.slot, None),
            Event::SlotFix(end) => (end.slot, end.stop_marker),
            Event::SlotMerge(merge) => (merge.slot, None),
            Event::SlotFinish(finish) => (finish.slot, None),
            _ => return,
        };
        let mut open = self.slots.iter_mut().filter(|slot| slot.finish.is_none());
        if let Some(slot) = open.find(|slot| slot.is(iteration, number)) {
            slot.apply(event);
            self.is_stopping |= stop_marker == Some(true);
        }
    }

    /// A resumed run retries the failed items, which are back in the queue. One that was interrupted or reached a limit
    /// continues.
    fn resumed(&mut self) {
        match self.status() {
            Status::Failed => {
                self.finish = None;
                self.is_stopping = false;
                self.resumed_after = self.iteration();
            }
            Status::Interrupted | Status::Stopped => self.finish = None,
            _ => {}
        }
    }
}

impl Fold for Slots {
    const KIND: Kind = Kind::Slots;

    fn new(id: &str) -> Self {
        Slots { id: id.to_owned(), ..Slots::default() }
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        self.ledger.apply(record);
        let is_over = self.finish.is_some() && record.topic() != SlotRunResume::TOPIC;
        if is_over || !Kind::Slots.concerns(record) {
            return;
        }
        if let Some(ts) = record.ts() {
            self.times.1 = ts.into_owned();
        }
        let iteration = record.iteration().parse().unwrap_or_default();
        match record.event() {
            // A run starts once.
            Event::SlotRunStart(_) if self.start.is_some() => {}
            Event::SlotRunStart(start) => {
                self.times.0.clone_from(&self.times.1);
                self.start = Some(start);
            }
            Event::SlotRunPrompts(prompts) => self.prompts = Some(prompts),
            Event::SlotRunResume(_) => self.resumed(),
            // A slot starts once.
            Event::SlotStart(start) if self.slot(iteration, start.slot).is_some() => {}
            Event::SlotStart(start) => {
                self.slots.push(Slot { iteration, start, ..Slot::default() });
            }
            Event::SlotsIterationFinish(_) => self.finish_iteration(iteration),
            Event::SlotRunFinish(finish) => self.finish = Some(finish),
            event => self.apply_slot_event(iteration, event),
        }
    }
}

impl Slot {
    fn is(&self, iteration: u64, number: u64) -> bool {
        self.iteration == iteration && self.start.slot == number
    }

    pub fn has_item(&self) -> bool {
        !self.start.item_id.is_empty()
    }

    /// `None` before the end, and for an unknown outcome.
    pub fn outcome(&self) -> Option<Outcome> {
        self.finish.as_ref()?.outcome.known()
    }

    fn apply(&mut self, event: Event<'_>) {
        match event {
            Event::SlotPhase(SlotPhase { phase, attempt, .. }) => {
                self.phase = Some((phase, attempt));
            }
            Event::SlotImplement(end) if self.implement.is_none() => {
                let failure = end.failure();
                self.implement = Some(Implemented {
                    turn: Turn::new(0, &end.exit_code, failure, end.output),
                    picked: end.picked,
                    is_marked: end.stop_marker == Some(true),
                    changes: changes(end.changes),
                });
            }
            Event::SlotReview(review) => {
                // This review covers the changes after the last one.
                self.merge = None;
                self.reviews.push(Reviewed {
                    attempt: review.attempt,
                    verdict: review.verdict,
                    follow_up: review.follow_up_prompt,
                    reason: review.reason,
                    changes: changes(review.changes),
                    tree: review.tree.unwrap_or_default(),
                });
            }
            Event::SlotFix(end) if self.fixes.iter().all(|fix| fix.attempt != end.attempt) => {
                let failure = end.failure();
                self.fixes.push(Turn::new(end.attempt, &end.exit_code, failure, end.output));
            }
            Event::SlotMerge(merge) => {
                self.changed += u64::from(merge.outcome == MergeOutcome::Changed);
                self.merge = Some(SlotMerge {
                    slot: self.start.slot,
                    item_id: self.start.item_id.clone(),
                    tree: merge.tree.filter(|tree| !tree.is_empty()),
                    detail: merge.detail.filter(|detail| !detail.is_empty()),
                    ..merge
                });
            }
            Event::SlotFinish(finish) => {
                let item_id = self.start.item_id.clone();
                self.finish = Some(SlotFinish { slot: self.start.slot, item_id, ..finish });
                // Outputs are not needed any more, and a run has many slots.
                let turns = self.implement.iter_mut().map(|implement| &mut implement.turn);
                turns.chain(&mut self.fixes).for_each(|turn| turn.output = String::new());
            }
            _ => {}
        }
    }
}

impl Turn {
    fn new(
        attempt: u64,
        exit_code: &ExitCode,
        failure: Option<TurnFailure>,
        output: Option<Text<'_>>,
    ) -> Turn {
        let output = output.map(|output| output.read().into_owned()).unwrap_or_default();
        Turn { attempt, exit_code: exit_code.known().unwrap_or(-1), failure, output }
    }
}

fn as_text<S: Serializer>(failure: &Option<TurnFailure>, to: S) -> Result<S::Ok, S::Error> {
    failure.as_ref().map(ToString::to_string).serialize(to)
}

/// A record without changes was written by an older version.
fn changes(changes: Option<Word<Changes>>) -> Changes {
    changes.and_then(|changes| changes.known()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
