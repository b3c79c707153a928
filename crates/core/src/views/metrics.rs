//! What each iteration did: one row an iteration. What it cost is not recorded yet.

mod render;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::record::{
    Event, EventInvalid, Glance, IterationFinish, IterationStart, LoopComplete, LoopStop, Seconds,
    WaveInvalid,
};
use crate::topic::TopicClass;
use crate::view::View;

pub use render::Format;

/// The rows of every run in the journal, in the order in which the iterations began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(Names, Vec<Row>)")]
pub struct Metrics {
    names: Names,
    rows: Vec<Row>,
    /// The row of each run that is being filled.
    #[serde(skip)]
    open: HashMap<Name, usize>,
}

/// One iteration. Texts are names, because a journal has few different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    run: Name,
    iteration: Name,
    role: Name,
    event: Name,
    outcome: Name,
    elapsed_s: Option<u64>,
    exit_code: Option<i32>,
    timed_out: Option<bool>,
}

/// One iteration, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iteration<'a> {
    /// The run.
    pub run: &'a str,
    /// Its number, as written.
    pub number: &'a str,
    /// The roles that were suggested.
    pub role: &'a str,
    /// The last event that was accepted; empty when there was none.
    pub event: &'a str,
    /// How it ended and what followed; empty while it is under way.
    pub outcome: &'a str,
    /// How long it took.
    pub elapsed_s: Option<u64>,
    /// The status of the backend.
    pub exit_code: Option<i32>,
    /// Whether the backend was ended because its time was up.
    pub timed_out: Option<bool>,
}

impl Metrics {
    /// The iterations of one run, or of all.
    pub fn iterations<'a>(&'a self, run: Option<&'a str>) -> impl Iterator<Item = Iteration<'a>> {
        self.rows
            .iter()
            .map(|row| Iteration {
                run: self.names.text(row.run),
                number: self.names.text(row.iteration),
                role: self.names.text(row.role),
                event: self.names.text(row.event),
                outcome: self.names.text(row.outcome),
                elapsed_s: row.elapsed_s,
                exit_code: row.exit_code,
                timed_out: row.timed_out,
            })
            .filter(move |iteration| run.is_none_or(|run| run == iteration.run))
    }

    fn begin(&mut self, record: &Glance<'_>, start: &IterationStart<'_>) {
        let run = self.names.name(&record.run());
        let iteration = self.names.name(&record.iteration());
        let row = Row {
            run,
            iteration,
            role: self.names.name(&start.suggested_roles),
            event: self.names.name(""),
            outcome: self.names.name(""),
            elapsed_s: None,
            exit_code: None,
            timed_out: None,
        };
        match self.open.get(&run) {
            // A run that was taken up again begins its unfinished iteration a second time.
            Some(&open)
                if self.rows[open].iteration == iteration
                    && self.rows[open].exit_code.is_none() =>
            {
                self.rows[open] = row;
            }
            _ => {
                self.open.insert(run, self.rows.len());
                self.rows.push(row);
            }
        }
    }

    /// The row that a record belongs to: the last one of its run.
    fn row(&mut self, record: &Glance<'_>) -> Option<&mut Row> {
        let run = record.run();
        // Runs seldom overlap, so it is nearly always the last row of all.
        let is_last = self.rows.last().is_some_and(|last| self.names.text(last.run) == run);
        if is_last {
            return self.rows.last_mut();
        }
        let row = *self.open.get(&self.names.find(&run)?)?;
        self.rows.get_mut(row)
    }

    fn set_outcome(&mut self, record: &Glance<'_>, outcome: &str) {
        let outcome = self.names.name(outcome);
        if let Some(row) = self.row(record) {
            row.outcome = outcome;
        }
    }

    /// An event was refused in an iteration; what a metareview before the next one tried is not its fault.
    fn reject(&mut self, record: &Glance<'_>, topic: &str) {
        let Some(iteration) = self.names.find(&record.iteration()) else { return };
        if self.row(record).is_some_and(|row| row.iteration == iteration) {
            self.set_outcome(record, &format!("rejected:{topic}"));
        }
    }

    fn finish(&mut self, record: &Glance<'_>, finish: &IterationFinish<'_>) {
        let none = self.names.name("");
        let [plain, routed] =
            ["continue", "continue:routed_event"].map(|name| self.names.name(name));
        let Some(iteration) = self.names.find(&record.iteration()) else { return };
        let Some(row) = self.row(record).filter(|row| row.iteration == iteration) else { return };
        row.elapsed_s = finish.elapsed_s.map(|Seconds(seconds)| seconds);
        row.exit_code = finish.exit_code.known();
        row.timed_out = finish.timed_out;
        if row.outcome == none {
            row.outcome = if row.event == none { plain } else { routed };
        }
    }

    fn note_event(&mut self, record: &Glance<'_>, topic: &str) {
        if TopicClass::of(topic) != TopicClass::Agent {
            return;
        }
        // Only what a row shows is kept: topics are the agents' own choice, and there may be millions.
        let iteration = self.names.find(&record.iteration());
        let is_open = |row: &Row| Some(row.iteration) == iteration && row.exit_code.is_none();
        if !self.row(record).is_some_and(|row| is_open(row)) {
            return;
        }
        let event = self.names.name(topic);
        let undecided = self.names.name("");
        if let Some(row) = self.row(record) {
            row.event = event;
            // An accepted event makes good for one that was refused before it.
            row.outcome = undecided;
        }
    }
}

impl From<(Names, Vec<Row>)> for Metrics {
    fn from((names, rows): (Names, Vec<Row>)) -> Self {
        let open = rows.iter().enumerate().map(|(place, row)| (row.run, place)).collect();
        Metrics { names, rows, open }
    }
}

impl View for Metrics {
    const NAME: &'static str = "metrics";
    const VERSION: u32 = 3;

    fn apply(&mut self, record: &Glance<'_>) {
        // Only the harness says how an iteration went, and it never writes a payload.
        if record.has_payload() {
            return self.note_event(record, &record.topic());
        }
        // An iteration says how its agent ended, and the agent's own records are long.
        if record.topic().starts_with("backend.") {
            return;
        }
        match record.event() {
            Event::IterationStart(start) => self.begin(record, &start),
            Event::IterationFinish(finish) => self.finish(record, &finish),
            Event::EventInvalid(_) => self.reject(record, EventInvalid::TOPIC),
            Event::WaveInvalid(_) => self.reject(record, WaveInvalid::TOPIC),
            Event::LoopComplete(LoopComplete { reason }) => {
                self.set_outcome(record, &format!("complete:{reason}"));
            }
            Event::LoopStop(LoopStop { reason, .. }) => {
                self.set_outcome(record, &format!("stop:{reason}"));
            }
            _ => {}
        }
    }
}

/// The place of a text in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Name(u32);

/// Texts that occur again and again, each kept once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>")]
struct Names {
    texts: Vec<String>,
    #[serde(skip)]
    places: HashMap<String, Name>,
}

impl From<Vec<String>> for Names {
    fn from(texts: Vec<String>) -> Self {
        let place = |(text, place): (&String, u32)| (text.clone(), Name(place));
        Names { places: texts.iter().zip(0..).map(place).collect(), texts }
    }
}

impl Names {
    fn name(&mut self, text: &str) -> Name {
        if let Some(&name) = self.places.get(text) {
            return name;
        }
        let name = Name(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.texts.push(text.to_owned());
        self.places.insert(text.to_owned(), name);
        name
    }

    fn find(&self, text: &str) -> Option<Name> {
        self.places.get(text).copied()
    }

    fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests;
