//! The boards that were heard of last, as a view that can be kept.

use serde::{Deserialize, Serialize};

use super::Board;
use crate::record::Glance;
use crate::view::View;
use crate::views::recent_runs::RecentRuns;

/// The boards that were heard of last; for an older one the journal is read again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boards(RecentRuns<Board>);

impl Boards {
    /// All that are remembered; the one that was heard of last comes last.
    pub fn iter(&self) -> impl Iterator<Item = &Board> {
        self.0.iter().map(|(_, board)| board)
    }
}

impl View for Boards {
    const NAME: &'static str = "boards";
    const VERSION: u32 = 5;

    fn apply(&mut self, record: &Glance<'_>) {
        let run = record.run();
        let owner = self.0.iter().filter(|(_, board)| board.has(&run)).last();
        match owner.map(|(id, _)| id.to_owned()) {
            Some(id) => {
                self.0.heard(&id).apply(record);
            }
            None if !run.is_empty() && Board::is_begun_by(record) => {
                let board = self.0.heard(&run);
                *board = Board::new(run);
                board.apply(record);
            }
            None => {}
        }
    }
}
