//! `autoloop watch`: a board of the rows of a run, on the screen or in lines.

use std::path::PathBuf;
use std::time::Duration;

use autoloop_core::coordinator::{Kind, Status};
use autoloop_core::format::json_line;
use autoloop_core::record::Glance;
use autoloop_core::views::board::{Board, Progress, Row};
use autoloop_runtime::world::World;
use serde_json::{Value, json};

use super::journal::Format;
use super::settings::{self, Located};
use crate::failure::Failure;
use crate::terminal;
use crate::tui;
use crate::tui::model::Feed;
use crate::tui::text::{row_texts, tame};

/// Watch a run, a chain, slots or a squad.
///
/// Shows a row per worker: a loop and the branches of its wave, the steps of a chain, the slots of a queue, or the loops
/// of a squad, each with its phase, its time and the last line of its agent. Only reads the journal, so it can be started and closed at any
/// time; an ended run is shown as it ended.
///
/// On a terminal it fills the window: select a row with the arrow keys, open its output with Enter, quit with q, list
/// all keys with ?. Elsewhere it prints a line per change until the run ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run id, prefix or `latest` [default: the running run, or the latest]
    run: Option<String>,
    /// Project directory [default: the current project]
    project_dir: Option<PathBuf>,
    /// Print the current state and exit
    #[arg(long)]
    once: bool,
    /// Print one JSON object per change
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let located = settings::locate(args.project_dir.as_deref(), world)?;
    let mut feed = Feed::open(&located.files, located.journal(world), args.run.as_deref(), world)?;
    let format = if args.json { Format::Json } else { Format::Text };
    if args.once {
        return print_once(&mut feed, format);
    }
    if format == Format::Text && tui::is_possible() {
        return tui::show(feed);
    }
    print_changes(feed, format)
}

/// Prints a line per change of a run until it ends.
pub(super) fn follow(located: &Located, run: &str, world: &World) -> Result<(), Failure> {
    let feed = Feed::open(&located.files, located.journal(world), Some(run), world)?;
    print_changes(feed, Format::Text)
}

/// How long to wait for the journal to grow before checking whether the harness has exited and whether the output is
/// still read. Shorter when the end is recorded and the harness is about to exit.
pub(super) fn poll_interval(is_over: bool) -> Duration {
    if is_over { Duration::from_millis(100) } else { Duration::from_secs(2) }
}

fn print_once(feed: &mut Feed, format: Format) -> Result<(), Failure> {
    let status = feed.settle(&mut |_, _| {})?;
    let last_lines = feed.last_lines();
    let board = feed.board();
    let rows = board.rows.iter().zip(&last_lines);
    let text = match format {
        Format::Text => {
            let moment = feed.moment(status);
            let lines = rows.map(|(row, last)| {
                let texts = row_texts(row, feed.usage_of(row), last, moment);
                let known: Vec<&str> =
                    texts.iter().map(|it| &**it).filter(|it| !it.is_empty()).collect();
                format!("  {}\n", known.join("  "))
            });
            let whole = summary(feed, status) + "\n";
            whole + &lines.collect::<String>()
        }
        Format::Json => {
            let facts = |row: &Row, last: &String| {
                let usage = feed.usage_of(row).map(|usage| usage.facts());
                joined(row_facts(row), json!({ "usage": usage, "last_line": last }))
            };
            let mut whole = board_facts(feed, status);
            whole["rows"] = rows.map(|(row, last)| facts(row, last)).collect();
            let finished = board.finished.iter().rev();
            whole["finished"] = finished.map(|row| facts(row, &row.note)).collect();
            json_line(&whole) + "\n"
        }
    };
    Ok(terminal::print(&text)?)
}

/// Prints the current state and then every change until the run ends.
fn print_changes(mut feed: Feed, format: Format) -> Result<(), Failure> {
    let mut printer = Printer { format, rows: Vec::new(), whole: String::new(), settled: 0 };
    let mut status = feed.settle(&mut |_, _| {})?;
    printer.whole(&feed, status)?;
    printer.rows(feed.board(), None)?;
    while status == Status::Running {
        let is_over = feed.board().outcome.is_some();
        feed.wait(poll_interval(is_over))?;
        terminal::ensure_read()?;
        let mut printed = Ok(());
        let mut visit = |board: &Board, _: &Glance<'_>| {
            if printed.is_ok() {
                printed = printer.rows(board, Some(&board.times.1));
            }
        };
        feed.read_on(&mut visit)?;
        status = feed.settle(&mut visit)?;
        printed?;
        printer.whole(&feed, status)?;
    }
    conclude(feed.board(), status)
}

/// Prints what differs from the last print.
struct Printer {
    format: Format,
    rows: Vec<Row>,
    whole: String,
    /// Passed and failed items at the last print of `whole`.
    settled: u64,
}

impl Printer {
    /// Prints the rows that changed at this time, or each with the time of its last change.
    fn rows(&mut self, board: &Board, now: Option<&str>) -> Result<(), Failure> {
        let mut text = String::new();
        for row in changed(&self.rows, board) {
            let ts = now.unwrap_or(&row.since);
            text += &match self.format {
                Format::Text => line(row, ts),
                Format::Json => {
                    let heading = json!({ "ts": known(ts), "watched": board.id });
                    json_line(&joined(heading, row_facts(row)))
                }
            };
            text.push('\n');
        }
        self.rows.clone_from(&board.rows);
        Ok(terminal::print(&text)?)
    }

    /// Prints the whole board if it changed; as text only at the start, at the end and when an item is settled.
    fn whole(&mut self, feed: &Feed, status: Status) -> Result<(), Failure> {
        let board = feed.board();
        let whole = match self.format {
            Format::Text => summary(feed, status),
            Format::Json => json_line(&board_facts(feed, status)),
        };
        let settled = board.progress.passed + board.progress.failed;
        let is_due = self.format == Format::Json
            || self.whole.is_empty()
            || status != Status::Running
            || self.settled != settled;
        if !is_due || self.whole == whole {
            return Ok(());
        }
        terminal::print(&format!("{whole}\n"))?;
        (self.whole, self.settled) = (whole, settled);
        Ok(())
    }
}

fn conclude(board: &Board, status: Status) -> Result<(), Failure> {
    if status == Status::Completed {
        return Ok(());
    }
    let why = board.outcome.as_ref().map(|outcome| outcome.word.as_str());
    Err(not_completed(board.word(), &board.id, status, why)
        .hint(format!("resume it with `{}`", board.resume_command())))
}

/// The failure of a run that is watched and does not complete.
pub(super) fn not_completed(what: &str, id: &str, status: Status, why: Option<&str>) -> Failure {
    Failure::failed(match (status, why) {
        (Status::Interrupted, _) => format!("{what} '{id}' was interrupted"),
        (Status::Stopped | Status::Failed, Some(why)) => format!("{what} '{id}' {status}: {why}"),
        _ => format!("{what} '{id}' {status}"),
    })
}

/// The rows that changed. A wave inserts rows, so a row is identified by its name and run, not by its index.
fn changed<'b>(before: &[Row], board: &'b Board) -> Vec<&'b Row> {
    let is_new = |row: &&Row| {
        let is_same = |old: &&Row| (&old.name, &old.run) == (&row.name, &row.run);
        before.iter().find(is_same).is_none_or(|old| old != *row)
    };
    board.rows.iter().filter(is_new).collect()
}

fn line(row: &Row, ts: &str) -> String {
    let mut text = format!("{} {}", clock(ts), row.name);
    let outcome = row.outcome.as_ref().map(|outcome| outcome.word.as_str());
    let parked = row.parked.as_ref().map(|it| format!("until {}  {it}", clock(&it.until)));
    let note = parked.as_ref().unwrap_or(&row.note);
    for part in [row.item.as_str(), &row.badge(), outcome.unwrap_or_default(), note] {
        if !part.is_empty() {
            text.extend(["  ", part]);
        }
    }
    tame(&text)
}

fn summary(feed: &Feed, status: Status) -> String {
    let (board, progress) = (feed.board(), feed.progress(status));
    let outcome = board.outcome.as_ref().map(|outcome| format!(" ({})", outcome.word));
    let ended = matches!(status, Status::Completed | Status::Stopped | Status::Failed);
    let outcome = outcome.filter(|_| ended).unwrap_or_default();
    let parked = board.parked().filter(|_| status == Status::Running);
    let parked = parked.map(|it| format!(" ({})", it.left_in_words(feed.moment(status))));
    let parked = parked.unwrap_or_default();
    let usage = feed.usage().map(|usage| format!("  {usage}")).unwrap_or_default();
    tame(&format!("{} {} {status}{outcome}{parked}  {progress}{usage}", board.word(), board.id))
}

/// An object with the fields of both.
fn joined(mut one: Value, other: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut one, other) {
        fields.extend(more);
    }
    one
}

fn row_facts(row: &Row) -> Value {
    let facts = json!({
        "row": row.name,
        "level": row.level,
        "run": known(&row.run),
        "item": known(&row.item),
        "title": known(&row.title),
        "phase": row.phase.word(),
        "number": row.phase.number(),
        "limit": Some(row.limit).filter(|limit| *limit > 0),
        "badge": row.badge(),
        "since": known(&row.since),
        "outcome": row.outcome.as_ref().map(|outcome| &outcome.word),
        "note": known(&row.note),
        "output": row.output,
        "parked": row.parked,
    });
    let Some(state) = row.state else { return facts };
    let of_loop = json!({
        "state": state.name(),
        "iteration": row.iteration,
        "review": row.review.name(),
        "revision": row.revision,
    });
    joined(facts, of_loop)
}

fn board_facts(feed: &Feed, status: Status) -> Value {
    let board = feed.board();
    let Progress { done, of, taken, passed, failed } = board.progress;
    let facts = json!({
        "watched": board.id,
        "kind": board.word(),
        "title": board.title,
        "status": status.name(),
        "outcome": board.outcome.as_ref().map(|outcome| &outcome.word),
        "done": done,
        "of": Some(of).filter(|of| *of > 0),
        "usage": feed.usage().map(|usage| usage.facts()),
    });
    match board.kind {
        Some(Kind::Slots) => {
            let items = json!({
                "taken": taken,
                "passed": passed,
                "failed": failed,
                "failed_iterations": board.failed_iterations,
                "left": feed.left(status),
            });
            joined(facts, items)
        }
        Some(Kind::Squad) => joined(facts, json!({ "blocked": failed })),
        _ => facts,
    }
}

fn known(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// The time of day in a timestamp.
pub(super) fn clock(ts: &str) -> &str {
    ts.get(11..19).unwrap_or("--:--:--")
}
