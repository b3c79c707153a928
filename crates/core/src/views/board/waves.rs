//! The branches of a wave on a board: a row each, under the loop that asked for them.

use super::{Board, Outcome, Phase, ROWS, Row, in_line};
use crate::layout::branch_path;
use crate::record::{Event, Glance, WaveStart};
use crate::wave::objectives;

/// Takes in a record about a wave.
pub(super) fn apply(board: &mut Board, record: &Glance<'_>) {
    let run = record.run();
    match record.event() {
        Event::WaveStart(start) => open(board, &run, &start, record),
        Event::WaveBranchStart(start) => {
            if let Some(row) = board.branch(&start.wave_id, &start.branch_id) {
                row.enter(Phase::Between, record);
            }
        }
        Event::WaveBranchFinish(finish) => {
            if let Some(row) = board.branch(&finish.wave_id, &finish.branch_id) {
                row.end(Outcome::of_part(&finish.stop_reason), record);
            }
        }
        Event::WaveJoinFinish(_) => {
            if let Some(row) = board.row_of(&run) {
                row.enter(Phase::Between, record);
            }
        }
        _ => {}
    }
}

/// A new wave takes the place of the one before it.
fn open(board: &mut Board, run: &str, start: &WaveStart, record: &Glance<'_>) {
    let wave = start.wave_id.as_str();
    let Some(parent) = board.rows.iter().position(|row| row.run == run) else { return };
    let level = board.rows[parent].level;
    board.rows[parent].enter(Phase::Wave, record);
    let below = board.rows[parent + 1..].iter().take_while(|row| row.level > level).count();
    let objectives = objectives(&start.objectives, ROWS as u64).unwrap_or_default();
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
