//! The steps of a chain on a board: a row each, which its run fills.

use super::{Board, Kind, Outcome, Phase, ROWS, in_line, number, text};
use crate::coordinator;
use crate::layout::run_path;
use crate::record::{
    ChainComplete, ChainResume, ChainStart, ChainStepFinish, ChainStepStart, Glance,
};
use crate::run::ended_well;

/// Takes in a record of a chain.
pub(super) fn apply(board: &mut Board, record: &Glance<'_>) {
    match record.topic().as_ref() {
        ChainStart::TOPIC if board.kind == Kind::Unknown => {
            let (name, objective) = (text(record, "name"), text(record, "objective"));
            board.begin(Kind::Chain, &format!("{name}  {objective}"), record);
            let steps = text(record, "steps");
            for (preset, step) in
                steps.split(',').filter(|name| !name.is_empty()).zip(1..).take(ROWS)
            {
                if let Some(row) = board.numbered("step", step) {
                    row.item = in_line(preset);
                }
            }
            board.progress.of = board.rows.len() as u64;
        }
        ChainStepStart::TOPIC => {
            if let Some(row) = board.step(record) {
                row.item = in_line(&text(record, "preset"));
                row.run = text(record, "run_id");
                row.dir = run_path(coordinator::Kind::Loop, &row.run);
                row.enter(Phase::Between, record);
            }
        }
        ChainStepFinish::TOPIC => {
            if let Some(row) = board.step(record) {
                let word = text(record, "stop_reason");
                row.end(Outcome { is_good: ended_well(&word), word }, record);
            }
        }
        ChainComplete::TOPIC => {
            let word = text(record, "outcome");
            board.outcome = Some(Outcome { is_good: word == "all_steps_complete", word });
        }
        ChainResume::TOPIC => board.outcome = None,
        _ => {}
    }
    let ended = board.rows.iter().filter(|row| row.level == 0 && row.phase == Phase::Ended);
    board.progress.done = ended.count() as u64;
}

impl Board {
    fn step(&mut self, record: &Glance<'_>) -> Option<&mut super::Row> {
        let step = number(record, "step");
        self.rows.iter_mut().find(|row| row.level == 0 && row.number == step)
    }
}
