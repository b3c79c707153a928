//! Slots: a queue of items worked off by several agents at once, each item implemented, reviewed and
//! fixed until it passes or fails.
//!
//! [`Slots`] is the fold of such a run's records. What the run does next is [`next_step`], and what one
//! slot does next is [`slot_step`]; neither depends on anything but the fold and the [`SlotRules`].

mod iteration;
mod outcome;
mod picked;
mod render;
mod step;

pub use iteration::FinishedIteration;
pub use outcome::{Changes, End, HeldBy, Outcome, Phase, Tally, Verdict};
pub use picked::{Picked, picked};
pub use step::{Commit, NewItems, Review, SlotRules, SlotStep, Step, begins, next_step, slot_step};

use std::borrow::Cow;

use crate::failure::TurnFailure;
use crate::merge::MergeOutcome;
use crate::record::{
    Glance, SlotFinish, SlotFix, SlotImplement, SlotMerge, SlotPhase, SlotReview, SlotRunFinish,
    SlotRunPrompts, SlotRunResume, SlotRunStart, SlotStart, SlotsIterationFinish,
};
use crate::word::{Meaning, Word};

/// What a run over a queue has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Its id.
    pub id: String,
    /// What it was started with. `None` for records that no `slot.run.start` came before.
    pub start: Option<SlotRunStart>,
    /// The prompts that it uses. `None` for a run of an older version.
    pub prompts: Option<SlotRunPrompts>,
    /// When it began and when it was last heard of, as written.
    pub times: (String, String),
    /// The slots that began, in the order in which they did.
    pub slots: Vec<Slot>,
    /// The iterations that ended, in order.
    pub finished: Vec<FinishedIteration>,
    /// Whether an implementer or a fixer printed the stop marker.
    pub is_stopping: bool,
    /// How it ended; `None` while it is under way.
    pub finish: Option<SlotRunFinish>,
    /// The last iteration before a finished run was resumed; 0 where none was.
    pub resumed_after: u64,
}

/// What one slot of one iteration has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// The iteration, counted from 1.
    pub iteration: u64,
    /// What it began with.
    pub start: SlotStart,
    /// The phase that began last, and its attempt.
    pub phase: Option<(Word<Phase>, u64)>,
    /// How the implementer ended.
    pub implement: Option<Implemented>,
    /// What the reviews said, in order.
    pub reviews: Vec<Reviewed>,
    /// How the fixers ended, in order.
    pub fixes: Vec<Turn>,
    /// What came of bringing the work back, since the last review.
    pub merge: Option<SlotMerge>,
    /// How often the work was no longer what had been reviewed when it was to be brought back.
    pub changed: u64,
    /// How it ended.
    pub finish: Option<SlotFinish>,
}

/// How an implementer ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Implemented {
    /// The turn of its agent.
    pub turn: Turn,
    /// The item that it says to have worked on.
    pub picked: Picked,
    /// Whether it printed the stop marker.
    pub is_marked: bool,
    /// What it left changed.
    pub changes: Changes,
}

/// How an agent ended that was to change something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Which fix, counted from 1; 0 for the implementer.
    pub attempt: u64,
    /// Its status.
    pub exit_code: i32,
    /// Why it failed; `None` where it did not.
    pub failure: Option<TurnFailure>,
    /// How long it took.
    pub elapsed_ms: u64,
    /// What it printed, shortened; empty once the slot is over.
    pub output: String,
}

/// What a review said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reviewed {
    /// Which review, counted from 0: how many fixes came before it.
    pub attempt: u64,
    /// What came of it.
    pub verdict: Word<Verdict>,
    /// What the reviewer says about the work.
    pub follow_up: String,
    /// Why there is no verdict of the reviewer, where there is none.
    pub reason: String,
    /// What was changed, as the reviewer was told.
    pub changes: Changes,
    /// The git tree object that was reviewed; empty where there was none.
    pub tree: String,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// Whether records with this topic are about a run over a queue.
pub fn is_slot_topic(topic: &str) -> bool {
    topic.starts_with("slot.") || topic.starts_with("slots.")
}

impl Slots {
    /// A run of which nothing is known yet.
    pub fn new(id: impl Into<String>) -> Self {
        Slots { id: id.into(), ..Slots::default() }
    }

    /// Whether it was cut off or interrupted, or is under way: its records cannot tell which.
    pub fn is_unfinished(&self) -> bool {
        self.start.is_some() && self.finish.is_none()
    }

    /// Whether it completed: it finished, and every item that it took passed.
    pub fn is_complete(&self) -> bool {
        self.finish.is_some() && Tally::of(self).is_well()
    }

    /// Whether it can be resumed: every run can that did not complete.
    pub fn can_resume(&self) -> bool {
        self.start.is_some() && !self.is_complete()
    }

    /// The iteration that began last; 0 before the first.
    pub fn iteration(&self) -> u64 {
        self.slots.iter().map(|slot| slot.iteration).max().unwrap_or_default()
    }

    /// A slot that began.
    pub fn slot(&self, iteration: u64, number: u64) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.is(iteration, number))
    }

    /// The slots that began and did not end.
    pub fn open(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.finish.is_none())
    }

    /// Takes in a record of this run. Records of others have to be kept away by the caller.
    pub fn apply(&mut self, record: &Glance<'_>) {
        let topic = record.topic();
        let is_over = self.finish.is_some() && topic != SlotRunResume::TOPIC;
        if record.has_payload() || is_over || !is_slot_topic(&topic) {
            return;
        }
        if let Some(ts) = record.ts() {
            self.times.1 = ts.into_owned();
        }
        let read = Fields { record };
        match topic.as_ref() {
            // A run begins once.
            SlotRunStart::TOPIC if self.start.is_some() => {}
            SlotRunStart::TOPIC => {
                self.times.0.clone_from(&self.times.1);
                self.start = Some(read.run_start());
            }
            SlotRunPrompts::TOPIC => self.prompts = Some(read.prompts()),
            SlotRunResume::TOPIC => self.resumed(),
            SlotStart::TOPIC => self.begin(&read),
            SlotsIterationFinish::TOPIC => self.finish_iteration(read.iteration()),
            SlotRunFinish::TOPIC => {
                self.finish = Some(SlotRunFinish {
                    reason: read.word("reason"),
                    taken: read.number("taken"),
                    passed: read.number("passed"),
                });
            }
            topic => {
                let is_marked = read.is_true("stop_marker");
                let (iteration, number) = (read.iteration(), read.number("slot"));
                let mut open = self.slots.iter_mut().filter(|slot| slot.finish.is_none());
                if let Some(slot) = open.find(|slot| slot.is(iteration, number)) {
                    slot.apply(topic, &read);
                    self.is_stopping |= is_marked;
                }
            }
        }
    }

    /// A finished run retries the items that failed, which are back in the queue.
    fn resumed(&mut self) {
        if self.finish.is_some() && self.can_resume() {
            self.finish = None;
            self.is_stopping = false;
            self.resumed_after = self.iteration();
        }
    }

    fn begin(&mut self, read: &Fields<'_, '_>) {
        let (iteration, number) = (read.iteration(), read.number("slot"));
        // A slot begins once.
        if self.slot(iteration, number).is_some() {
            return;
        }
        let start = SlotStart {
            slot: number,
            item_id: read.text("item_id"),
            title: read.text("title"),
            actor: read.text("actor"),
            base: read.text("base"),
            branch: read.text("branch"),
            tree: read.text("tree"),
        };
        self.slots.push(Slot { iteration, start, ..Slot::default() });
    }
}

impl Slot {
    /// Whether it is this one.
    fn is(&self, iteration: u64, number: u64) -> bool {
        self.iteration == iteration && self.start.slot == number
    }

    /// Whether an item was claimed for it.
    pub fn has_item(&self) -> bool {
        !self.start.item_id.is_empty()
    }

    /// How it ended; `None` while it did not, or where nobody knows what the record says.
    pub fn outcome(&self) -> Option<Outcome> {
        self.finish.as_ref()?.outcome.known()
    }

    fn apply(&mut self, topic: &str, read: &Fields<'_, '_>) {
        let attempt = read.number("attempt");
        match topic {
            SlotPhase::TOPIC => self.phase = Some((read.word("phase"), attempt)),
            // What was done stays as it was.
            SlotImplement::TOPIC if self.implement.is_none() => {
                self.implement = Some(Implemented {
                    turn: read.turn(),
                    picked: Picked::from_word(&read.text("picked")),
                    is_marked: read.is_true("stop_marker"),
                    changes: read.changes(),
                });
            }
            SlotReview::TOPIC => {
                // What changed after the last review was looked at in this one.
                self.merge = None;
                self.reviews.push(Reviewed {
                    attempt,
                    verdict: read.word("verdict"),
                    follow_up: read.text("follow_up_prompt"),
                    reason: read.text("reason"),
                    changes: read.changes(),
                    tree: read.text("tree"),
                    elapsed_ms: read.number("elapsed_ms"),
                });
            }
            SlotFix::TOPIC if self.fixes.iter().all(|fix| fix.attempt != attempt) => {
                self.fixes.push(read.turn());
            }
            SlotMerge::TOPIC => {
                let outcome: Word<MergeOutcome> = read.word("outcome");
                self.changed += u64::from(outcome == MergeOutcome::Changed);
                self.merge = Some(SlotMerge {
                    slot: self.start.slot,
                    item_id: self.start.item_id.clone(),
                    outcome,
                    commit: read.text("commit"),
                    tree: Some(read.text("tree")).filter(|tree| !tree.is_empty()),
                    files: read.text("files"),
                    detail: Some(read.text("detail")).filter(|detail| !detail.is_empty()),
                });
            }
            SlotFinish::TOPIC => {
                self.finish = Some(SlotFinish {
                    slot: self.start.slot,
                    item_id: self.start.item_id.clone(),
                    outcome: read.word("outcome"),
                    reason: read.text("reason"),
                });
                // Nobody asks for what was printed any more, and a run has many slots.
                let turns = self.implement.iter_mut().map(|implement| &mut implement.turn);
                turns.chain(&mut self.fixes).for_each(|turn| turn.output = String::new());
            }
            _ => {}
        }
    }
}

/// The fields of a record, read by what they should be.
struct Fields<'r, 'l> {
    record: &'r Glance<'l>,
}

impl Fields<'_, '_> {
    fn text(&self, name: &str) -> String {
        self.record.field(name).unwrap_or_default().into_owned()
    }

    fn word<T: Meaning>(&self, name: &str) -> Word<T> {
        Word::from(&*self.record.field(name).unwrap_or_default())
    }

    fn number(&self, name: &str) -> u64 {
        self.record.field(name).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    fn is_true(&self, name: &str) -> bool {
        self.record.field(name).is_some_and(|text| text == "true")
    }

    /// What a record says about changes. One that says nothing was written by an older version.
    fn changes(&self) -> Changes {
        self.word("changes").known().unwrap_or_default()
    }

    fn iteration(&self) -> u64 {
        self.record.iteration().parse().unwrap_or_default()
    }

    fn run_start(&self) -> SlotRunStart {
        SlotRunStart {
            iterations: self.number("iterations"),
            parallel_agents: self.number("parallel_agents"),
            review: self.is_true("review"),
            max_fix_attempts: self.number("max_fix_attempts"),
            source: self.word("source"),
            isolation: self.word("isolation"),
            stop_marker: self.text("stop_marker"),
            queue_mark: self.record.field("queue_mark").map(Cow::into_owned),
        }
    }

    fn prompts(&self) -> SlotRunPrompts {
        SlotRunPrompts {
            developer_prompt: self.text("developer_prompt"),
            reviewer_prompt: self.record.field("reviewer_prompt").map(Cow::into_owned),
        }
    }

    fn turn(&self) -> Turn {
        Turn {
            attempt: self.number("attempt"),
            // Without a status nothing says that it went well.
            exit_code: self
                .record
                .field("exit_code")
                .and_then(|text| text.parse().ok())
                .unwrap_or(-1),
            failure: TurnFailure::read(self.record),
            elapsed_ms: self.number("elapsed_ms"),
            output: self.text("output"),
        }
    }
}

#[cfg(test)]
mod tests;
