//! What happened in a run, told from its journal in lines of a terminal.

use std::fmt::Write;
use std::ops::ControlFlow;

use autoloop_core::record::{
    EventInvalid, Glance, IterationStart, LoopComplete, LoopStart, LoopStop, ReviewFinish,
};
use autoloop_core::topic::{Topic, TopicClass};
use autoloop_runtime::journal::{FileJournal, Journal, Position};

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
    pub(super) fn of(journal: &FileJournal, run: &str) -> Result<Story, Failure> {
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
        let field = |name: &str| record.field(name).unwrap_or_default().into_owned();
        if let Some(payload) = record.payload() {
            if Topic::new(record.topic()).class() == TopicClass::Agent {
                self.happened(&record.topic(), &payload);
            }
            return;
        }
        match record.topic().as_ref() {
            LoopStart::TOPIC => self.objective = field("objective"),
            IterationStart::TOPIC => {
                self.turn(&record.iteration(), &field("suggested_roles"));
                if !field("backpressure").is_empty() {
                    self.happened(
                        "(told why)",
                        "its prompt says what was refused, and what is allowed",
                    );
                }
            }
            EventInvalid::TOPIC => {
                let allowed = field("allowed_events").replace(',', ", ");
                self.happened(&field("emitted"), &format!("refused: allowed is {allowed}"));
            }
            ReviewFinish::TOPIC => {
                self.turn("", "metareview");
                self.happened("", field("output").lines().last().unwrap_or_default());
            }
            LoopComplete::TOPIC => self.ending = format!("complete ({})", field("reason")),
            LoopStop::TOPIC => self.ending = format!("stopped ({})", field("reason")),
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
