//! The turns of a loop on a board: iterations, metareviews, the end.

use super::{Board, Kind, Outcome, Phase, Row, in_line, number, text};
use crate::coordinator;
use crate::failure::TurnFailure;
use crate::layout::run_path;
use crate::record::{
    Glance, IterationFinish, IterationStart, LoopComplete, LoopResume, LoopStart, LoopStop,
    ReviewFinish, ReviewStart,
};
use crate::run::ended_well;
use crate::run_id::RunId;

/// Takes in a record of a loop: the one that the board is about, or one that is a part of it.
pub(super) fn apply(board: &mut Board, record: &Glance<'_>) {
    let run = record.run();
    let topic = record.topic();
    if topic == LoopStart::TOPIC {
        return begin(board, &run, record);
    }
    let is_whole = board.kind == Kind::Loop && board.id == run;
    let Some(row) = board.row_of(&run) else { return };
    let iteration: u64 = record.iteration().parse().unwrap_or_default();
    match topic.as_ref() {
        LoopResume::TOPIC => row.enter(Phase::Between, record),
        IterationStart::TOPIC => {
            row.enter(Phase::Agent { iteration }, record);
            row.prints_to(&format!("iteration-{iteration}.out"));
            if is_whole {
                row.item = in_line(&text(record, "suggested_roles"));
            }
        }
        IterationFinish::TOPIC => {
            row.enter(Phase::Between, record);
            row.note_failure(record);
        }
        ReviewStart::TOPIC => {
            row.enter(Phase::Metareview { before: iteration }, record);
            row.prints_to(&format!("{}-{iteration}.out", safe(&text(record, "kind"))));
        }
        ReviewFinish::TOPIC => row.enter(Phase::Between, record),
        LoopComplete::TOPIC => {
            row.end(Outcome { word: text(record, "reason"), is_good: true }, record);
        }
        LoopStop::TOPIC => {
            let word = text(record, "reason");
            // A part of something larger did its part when it did all that it was allowed to.
            let is_good = !is_whole && ended_well(&word);
            row.end(Outcome { word, is_good }, record);
        }
        _ => return,
    }
    if is_whole {
        let outcome = row.outcome.clone();
        board.outcome = outcome;
        board.progress.done = board.progress.done.max(iteration);
    }
}

fn begin(board: &mut Board, run: &str, record: &Glance<'_>) {
    let dir = run_path(coordinator::Kind::Loop, run);
    let is_whole = board.id == run;
    if is_whole {
        // A run begins once; whoever says otherwise is not its harness.
        if board.kind != Kind::Unknown {
            return;
        }
        board.begin(Kind::Loop, &text(record, "objective"), record);
        board.progress.of = number(record, "max_iterations");
        board.rows =
            vec![Row { run: run.to_owned(), name: "loop".to_owned(), dir, ..Row::default() }];
    }
    if let Some(row) = board.row_of(run) {
        row.limit = number(record, "max_iterations");
        // What the whole is for stands above all rows.
        if row.title.is_empty() && !is_whole {
            row.title = in_line(&text(record, "objective"));
        }
        row.enter(Phase::Between, record);
    }
}

impl Row {
    /// Says why an agent did not end well.
    fn note_failure(&mut self, record: &Glance<'_>) {
        // A record without an exit code says nothing about the agent.
        let failure = TurnFailure::read(record).filter(|_| record.field("exit_code").is_some());
        if let Some(failure) = failure {
            self.note = in_line(&failure.to_string());
        }
    }
}

/// The sort of a review as a part of a file's name.
fn safe(kind: &str) -> &str {
    if kind.parse::<RunId>().is_ok() { kind } else { "review" }
}
