//! The decisions of a run of a loop, from its state and its rules only.

mod remark;

pub use remark::{Remark, remark};

use crate::chain::spawn::{self, SpawnStep};
use crate::limits::{self, Ledger, Reached, RunLimits, Start};
use crate::record::{EventInvalid, LoopComplete, LoopStop, StopReason};
use crate::review::Contract;
use crate::run::{Ending, Run, Stage};
use crate::timestamp::Timestamp;
use crate::topology::{Route, Topology};
use crate::wave::{self, BranchOrder, WaveStep};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub max_iterations: u64,
    /// After how many iterations without progress the run has stalled; `None` for never.
    pub stall_iterations: Option<u64>,
    pub completion_event: String,
    /// The events that must have been seen before the run may complete.
    pub required_events: Vec<String>,
    /// How many iterations lie between two metareviews; `None` for none.
    pub review_every: Option<u64>,
    /// The maximum number of branches of a wave; `None` where waves are off.
    pub max_branches: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    Start,
    Review {
        /// The iteration that it precedes.
        before: u64,
    },
    Iterate(Order),
    Wave(WaveStep),
    Chain(SpawnStep),
    Complete(LoopComplete),
    Stop(LoopStop),
    Over(Ending),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub iteration: u64,
    pub recent_event: String,
    pub route: Route,
    pub backpressure: Option<EventInvalid>,
}

pub fn next_step(run: &Run, rules: &Rules, topology: &Topology) -> Step {
    match &run.stage {
        Stage::New => Step::Start,
        Stage::Ended(ending) => Step::Over(ending.clone()),
        // An interrupted iteration, or the review before it, is repeated.
        Stage::Iterating => Step::Iterate(order(run, topology)),
        Stage::Between | Stage::Reviewing => match step_between(run, rules, topology) {
            Some(step) => step,
            None => match rules.review_due(run.done + 1) && run.reviewed_before != run.done + 1 {
                true => Step::Review { before: run.done + 1 },
                false => Step::Iterate(order(run, topology)),
            },
        },
    }
}

impl Rules {
    pub fn review_due(&self, iteration: u64) -> bool {
        let due = |every: u64| iteration > 1 && (iteration - 1).is_multiple_of(every);
        self.review_every.is_some_and(due)
    }
}

/// The step before the next iteration, or in its place.
fn step_between(run: &Run, rules: &Rules, topology: &Topology) -> Option<Step> {
    let chain = || spawn::next(run).map(Step::Chain);
    let wave = || {
        let opening_event = &run.turn.opening_event;
        wave::next(&run.waves, &run.id, opening_event, rules.max_branches, topology).map(Step::Wave)
    };
    match verdict(run, rules, topology) {
        // Open chains and waves are finished first, whatever the rules say by now.
        Some(_) if run.spawns.open.is_some() => chain(),
        Some(_) if run.waves.open.is_some() => wave(),
        Some(end) => Some(spawn::at_the_end(run).map_or(end, Step::Chain)),
        None => chain().or_else(wave),
    }
}

fn verdict(run: &Run, rules: &Rules, topology: &Topology) -> Option<Step> {
    // A failed backend ends the run, whatever its agent emitted before.
    if let Some(failure) = run.failure() {
        return Some(Step::Stop(LoopStop {
            reason: failure.stop_reason().into(),
            iteration: Some(run.done),
            detail: Some(failure.to_string()),
            ..LoopStop::default()
        }));
    }
    if let Some(reason) = completion(run, rules) {
        return Some(Step::Complete(LoopComplete { reason: reason.into() }));
    }
    if run.done >= rules.max_iterations {
        return Some(Step::Stop(LoopStop {
            reason: StopReason::MaxIterations.into(),
            completed_iterations: Some(run.done),
            stopped_before_iteration: Some(run.done + 1),
            max_iterations: Some(rules.max_iterations),
            ..LoopStop::default()
        }));
    }
    stalled(run, rules, topology).map(|detail| {
        Step::Stop(LoopStop {
            reason: StopReason::Stalled.into(),
            iteration: Some(run.done),
            detail: Some(detail),
            ..LoopStop::default()
        })
    })
}

/// Why the run has stalled, if it has.
fn stalled(run: &Run, rules: &Rules, topology: &Topology) -> Option<String> {
    let count = run.idle.in_a_row(topology);
    rules.stall_iterations.filter(|most| count >= *most)?;
    Some(match count == run.idle.same {
        true => format!(
            "{count} iterations in a row changed nothing and ended in the same way: {}",
            run.idle.why
        ),
        false => format!("{count} iterations in a row emitted no event"),
    })
}

/// The step, or in its place the end of the run where a limit lets no further agent start. Branches of a wave start
/// as far as there is room for them; the others follow.
pub fn within_limits(
    step: Step,
    run: &Run,
    ledger: &Ledger,
    limits: &RunLimits,
    now: Timestamp,
) -> Step {
    let stop = |reached: Reached| {
        Step::Stop(LoopStop {
            reason: reached.limit.stop_reason().into(),
            iteration: Some(run.done),
            detail: Some(reached.detail),
            raise: Some(reached.raise),
            ..LoopStop::default()
        })
    };
    let of_run = |step: String| Start { lane: String::new(), step };
    let start = match &step {
        Step::Review { .. } => of_run(Contract::Metareview.name().to_owned()),
        Step::Iterate(order) => of_run(order.route.roles.join(",")),
        Step::Chain(SpawnStep::CarryOut(_)) => of_run(String::new()),
        Step::Wave(WaveStep::Branches(orders)) => {
            let start = |order: &BranchOrder| limits::branch(&order.start);
            return match ledger.admit(orders.clone(), start, limits, now) {
                Ok(orders) => Step::Wave(WaveStep::Branches(orders)),
                Err(reached) => stop(reached),
            };
        }
        // The deadline of the last turn was the end of the run.
        Step::Stop(end) if end.reason == StopReason::BackendTimeout => {
            return ledger.is_late(limits, now).map_or(step, stop);
        }
        _ => return step,
    };
    ledger.reserve(&start, limits, now).map_or_else(stop, |_| step)
}

fn completion(run: &Run, rules: &Rules) -> Option<StopReason> {
    let turn = &run.turn;
    let exit = turn.exit.as_ref()?;
    if turn.withdrawn || !rules.required_events.iter().all(|event| run.seen.contains(event)) {
        return None;
    }
    if run.seen.contains(&rules.completion_event) {
        return Some(StopReason::CompletionEvent);
    }
    // An agent that emitted an event, requested a chain or had an event refused was not done, whatever
    // its output says.
    let is_alone = turn.events.is_empty() && turn.asked.is_empty() && !turn.refused;
    (exit.promised && is_alone).then_some(StopReason::CompletionPromise)
}

fn order(run: &Run, topology: &Topology) -> Order {
    // A repeated iteration is routed as before, whatever its agent emitted before the interruption.
    let recent_event = match run.stage {
        Stage::Iterating => &run.turn.opening_event,
        _ => &run.recent_event,
    };
    Order {
        iteration: run.done + 1,
        recent_event: recent_event.clone(),
        route: topology.route(recent_event),
        backpressure: run.backpressure.clone(),
    }
}

#[cfg(test)]
mod tests;
