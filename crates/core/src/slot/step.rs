//! The decisions of a run of slots and of one slot, from the fold and the rules only.

use super::{
    Changes, End, FinishedIteration, Implemented, Outcome, Picked, Reviewed, Slot, Slots, Tally,
};
use crate::limits::{Reached, RunLimits, Start};
use crate::merge::MergeOutcome;
use crate::record::{Phase, SlotFinish, SlotRunFinish};
use crate::review::{Contract, Round, Ruling, Verdict};
use crate::timestamp::Timestamp;

/// How often work may change after it passed a review, and is reviewed again.
const MOST_CHANGES: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRules {
    /// The maximum; `None` for no limit.
    pub iterations: Option<u64>,
    pub parallel_agents: u64,
    pub review: Review,
    /// How often an item may be fixed.
    pub max_fix_attempts: u64,
    /// How often a reviewer that broke the contract is asked again.
    pub contract_repair: u64,
    pub new_items: NewItems,
    /// The maximum number of items; `None` for no limit.
    pub max_items: Option<u64>,
    /// Whether passed work is committed where a slot works in the project itself.
    pub commit: Commit,
}

impl SlotRules {
    pub fn contract(&self) -> Contract {
        Contract::Slot { revisions: self.max_fix_attempts, repairs: self.contract_repair }
    }
}

/// Whether a run takes items that were added after it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewItems {
    Excluded,
    Included,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    On,
    Off,
    NoPrompt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    Start,
    /// Claim items and start an iteration with them.
    Open {
        iteration: u64,
        slots: Vec<u64>,
    },
    /// Run the slots of an iteration that started and did not end.
    CarryOut {
        iteration: u64,
        slots: Vec<u64>,
    },
    FinishIteration(FinishedIteration),
    Finish(SlotRunFinish),
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum SlotStep {
    Implement,
    Review {
        /// Counted from 0.
        attempt: u64,
    },
    Fix {
        /// Counted from 1.
        attempt: u64,
        follow_up: String,
    },
    Merge,
    Finish(SlotFinish),
    Over,
}

pub fn next_step(slots: &Slots, rules: &SlotRules) -> Step {
    if slots.finish.is_some() {
        return Step::Over;
    }
    if slots.start.is_none() {
        return Step::Start;
    }
    let iteration = slots.iteration();
    let open: Vec<u64> = slots.open().map(|slot| slot.start.slot).collect();
    if !open.is_empty() {
        return Step::CarryOut { iteration, slots: open };
    }
    if iteration > 0 && !slots.has_finished(iteration) {
        return Step::FinishIteration(slots.iteration_so_far(iteration));
    }
    let ended = match iteration {
        0 => None,
        _ if slots.is_stopping => Some(End::StopMarker),
        // The last search for items found none, and the run was not resumed since.
        _ if iteration > slots.resumed_after && none_worked_on(slots, iteration) => {
            Some(End::NoItems)
        }
        _ if slots.left_to_take(rules) == 0 => Some(End::MaxItems),
        _ if rules.iterations.is_some_and(|most| iteration >= most) => Some(End::Iterations),
        _ => None,
    };
    match ended {
        Some(end) => Step::Finish(slots.finished(end)),
        None => Step::Open {
            iteration: iteration + 1,
            slots: (1..=rules.parallel_agents.max(1).min(slots.left_to_take(rules))).collect(),
        },
    }
}

/// The step, or in its place the end of the run where a limit lets no further agent start. Slots start as far as there
/// is room for them; the others follow.
pub fn within_limits(
    step: Step,
    slots: &Slots,
    rules: &SlotRules,
    limits: &RunLimits,
    now: Timestamp,
) -> Step {
    let stop = |reached: Reached| {
        Step::Finish(SlotRunFinish {
            detail: Some(reached.detail),
            raise: Some(reached.raise),
            ..slots.finished(reached.limit.slots_end())
        })
    };
    let start = |number: &u64, phase: Phase| Start {
        lane: number.to_string(),
        step: phase.name().to_owned(),
    };
    match step {
        Step::Open { iteration, slots: numbers } => {
            let start = |number: &u64| start(number, Phase::Implement);
            slots
                .ledger
                .admit(numbers, start, limits, now)
                .map_or_else(stop, |slots| Step::Open { iteration, slots })
        }
        Step::CarryOut { iteration, slots: numbers } => {
            let mut reached = None;
            let mut has_room = |number: &u64| {
                let slot = slots.slot(iteration, *number);
                let phase = slot.and_then(|slot| slot_step(slot, rules).agent());
                let Some(phase) = phase else { return true };
                let decided = slots.ledger.reserve(&start(number, phase), limits, now);
                let is_ok = decided.is_ok();
                reached = reached.take().or(decided.err());
                is_ok
            };
            let ready: Vec<u64> = numbers.into_iter().filter(|number| has_room(number)).collect();
            match reached {
                Some(reached) if ready.is_empty() => stop(reached),
                _ => Step::CarryOut { iteration, slots: ready },
            }
        }
        step => step,
    }
}

impl SlotStep {
    /// The phase of its agent, if it needs one.
    pub fn agent(&self) -> Option<Phase> {
        match self {
            SlotStep::Implement => Some(Phase::Implement),
            SlotStep::Review { .. } => Some(Phase::Review),
            SlotStep::Fix { .. } => Some(Phase::Fix),
            SlotStep::Merge | SlotStep::Finish(_) | SlotStep::Over => None,
        }
    }
}

/// Whether a slot starts after the search for its item. An empty queue is recorded once: a slot
/// without an item starts only in the first iteration.
pub fn begins(iteration: u64, has_item: bool) -> bool {
    has_item || iteration == 1
}

fn none_worked_on(slots: &Slots, iteration: u64) -> bool {
    slots.slots.iter().filter(|slot| slot.iteration == iteration).all(|slot| !slot.has_item())
}

impl Slots {
    pub fn finished(&self, end: End) -> SlotRunFinish {
        let Tally { taken, passed } = Tally::of(self);
        SlotRunFinish { reason: end.into(), taken, passed, ..SlotRunFinish::default() }
    }

    fn left_to_take(&self, rules: &SlotRules) -> u64 {
        let recent = self.slots.iter().filter(|slot| slot.iteration > self.resumed_after);
        let taken = recent.filter(|slot| slot.has_item()).count() as u64;
        rules.max_items.map_or(u64::MAX, |most| most.saturating_sub(taken))
    }

    /// The items that are not taken again. A run without a limit would otherwise retry a failing
    /// item forever; with a limit, another attempt is as good a use of an iteration as any. A
    /// resumed run tries each once more.
    pub fn spent(&self, rules: &SlotRules) -> Vec<&str> {
        if rules.iterations.is_some() {
            return Vec::new();
        }
        let recent = self.slots.iter().filter(|slot| slot.iteration > self.resumed_after);
        recent.map(|slot| slot.start.item_id.as_str()).collect()
    }
}

pub fn slot_step(slot: &Slot, rules: &SlotRules) -> SlotStep {
    if slot.finish.is_some() {
        return SlotStep::Over;
    }
    if !slot.has_item() {
        return slot.ends(Outcome::NoItem, "no item is available");
    }
    let Some(implement) = &slot.implement else { return SlotStep::Implement };
    if let Some(failure) = &implement.turn.failure {
        return slot.ends(Outcome::Failed, failure.of("implementer"));
    }
    if implement.picked == Picked::Nothing {
        return slot.ends(Outcome::NoItem, "the agent did not take the item");
    }
    if implement.reports_nothing_to_do() {
        return slot.ends(Outcome::NoItem, "the implementer reported that there is nothing to do");
    }
    match (rules.review, slot.reviews.last()) {
        (Review::Off | Review::NoPrompt, None) if implement.changes == Changes::Empty => {
            let why = "the implementer changed nothing, and without a review nothing confirms that no change was needed";
            slot.ends(Outcome::Failed, why)
        }
        (Review::Off, None) => settle(slot, "not reviewed: reviews are off", rules),
        (Review::NoPrompt, None) => {
            settle(slot, "not reviewed: there is no reviewer prompt", rules)
        }
        (Review::On, None) => SlotStep::Review { attempt: 0 },
        (_, Some(last)) => after_review(slot, last, rules),
    }
}

fn after_review(slot: &Slot, last: &Reviewed, rules: &SlotRules) -> SlotStep {
    let Some(verdict) = last.verdict.known() else {
        // An unknown verdict is no pass.
        let verdict = &last.verdict;
        let why = format!("unknown verdict '{verdict}'");
        return slot.ends(Outcome::Failed, why);
    };
    let round = Round { revisions: last.attempt, breaches: slot.violations(last.attempt) };
    let next = last.attempt + 1;
    let fixed = slot.fixes.iter().find(|fix| fix.attempt == next);
    match (rules.contract().settle(verdict, round), fixed) {
        // The prompt said that a pass confirms that no change was needed.
        (Ruling::Proceed, _) if last.changes == Changes::Empty => {
            let reason = match last.follow_up.trim() {
                "" => "no change was needed".to_owned(),
                said => format!("no change was needed: {said}"),
            };
            settle(slot, &reason, rules)
        }
        (Ruling::Proceed, _) => settle(slot, &last.follow_up, rules),
        (Ruling::Repeat, _) => SlotStep::Review { attempt: last.attempt },
        (Ruling::Fail, _) if verdict == Verdict::Violation => {
            slot.ends(Outcome::Violation, broken(last, rules))
        }
        (Ruling::Fail | Ruling::Escalate, _) => slot.ends(Outcome::Failed, &*last.reason),
        (Ruling::Revise | Ruling::Stuck, Some(fix)) => match &fix.failure {
            Some(failure) => slot.ends(Outcome::Failed, failure.of("fixer")),
            None => SlotStep::Review { attempt: next },
        },
        (Ruling::Revise, None) => {
            SlotStep::Fix { attempt: next, follow_up: last.follow_up.clone() }
        }
        (Ruling::Stuck, None) => slot.ends(Outcome::Drift, unresolved(last)),
    }
}

/// Passed work is merged back, then the slot ends.
fn settle(slot: &Slot, reason: &str, rules: &SlotRules) -> SlotStep {
    if slot.start.branch.is_empty() && rules.commit == Commit::Off {
        return slot.ends(Outcome::Passed, reason);
    }
    match &slot.merge {
        None => SlotStep::Merge,
        Some(merge) if merge.outcome == MergeOutcome::Changed => after_change(slot),
        // An unknown outcome is not settled, so that the work is kept.
        Some(merge) if merge.outcome.known().is_some_and(MergeOutcome::is_settled) => {
            slot.ends(Outcome::Passed, reason)
        }
        Some(merge) => {
            let detail = merge.detail.clone().unwrap_or_default();
            let mut why = vec![merge.outcome.to_string(), merge.files.clone(), detail];
            why.retain(|part| !part.is_empty());
            let why = why.join(": ");
            slot.ends(Outcome::Failed, format!("the work could not be merged back ({why})"))
        }
    }
}

impl Implemented {
    /// Whether the implementer printed the stop marker and changed nothing.
    fn reports_nothing_to_do(&self) -> bool {
        self.is_marked && self.changes != Changes::Made
    }
}

/// Changed work is reviewed again. Repeated changes mean that another process writes to the
/// worktree.
fn after_change(slot: &Slot) -> SlotStep {
    match slot.reviews.last() {
        Some(last) if slot.changed <= MOST_CHANGES => SlotStep::Review { attempt: last.attempt },
        _ => {
            let times = slot.changed;
            let why = format!(
                "the work was changed after it had passed a review, {times} times: another process writes to its files"
            );
            slot.ends(Outcome::Failed, why)
        }
    }
}

impl Slot {
    fn violations(&self, attempt: u64) -> u64 {
        let same = self.reviews.iter().filter(|review| review.attempt == attempt);
        same.filter(|review| review.verdict == Verdict::Violation).count() as u64
    }

    fn ends(&self, outcome: Outcome, reason: impl Into<String>) -> SlotStep {
        SlotStep::Finish(self.finished(outcome, reason.into()))
    }

    pub fn finished(&self, outcome: Outcome, reason: String) -> SlotFinish {
        let (slot, item_id) = (self.start.slot, self.start.item_id.clone());
        SlotFinish { slot, item_id, outcome: outcome.into(), reason }
    }
}

/// How the contract was broken, with a hint where repairs are not configured.
fn broken(last: &Reviewed, rules: &SlotRules) -> String {
    match rules.contract_repair {
        0 => {
            format!("{}; `slots.reviewContractRepair = 1` asks the reviewer once more", last.reason)
        }
        _ => last.reason.clone(),
    }
}

fn unresolved(last: &Reviewed) -> String {
    match last.attempt {
        0 => format!("there are no fixes, and the review found: {}", last.follow_up),
        1 => format!("after 1 fix the review still found: {}", last.follow_up),
        fixes => format!("after {fixes} fixes the review still found: {}", last.follow_up),
    }
}
