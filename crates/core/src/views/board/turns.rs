//! The turns of a loop on a board: iterations, metareviews, the end.

use super::{Board, End, Kind, Outcome, Phase, Row, in_line};
use crate::layout::run_path;
use crate::record::{Event, Glance, LoopComplete, LoopStart, LoopStop};
use crate::run_id::RunId;

/// Takes in a record of a loop: the one that the board is about, or one that is a part of it.
pub(super) fn apply(board: &mut Board, record: &Glance<'_>) {
    let run = record.run();
    let event = record.event();
    if let Event::LoopStart(start) = &event {
        return begin(board, &run, start, record);
    }
    let is_whole = board.kind == Some(Kind::Loop) && board.id == run;
    let Some(row) = board.row_of(&run) else { return };
    let iteration: u64 = record.iteration().parse().unwrap_or_default();
    match event {
        Event::LoopResume(_) => row.enter(Phase::Between, record),
        Event::IterationStart(start) => {
            row.enter(Phase::Agent { iteration }, record);
            row.prints_to(&format!("iteration-{iteration}.out"));
            if is_whole {
                row.item = in_line(&start.suggested_roles);
            }
        }
        Event::IterationFinish(finish) => {
            row.enter(Phase::Between, record);
            // A record without an exit code says nothing about the agent.
            if let Some(failure) = finish.failure().filter(|_| !finish.exit_code.is_missing()) {
                row.note = in_line(&failure.to_string());
            }
        }
        Event::ReviewStart(start) => {
            row.enter(Phase::Metareview { before: iteration }, record);
            row.prints_to(&format!("{}-{iteration}.out", safe(&start.kind)));
        }
        Event::ReviewFinish(_) => row.enter(Phase::Between, record),
        Event::LoopComplete(LoopComplete { reason }) => {
            row.end(Outcome { word: reason.to_string(), end: End::Done }, record);
        }
        Event::LoopStop(LoopStop { reason, .. }) if is_whole => {
            row.end(Outcome::of_whole(&reason), record);
        }
        Event::LoopStop(LoopStop { reason, .. }) => row.end(Outcome::of_part(&reason), record),
        _ => return,
    }
    if is_whole {
        let outcome = row.outcome.clone();
        board.outcome = outcome;
        board.progress.done = board.progress.done.max(iteration);
    }
}

fn begin(board: &mut Board, run: &str, start: &LoopStart, record: &Glance<'_>) {
    let dir = run_path(Kind::Loop, run);
    let is_whole = board.id == run;
    if is_whole {
        // A run begins once; whoever says otherwise is not its harness.
        if board.kind.is_some() {
            return;
        }
        board.begin(Kind::Loop, &start.objective, record);
        board.progress.of = start.max_iterations;
        board.rows =
            vec![Row { run: run.to_owned(), name: "loop".to_owned(), dir, ..Row::default() }];
    }
    if let Some(row) = board.row_of(run) {
        row.limit = start.max_iterations;
        // What the whole is for stands above all rows.
        if row.title.is_empty() && !is_whole {
            row.title = in_line(&start.objective);
        }
        row.enter(Phase::Between, record);
    }
}

/// The sort of a review as a part of a file's name.
fn safe(kind: &str) -> &str {
    if kind.parse::<RunId>().is_ok() { kind } else { "review" }
}
