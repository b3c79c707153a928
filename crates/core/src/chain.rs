//! Chains: several loops, one after another, each told what the earlier ones left.
//!
//! A chain has an id of its own in the journal of the project, and every step is an ordinary run. A
//! [`Chain`] is the fold of the chain's records; [`next_step`] says what follows from it.

mod admission;
mod ancestry;
mod budget;
mod config;
mod handoff;
mod refusal;
mod render;
pub mod spawn;

pub use admission::{Circumstances, Proposal, consider};
pub use ancestry::Family;
pub use budget::Budget;
pub use config::{Definition, Definitions, Fault, StepDefinition};
pub use handoff::{Report, changed_files, handoff, result, returned};
pub use refusal::Refusal;
pub use render::{DEEPEST, Tree};

pub use crate::record::ChainOutcome as Outcome;

use crate::coordinator::{Fold, Kind, Status};
use crate::record::{ChainStart, Event, Glance, StopReason};
use crate::run::Run;
use crate::timestamp::Timestamp;
use crate::wire_enum::Word;

/// What a chain has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Its id.
    pub id: String,
    /// What it was started with. `None` for records that no `chain.start` came before.
    pub start: Option<ChainStart>,
    /// When it began and when it was last heard of, as written.
    pub times: (String, String),
    /// The steps that began, in the order of their numbers.
    pub steps: Vec<ChainStep>,
    /// How it ended, as written; `None` while it is under way.
    pub outcome: Option<Word<Outcome>>,
}

/// What one step has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainStep {
    /// Which one, counted from 1.
    pub number: u64,
    /// The loop that it runs.
    pub preset: String,
    /// Its run, if the journal says.
    pub run: Option<String>,
    /// How it ended; `None` while it is under way.
    pub stop_reason: Option<Word<StopReason>>,
    /// How long its harness was at it, with what it took before it failed and was taken up again.
    pub elapsed_ms: u64,
    /// How long it was at work before it was cut off, while it is under way again.
    pub cut_off_ms: u64,
    /// Why it could not begin, or why its agent failed.
    pub detail: Option<String>,
    /// The files that changed meanwhile, one a line, if that is known.
    pub files: Option<String>,
}

impl ChainStep {
    /// How it ended, and why where that is known.
    pub fn state(&self) -> String {
        match (&self.stop_reason, &self.detail) {
            (None, _) => "under way".to_owned(),
            (Some(reason), None) => reason.to_string(),
            (Some(reason), Some(detail)) => format!("{reason}: {detail}"),
        }
    }

    /// Whether it ended well.
    pub fn is_well(&self) -> bool {
        self.stop_reason.as_ref().is_some_and(Word::is_success)
    }
}

/// What a chain does next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// It begins.
    Start,
    /// This step is begun, or taken up again.
    Step(u64),
    /// It ends.
    Complete(Outcome),
    /// It has ended.
    Over,
}

/// What a step that began needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Resumption {
    /// A run: there is none on record.
    Begin,
    /// Its run has to go on.
    GoOn,
    /// Nothing but a record: its run ended well.
    Finish,
}

/// What a step needs that began and did not end, by the state of its run.
pub fn resumption(run: Option<&Run>) -> Resumption {
    match run {
        None => Resumption::Begin,
        Some(run) if run.stop_reason().is_some_and(Word::is_success) => Resumption::Finish,
        Some(_) => Resumption::GoOn,
    }
}

/// What a chain does next. No step that ended is done again.
pub fn next_step(chain: &Chain, budget: &Budget) -> Next {
    let Some(start) = &chain.start else { return Next::Start };
    if chain.outcome.is_some() {
        return Next::Over;
    }
    let mut ended = chain.steps.iter().filter_map(|step| step.stop_reason.as_ref());
    if ended.any(|reason| !reason.is_success()) {
        return Next::Complete(Outcome::StepFailed);
    }
    let is_open = |number: &u64| !chain.has_ended(*number);
    match (1..=names(start).count() as u64).find(is_open) {
        None => Next::Complete(Outcome::AllStepsComplete),
        Some(number) if chain.spent_before(number) >= budget.max_runtime_ms => {
            Next::Complete(Outcome::BudgetExceeded)
        }
        Some(number) => Next::Step(number),
    }
}

fn names(start: &ChainStart) -> impl Iterator<Item = &str> {
    start.steps.split(',').filter(|name| !name.is_empty())
}

impl Chain {
    /// A chain of which nothing is known yet.
    pub fn new(id: impl Into<String>) -> Self {
        Chain { id: id.into(), ..Chain::default() }
    }

    /// The loops that it runs, in order.
    pub fn presets(&self) -> Vec<&str> {
        self.start.iter().flat_map(names).collect()
    }

    /// A step that began.
    pub fn step(&self, number: u64) -> Option<&ChainStep> {
        self.steps.iter().find(|step| step.number == number)
    }

    /// How many steps ended, however they did.
    pub fn ended(&self) -> u64 {
        self.steps.iter().filter(|step| step.stop_reason.is_some()).count() as u64
    }

    /// The first step that did not end well.
    pub fn first_open(&self) -> u64 {
        let is_well = |number: &u64| self.step(*number).is_some_and(ChainStep::is_well);
        1 + (1..=self.steps.len() as u64).take_while(is_well).count() as u64
    }

    /// How long the steps took that ended, and those that were cut off until then.
    pub fn spent_ms(&self) -> u64 {
        let spent = |step: &ChainStep| step.elapsed_ms.saturating_add(step.cut_off_ms);
        self.steps.iter().fold(0, |sum, step| sum.saturating_add(spent(step)))
    }

    /// The same without what a step took that goes on where it was cut off: it is under way.
    fn spent_before(&self, number: u64) -> u64 {
        self.spent_ms().saturating_sub(self.step(number).map_or(0, |step| step.cut_off_ms))
    }

    /// The run that asked for it, if one did.
    pub fn parent(&self) -> Option<&str> {
        self.start.as_ref()?.parent_id.as_deref()
    }

    /// The step that is this run.
    pub fn step_of(&self, run: &str) -> Option<&ChainStep> {
        self.steps.iter().find(|step| step.run.as_deref() == Some(run))
    }

    /// How it is by its records, which cannot tell a chain that crashed or was interrupted from one that is
    /// running.
    pub fn status(&self) -> Status {
        match &self.outcome {
            None => Status::Running,
            Some(outcome) if *outcome == Outcome::AllStepsComplete => Status::Completed,
            Some(outcome) => Status::of_reason(outcome.as_str()),
        }
    }

    /// How long the step that is under way was at work since the chain was heard of last, if its run was
    /// heard of then; both as written.
    pub fn cut_off_after_ms(&self, run_heard_of: &str) -> Option<u64> {
        let millis = |text: &str| text.parse::<Timestamp>().ok().map(Timestamp::millis);
        let took = millis(run_heard_of)?.saturating_sub(millis(&self.times.1)?);
        Some(u64::try_from(took).unwrap_or_default())
    }

    fn has_ended(&self, number: u64) -> bool {
        self.step(number).is_some_and(|step| step.stop_reason.is_some())
    }

    /// Takes in a record of this chain. Records of others have to be kept away by the caller.
    pub fn apply(&mut self, record: &Glance<'_>) {
        if record.has_payload() {
            return;
        }
        if let Some(ts) = record.ts() {
            self.times.1 = ts.into_owned();
        }
        match record.event() {
            // A chain begins once.
            Event::ChainStart(_) if self.start.is_some() => {}
            Event::ChainStart(start) => {
                self.times.0.clone_from(&self.times.1);
                self.start = Some(start);
            }
            Event::ChainStepStart(began) => {
                let step = self.step_mut(began.step);
                // What ended stays as it was.
                if step.stop_reason.is_none() {
                    step.preset = began.preset;
                    step.run = began.run_id;
                }
            }
            Event::ChainStepFinish(ended) => {
                let step = self.step_mut(ended.step);
                if step.stop_reason.is_none() {
                    step.preset = ended.preset;
                    step.stop_reason = Some(ended.stop_reason);
                    let took = ended.elapsed_ms.unwrap_or_default();
                    let took = took.saturating_add(std::mem::take(&mut step.cut_off_ms));
                    step.elapsed_ms = step.elapsed_ms.saturating_add(took);
                    step.detail = ended.detail;
                    step.files = ended.files;
                }
            }
            Event::ChainComplete(complete) => self.outcome = Some(complete.outcome),
            Event::ChainResume(resume) => self.taken_up(resume.elapsed_ms.unwrap_or_default()),
            _ => {}
        }
    }

    /// A step that failed is tried again. What was spent so far stays spent: a limit that going on would
    /// lift is none.
    fn taken_up(&mut self, cut_off_after_ms: u64) {
        self.outcome = None;
        if let Some(step) = self.steps.iter_mut().find(|step| step.stop_reason.is_none()) {
            step.cut_off_ms = step.cut_off_ms.saturating_add(cut_off_after_ms);
        }
        let is_failed =
            |step: &&mut ChainStep| !step.stop_reason.as_ref().is_none_or(Word::is_success);
        for step in self.steps.iter_mut().filter(is_failed) {
            step.stop_reason = None;
            step.detail = None;
        }
    }

    fn step_mut(&mut self, number: u64) -> &mut ChainStep {
        let place = self.steps.partition_point(|step| step.number < number);
        if self.steps.get(place).is_none_or(|step| step.number != number) {
            self.steps.insert(place, ChainStep { number, ..ChainStep::default() });
        }
        &mut self.steps[place]
    }
}

impl Fold for Chain {
    const KIND: Kind = Kind::Chain;

    fn new(id: &str) -> Self {
        Chain::new(id)
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        Chain::apply(self, record);
    }
}

#[cfg(test)]
mod tests;
