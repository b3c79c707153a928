//! The journal: an append-only log of records.
//!
//! [`Journal`] is its interface: append, read from a position, head, wait, and what follows from these.
//! [`FileJournal`] is a JSONL file that any number of processes append to; [`MemoryJournal`] is in memory.
//! Both pass the same suite of cases, and another log with an order of its own can implement the same
//! interface, because a [`Position`] is opaque.
//!
//! # What an append promises
//!
//! When [`Journal::append`] returns `Ok` for a [synced](Durability::Synced) append, the records
//! survive the death of the process and a power cut, whole, in order and exactly once. When it returns
//! an error, earlier records are untouched, and the journal can be appended to as before. [`mod@file`]
//! describes the protocol.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use autoloop_core::record::Record;
use autoloop_core::view::View;
use autoloop_core::views::latest_run::LatestRun;

mod append;
mod commit;
mod elide;
mod error;
pub mod file;
mod line;
mod memory;
mod reader;
pub mod sidecar;

pub use error::{AppendError, ReadError, Unsuitable};
pub use file::{FileJournal, FileSettings};
pub use line::{Line, Position};
pub use memory::MemoryJournal;
use sidecar::Kept;

/// An append-only log of records, shared with other processes.
pub trait Journal: Send + Sync {
    /// Adds records, next to each other, and returns the position behind them.
    ///
    /// Anything that must be atomic has to be one record: when the disk fills up in the middle, the
    /// first of several records may have been stored. [`AppendError::Full`] says how many were.
    ///
    /// Appending nothing repairs the journal: a torn line is ended. It may be a complete record that lacks
    /// only its newline, so a process that resumes a run does this first.
    fn append(&self, records: &[NewRecord], how: Append) -> Result<Position, AppendError>;

    /// Visits every complete line behind a position, until `visit` breaks off, and returns the position
    /// behind the last line visited.
    fn read(&self, from: Position, visit: &mut Visit<'_>) -> Result<Position, ReadError>;

    fn head(&self) -> Result<Position, ReadError>;

    /// Returns the head as soon as it lies behind `after`, or after the timeout.
    fn wait(&self, after: Position, timeout: Duration) -> Result<Position, ReadError>;

    fn path(&self) -> &Path;

    fn handle(&self) -> Arc<dyn Journal>;

    /// The file, for what only a file can do: find the latest run from the end, keep views in sidecars, show
    /// a torn end, copy bytes.
    fn file(&self) -> Option<&FileJournal> {
        None
    }
}

impl dyn Journal + '_ {
    /// Folds a view over the whole journal, or uses one that was kept.
    pub fn fold<V: View>(&self) -> Result<Kept<V>, ReadError> {
        match self.file() {
            Some(file) => file.fold(),
            None => self.fold_on(Kept::default()),
        }
    }

    /// Applies the records since a view was folded. If the journal is another one by now, the view is folded
    /// again from the start.
    pub fn fold_on<V: View>(&self, kept: Kept<V>) -> Result<Kept<V>, ReadError> {
        let Kept { mut view, position } = kept;
        let read_on = |view: &mut V, from| {
            self.read(from, &mut |line| {
                line.records(|record| view.apply(record));
                ControlFlow::Continue(())
            })
        };
        match read_on(&mut view, position) {
            Err(ReadError::Changed { .. }) => {
                view = V::default();
                let position = read_on(&mut view, Position::START)?;
                Ok(Kept { view, position })
            }
            read => Ok(Kept { view, position: read? }),
        }
    }

    pub fn latest_run(&self) -> Result<LatestRun, ReadError> {
        match self.file() {
            Some(file) => file.latest_run(),
            None => Ok(self.fold()?.view),
        }
    }

    /// Copies bytes of lines that are too long for memory: only a file has such lines.
    pub fn copy(
        &self,
        range: Range<u64>,
        out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), ReadError> {
        self.file().map_or(Ok(()), |file| file.copy(range, out))
    }
}

pub type Visit<'a> = dyn FnMut(&Line<'_>) -> ControlFlow<()> + 'a;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Append {
    pub expect: Option<Position>,
    pub durability: Durability,
}

/// What an acknowledged record survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut.
    #[default]
    Synced,
    /// The death of the process, but not of the machine.
    Cached,
}

#[derive(Clone, Debug)]
pub struct NewRecord {
    pub record: Record,
    /// More text for it, too long for memory.
    pub spooled: Option<Spooled>,
}

impl From<Record> for NewRecord {
    fn from(record: Record) -> Self {
        NewRecord { record, spooled: None }
    }
}

/// A text in a file, to be added to the payload or the output of a record while it is written. Bytes that are not UTF-8 become
/// U+FFFD.
#[derive(Clone)]
pub struct Spooled {
    pub path: PathBuf,
    pub text: Arc<dyn crate::world::DiskFile>,
    /// Values of secrets, which are masked together with what looks like a key; `None` where that is done already.
    pub secrets: Option<Vec<Vec<u8>>>,
}

impl fmt::Debug for Spooled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spooled").field("path", &self.path).finish()
    }
}
