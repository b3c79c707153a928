//! Reading lines from a file in bounded memory.

use std::io;
use std::ops::{ControlFlow, Range};

use super::Visit;
use super::elide::Elider;
use super::line::{Line, MARKED, Wholeness};
use crate::world::DiskFile;

/// How much is read at once. With this, a cached file is read at the speed of memory.
const BLOCK: usize = 512 * 1024;
/// The longest line that is held whole. In a longer one, the middle of its long strings is left out.
const LONGEST: usize = 4 * 1024 * 1024;

/// Visits the complete lines in a range of a file, which begins with a line, and returns where the last one
/// ends. A line that does not end in the range is skipped: it is torn, or being written.
pub(super) fn read_lines(
    file: &dyn DiskFile,
    range: Range<u64>,
    visit: &mut Visit<'_>,
) -> io::Result<u64> {
    let mut reader = Reader { file, range, buffer: Vec::new(), filled: 0 };
    while reader.read_block(visit)?.is_continue() {}
    Ok(reader.range.start)
}

struct Reader<'a> {
    file: &'a dyn DiskFile,
    /// What has not been visited yet.
    range: Range<u64>,
    /// Its first bytes, `filled` of them.
    buffer: Vec<u8>,
    filled: usize,
}

impl Reader<'_> {
    /// Breaks off at the end, or when the visitor does.
    fn read_block(&mut self, visit: &mut Visit<'_>) -> io::Result<ControlFlow<()>> {
        let had = self.filled;
        if self.fill()? == 0 {
            return Ok(ControlFlow::Break(()));
        }
        let mut begin = 0;
        for newline in memchr::memchr_iter(b'\n', &self.buffer[had..self.filled]) {
            let end = had + newline + 1;
            let line = Line {
                bytes: &self.buffer[begin..end - 1],
                ending: &self.buffer[begin.max(end.saturating_sub(MARKED))..end],
                start: self.range.start,
                end: self.range.start + (end - begin) as u64,
                wholeness: Wholeness::Whole,
                elisions: &[],
            };
            let flow = visit(&line);
            self.range.start = line.end;
            begin = end;
            if flow.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.buffer.copy_within(begin..self.filled, 0);
        self.filled -= begin;
        if self.filled >= LONGEST { self.read_giant(visit) } else { Ok(ControlFlow::Continue(())) }
    }

    /// Reads more into the buffer; 0 at the end.
    fn fill(&mut self) -> io::Result<usize> {
        let from = self.range.start + self.filled as u64;
        let left = usize::try_from(self.range.end.saturating_sub(from)).unwrap_or(usize::MAX);
        let wanted = left.min(BLOCK);
        if wanted == 0 {
            return Ok(0);
        }
        let missing = (self.filled + wanted).saturating_sub(self.buffer.len());
        if missing > 0 {
            // Only as much as is needed: twice the longest line would be a lot.
            self.buffer.reserve_exact(missing);
            self.buffer.resize(self.filled + wanted, 0);
        }
        let end = self.buffer.len().min(self.filled + left);
        let count = self.file.read_full(&mut self.buffer[self.filled..end], from)?;
        self.filled += count;
        Ok(count)
    }

    /// Visits a line whose first bytes fill the buffer, without the middle of its long strings.
    fn read_giant(&mut self, visit: &mut Visit<'_>) -> io::Result<ControlFlow<()>> {
        let start = self.range.start;
        let mut elider = Elider::default();
        let mut ending: Vec<u8> = Vec::new();
        loop {
            let newline = memchr::memchr(b'\n', &self.buffer[..self.filled]);
            let taken = newline.map_or(self.filled, |newline| newline + 1);
            let piece = &self.buffer[..taken];
            if elider.kept() < LONGEST {
                elider.push(piece.strip_suffix(b"\n").unwrap_or(piece));
            }
            ending.extend_from_slice(&piece[taken.saturating_sub(MARKED)..]);
            ending.drain(..ending.len().saturating_sub(MARKED));

            self.buffer.copy_within(taken..self.filled, 0);
            self.filled -= taken;
            self.range.start += taken as u64;
            if newline.is_some() {
                break;
            }
            if self.fill()? == 0 {
                self.range.start = start;
                return Ok(ControlFlow::Break(()));
            }
        }
        let (bytes, elisions) = elider.finish();
        let wholeness = match bytes.len() {
            LONGEST.. => Wholeness::TooLarge { limit: LONGEST },
            _ => Wholeness::Elided,
        };
        let line = Line {
            bytes: &bytes,
            ending: &ending,
            start,
            end: self.range.start,
            wholeness,
            elisions: &elisions,
        };
        // What follows is read again: that is simple, and giant lines are rare.
        self.filled = 0;
        Ok(visit(&line))
    }
}

/// The offset behind the last newline in a range; its start when there is none.
pub(super) fn line_start(file: &dyn DiskFile, range: Range<u64>) -> io::Result<u64> {
    let mut end = range.end;
    let mut size = 4 * 1024;
    while end > range.start {
        let begin = end.saturating_sub(size).max(range.start);
        if let Some(newline) = memchr::memrchr(b'\n', &file.read_range(begin..end)?) {
            return Ok(begin + newline as u64 + 1);
        }
        end = begin;
        size = BLOCK as u64;
    }
    Ok(range.start)
}
