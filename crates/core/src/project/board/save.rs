//! The boards that were heard of last, as a view that can be kept.

use super::{Board, Items, Kind, Outcome, Phase, Progress, Row};
use crate::project::recent_runs::RecentRuns;
use crate::record::Glance;
use crate::view::View;
use crate::view::bytes::{Taker, put_number, put_text};

/// The boards that were heard of last; for an older one the journal is read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boards(RecentRuns<Board>);

impl Boards {
    /// All that are remembered; the one that was heard of last comes last.
    pub fn iter(&self) -> impl Iterator<Item = &Board> {
        self.0.iter().map(|(_, board)| board)
    }
}

impl View for Boards {
    const NAME: &'static str = "boards";
    const VERSION: u32 = 3;

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

    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out, save_board);
    }

    fn load(bytes: &[u8]) -> Option<Self> {
        let mut taker = Taker::new(bytes);
        let boards = RecentRuns::load(&mut taker, load_board)?;
        taker.is_done().then_some(Boards(boards))
    }
}

fn save_board(board: &Board, out: &mut Vec<u8>) {
    for text in [&board.id, &board.title, &board.source, &board.times.0, &board.times.1] {
        put_text(text, out);
    }
    let Progress { done, of, taken, passed, failed } = board.progress;
    for number in [board.kind as u64, done, of, taken, passed, failed, board.most_fixes] {
        put_number(number, out);
    }
    board.items.save(out);
    put_number(board.failed_iterations.len() as u64, out);
    board.failed_iterations.iter().for_each(|iteration| put_number(*iteration, out));
    save_outcome(board.outcome.as_ref(), out);
    put_number(board.rows.len() as u64, out);
    board.rows.iter().for_each(|row| save_row(row, out));
}

fn load_board(taker: &mut Taker<'_>) -> Option<Board> {
    let mut text = || taker.text().map(str::to_owned);
    let mut board = Board { id: text()?, title: text()?, source: text()?, ..Board::default() };
    board.times = (text()?, text()?);
    board.kind = match taker.number()? {
        0 => Kind::Unknown,
        1 => Kind::Loop,
        2 => Kind::Chain,
        3 => Kind::Slots,
        _ => return None,
    };
    board.progress = Progress {
        done: taker.number()?,
        of: taker.number()?,
        taken: taker.number()?,
        passed: taker.number()?,
        failed: taker.number()?,
    };
    board.most_fixes = taker.number()?;
    board.items = Items::load(taker)?;
    board.failed_iterations = (0..taker.count()?).map(|_| taker.number()).collect::<Option<_>>()?;
    board.outcome = load_outcome(taker)?;
    board.rows = (0..taker.count()?).map(|_| load_row(taker)).collect::<Option<_>>()?;
    Some(board)
}

fn save_row(row: &Row, out: &mut Vec<u8>) {
    let Row { run, name, item, title, began, since, note, dir, .. } = row;
    for text in [run, name, item, title, began, since, note, dir] {
        put_text(text, out);
    }
    put_text(row.output.as_deref().unwrap_or_default(), out);
    let (phase, attempt) = match row.phase {
        Phase::Waiting => (0, 0),
        Phase::Between => (1, 0),
        Phase::Agent { iteration } => (2, iteration),
        Phase::Metareview { before } => (3, before),
        Phase::Wave => (4, 0),
        Phase::Implement => (5, 0),
        Phase::Review { attempt } => (6, attempt),
        Phase::Fix { attempt } => (7, attempt),
        Phase::Merge => (8, 0),
        Phase::Ended => (9, 0),
    };
    for number in [row.number, row.level, row.limit, phase, attempt] {
        put_number(number, out);
    }
    save_outcome(row.outcome.as_ref(), out);
}

fn load_row(taker: &mut Taker<'_>) -> Option<Row> {
    let mut text = || taker.text().map(str::to_owned);
    let mut row = Row { run: text()?, name: text()?, ..Row::default() };
    (row.item, row.title) = (text()?, text()?);
    (row.began, row.since, row.note, row.dir) = (text()?, text()?, text()?, text()?);
    row.output = Some(text()?).filter(|path| !path.is_empty());
    (row.number, row.level, row.limit) = (taker.number()?, taker.number()?, taker.number()?);
    let (phase, attempt) = (taker.number()?, taker.number()?);
    row.phase = match phase {
        0 => Phase::Waiting,
        1 => Phase::Between,
        2 => Phase::Agent { iteration: attempt },
        3 => Phase::Metareview { before: attempt },
        4 => Phase::Wave,
        5 => Phase::Implement,
        6 => Phase::Review { attempt },
        7 => Phase::Fix { attempt },
        8 => Phase::Merge,
        9 => Phase::Ended,
        _ => return None,
    };
    row.outcome = load_outcome(taker)?;
    Some(row)
}

fn save_outcome(outcome: Option<&Outcome>, out: &mut Vec<u8>) {
    let kind = outcome.map_or(0, |outcome| 1 + u64::from(outcome.is_good));
    put_number(kind, out);
    put_text(outcome.map_or("", |outcome| &outcome.word), out);
}

fn load_outcome(taker: &mut Taker<'_>) -> Option<Option<Outcome>> {
    let kind = taker.number()?;
    let word = taker.text()?.to_owned();
    match kind {
        0 => Some(None),
        1 | 2 => Some(Some(Outcome { word, is_good: kind == 2 })),
        _ => None,
    }
}
