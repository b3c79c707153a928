//! One change of a board, as a line for a person or for a program.

use autoloop_core::coordinator::{Kind, Status};
use autoloop_core::views::board::{Board, Progress, Row};
use serde::Serialize;

use crate::tui::text::tame;

/// The rows that are not what they were. A wave puts new rows among the old ones, so that a row is
/// known by its name and its run and not by its place.
pub(super) fn changed<'b>(before: &[Row], board: &'b Board) -> Vec<&'b Row> {
    let is_new = |row: &&Row| {
        let is_same = |old: &&Row| (&old.name, &old.run) == (&row.name, &row.run);
        before.iter().find(is_same).is_none_or(|old| old != *row)
    };
    board.rows.iter().filter(is_new).collect()
}

/// A row in a line: when, who, on what, what it is at, and what was said about it.
pub(super) fn line(row: &Row, ts: &str) -> String {
    let mut text = format!("{} {}", clock(ts), row.name);
    let outcome = row.outcome.as_ref().map(|outcome| outcome.word.as_str());
    for part in [row.item.as_str(), &row.badge(), outcome.unwrap_or_default(), &row.note] {
        if !part.is_empty() {
            text.extend(["  ", part]);
        }
    }
    tame(&text)
}

/// The board as a whole, in a line.
pub(super) fn summary(board: &Board, status: Status, progress: &str) -> String {
    let outcome = board.outcome.as_ref().map(|outcome| format!(" ({})", outcome.word));
    let ended = matches!(status, Status::Completed | Status::Stopped | Status::Failed);
    let outcome = outcome.filter(|_| ended).unwrap_or_default();
    tame(&format!("{} {} {status}{outcome}  {progress}", board.word(), board.id))
}

/// What other programs read of a row.
#[derive(Serialize)]
pub(super) struct RowFacts<'a> {
    row: &'a str,
    level: u64,
    run: Option<&'a str>,
    item: Option<&'a str>,
    title: Option<&'a str>,
    phase: &'static str,
    number: Option<u64>,
    limit: Option<u64>,
    badge: String,
    since: Option<&'a str>,
    outcome: Option<&'a str>,
    note: Option<&'a str>,
    output: Option<&'a str>,
}

impl<'a> RowFacts<'a> {
    pub(super) fn of(row: &'a Row) -> Self {
        RowFacts {
            row: &row.name,
            level: row.level,
            run: known(&row.run),
            item: known(&row.item),
            title: known(&row.title),
            phase: row.phase.word(),
            number: row.phase.number(),
            limit: Some(row.limit).filter(|limit| *limit > 0),
            badge: row.badge(),
            since: known(&row.since),
            outcome: row.outcome.as_ref().map(|outcome| &*outcome.word),
            note: known(&row.note),
            output: row.output.as_deref(),
        }
    }
}

/// What other programs read of a board.
#[derive(Serialize)]
pub(super) struct BoardFacts<'a> {
    watched: &'a str,
    kind: &'static str,
    title: &'a str,
    status: &'static str,
    outcome: Option<&'a str>,
    done: u64,
    of: Option<u64>,
    #[serde(flatten)]
    items: Option<ItemFacts<'a>>,
}

/// The items of a run over a queue.
#[derive(Serialize)]
struct ItemFacts<'a> {
    taken: u64,
    passed: u64,
    failed: u64,
    failed_iterations: &'a [u64],
    left: Option<u64>,
}

impl<'a> BoardFacts<'a> {
    pub(super) fn of(board: &'a Board, status: Status, left: Option<u64>) -> Self {
        let Progress { done, of, taken, passed, failed } = board.progress;
        let failed_iterations = &board.failed_iterations;
        let items = ItemFacts { taken, passed, failed, failed_iterations, left };
        BoardFacts {
            watched: &board.id,
            kind: board.word(),
            title: &board.title,
            status: status.word(),
            outcome: board.outcome.as_ref().map(|outcome| &*outcome.word),
            done,
            of: Some(of).filter(|of| *of > 0),
            items: (board.kind == Some(Kind::Slots)).then_some(items),
        }
    }
}

pub(super) fn known(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// The time of day in a moment.
fn clock(ts: &str) -> &str {
    ts.get(11..19).unwrap_or("--:--:--")
}
