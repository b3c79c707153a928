//! Runs as rows for people to watch.
//!
//! A [`Board`] is one fold for every coordinator: a loop is one row with the branches of its wave below it,
//! a chain has a row per step, slots have a row each, and a squad has a row per group with its loops below it.

mod events;
mod row;
mod squad;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

pub use row::{End, Outcome, Parked, Phase, Row};

use super::recent_runs::RecentRuns;
use super::usage::{Part, Sum, Usages};
use crate::coordinator::{Kind, Status};
use crate::record::{Glance, SlotOutcome};
use crate::view::View;

/// The maximum number of rows, because a journal can claim any number.
const ROWS: usize = 1_000;
const NAMED_ITERATIONS: usize = 5;
/// How many finished rows are kept.
const FINISHED: usize = 200;
/// How many characters of a text are kept for a row.
const KEPT: usize = 200;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Iterations or steps that ended or are under way; of a squad, the tasks that are merged.
    pub done: u64,
    /// The maximum; 0 for no limit. Of a squad, its tasks.
    pub of: u64,
    pub taken: u64,
    pub passed: u64,
    /// Of a squad, the loops that the user has to resolve.
    pub failed: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Board {
    pub id: String,
    /// `None` without a start record.
    pub kind: Option<Kind>,
    /// The objective, in one line.
    pub title: String,
    /// The first and the last timestamp, as written.
    pub times: (String, String),
    pub rows: Vec<Row>,
    /// The last finished iterations, metareviews and items, the latest last.
    pub finished: VecDeque<Row>,
    /// How many there were.
    pub finished_count: u64,
    pub progress: Progress,
    items: BTreeMap<String, Item>,
    /// The item source of slots; empty for other coordinators.
    pub source: String,
    /// How often slots may fix an item, and a squad may revise a task.
    pub most_fixes: u64,
    /// The iterations of slots in which an item did not pass.
    pub failed_iterations: Vec<u64>,
    pub outcome: Option<Outcome>,
    /// The flag that raises the limit that it reached; empty where it ended otherwise.
    raise: String,
    /// What the agent of a squad used whose end is the next record.
    pending: Sum,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Item {
    last: ItemResult,
    /// The result of the slot before the last.
    before: ItemResult,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum ItemResult {
    #[default]
    Pending,
    Passed,
    Failed,
}

impl Board {
    pub fn new(id: impl Into<String>) -> Self {
        Board { id: id.into(), ..Board::default() }
    }

    /// The status by the records. An interrupted step interrupts its chain.
    pub fn status(&self) -> Status {
        let is_interrupted =
            |outcome: &Outcome| Status::of_reason(&outcome.word) == Status::Interrupted;
        let mut steps = self.rows.iter().filter_map(|row| row.outcome.as_ref());
        match &self.outcome {
            Some(outcome) if outcome.is_good() => Status::Completed,
            Some(outcome) => Status::of_reason(&outcome.word),
            None if self.kind == Some(Kind::Chain) && steps.any(is_interrupted) => {
                Status::Interrupted
            }
            None => Status::Running,
        }
    }

    pub fn resume_command(&self) -> String {
        let (kind, Progress { done, of, .. }) = (self.kind.unwrap_or(Kind::Loop), self.progress);
        let reason = self.outcome.as_ref().map_or("", |outcome| &outcome.word);
        let flag = match self.raise.as_str() {
            "" => kind.raised_limit(reason, done, of),
            raise => format!(" {raise}"),
        };
        kind.resume_command(&self.id) + &flag
    }

    /// The rows that are shown: those of the run, then the finished ones, the latest first.
    pub fn shown(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().chain(self.finished.iter().rev())
    }

    /// What the run waits for, unless an agent works.
    pub fn parked(&self) -> Option<&Parked> {
        let works = |row: &Row| row.phase.is_busy() && !row.phase.is_of_others();
        let mut works = self.rows.iter().filter(|row| works(row));
        let is_idle = works.all(|row| row.parked.is_some());
        self.rows.iter().find_map(|row| row.parked.as_ref()).filter(|_| is_idle)
    }

    /// What the agents of a row used; `None` where none reported it.
    pub fn usage_of(&self, row: &Row, usages: &Usages) -> Option<Sum> {
        if self.kind == Some(Kind::Squad) {
            return row.usage.known();
        }
        let sum = match row.part {
            Some(part @ Part::Slot(_)) => usages.of_part(&self.id, row.iteration, part),
            Some(part) => usages.of_part(&row.run, row.iteration, part),
            None if row.run.is_empty() => return None,
            None => usages.total(Some(&row.run)),
        };
        sum.known()
    }

    pub fn word(&self) -> &'static str {
        self.kind.map_or("run", Kind::name)
    }

    /// Whether a run is the board's own or that of a row.
    pub fn has(&self, run: &str) -> bool {
        self.id == run || self.rows.iter().any(|row| row.run == run)
    }

    /// The progress as text, with the number of remaining items where it is known. The most important
    /// part comes first: a window may be narrow.
    pub fn progress_in_words(&self, left: Option<u64>) -> String {
        let Progress { done, of, taken, passed, failed } = self.progress;
        let of = if of == 0 { String::new() } else { format!("/{of}") };
        match self.kind {
            None => String::new(),
            Some(Kind::Loop) => format!("iteration {done}{of}"),
            Some(Kind::Chain) => format!("{done}{of} steps done"),
            Some(Kind::Exchange) => format!("round {done}{of}"),
            Some(Kind::Squad) => {
                let blocked =
                    if failed > 0 { format!(", {failed} blocked") } else { String::new() };
                format!("{done}{of} tasks merged{blocked}")
            }
            Some(Kind::Slots) => {
                let left = left.map(|left| format!(", {left} left")).unwrap_or_default();
                let items = format!("{taken} taken, {passed} passed, {failed} failed{left}");
                format!("{items}  iteration {done}{of}{}", self.failed_in_words())
            }
        }
    }

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

    fn push_finished(&mut self, row: Row) {
        if self.finished.len() >= FINISHED {
            self.finished.pop_front();
        }
        self.finished.push_back(row);
        self.finished_count += 1;
    }

    fn row_of(&mut self, run: &str) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.run == run)
    }

    /// A row by its number, created where it is missing; `None` beyond [`ROWS`].
    fn numbered(&mut self, name: &str, number: u64) -> Option<&mut Row> {
        let place = usize::try_from(number).ok()?.checked_sub(1).filter(|place| *place < ROWS)?;
        while self.rows.len() <= place {
            let number = self.rows.len() as u64 + 1;
            self.rows.push(Row { number, name: format!("{name} {number}"), ..Row::default() });
        }
        self.rows.get_mut(place)
    }

    fn take_item(&mut self, id: String) {
        let item = self.items.entry(id).or_default();
        item.before = item.last;
        let last = std::mem::take(&mut item.last);
        self.count_items(last, ItemResult::Pending);
    }

    /// Records the end of the slot that took an item. An item that the agent did not work on keeps its
    /// earlier result.
    fn settle_item(&mut self, id: &str, outcome: Option<SlotOutcome>) {
        let Some(item) = self.items.get_mut(id) else { return };
        let result = match outcome {
            Some(SlotOutcome::Passed) => ItemResult::Passed,
            Some(SlotOutcome::NoItem) => item.before,
            _ => ItemResult::Failed,
        };
        let last = std::mem::replace(&mut item.last, result);
        if result == ItemResult::Pending {
            self.items.remove(id);
        }
        self.count_items(last, result);
    }

    fn count_items(&mut self, last: ItemResult, now: ItemResult) {
        self.progress.taken = self.items.len() as u64;
        for (count, result) in [
            (&mut self.progress.passed, ItemResult::Passed),
            (&mut self.progress.failed, ItemResult::Failed),
        ] {
            *count -= u64::from(last == result);
            *count += u64::from(now == result);
        }
    }
}

/// The beginning of a text, in one line. Control characters are kept: their effect depends on where the
/// line is shown.
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

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boards(RecentRuns<Board>);

impl Boards {
    /// The most recent one comes last.
    pub fn iter(&self) -> impl Iterator<Item = &Board> {
        self.0.iter().map(|(_, board)| board)
    }
}

impl View for Boards {
    const NAME: &'static str = "boards";
    const VERSION: u32 = 9;

    fn apply(&mut self, record: &Glance<'_>) {
        let run = record.run();
        let owner = self.0.iter().filter(|(_, board)| board.has(&run)).last();
        match owner.map(|(id, _)| id.to_owned()) {
            Some(id) => {
                self.0.touch(&id).apply(record);
            }
            None if !run.is_empty() && Kind::ALL.iter().any(|kind| kind.begins(record)) => {
                let board = self.0.touch(&run);
                *board = Board::new(run);
                board.apply(record);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
