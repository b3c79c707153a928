//! What happened in a run, told from its journal in lines of a terminal.

use std::fmt::Write;
use std::ops::ControlFlow;

use autoloop_core::record::{Event, Glance, LoopComplete, LoopStop};
use autoloop_core::topic::TopicClass;
use autoloop_runtime::journal::{Journal, Position};

use crate::failure::Failure;
use crate::terminal;

/// How wide a line may become.
const WIDTH: usize = 79;
/// Where the last column begins.
const INDENT: usize = 36;

/// A run, row by row.
#[derive(Debug, Default)]
pub(super) struct Story {
    objective: String,
    rows: Vec<Row>,
    ending: String,
}

/// One thing that happened.
#[derive(Debug)]
struct Row {
    /// The iteration; nothing where it is the one above.
    number: String,
    /// Who acted; nothing where it is the one above.
    who: String,
    /// The event.
    event: String,
    /// What was said.
    text: String,
}

impl Story {
    /// The story of a run.
    pub(super) fn of(journal: &dyn Journal, run: &str) -> Result<Story, Failure> {
        let mut story = Story::default();
        journal.read(Position::START, &mut |line| {
            line.records(|record| {
                if record.run() == run {
                    story.apply(record);
                }
            });
            ControlFlow::Continue(())
        })?;
        Ok(story)
    }

    fn apply(&mut self, record: &Glance<'_>) {
        match record.event() {
            Event::Routing(topic) if topic.class() == TopicClass::Agent => {
                self.happened(topic.as_str(), &record.payload().unwrap_or_default());
            }
            Event::LoopStart(start) => self.objective = start.objective,
            Event::IterationStart(start) => {
                self.turn(&record.iteration(), &start.suggested_roles);
                if !start.backpressure.is_empty() {
                    self.happened(
                        "(told why)",
                        "its prompt says what was refused, and what is allowed",
                    );
                }
            }
            Event::EventInvalid(invalid) => {
                let allowed = invalid.allowed_events.replace(',', ", ");
                self.happened(&invalid.emitted, &format!("refused: allowed is {allowed}"));
            }
            Event::ReviewFinish(finish) => {
                self.turn("", "metareview");
                self.happened("", finish.output.read().lines().last().unwrap_or_default());
            }
            Event::LoopComplete(LoopComplete { reason }) => {
                self.ending = format!("complete ({reason})");
            }
            Event::LoopStop(LoopStop { reason, .. }) => self.ending = format!("stopped ({reason})"),
            _ => {}
        }
    }

    /// Somebody begins to act.
    fn turn(&mut self, number: &str, who: &str) {
        let [event, text] = [String::new(), String::new()];
        self.rows.push(Row { number: number.to_owned(), who: who.to_owned(), event, text });
    }

    /// Something happened, to the one who acts.
    fn happened(&mut self, event: &str, text: &str) {
        let (event, text) = (event.to_owned(), text.to_owned());
        match self.rows.last_mut() {
            Some(row) if row.event.is_empty() && row.text.is_empty() => {
                row.event = event;
                row.text = text;
            }
            _ => {
                let [number, who] = [String::new(), String::new()];
                self.rows.push(Row { number, who, event, text });
            }
        }
    }

    /// The story as text.
    pub(super) fn render(&self) -> String {
        let mut out = format!("Objective: {}\n\n", self.objective);
        for row in &self.rows {
            let Row { number, who, event, text } = row;
            let words = text.split_whitespace().map(str::to_owned);
            let mut lines = terminal::wrapped(words, WIDTH - INDENT).into_iter();
            let first = lines.next().unwrap_or_default();
            let line = format!("{number:>3}  {who:<12} {event:<16}  {first}");
            let _ = writeln!(out, "{}", line.trim_end());
            for line in lines {
                let _ = writeln!(out, "{:INDENT$}{line}", "");
            }
        }
        let _ = writeln!(out, "\nThe run is {}.", self.ending);
        out
    }
}
