//! Writing records at the end of a locked file.
//!
//! [`file`](super::file) deals with locks, names and syncs. This is the part under the lock: end a torn line,
//! write complete lines, and cut what a failed write left.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use autoloop_core::record::{Escaper, Heading, JournalRepaired, print, print_around};
use autoloop_core::secrets::Masker;
use autoloop_core::timestamp::Timestamp;

use super::line::MARKED;
use super::reader::{line_start, read_lines};
use super::{Append, AppendError, NewRecord, Position, Spooled};
use crate::world::DiskFile;

/// The longest write. All records of one step are far shorter.
const LARGEST_WRITE: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) parts: Vec<Part>,
    pub(super) how: Append,
}

#[derive(Debug)]
pub(super) enum Part {
    Bytes(Vec<u8>),
    /// Escaped while it is written.
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
                    let (before, after) = print_around(&new.record);
                    if after.is_empty() {
                        let why = "the record has no text that it could be added to";
                        let error = io::Error::new(io::ErrorKind::InvalidInput, why);
                        return Err(AppendError::spool(spooled, error));
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

/// Reads a spooled text in pieces, and masks its secrets. Only what there is now: a file that grows, for example this
/// journal, would never end.
pub(super) fn read_spooled(
    spooled: &Spooled,
    take: &mut dyn FnMut(&[u8]) -> Result<(), AppendError>,
) -> Result<(), AppendError> {
    let failed = |error| AppendError::spool(spooled, error);
    let mut masker = spooled.secrets.clone().map(Masker::new);
    let mut piece = vec![0; LARGEST_WRITE / 4];
    let end = spooled.text.stat().map_err(failed)?.len;
    let mut offset = 0;
    loop {
        let left = usize::try_from(end - offset).unwrap_or(usize::MAX).min(piece.len());
        let count = spooled.text.read_full(&mut piece[..left], offset).map_err(failed)?;
        let mut taken = Ok(());
        let mut take_next = |piece: &[u8]| {
            if taken.is_ok() {
                taken = take(piece);
            }
        };
        match &mut masker {
            Some(masker) if count == 0 => masker.finish(&mut take_next),
            Some(masker) => masker.push(&piece[..count], &mut take_next),
            None => take_next(&piece[..count]),
        }
        taken?;
        if count == 0 {
            return Ok(());
        }
        offset += count as u64;
    }
}

/// A locked file to append to.
pub(super) struct Tail<'a> {
    pub(super) file: &'a dyn DiskFile,
    pub(super) path: &'a Path,
    pub(super) now: Timestamp,
}

pub(super) type Outcome = Result<Position, AppendError>;

impl Tail<'_> {
    /// Appends the entries, one outcome each. Entries after one that cannot be stored are still stored.
    pub(super) fn append(&self, entries: &[Entry]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(entries.len());
        while outcomes.len() < entries.len() {
            let rest = &entries[outcomes.len()..];
            match self.writer() {
                Ok(mut writer) => outcomes.extend(self.append_some(&mut writer, rest)),
                Err(error) => outcomes.extend(rest.iter().map(|_| Err(error.clone()))),
            }
        }
        outcomes
    }

    /// Reads the last bytes, and prepares to end a torn line.
    fn writer(&self) -> Result<Writer<'_>, AppendError> {
        let failed = |error| AppendError::io(self.path, "read the end of", error);
        let len = self.file.stat().map_err(failed)?.len;
        let ending = ending(self.file, len).map_err(failed)?;
        let mut writer =
            Writer { tail: self, written: len, whole: len, ending, buffer: Vec::new() };
        if len > 0 && writer.ending.last() != Some(&b'\n') {
            let offset = line_start(self.file, 0..len).map_err(failed)?;
            let heading = Heading { run: String::new(), iteration: String::new(), now: self.now };
            let repaired = JournalRepaired { offset, bytes: len - offset };
            writer.buffer.push(b'\n');
            print(&repaired.record(&heading), &mut writer.buffer);
        }
        Ok(writer)
    }

    /// Appends entries up to and including the first whose write fails.
    fn append_some(&self, writer: &mut Writer<'_>, entries: &[Entry]) -> Vec<Outcome> {
        let mut begin = writer.head().at;
        let mut outcomes = Vec::new();
        let mut failure = None;
        for entry in entries {
            let head = writer.head();
            if entry.how.expect.is_some_and(|expected| expected != head) {
                outcomes.push(Err(AppendError::Conflict { head }));
                continue;
            }
            if let Err(failed) = writer.write(entry) {
                failure = Some(match failed {
                    // The entries before it are written.
                    AppendError::Spool { .. } => {
                        writer.truncate(head);
                        writer.flush().err().unwrap_or(failed)
                    }
                    failed => failed,
                });
                break;
            }
            outcomes.push(Ok(writer.head()));
        }
        let Some(mut failure) = failure.or_else(|| writer.flush().err()) else { return outcomes };

        let end = writer.cut_back();
        // With a repair that was not written there was no conflict.
        let is_lost = |outcome: &Outcome| match outcome {
            Ok(head) | Err(AppendError::Conflict { head }) => head.at > end,
            Err(_) => false,
        };
        let lost = outcomes.iter().position(is_lost).unwrap_or(outcomes.len());
        outcomes.truncate(lost);
        begin = outcomes.iter().flatten().next_back().map_or(begin, |head| head.at);
        if outcomes.len() < entries.len() {
            if let AppendError::Full { stored, .. } = &mut failure {
                // If the file cannot be read any more, the number is too low.
                let _ = read_lines(self.file, begin..end, &mut |_| {
                    *stored += 1;
                    ControlFlow::Continue(())
                });
            }
            outcomes.push(Err(failure));
        }
        outcomes
    }
}

struct Writer<'a> {
    tail: &'a Tail<'a>,
    /// Where the file ends.
    written: u64,
    /// Where the last complete line ends.
    whole: u64,
    ending: Vec<u8>,
    buffer: Vec<u8>,
}

impl Writer<'_> {
    /// The end of the journal once the buffer is written.
    fn head(&self) -> Position {
        let mut ending = self.ending.clone();
        ending.extend_from_slice(&self.buffer[self.buffer.len().saturating_sub(MARKED)..]);
        Position::behind(self.written + self.buffer.len() as u64, &ending)
    }

    fn write(&mut self, entry: &Entry) -> Result<(), AppendError> {
        for part in &entry.parts {
            match part {
                Part::Bytes(bytes) => self.buffer.extend_from_slice(bytes),
                Part::Text(spooled) => {
                    let mut escaper = Escaper::default();
                    read_spooled(spooled, &mut |piece| {
                        escaper.push(piece, &mut self.buffer);
                        self.flush_large()
                    })?;
                    escaper.finish(&mut self.buffer);
                }
            }
            self.flush_large()?;
        }
        Ok(())
    }

    fn truncate(&mut self, position: Position) {
        let kept = usize::try_from(position.at.saturating_sub(self.written)).unwrap_or(usize::MAX);
        self.buffer.truncate(kept);
    }

    fn flush_large(&mut self) -> Result<(), AppendError> {
        if self.buffer.len() > LARGEST_WRITE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), AppendError> {
        let mut done = 0;
        let result = loop {
            if done == self.buffer.len() {
                break Ok(());
            }
            match self.tail.file.append(&self.buffer[done..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        if let Some(newline) = memchr::memrchr(b'\n', &self.buffer[..done]) {
            self.whole = self.written + newline as u64 + 1;
        }
        self.written += done as u64;
        self.ending.extend_from_slice(&self.buffer[done.saturating_sub(MARKED)..done]);
        self.ending.drain(..self.ending.len().saturating_sub(MARKED));
        self.buffer.clear();
        result.map_err(|error| AppendError::write(self.tail.path, error))
    }

    /// Cuts the incomplete line that a failed write left, and returns where the last complete line ends.
    /// Never cuts bytes of another writer, or a line that a reader may have seen.
    fn cut_back(&self) -> u64 {
        let file = self.tail.file;
        if self.written > self.whole && file.stat().is_ok_and(|stat| stat.len == self.written) {
            // If this fails too, the next writer ends the torn line.
            let _ = file.cut(self.whole);
        }
        self.whole
    }
}

/// The bytes before an offset that a mark is made of.
pub(super) fn ending(file: &dyn DiskFile, at: u64) -> io::Result<Vec<u8>> {
    file.read_range(at.saturating_sub(MARKED as u64)..at)
}
