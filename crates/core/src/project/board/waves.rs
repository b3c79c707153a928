//! The branches of a wave on a board: a row each, under the loop that asked for them.

use super::{Board, Outcome, Phase, ROWS, Row, in_line, text};
use crate::layout::branch_path;
use crate::record::{Glance, WaveBranchFinish, WaveBranchStart, WaveJoinFinish, WaveStart};
use crate::run::ended_well;
use crate::wave::objectives;

/// Takes in a record about a wave.
pub(super) fn apply(board: &mut Board, record: &Glance<'_>) {
    let run = record.run();
    let wave = text(record, "wave_id");
    let branch = text(record, "branch_id");
    match record.topic().as_ref() {
        WaveStart::TOPIC => open(board, &run, &wave, record),
        WaveBranchStart::TOPIC => {
            if let Some(row) = board.branch(&wave, &branch) {
                row.enter(Phase::Between, record);
            }
        }
        WaveBranchFinish::TOPIC => {
            if let Some(row) = board.branch(&wave, &branch) {
                let word = text(record, "stop_reason");
                row.end(Outcome { is_good: ended_well(&word), word }, record);
            }
        }
        WaveJoinFinish::TOPIC => {
            if let Some(row) = board.row_of(&run) {
                row.enter(Phase::Between, record);
            }
        }
        _ => {}
    }
}

/// A new wave takes the place of the one before it.
fn open(board: &mut Board, run: &str, wave: &str, record: &Glance<'_>) {
    let Some(parent) = board.rows.iter().position(|row| row.run == run) else { return };
    let level = board.rows[parent].level;
    board.rows[parent].enter(Phase::Wave, record);
    let below = board.rows[parent + 1..].iter().take_while(|row| row.level > level).count();
    let objectives = objectives(&text(record, "objectives"), ROWS as u64).unwrap_or_default();
    let branches = objectives.iter().zip(1..).map(|(objective, number)| Row {
        run: format!("{wave}-{number}"),
        number,
        level: level + 1,
        name: format!("branch-{number}"),
        title: in_line(objective),
        dir: branch_path(wave, number),
        ..Row::default()
    });
    board.rows.splice(parent + 1..=parent + below, branches);
}

impl Board {
    fn branch(&mut self, wave: &str, branch: &str) -> Option<&mut Row> {
        let number = branch.strip_prefix("branch-")?;
        self.row_of(&format!("{wave}-{number}"))
    }
}
