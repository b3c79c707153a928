//! Whole runs of slots with generated agents and a harness that crashes after any record and is
//! resumed: checked after every record.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use autoloop_core::coordinator::Fold;
use autoloop_core::merge::MergeOutcome;
use autoloop_core::record::*;
use autoloop_core::slot::*;
use autoloop_core::timestamp::Timestamp;
use autoloop_core::wire_enum::Word;
use autoloop_testkit::{Dice, simulate};

/// More steps than any run takes.
const ENDLESS: usize = 5_000;

/// The queue and the journal, which outlive a harness.
struct Model {
    rules: SlotRules,
    is_isolated: bool,
    /// The items that are not closed, and who holds them.
    items: BTreeMap<String, Option<String>>,
    records: Vec<Record>,
    /// The fold of the living harness.
    fold: Slots,
    /// How often an agent was started for something, by the slot and the phase.
    started: BTreeMap<(u64, u64, String), u64>,
    crashes: u64,
}

impl Model {
    fn generated(dice: &mut Dice) -> Model {
        let rules = SlotRules {
            iterations: *dice.pick(&[None, Some(1), Some(2), Some(5)]),
            parallel_agents: 1 + dice.below(4),
            review: *dice.pick(&[
                Review::On,
                Review::On,
                Review::On,
                Review::Off,
                Review::NoPrompt,
            ]),
            max_fix_attempts: dice.below(4),
            contract_repair: dice.below(2),
            new_items: NewItems::Excluded,
            max_items: *dice.pick(&[None, None, Some(0), Some(1), Some(3)]),
            commit: if dice.below(2) == 0 { Commit::On } else { Commit::Off },
        };
        Model {
            rules,
            is_isolated: dice.chance(1, 2),
            items: (0..dice.below(7)).map(|number| (format!("t-{number}"), None)).collect(),
            records: Vec::new(),
            fold: Slots::new("r"),
            started: BTreeMap::new(),
            crashes: 0,
        }
    }

    /// Folds all records again.
    fn read(&self) -> Slots {
        let mut slots = Slots::new("r");
        self.records.iter().for_each(|record| apply(&mut slots, record));
        slots
    }

    fn put(&mut self, iteration: u64, record: impl FnOnce(&Heading) -> Record) {
        let iteration = iteration.to_string();
        let heading = Heading { run: "r".into(), iteration, now: Timestamp::from_millis(1) };
        let record = record(&heading);
        apply(&mut self.fold, &record);
        self.records.push(record);
        judge(self);
    }

    /// Drives the run to its end, or until it crashes. Returns whether it ended.
    fn drive(&mut self, dice: &mut Dice) -> bool {
        self.fold = self.read();
        // What a harness claimed and could not record.
        let open: BTreeSet<String> =
            self.fold.open().map(|slot| slot.start.item_id.clone()).collect();
        for (id, holder) in &mut self.items {
            if !open.contains(id) {
                *holder = None;
            }
        }
        for _ in 0..ENDLESS {
            if self.crashes < 6 && dice.chance(1, 25) {
                self.crashes += 1;
                return false;
            }
            match next_step(&self.fold, &self.rules) {
                Step::Start => self.put(0, |heading| SlotRunStart::default().record(heading)),
                Step::Open { iteration, slots } => {
                    if !self.open(iteration, &slots, dice) {
                        return false;
                    }
                }
                Step::CarryOut { iteration, slots } => {
                    let number = *dice.pick(&slots);
                    self.carry_out(iteration, number, dice);
                }
                Step::FinishIteration(finished) => {
                    let finish = finished.finish();
                    self.put(finished.iteration, |heading| finish.record(heading));
                }
                Step::Finish(finish) => self.put(0, |heading| finish.record(heading)),
                Step::Over => return true,
            }
        }
        panic!("the run does not end");
    }

    /// Starts an iteration. Returns whether it did not crash between a claim and its record.
    fn open(&mut self, iteration: u64, numbers: &[u64], dice: &mut Dice) -> bool {
        let slots = self.fold.clone();
        let spent = slots.spent(&self.rules);
        let mut found = false;
        for number in numbers {
            let free = self
                .items
                .iter_mut()
                .find(|(id, holder)| holder.is_none() && !spent.contains(&id.as_str()));
            let item = free.map(|(id, holder)| {
                *holder = Some(format!("s{number}"));
                id.clone()
            });
            if dice.chance(1, 60) {
                self.crashes += 1;
                return false;
            }
            if begins(iteration, item.is_some()) {
                found = true;
                let start = SlotStart {
                    slot: *number,
                    item_id: item.unwrap_or_default(),
                    branch: if self.is_isolated { "b".into() } else { String::new() },
                    ..SlotStart::default()
                };
                self.put(iteration, |heading| start.record(heading));
            }
        }
        if !found {
            let finish = self.fold.finished(End::NoItems);
            self.put(0, |heading| finish.record(heading));
        }
        true
    }

    fn carry_out(&mut self, iteration: u64, number: u64, dice: &mut Dice) {
        let slot = self.fold.slot(iteration, number).unwrap().clone();
        let step = slot_step(&slot, &self.rules);
        let exit_code = *dice.pick(&[0, 0, 0, 0, 0, 0, 1]);
        let stop_marker = dice.chance(1, 15).then_some(true);
        let name = match &step {
            SlotStep::Implement => "implement".to_owned(),
            SlotStep::Fix { attempt, .. } => format!("fix {attempt}"),
            _ => String::new(),
        };
        if !name.is_empty() {
            let count = self.started.entry((iteration, number, name)).or_default();
            *count += 1;
            assert!(*count <= self.crashes + 1, "what was done is not done again");
            if self.crashes < 6 && dice.chance(1, 30) {
                // The agent ran, but its end could not be recorded.
                self.crashes += 1;
                return;
            }
        }
        match step {
            SlotStep::Implement => {
                let said = *dice.pick(&["", "", "none", "t-0"]);
                let end = SlotImplement {
                    slot: number,
                    exit_code: exit_code.into(),
                    stop_marker,
                    picked: Picked::from_word(said),
                    changes: changes(dice),
                    ..Default::default()
                };
                self.put(iteration, |heading| end.record(heading));
            }
            SlotStep::Review { attempt } => {
                let verdicts =
                    ["pass", "pass", "drift", "drift", "drift", "violation", "failed", "?"];
                let verdict = Word::from(*dice.pick(&verdicts));
                let changes = changes(dice);
                let end =
                    SlotReview { slot: number, attempt, verdict, changes, ..Default::default() };
                self.put(iteration, |heading| end.record(heading));
            }
            SlotStep::Fix { attempt, .. } => {
                let end = SlotFix {
                    slot: number,
                    attempt,
                    exit_code: exit_code.into(),
                    stop_marker,
                    ..Default::default()
                };
                self.put(iteration, |heading| end.record(heading));
            }
            SlotStep::Merge => {
                let outcomes = ["merged", "merged", "nothing", "conflict", "changed", "?"];
                let outcome = Word::from(*dice.pick(&outcomes));
                let end = SlotMerge { slot: number, outcome, ..Default::default() };
                self.put(iteration, |heading| end.record(heading));
            }
            SlotStep::Finish(finish) => {
                let id = slot.start.item_id.clone();
                if finish.outcome == Outcome::Passed {
                    self.items.remove(&id);
                } else {
                    self.items.get_mut(&id).into_iter().for_each(|holder| *holder = None);
                }
                self.put(iteration, |heading| finish.record(heading));
            }
            SlotStep::Over => panic!("an open slot has something to do"),
        }
    }
}

/// What is recorded about changes; nothing by an older version.
fn changes(dice: &mut Dice) -> Option<Word<Changes>> {
    let words = [None, Some("empty"), Some("some"), Some("some"), Some("unknown"), Some("?")];
    dice.pick(&words).map(Word::from)
}

fn apply(slots: &mut Slots, record: &Record) {
    let mut line = Vec::new();
    print(record, &mut line);
    slots.apply(&Glance::read(line.trim_ascii_end()).unwrap());
}

/// What must hold after every record.
fn judge(model: &Model) {
    let (slots, rules) = (&model.fold, &model.rules);
    let open: Vec<&str> = slots
        .open()
        .filter(|slot| slot.has_item())
        .map(|slot| slot.start.item_id.as_str())
        .collect();
    let distinct: BTreeSet<&str> = open.iter().copied().collect();
    assert_eq!(open.len(), distinct.len(), "an item is in one slot");
    let iterations: BTreeSet<u64> = slots.open().map(|slot| slot.iteration).collect();
    assert!(iterations.len() <= 1, "one iteration at a time");
    if let Some(most) = rules.iterations {
        assert!(slots.iteration() <= most);
    }
    let begun = slots.slots.iter().filter(|slot| slot.has_item()).count() as u64;
    assert!(rules.max_items.is_none_or(|most| begun <= most), "so many items at most");
    for slot in &slots.slots {
        assert!(slot.start.slot <= rules.parallel_agents);
        judge_slot(slot, rules);
    }
    if rules.iterations.is_none() {
        let taken: Vec<_> = slots.slots.iter().filter(|slot| slot.has_item()).collect();
        let distinct: BTreeSet<_> = taken.iter().map(|slot| &slot.start.item_id).collect();
        assert_eq!(taken.len(), distinct.len(), "nothing is tried forever");
    }
}

fn judge_slot(slot: &Slot, rules: &SlotRules) {
    let is_reviewed = !slot.reviews.is_empty();
    if is_reviewed {
        assert_eq!(rules.review, Review::On);
        let implement = slot.implement.as_ref().unwrap();
        assert!(implement.turn.failure.is_none() && slot.has_item());
        assert_ne!(implement.picked, Picked::Nothing);
        assert!(!implement.is_marked || implement.changes == Changes::Made, "it did nothing");
    }
    let fixes = slot.fixes.len() as u64;
    assert!(fixes <= rules.max_fix_attempts, "so many fixes at most");
    let attempts: BTreeSet<u64> = slot.reviews.iter().map(|review| review.attempt).collect();
    assert!(attempts.len() as u64 <= rules.max_fix_attempts + 1, "and one review more");
    for (place, fix) in slot.fixes.iter().enumerate() {
        assert_eq!(fix.attempt, place as u64 + 1);
        let asked = slot.reviews.iter().rfind(|review| review.attempt == fix.attempt - 1).unwrap();
        assert_eq!(asked.verdict, Verdict::Drift, "a fix answers a drift");
        if fix.failure.is_some() {
            assert!(!attempts.contains(&fix.attempt), "no review follows a fixer that failed");
        }
    }
    for (place, review) in slot.reviews.iter().enumerate() {
        let is_last = place + 1 == slot.reviews.len();
        match review.verdict.known() {
            // Work that changed after it had passed is reviewed again.
            Some(Verdict::Pass) => assert!(is_last || slot.changed > 0, "it had passed"),
            None | Some(Verdict::Failed | Verdict::Budget) => {
                assert!(is_last, "that was the last review");
            }
            Some(Verdict::Violation) if rules.contract_repair == 0 => assert!(is_last),
            Some(Verdict::Violation | Verdict::Drift) => {}
        }
    }
    if let Some(outcome) = slot.outcome() {
        let last = slot.reviews.last().and_then(|review| review.verdict.known());
        match outcome {
            Outcome::Passed => {
                assert_eq!(last == Some(Verdict::Pass), is_reviewed);
                assert_eq!(is_reviewed, rules.review == Review::On);
                let implement = slot.implement.as_ref().unwrap();
                let changes = implement.changes;
                assert!(is_reviewed || changes != Changes::Empty, "a reviewer said so, or not");
                assert!(!implement.is_marked || changes == Changes::Made, "there was nothing");
                if let Some(merge) = &slot.merge {
                    assert!(merge.outcome.known().is_some_and(MergeOutcome::is_settled));
                }
            }
            Outcome::Drift => {
                assert_eq!(last, Some(Verdict::Drift));
                assert_eq!(fixes, rules.max_fix_attempts);
            }
            Outcome::Violation => assert_eq!(last, Some(Verdict::Violation)),
            Outcome::Failed | Outcome::NoItem => {}
        }
    }
}

/// What can only be seen in the order of the records.
fn judge_order(model: &Model) {
    let mut stopped_in = None;
    let mut is_over = false;
    let (mut finished, mut outcomes) = (0, Vec::new());
    for record in &model.records {
        assert!(!is_over, "nothing follows the end");
        let iteration: u64 = record.iteration.parse().unwrap();
        let mut line = Vec::new();
        print(record, &mut line);
        match Glance::read(line.trim_ascii_end()).unwrap().event() {
            Event::SlotStart(_) => {
                let is_later = stopped_in.is_some_and(|stopped| iteration > stopped);
                assert!(!is_later, "no iteration follows the stop marker");
                assert_eq!(iteration, finished + 1, "the one before has ended");
            }
            Event::SlotImplement(SlotImplement { stop_marker: Some(true), .. })
            | Event::SlotFix(SlotFix { stop_marker: Some(true), .. }) => {
                stopped_in = stopped_in.or(Some(iteration));
            }
            Event::SlotsIterationFinish(finish) => {
                assert_eq!(iteration, finished + 1, "each iteration ends once, in order");
                let outcomes = std::mem::take(&mut outcomes);
                let count = |what: &[Outcome], is: bool| {
                    let counted = |outcome: &&Outcome| what.contains(outcome) == is;
                    outcomes.iter().filter(counted).count() as u64
                };
                assert_eq!(finish.passed, count(&[Outcome::Passed], true));
                assert_eq!(finish.failed, count(&[Outcome::Passed, Outcome::NoItem], false));
                finished = iteration;
            }
            Event::SlotFinish(finish) if !finish.item_id.is_empty() => {
                outcomes.extend(finish.outcome.known());
            }
            Event::SlotRunFinish(_) => is_over = true,
            _ => {}
        }
    }
}

#[test]
fn every_run_ends_by_its_rules_wherever_it_crashes() {
    simulate("slots", 1_000, |_, dice| {
        let mut model = Model::generated(dice);
        let count = model.items.len();
        while !model.drive(dice) {}
        let slots = model.read();
        assert_eq!(slots, model.fold);
        judge_order(&model);
        let finish = slots.finish.clone().unwrap();
        let tally = Tally::of(&slots);
        assert_eq!((finish.taken, finish.passed), (tally.taken, tally.passed));
        assert_eq!(model.items.len() as u64, count as u64 - tally.passed, "what passed is closed");
        assert!(slots.open().next().is_none());
        assert!(model.items.values().all(Option::is_none), "no claim is left");
        match finish.reason {
            Word::Known(End::NoItems | End::Iterations) => {}
            Word::Known(End::MaxItems) => assert!(model.rules.max_items.is_some()),
            Word::Known(End::StopMarker) => assert!(slots.is_stopping),
            Word::Known(End::Interrupted) => panic!("no process asked it to stop"),
            Word::Known(reason) => panic!("{reason:?}: there are no limits"),
            Word::Unknown(other) => panic!("{other}"),
        }
    });
}
