//! The steps of a chain on a board: a row each, which its run fills.

use super::{Board, End, Kind, Outcome, Phase, ROWS, in_line};
use crate::layout::run_path;
use crate::record::{ChainComplete, ChainOutcome, Event, Glance};

/// Takes in a record of a chain.
pub(super) fn apply(board: &mut Board, record: &Glance<'_>) {
    match record.event() {
        Event::ChainStart(start) if board.kind.is_none() => {
            let objective = start.objective.unwrap_or_default();
            board.begin(Kind::Chain, &format!("{}  {objective}", start.name), record);
            let steps = start.steps.split(',').filter(|name| !name.is_empty());
            for (preset, step) in steps.zip(1..).take(ROWS) {
                if let Some(row) = board.numbered("step", step) {
                    row.item = in_line(preset);
                }
            }
            board.progress.of = board.rows.len() as u64;
        }
        Event::ChainStepStart(start) => {
            if let Some(row) = board.step(start.step) {
                row.item = in_line(&start.preset);
                row.run = start.run_id.unwrap_or_default();
                row.dir = run_path(Kind::Loop, &row.run);
                row.enter(Phase::Between, record);
            }
        }
        Event::ChainStepFinish(finish) => {
            if let Some(row) = board.step(finish.step) {
                row.end(Outcome::of_part(&finish.stop_reason), record);
            }
        }
        Event::ChainComplete(ChainComplete { outcome, .. }) => {
            let is_good = outcome == ChainOutcome::AllStepsComplete;
            let end = if is_good { End::Done } else { End::Failed };
            board.outcome = Some(Outcome { word: outcome.to_string(), end });
        }
        Event::ChainResume(_) => board.outcome = None,
        _ => {}
    }
    let ended = board.rows.iter().filter(|row| row.level == 0 && row.phase == Phase::Ended);
    board.progress.done = ended.count() as u64;
}

impl Board {
    fn step(&mut self, step: u64) -> Option<&mut super::Row> {
        self.rows.iter_mut().find(|row| row.level == 0 && row.number == step)
    }
}
