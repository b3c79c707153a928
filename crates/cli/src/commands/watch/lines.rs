//! A board without a terminal: a line for every change, or how it stands.

use std::io::{self, Write};
use std::time::Duration;

use autoloop_core::coordinator::Status;
use autoloop_core::duration;
use autoloop_core::format::json_line;
use autoloop_core::record::Glance;
use autoloop_core::views::board::{Board, Row};
use serde::Serialize;

use super::change::{BoardFacts, RowFacts, changed, known, line, summary};
use crate::failure::Failure;
use crate::terminal;
use crate::tui::model::Feed;
use crate::tui::text::tame;

/// The journal itself wakes us when it grows; this is how often it is looked whether the harness is
/// still there and whether somebody still reads, which nobody announces.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// The same when the end is on record and the harness is about to go.
const ABOUT_TO_GO: Duration = Duration::from_millis(100);

/// Who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
}

/// Prints how it stands.
pub(super) fn once(feed: &mut Feed, form: Form) -> Result<(), Failure> {
    let status = feed.settle(&mut |_, _| {})?;
    let last_lines = feed.last_lines();
    let board = feed.board();
    let mut text = match form {
        Form::Text => summary(board, status, &feed.progress(status)) + "\n",
        Form::Json => {
            #[derive(Serialize)]
            struct Whole<'a> {
                #[serde(flatten)]
                board: BoardFacts<'a>,
                rows: Vec<WithLine<'a>>,
            }
            #[derive(Serialize)]
            struct WithLine<'a> {
                #[serde(flatten)]
                row: RowFacts<'a>,
                last_line: &'a str,
            }
            let rows = board.rows.iter().zip(&last_lines);
            let rows = rows.map(|(row, last_line)| WithLine { row: RowFacts::of(row), last_line });
            let rows = rows.collect();
            let board = BoardFacts::of(board, status, feed.left(status));
            json_line(&Whole { board, rows }) + "\n"
        }
    };
    if form == Form::Text {
        let moment = feed.moment(status);
        for (row, last) in board.rows.iter().zip(&last_lines) {
            let time = row.elapsed(moment).map(duration::print_short).unwrap_or_default();
            text += &(standing_line(row, &time, last) + "\n");
        }
    }
    print(&text)
}

fn standing_line(row: &Row, time: &str, last: &str) -> String {
    let indent = "  ".repeat(usize::try_from(row.level.min(8)).unwrap_or_default() + 1);
    let mut text = format!("{indent}{}", row.name);
    let what = format!("{} {}", row.item, row.title);
    for part in [&row.badge(), time, what.trim(), last] {
        if !part.is_empty() {
            text.extend(["  ", part]);
        }
    }
    tame(&text)
}

/// Prints how it stands and then every change, until nothing more can come.
pub(super) fn follow(mut feed: Feed, form: Form) -> Result<(), Failure> {
    let mut printer = Printer::new(form);
    let mut status = feed.settle(&mut |_, _| {})?;
    printer.whole(&feed, status)?;
    printer.rows(feed.board(), Since::Each)?;
    while status == Status::Running {
        let is_over = feed.board().outcome.is_some();
        feed.wait(if is_over { ABOUT_TO_GO } else { LOOK_AGAIN })?;
        terminal::ensure_read()?;
        let mut told = Ok(());
        let mut tell = |board: &Board, _: &Glance<'_>| {
            if told.is_ok() {
                told = printer.rows(board, Since::Heard);
            }
        };
        feed.read_on(&mut tell)?;
        status = feed.settle(&mut tell)?;
        told?;
        printer.whole(&feed, status)?;
    }
    conclude(feed.board(), status)
}

/// When something is said to have happened.
#[derive(Clone, Copy)]
enum Since {
    /// When each row came to be as it is.
    Each,
    /// With the last record.
    Heard,
}

/// What other programs read of a row that changed.
#[derive(Serialize)]
struct Change<'a> {
    ts: Option<&'a str>,
    watched: &'a str,
    #[serde(flatten)]
    row: RowFacts<'a>,
}

/// What was printed last.
struct Printer {
    form: Form,
    rows: Vec<Row>,
    whole: String,
    /// How many items had passed or failed when the whole was printed.
    settled: u64,
}

impl Printer {
    fn new(form: Form) -> Printer {
        Printer { form, rows: Vec::new(), whole: String::new(), settled: 0 }
    }

    /// Prints the rows that are different.
    fn rows(&mut self, board: &Board, since: Since) -> Result<(), Failure> {
        let mut text = String::new();
        for row in changed(&self.rows, board) {
            let ts = match since {
                Since::Each => &row.since,
                Since::Heard => &board.times.1,
            };
            text += &match self.form {
                Form::Text => line(row, ts),
                Form::Json => {
                    let row = RowFacts::of(row);
                    json_line(&Change { ts: known(ts), watched: &board.id, row })
                }
            };
            text.push('\n');
        }
        self.rows.clone_from(&board.rows);
        if text.is_empty() { Ok(()) } else { print(&text) }
    }

    /// Prints the whole if it is different. People see it at the beginning, at the end and whenever an
    /// item is settled, programs whenever it changes.
    fn whole(&mut self, feed: &Feed, status: Status) -> Result<(), Failure> {
        let board = feed.board();
        let whole = match self.form {
            Form::Text => summary(board, status, &feed.progress(status)),
            Form::Json => json_line(&BoardFacts::of(board, status, feed.left(status))),
        };
        let settled = board.progress.passed + board.progress.failed;
        let is_due = match self.form {
            Form::Json => true,
            Form::Text => {
                self.whole.is_empty() || status != Status::Running || self.settled != settled
            }
        };
        if !is_due || self.whole == whole {
            return Ok(());
        }
        print(&format!("{whole}\n"))?;
        (self.whole, self.settled) = (whole, settled);
        Ok(())
    }
}

/// Whoever reads along sees every line at once.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(terminal::harmless(text).as_bytes())?;
    Ok(out.flush()?)
}

fn conclude(board: &Board, status: Status) -> Result<(), Failure> {
    let (what, id) = (board.word(), &board.id);
    let message = match (status, &board.outcome) {
        (Status::Completed, _) => return Ok(()),
        (Status::Interrupted, _) => format!("{what} '{id}' was interrupted"),
        (Status::Stopped | Status::Failed, Some(end)) => {
            format!("{what} '{id}' {status}: {}", end.word)
        }
        _ => format!("{what} '{id}' {status}"),
    };
    Err(Failure::failed(message).hint(format!("resume it with `{}`", board.resume_command())))
}
