//! The summary of a run, read from its journal.

use std::fmt::Write;

use autoloop_core::merge::MergeOutcome;
use autoloop_core::record::{Event, Glance, LoopComplete, LoopStop, SquadMerge, SquadReview};
use autoloop_core::squad::{Squad, Turn};
use autoloop_core::topic::TopicClass;
use autoloop_runtime::journal::Journal;

use crate::commands::inspect::excerpt::for_each_record;
use crate::failure::Failure;
use crate::terminal;

const WIDTH: usize = 79;
/// Columns before the text.
const INDENT: usize = 36;

#[derive(Debug, Default)]
pub(super) struct Summary {
    objective: String,
    rows: Vec<Row>,
    ending: String,
}

/// One event. Number and role are empty where they are those of the row above.
#[derive(Debug, Default)]
struct Row {
    number: String,
    role: String,
    event: String,
    text: String,
}

impl Summary {
    pub(super) fn of(journal: &dyn Journal, run: &str) -> Result<Summary, Failure> {
        let mut summary = Summary::default();
        for_each_record(journal, |record, _| {
            if record.run() == run {
                summary.apply(record);
            }
        })?;
        Ok(summary)
    }

    /// What each loop of a squad did, in the order of the plan: loops work at the same time.
    pub(super) fn of_squad(journal: &dyn Journal, squad: &Squad) -> Result<Summary, Failure> {
        let mut merges = Vec::new();
        for_each_record(journal, |record, _| {
            if record.run() == squad.id {
                merges.extend(SquadMerge::of(record));
            }
        })?;
        let objective = squad.start.as_ref().map(|start| start.spec.trim().to_owned());
        let mut summary =
            Summary { objective: objective.unwrap_or_default(), ..Summary::default() };
        for it in &squad.loops {
            summary.turn(&it.number.to_string(), &it.task_id);
            summary.turns(squad, |turn| turn.is_of(&it.id));
            for merge in merges.iter().filter(|merge| merge.loop_id == it.id) {
                let text = match (merge.outcome.known(), merge.resolved_by) {
                    (Some(MergeOutcome::Merged), Some(_)) => "with both contributions",
                    (Some(MergeOutcome::Merged), None) => "",
                    _ => merge.detail.as_deref().unwrap_or_default(),
                };
                summary.add(merge.outcome.as_str(), text);
            }
        }
        summary.turn("", "squad");
        summary.turns(squad, |turn| turn.start.loop_id.is_none());
        summary.ending = squad.summary();
        Ok(summary)
    }

    fn turns(&mut self, squad: &Squad, is_meant: impl Fn(&Turn) -> bool) {
        for turn in squad.turns.iter().filter(|turn| is_meant(turn)) {
            let review = squad.reviews.iter().find(|review| review.turn == turn.number());
            let output = turn.end().map(|end| end.output.lines().last().unwrap_or_default());
            let said = || output.unwrap_or_default().to_owned();
            let text = review.map_or_else(said, |review| decision(review, squad));
            self.add(turn.start.phase.as_str(), &text);
        }
    }

    fn apply(&mut self, record: &Glance<'_>) {
        match record.event() {
            Event::Routing(topic) if topic.class() == TopicClass::Agent => {
                self.add(topic.as_str(), &record.payload().unwrap_or_default());
            }
            Event::LoopStart(start) => self.objective = start.objective,
            Event::IterationStart(start) => {
                self.turn(&record.iteration(), &start.suggested_roles);
                if !start.backpressure.is_empty() {
                    self.add("(told why)", "its prompt says what was refused, and what is allowed");
                }
            }
            Event::EventInvalid(invalid) => {
                let allowed = invalid.allowed_events.replace(',', ", ");
                self.add(&invalid.emitted, &format!("refused: allowed is {allowed}"));
            }
            Event::ReviewFinish(finish) => {
                self.turn("", "metareview");
                self.add("", finish.output.read().lines().last().unwrap_or_default());
            }
            Event::LoopComplete(LoopComplete { reason }) => {
                self.ending = format!("complete ({reason})");
            }
            Event::LoopStop(LoopStop { reason, .. }) => self.ending = format!("stopped ({reason})"),
            _ => {}
        }
    }

    fn turn(&mut self, number: &str, role: &str) {
        let (number, role) = (number.to_owned(), role.to_owned());
        self.rows.push(Row { number, role, ..Row::default() });
    }

    /// Adds an event to the turn that began last.
    fn add(&mut self, event: &str, text: &str) {
        let is_empty = |row: &mut Row| row.event.is_empty() && row.text.is_empty();
        let turn = self.rows.pop_if(is_empty).unwrap_or_default();
        self.rows.push(Row { event: event.to_owned(), text: text.to_owned(), ..turn });
    }

    pub(super) fn render(&self) -> String {
        let mut out = format!("Objective: {}\n\n", self.objective);
        for Row { number, role, event, text } in &self.rows {
            let words = text.split_whitespace().map(str::to_owned);
            let text = terminal::wrapped(words, WIDTH - INDENT);
            let text = text.join(&format!("\n{:INDENT$}", ""));
            let line = format!("{number:>3}  {role:<12} {event:<16}  {text}");
            let _ = writeln!(out, "{}", line.trim_end());
        }
        let _ = writeln!(out, "\nThe run is {}.", self.ending);
        out
    }
}

/// What a review amounts to.
fn decision(review: &SquadReview, squad: &Squad) -> String {
    let feedback = squad.feedback(review);
    let issues = feedback.issues.into_iter().filter_map(|issue| issue.description);
    let said: Vec<String> = issues.collect();
    match said.join("; ") {
        said if said.is_empty() => review.verdict.to_string(),
        said => format!("{}: {said}", review.verdict),
    }
}
