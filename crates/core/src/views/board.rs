//! What is under way, or was, as rows that a person can watch.
//!
//! A [`Board`] is one fold for everything that runs: a loop is one row with the branches of its wave
//! under it, a chain has a row a step, and slots have a row each. Because it is made of records alone,
//! a run under way and one of last year look the same.

mod boards;
mod chain;
mod items;
mod row;
mod slots;
mod turns;
mod waves;

pub use boards::Boards;
pub use row::{End, Outcome, Phase, Row};

use serde::{Deserialize, Serialize};

use crate::coordinator::{Kind, Status};
use crate::record::{ChainStart, Glance, LoopStart, SlotRunStart};
use items::Items;

/// The most rows of one board. A journal can claim anything; a person can watch so many.
const ROWS: usize = 1_000;
/// How many failed iterations are named in words.
const NAMED_ITERATIONS: usize = 5;
/// How many characters of a text that somebody wrote are kept for a row.
const KEPT: usize = 200;

/// How far the work as a whole is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Iterations of a loop or of slots, or steps of a chain, that are done or under way.
    pub done: u64,
    /// How many there may be; 0 where nobody says.
    pub of: u64,
    /// Items that slots took; one that was taken twice counts once, by its last slot.
    pub taken: u64,
    /// Items that passed.
    pub passed: u64,
    /// Items that did not.
    pub failed: u64,
}

/// One run, chain or work on a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Board {
    /// Its id.
    pub id: String,
    /// Its coordinator; `None` where no record begins it.
    pub kind: Option<Kind>,
    /// What it is for, in one line.
    pub title: String,
    /// When it began and when it was last heard of, as written.
    pub times: (String, String),
    /// What is shown, from top to bottom.
    pub rows: Vec<Row>,
    /// How far it is.
    pub progress: Progress,
    /// The items that slots took.
    items: Items,
    /// Where slots take items from; empty for anything else.
    pub source: String,
    /// How often slots may fix an item.
    pub most_fixes: u64,
    /// The iterations of slots in which an item did not pass.
    pub failed_iterations: Vec<u64>,
    /// How it ended; `None` while it has not.
    pub outcome: Option<Outcome>,
}

impl Board {
    /// A board of which nothing is known yet.
    pub fn new(id: impl Into<String>) -> Self {
        Board { id: id.into(), ..Board::default() }
    }

    /// How it is by its records. What interrupts the run of a step interrupts the chain.
    pub fn status(&self) -> Status {
        match &self.outcome {
            Some(outcome) if outcome.is_good() => Status::Completed,
            Some(outcome) => Status::of_reason(&outcome.word),
            None if self.kind == Some(Kind::Chain) => {
                let mut ends = self.rows.iter().filter_map(|row| row.outcome.as_ref());
                match ends.any(|end| Status::of_reason(&end.word) == Status::Interrupted) {
                    true => Status::Interrupted,
                    false => Status::Running,
                }
            }
            None => Status::Running,
        }
    }

    /// The command that resumes it, with the flag that raises the limit that it reached.
    pub fn resume_command(&self) -> String {
        let (kind, Progress { done, of, .. }) = (self.kind.unwrap_or(Kind::Loop), self.progress);
        let reason = self.outcome.as_ref().map_or("", |outcome| &outcome.word);
        kind.resume_command(&self.id) + &kind.raised_limit(reason, done, of)
    }

    /// The word for what it is.
    pub fn word(&self) -> &'static str {
        self.kind.map_or("run", Kind::word)
    }

    /// Whether records of this run belong here.
    pub fn has(&self, run: &str) -> bool {
        self.id == run || self.rows.iter().any(|row| row.run == run)
    }

    /// How far it is, in words, with how many items slots could still take where that is known. What
    /// matters most comes first: a window may be narrow.
    pub fn progress_in_words(&self, left: Option<u64>) -> String {
        let Progress { done, of, taken, passed, failed } = self.progress;
        let of = if of == 0 { String::new() } else { format!("/{of}") };
        match self.kind {
            None => String::new(),
            Some(Kind::Loop) => format!("iteration {done}{of}"),
            Some(Kind::Chain) => format!("{done}{of} steps done"),
            Some(Kind::Slots) => {
                let left = left.map(|left| format!(", {left} left")).unwrap_or_default();
                let items = format!("{taken} taken, {passed} passed, {failed} failed{left}");
                format!("{items}  iteration {done}{of}{}", self.failed_in_words())
            }
        }
    }

    /// Which iterations failed, in words: the last few.
    fn failed_in_words(&self) -> String {
        let (count, failed) = (self.failed_iterations.len(), &self.failed_iterations);
        let last = &failed[count.saturating_sub(NAMED_ITERATIONS)..];
        let last: Vec<String> = last.iter().map(u64::to_string).collect();
        match count {
            0 => String::new(),
            _ if last.len() < count => format!(", failed: ..., {}", last.join(", ")),
            _ => format!(", failed: {}", last.join(", ")),
        }
    }

    /// Takes in a record, if it belongs here, and says whether it does.
    pub fn apply(&mut self, record: &Glance<'_>) -> bool {
        let run = record.run();
        if !self.has(&run) {
            return false;
        }
        if let Some(ts) = record.ts() {
            self.times.1 = ts.into_owned();
        }
        let topic = record.topic();
        let is_own = self.id == run;
        match topic.split('.').next().unwrap_or_default() {
            _ if record.has_payload() => self.emitted(&run, record),
            "slot" | "slots" if is_own => slots::apply(self, record),
            "chain" if is_own => chain::apply(self, record),
            "wave" => waves::apply(self, record),
            // An iteration says how its agent ended, and the agent's own records are long.
            "backend" => {}
            _ => turns::apply(self, record),
        }
        true
    }

    /// Whether a record begins a board of its own.
    pub fn is_begun_by(record: &Glance<'_>) -> bool {
        let topic = record.topic();
        !record.has_payload()
            && [LoopStart::TOPIC, ChainStart::TOPIC, SlotRunStart::TOPIC].contains(&topic.as_ref())
    }

    /// An agent said something: the last word of its row.
    fn emitted(&mut self, run: &str, record: &Glance<'_>) {
        let payload = record.payload().unwrap_or_default();
        let note = in_line(&format!("{}  {payload}", record.topic()));
        if let Some(row) = self.row_of(run) {
            row.note = note;
        }
    }

    fn begin(&mut self, kind: Kind, title: &str, record: &Glance<'_>) {
        self.kind = Some(kind);
        self.title = in_line(title);
        self.times.0 = record.ts().unwrap_or_default().into_owned();
    }

    fn row_of(&mut self, run: &str) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.run == run)
    }

    /// A row by its number, made where there is none yet. `None` for numbers that nobody could watch.
    fn numbered(&mut self, name: &str, number: u64) -> Option<&mut Row> {
        let place = usize::try_from(number).ok()?.checked_sub(1).filter(|place| *place < ROWS)?;
        while self.rows.len() <= place {
            let number = self.rows.len() as u64 + 1;
            self.rows.push(Row { number, name: format!("{name} {number}"), ..Row::default() });
        }
        self.rows.get_mut(place)
    }
}

/// The beginning of a text, in one line. Control characters are kept: what they do depends on where
/// the line is shown.
fn in_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        line.extend([if line.is_empty() { "" } else { " " }, word]);
        if line.len() > KEPT {
            break;
        }
    }
    line.chars().take(KEPT).collect()
}

#[cfg(test)]
mod tests;
