//! Chains: loops in sequence, each with the reports of the earlier ones.
//!
//! A chain has its own id in the journal of the project, and every step is an ordinary run. A [`Chain`] is the
//! fold of the chain's records; [`next_step`] decides what follows from it.

mod ancestry;
mod config;
mod handoff;
mod render;
pub mod spawn;

pub use ancestry::Ancestry;
pub use config::{Budget, Definition, Definitions, Fault, StepDefinition};
pub use handoff::{Report, changed_files, handoff, result, returned};
pub use render::{DEEPEST, Tree};
pub use spawn::{Proposal, Refusal, SpawnContext, admit};

pub use crate::record::ChainOutcome as Outcome;

use crate::coordinator::{Fold, Kind, Status};
use crate::record::{ChainStart, Event, Glance, StopReason};
use crate::run::Run;
use crate::timestamp::Timestamp;
use crate::wire_enum::Word;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    pub id: String,
    /// `None` without a `chain.start`.
    pub start: Option<ChainStart>,
    /// The first and the last timestamp, as written.
    pub times: (String, String),
    /// The steps that started, in the order of their numbers.
    pub steps: Vec<ChainStep>,
    /// `None` before the end.
    pub outcome: Option<Word<Outcome>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainStep {
    /// Counted from 1.
    pub number: u64,
    pub preset: String,
    /// Its run, where the record names it.
    pub run: Option<String>,
    /// `None` before the end.
    pub stop_reason: Option<Word<StopReason>>,
    /// Including earlier attempts that failed.
    pub elapsed_ms: u64,
    /// How long the step had run before it was interrupted, while it runs again.
    pub interrupted_ms: u64,
    /// Why it could not begin, or why its agent failed.
    pub detail: Option<String>,
    /// The changed files, one per line, where they are known.
    pub files: Option<String>,
}

impl ChainStep {
    pub fn state(&self) -> String {
        match (&self.stop_reason, &self.detail) {
            (None, _) => "running".to_owned(),
            (Some(reason), None) => reason.to_string(),
            (Some(reason), Some(detail)) => format!("{reason}: {detail}"),
        }
    }

    /// Whether it ended at its goal or its limit.
    pub fn is_success(&self) -> bool {
        self.stop_reason.as_ref().is_some_and(Word::is_success)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    Start,
    Step(u64),
    Complete(Outcome),
    Over,
}

/// What a started step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Resumption {
    /// A run: it has none.
    Begin,
    /// Its run must be resumed.
    Resume,
    /// Only the record of its end: its run ended well.
    Finish,
}

/// What a step that started and did not end needs, by the state of its run.
pub fn resumption(run: Option<&Run>) -> Resumption {
    match run {
        None => Resumption::Begin,
        Some(run) if run.stop_reason().is_some_and(Word::is_success) => Resumption::Finish,
        Some(_) => Resumption::Resume,
    }
}

/// Decides what a chain does next. No ended step is repeated.
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
    pub fn presets(&self) -> Vec<&str> {
        self.start.iter().flat_map(names).collect()
    }

    fn name(&self) -> &str {
        self.start.as_ref().map_or("", |start| &start.name)
    }

    fn objective(&self) -> Option<&str> {
        self.start.as_ref()?.objective.as_deref()
    }

    pub fn step(&self, number: u64) -> Option<&ChainStep> {
        self.steps.iter().find(|step| step.number == number)
    }

    pub fn ended(&self) -> u64 {
        self.steps.iter().filter(|step| step.stop_reason.is_some()).count() as u64
    }

    /// The first step that did not end well.
    pub fn first_open(&self) -> u64 {
        let is_success = |number: &u64| self.step(*number).is_some_and(ChainStep::is_success);
        1 + (1..=self.steps.len() as u64).take_while(is_success).count() as u64
    }

    /// The time of ended steps and of interrupted attempts.
    pub fn spent_ms(&self) -> u64 {
        let spent = |step: &ChainStep| step.elapsed_ms.saturating_add(step.interrupted_ms);
        self.steps.iter().fold(0, |sum, step| sum.saturating_add(spent(step)))
    }

    /// Without the interrupted attempt of the step that runs again.
    fn spent_before(&self, number: u64) -> u64 {
        self.spent_ms().saturating_sub(self.step(number).map_or(0, |step| step.interrupted_ms))
    }

    pub fn parent(&self) -> Option<&str> {
        self.start.as_ref()?.parent_id.as_deref()
    }

    pub fn step_of(&self, run: &str) -> Option<&ChainStep> {
        self.steps.iter().find(|step| step.run.as_deref() == Some(run))
    }

    /// The status by the records, which cannot tell a crashed or interrupted chain from a running
    /// one.
    pub fn status(&self) -> Status {
        match &self.outcome {
            None => Status::Running,
            Some(outcome) => Status::of_reason(outcome.as_str()),
        }
    }

    /// How long the current step ran: from the last record of the chain to the last record of its
    /// run, both as written.
    pub fn interrupted_after_ms(&self, run_heard_of: &str) -> Option<u64> {
        let millis = |text: &str| text.parse::<Timestamp>().ok().map(Timestamp::millis);
        let took = millis(run_heard_of)?.saturating_sub(millis(&self.times.1)?);
        Some(u64::try_from(took).unwrap_or_default())
    }

    fn has_ended(&self, number: u64) -> bool {
        self.step(number).is_some_and(|step| step.stop_reason.is_some())
    }

    /// Failed steps are retried. Their time still counts: otherwise resuming would lift the limit.
    fn resumed(&mut self, interrupted_after_ms: u64) {
        self.outcome = None;
        if let Some(step) = self.steps.iter_mut().find(|step| step.stop_reason.is_none()) {
            step.interrupted_ms = step.interrupted_ms.saturating_add(interrupted_after_ms);
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
        Chain { id: id.to_owned(), ..Chain::default() }
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        if record.has_payload() {
            return;
        }
        if let Some(ts) = record.ts() {
            self.times.1 = ts.into_owned();
        }
        match record.event() {
            // A chain starts once.
            Event::ChainStart(_) if self.start.is_some() => {}
            Event::ChainStart(start) => {
                self.times.0.clone_from(&self.times.1);
                self.start = Some(start);
            }
            Event::ChainStepStart(began) => {
                let step = self.step_mut(began.step);
                // An ended step does not change.
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
                    let took = took.saturating_add(std::mem::take(&mut step.interrupted_ms));
                    step.elapsed_ms = step.elapsed_ms.saturating_add(took);
                    step.detail = ended.detail;
                    step.files = ended.files;
                }
            }
            Event::ChainComplete(complete) => self.outcome = Some(complete.outcome),
            Event::ChainResume(resume) => self.resumed(resume.elapsed_ms.unwrap_or_default()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
