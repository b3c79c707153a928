//! Writing records at the end of a locked file.
//!
//! Decides nothing about locks, names or syncs; that is [`file`](super::file). Here is what happens
//! between taking the lock and giving it back: the tail is looked at, a torn one is ended, whole lines
//! are written, and what a failed write leaves behind is taken away again.

use std::io;
use std::path::Path;
use std::sync::Arc;

use autoloop_core::record::{Escaper, Heading, JournalRepaired, print, print_around};
use autoloop_core::timestamp::Timestamp;

use super::position::MARKED;
use super::reader::{line_start, read_at, read_lines};
use super::{Append, AppendError, NewRecord, Position, Spooled};
use crate::world::DiskFile;

/// How much is put into one write. Everything that belongs to one step is far smaller.
const LARGEST_WRITE: usize = 1024 * 1024;

/// What one caller wants to have appended.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) parts: Vec<Part>,
    pub(super) how: Append,
}

/// A stretch of an entry.
#[derive(Debug)]
pub(super) enum Part {
    /// Bytes to be written as they are.
    Bytes(Vec<u8>),
    /// Text to be escaped on its way.
    Text(Spooled),
}

impl Entry {
    pub(super) fn new(records: &[NewRecord], how: Append) -> Result<Self, AppendError> {
        let mut parts = Vec::new();
        let mut bytes = Vec::new();
        for new in records {
            match &new.spooled {
                None => print(&new.record, &mut bytes),
                Some(spooled) => {
                    let (before, after) = print_around(&new.record, spooled.hole);
                    if after.is_empty() {
                        return Err(AppendError::no_place(spooled));
                    }
                    bytes.extend_from_slice(&before);
                    parts.push(Part::Bytes(std::mem::take(&mut bytes)));
                    parts.push(Part::Text(spooled.clone()));
                    bytes = after;
                }
            }
        }
        parts.push(Part::Bytes(bytes));
        Ok(Entry { parts, how })
    }
}

/// The end of a locked file.
pub(super) struct Tail<'a> {
    pub(super) file: &'a dyn DiskFile,
    pub(super) path: &'a Path,
    pub(super) now: Timestamp,
}

type Outcome = Result<Position, AppendError>;

impl Tail<'_> {
    /// Appends the entries, one outcome each. An entry that cannot be stored does not keep those
    /// behind it from being stored.
    pub(super) fn append(&self, entries: &[Entry]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(entries.len());
        while outcomes.len() < entries.len() {
            let rest = &entries[outcomes.len()..];
            match self.pen() {
                Ok(mut pen) => outcomes.extend(self.append_some(&mut pen, rest)),
                Err(error) => outcomes.extend(rest.iter().map(|_| Err(error.clone()))),
            }
        }
        outcomes
    }

    /// Looks at the last bytes, and prepares to end a torn line.
    fn pen(&self) -> Result<Pen<'_>, AppendError> {
        let failed = |error| AppendError::io(self.path, "look at the end of", error);
        let len = self.file.stat().map_err(failed)?.len;
        let ending = ending(self.file, len).map_err(failed)?;
        let mut pen = Pen { file: self.file, written: len, whole: len, ending, buffer: Vec::new() };
        if len > 0 && pen.ending.last() != Some(&b'\n') {
            let offset = line_start(self.file, len).map_err(failed)?;
            let heading = Heading { run: String::new(), iteration: String::new(), now: self.now };
            let repaired = JournalRepaired { offset, bytes: len - offset };
            pen.buffer.push(b'\n');
            print(&repaired.record(&heading), &mut pen.buffer);
        }
        Ok(pen)
    }

    /// Appends entries up to and including the first that fails for want of room or the like.
    fn append_some(&self, pen: &mut Pen<'_>, entries: &[Entry]) -> Vec<Outcome> {
        let mut begin = pen.head().at;
        let mut outcomes = Vec::new();
        let mut failure = None;
        for entry in entries {
            let head = pen.head();
            if entry.how.expect.is_some_and(|expected| expected != head) {
                outcomes.push(Err(AppendError::Conflict { head }));
                continue;
            }
            if let Err(failed) = pen.write(entry) {
                failure = Some(match failed {
                    // Those before it have nothing to do with it: what they wait for is written.
                    Failure::Spool(..) => {
                        pen.forget_from(head);
                        pen.flush().err().unwrap_or(failed)
                    }
                    Failure::Write(_) => failed,
                });
                break;
            }
            outcomes.push(Ok(pen.head()));
        }
        let Some(failure) = failure.or_else(|| pen.flush().err()) else { return outcomes };

        let stored = pen.cut_back();
        // A conflict is about what stands before the entry: a repair that was not written is none.
        let is_lost = |outcome: &Outcome| match outcome {
            Ok(head) | Err(AppendError::Conflict { head }) => head.at > stored,
            Err(_) => false,
        };
        let lost = outcomes.iter().position(is_lost).unwrap_or(outcomes.len());
        outcomes.truncate(lost);
        begin = outcomes.iter().flatten().next_back().map_or(begin, |head| head.at);
        if outcomes.len() < entries.len() {
            outcomes.push(Err(failure.explain(self, begin..stored)));
        }
        outcomes
    }
}

/// Writes at the end of a file and knows what is there.
struct Pen<'a> {
    file: &'a dyn DiskFile,
    /// Where the file ends.
    written: u64,
    /// Where the last whole line that was written here ends; the beginning when there is none.
    whole: u64,
    /// The last bytes before that.
    ending: Vec<u8>,
    /// What is to be written next.
    buffer: Vec<u8>,
}

enum Failure {
    Write(io::Error),
    Spool(Spooled, io::Error),
}

impl Pen<'_> {
    /// Where the journal ends once the buffer is written.
    fn head(&self) -> Position {
        let mut ending = self.ending.clone();
        ending.extend_from_slice(&self.buffer[self.buffer.len().saturating_sub(MARKED)..]);
        Position::behind(self.written + self.buffer.len() as u64, &ending)
    }

    fn write(&mut self, entry: &Entry) -> Result<(), Failure> {
        for part in &entry.parts {
            match part {
                Part::Bytes(bytes) => self.buffer.extend_from_slice(bytes),
                Part::Text(spooled) => self.write_text(spooled)?,
            }
            if self.buffer.len() > LARGEST_WRITE {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn write_text(&mut self, spooled: &Spooled) -> Result<(), Failure> {
        let failed = |error| Failure::Spool(spooled.clone(), error);
        let mut escaper = Escaper::default();
        let mut piece = vec![0; LARGEST_WRITE / 4];
        let mut offset = 0;
        // As much as there is now: a file that is still written to, this journal for one, would never
        // come to an end.
        let end = spooled.text.stat().map_err(failed)?.len;
        loop {
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX).min(piece.len());
            let count =
                read_at(spooled.text.as_ref(), &mut piece[..left], offset).map_err(failed)?;
            if count == 0 {
                escaper.finish(&mut self.buffer);
                return Ok(());
            }
            offset += count as u64;
            escaper.push(&piece[..count], &mut self.buffer);
            if self.buffer.len() > LARGEST_WRITE {
                self.flush()?;
            }
        }
    }

    /// Drops what is to be written behind a place.
    fn forget_from(&mut self, place: Position) {
        let kept = usize::try_from(place.at.saturating_sub(self.written)).unwrap_or(usize::MAX);
        self.buffer.truncate(kept);
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let mut done = 0;
        let result = loop {
            if done == self.buffer.len() {
                break Ok(());
            }
            match self.file.append(&self.buffer[done..]) {
                Ok(0) => break Err(Failure::Write(io::ErrorKind::WriteZero.into())),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(Failure::Write(error)),
            }
        };
        if let Some(newline) = memchr::memrchr(b'\n', &self.buffer[..done]) {
            self.whole = self.written + newline as u64 + 1;
        }
        self.written += done as u64;
        self.ending.extend_from_slice(&self.buffer[done.saturating_sub(MARKED)..done]);
        self.ending.drain(..self.ending.len().saturating_sub(MARKED));
        self.buffer.clear();
        result
    }

    /// Takes away the unfinished line that a failed write left, and returns where the last whole line
    /// ends. Never goes below a byte that somebody else wrote, or below a line that a reader may have
    /// seen.
    fn cut_back(&self) -> u64 {
        let is_ours = |len: u64| len == self.written;
        if self.written > self.whole && self.file.stat().is_ok_and(|stat| is_ours(stat.len)) {
            // If this fails too, the line stays torn, and the next writer ends it.
            let _ = self.file.cut(self.whole);
        }
        self.whole
    }
}

impl Failure {
    fn explain(self, tail: &Tail<'_>, stored: std::ops::Range<u64>) -> AppendError {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};

        match self {
            Failure::Spool(spooled, error) => {
                AppendError::Spool { path: spooled.path, source: Arc::new(error) }
            }
            Failure::Write(error)
                if matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) =>
            {
                let mut records = 0;
                let mut count = |_: &super::Line<'_>| {
                    records += 1;
                    std::ops::ControlFlow::Continue(())
                };
                // Counting is a courtesy; where the file cannot be read any more, the figure is low.
                let _ = read_lines(tail.file, stored, &mut count);
                AppendError::Full {
                    path: tail.path.to_owned(),
                    stored: records,
                    source: Arc::new(error),
                }
            }
            Failure::Write(error) => AppendError::io(tail.path, "write to", error),
        }
    }
}

/// The last bytes before a place in a file: as many as a mark is made of.
pub(super) fn ending(file: &dyn DiskFile, at: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(at).map_or(MARKED, |at| at.min(MARKED));
    let mut bytes = vec![0; length];
    let count = read_at(file, &mut bytes, at - length as u64)?;
    bytes.truncate(count);
    Ok(bytes)
}
