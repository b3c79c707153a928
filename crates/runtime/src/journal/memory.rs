//! A journal in memory.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use autoloop_core::record::Escaper;

use super::append::{Entry, Part, read_spooled};
use super::line::{Line, Wholeness};
use super::{Append, AppendError, Journal, NewRecord, Position, ReadError, Visit};

/// A journal that lives as long as its handles.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Every line with its newline. A position counts them.
    lines: Mutex<Vec<Arc<[u8]>>>,
    grown: Condvar,
}

impl MemoryJournal {
    fn lines(&self) -> MutexGuard<'_, Vec<Arc<[u8]>>> {
        // Lines are pushed whole, so a panic of another thread does no harm.
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn behind(lines: &[Arc<[u8]>]) -> Position {
    Position { at: lines.len() as u64, mark: 0 }
}

impl Journal for MemoryJournal {
    fn path(&self) -> &Path {
        Path::new("memory")
    }

    fn handle(&self) -> Arc<dyn Journal> {
        Arc::new(self.clone())
    }

    fn append(&self, records: &[NewRecord], how: Append) -> Result<Position, AppendError> {
        let new: Vec<_> = records.iter().map(encode).collect::<Result<_, _>>()?;
        let mut lines = self.lines();
        let head = behind(&lines);
        if how.expect.is_some_and(|expected| expected != head) {
            return Err(AppendError::Conflict { head });
        }
        lines.extend(new);
        self.0.grown.notify_all();
        Ok(behind(&lines))
    }

    fn read(&self, from: Position, visit: &mut Visit<'_>) -> Result<Position, ReadError> {
        let all = self.lines().clone();
        let mut at = from.at;
        for line in all.iter().skip(usize::try_from(from.at).unwrap_or(usize::MAX)) {
            let shown = Line {
                bytes: line.strip_suffix(b"\n").unwrap_or(line),
                ending: &[],
                start: at,
                end: at + 1,
                wholeness: Wholeness::Whole,
                elisions: &[],
            };
            at += 1;
            if visit(&shown) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(Position { at, mark: 0 })
    }

    fn head(&self) -> Result<Position, ReadError> {
        Ok(behind(&self.lines()))
    }

    fn wait(&self, after: Position, timeout: Duration) -> Result<Position, ReadError> {
        let waited =
            self.0.grown.wait_timeout_while(self.lines(), timeout, |lines| behind(lines) == after);
        Ok(behind(&waited.unwrap_or_else(PoisonError::into_inner).0))
    }
}

fn encode(new: &NewRecord) -> Result<Arc<[u8]>, AppendError> {
    let mut line = Vec::new();
    for part in Entry::new(std::slice::from_ref(new), Append::default())?.parts {
        match part {
            Part::Bytes(bytes) => line.extend_from_slice(&bytes),
            Part::Text(spooled) => {
                let mut escaper = Escaper::default();
                read_spooled(&spooled, &mut |piece| {
                    escaper.push(piece, &mut line);
                    Ok(())
                })?;
                escaper.finish(&mut line);
            }
        }
    }
    Ok(line.into())
}
