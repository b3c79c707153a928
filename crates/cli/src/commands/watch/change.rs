//! One change of a board, as a line for a person or for a program.

use autoloop_core::coordinator::{Kind, Status};
use autoloop_core::project::board::{Board, Progress, Row};

use crate::commands::json::Json;
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

/// A row as other programs read it.
pub(super) fn row_facts(row: &Row) -> Vec<(&'static str, Json)> {
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    vec![
        ("row", row.name.as_str().into()),
        ("level", row.level.into()),
        ("run", known(&row.run).into()),
        ("item", known(&row.item).into()),
        ("title", known(&row.title).into()),
        ("phase", row.phase.word().into()),
        ("number", row.phase.number().into()),
        ("limit", Some(row.limit).filter(|limit| *limit > 0).into()),
        ("badge", row.badge().into()),
        ("since", known(&row.since).into()),
        ("outcome", row.outcome.as_ref().map(|outcome| outcome.word.as_str()).into()),
        ("note", known(&row.note).into()),
        ("output", row.output.as_deref().into()),
    ]
}

/// The board as other programs read it, without its rows, with what is left in the queue of slots.
pub(super) fn board_facts(
    board: &Board,
    status: Status,
    left: Option<u64>,
) -> Vec<(&'static str, Json)> {
    let Progress { done, of, taken, passed, failed } = board.progress;
    let mut facts = vec![
        ("watched", board.id.as_str().into()),
        ("kind", board.word().into()),
        ("title", board.title.as_str().into()),
        ("status", status.word().into()),
        ("outcome", board.outcome.as_ref().map(|outcome| outcome.word.as_str()).into()),
        ("done", done.into()),
        ("of", Some(of).filter(|of| *of > 0).into()),
    ];
    if board.kind == Some(Kind::Slots) {
        let counts = [("taken", taken), ("passed", passed), ("failed", failed)];
        facts.extend(counts.map(|(name, count)| (name, count.into())));
        let failed = board.failed_iterations.iter().map(|iteration| (*iteration).into());
        facts.push(("failed_iterations", Json::List(failed.collect())));
        facts.push(("left", left.into()));
    }
    facts
}

/// The time of day in a moment.
fn clock(ts: &str) -> &str {
    ts.get(11..19).unwrap_or("--:--:--")
}
