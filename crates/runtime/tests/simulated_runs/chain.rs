//! The rules of chains, checked on the records of one.

use std::collections::BTreeMap;

use crate::chained::Outline;
use crate::judge::{Judge, Known};

/// A chain so far.
pub(crate) struct ChainJudge {
    outline: Outline,
    is_begun: bool,
    /// Whether its harness has to record a resume first.
    is_returning: bool,
    steps: Vec<Step>,
    spent_ms: u64,
    /// How long the current step was running before it crashed.
    interrupted_ms: u64,
    pub(crate) outcome: Option<String>,
    /// Whether a resume gave it more than it would have had.
    pub(crate) was_favoured: bool,
}

/// A step that started.
#[derive(Clone, Debug)]
struct Step {
    run: String,
    /// Why it stopped, once that is on record.
    stop_reason: Option<String>,
}

type Field<'a> = &'a dyn Fn(&str) -> String;

/// Whether a step succeeded.
fn is_success(reason: &str) -> bool {
    matches!(reason, "completion_event" | "completion_promise" | "max_iterations")
}

impl ChainJudge {
    pub(crate) fn new(outline: Outline) -> ChainJudge {
        ChainJudge {
            outline,
            is_begun: false,
            is_returning: false,
            steps: Vec::new(),
            spent_ms: 0,
            interrupted_ms: 0,
            outcome: None,
            was_favoured: false,
        }
    }

    pub(crate) fn stage(&self) -> Known {
        match (&self.outcome, self.is_begun) {
            (Some(_), _) => Known::Over,
            (None, true) => Known::Begun,
            (None, false) => Known::New,
        }
    }

    pub(crate) fn lost_its_harness(&mut self) {
        self.is_returning = self.is_begun;
    }

    /// The run of the current step.
    pub(crate) fn at_work(&self) -> Option<&str> {
        let last = self.steps.last().filter(|step| step.stop_reason.is_none());
        last.map(|step| step.run.as_str())
    }

    pub(crate) fn has_run(&self, run: &str) -> bool {
        self.steps.iter().any(|step| step.run == run)
    }

    /// The run that requested it.
    pub(crate) fn parent(&self) -> Option<&str> {
        self.outline.parent.as_deref()
    }

    pub(crate) fn objective(&self) -> &str {
        &self.outline.objective
    }

    /// How many steps count for the limit of all that belong together.
    pub(crate) fn steps(&self) -> u64 {
        if self.is_begun { self.outline.steps.len() as u64 } else { 0 }
    }

    /// How its end was reported to the run that requested it.
    pub(crate) fn check_return(&self, field: Field<'_>) {
        assert_eq!(Some(field("outcome")), self.outcome);
        assert_eq!(field("steps_completed"), self.ended().count().to_string());
        for step in &self.steps {
            assert!(field("output").contains(&format!("- run: {}\n", step.run)), "{}", step.run);
        }
    }

    /// What the latest step's run finds in its prompt.
    pub(crate) fn handoff(&self) -> Vec<String> {
        let Outline { name, steps: names, parent, .. } = &self.outline;
        let (all, last) = (names.len(), self.steps.len());
        let mut lines = vec![format!("Step {last} of {all} of chain {name}: {}", names.join(", "))];
        lines.extend(parent.iter().map(|run| format!("Run {run} requested this chain.")));
        for (place, step) in self.steps[..last - 1].iter().enumerate() {
            lines.push(format!("## Step {}: {}", place + 1, names[place]));
            lines.push(format!("- run: {}", step.run));
            lines.push(format!("- ended with: {}", step.stop_reason.as_deref().unwrap()));
        }
        lines
    }

    /// Hears a record of the harness about the chain. `runs` are those of its steps.
    pub(crate) fn hear(&mut self, topic: &str, field: Field<'_>, runs: &BTreeMap<String, Judge>) {
        if topic == "event.invalid" {
            // Records that agents forge in its name are reported, and change nothing.
            assert_eq!(field("reason"), "forged");
            return;
        }
        assert_eq!(topic == "chain.resume", self.is_returning, "{topic}");
        assert_eq!(topic == "chain.start", !self.is_begun, "{topic}");
        assert!(self.outcome.is_none(), "{topic} after the end");
        match topic {
            "chain.start" => {
                self.is_begun = true;
                let Outline { steps, objective, parent, .. } = &self.outline;
                assert_eq!(field("steps"), steps.join(","));
                assert_eq!(field("step_count"), steps.len().to_string());
                assert_eq!(field("objective"), *objective);
                assert_eq!(field("parent_id"), parent.as_deref().unwrap_or_default());
            }
            "chain.resume" => self.resumed(field),
            "chain.step.start" => self.step_begins(field, runs),
            "chain.step.finish" => self.step_ends(field, runs),
            "chain.complete" => {
                assert_eq!(Some(&*field("outcome")), self.verdict(), "{:?}", self.steps);
                assert_eq!(field("steps_completed"), self.ended().count().to_string());
                self.outcome = Some(field("outcome"));
            }
            _ => panic!("unexpected topic {topic}"),
        }
    }

    fn ended(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| step.stop_reason.as_deref())
    }

    /// How the chain has to end now, if it has to.
    fn verdict(&self) -> Option<&'static str> {
        let is_spent = self.outline.budget_ms.is_some_and(|budget| self.spent_ms >= budget);
        match self.ended().count() {
            _ if self.ended().any(|reason| !is_success(reason)) => Some("step_failed"),
            count if count == self.outline.steps.len() => Some("all_steps_complete"),
            _ if is_spent => Some("budget_exceeded"),
            _ => None,
        }
    }

    /// A failed step is retried. Time that was spent stays spent, also by a crashed step.
    fn resumed(&mut self, field: Field<'_>) {
        self.is_returning = false;
        let well = self
            .steps
            .iter()
            .take_while(|step| step.stop_reason.as_deref().is_some_and(is_success));
        assert_eq!(field("resumed_from_step"), (well.count() + 1).to_string());
        assert_eq!(field("previous_outcome"), "");
        self.interrupted_ms += field("elapsed_ms").parse::<u64>().unwrap_or_default();
        self.was_favoured |= self.outline.budget_ms.is_some();
        for step in &mut self.steps {
            let was = step.stop_reason.take();
            self.was_favoured |= was.as_deref().is_some_and(|reason| !is_success(reason));
            step.stop_reason = was.filter(|reason| is_success(reason));
        }
    }

    /// A step starts when all before it succeeded and there is budget left, and again only if
    /// nothing is recorded about its run.
    fn step_begins(&mut self, field: Field<'_>, runs: &BTreeMap<String, Judge>) {
        assert_eq!(self.verdict(), None, "{:?}", self.steps);
        let number: usize = field("step").parse().unwrap();
        if let Some(again) = self.steps.get(number - 1) {
            let known = runs.get(&again.run).map(Judge::stage);
            assert_eq!((&again.stop_reason, known), (&None, Some(Known::New)), "again: {number}");
            self.steps.pop();
        }
        assert_eq!(number, self.steps.len() + 1, "not its turn");
        assert!(self.ended().count() == self.steps.len(), "two at once");
        assert_eq!(field("preset"), self.outline.steps[number - 1]);
        assert!(field("work_dir").ends_with(&format!("/step-{number}")));
        self.steps.push(Step { run: field("run_id"), stop_reason: None });
    }

    /// A step ends once, as its run did.
    fn step_ends(&mut self, field: Field<'_>, runs: &BTreeMap<String, Judge>) {
        let step = self.steps.last_mut().expect("a step is in progress");
        assert_eq!(step.stop_reason, None, "again");
        let reason = field("stop_reason");
        assert_eq!(runs.get(&step.run).and_then(Judge::stop_reason), Some(&*reason));
        step.stop_reason = Some(reason);
        self.spent_ms += field("elapsed_ms").parse::<u64>().unwrap();
        self.spent_ms += std::mem::take(&mut self.interrupted_ms);
        assert_eq!(field("step"), self.steps.len().to_string());
    }
}
