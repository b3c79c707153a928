//! One line, and the position behind it.

use autoloop_core::record::{BadLine, Glance, Piece, parse, pieces};

use super::elide::{Defect, Defects, Elision, offset_in_line, placed};

/// A position in a journal, behind a line. What it counts is up to the journal.
///
/// It carries a mark of the line before it, so that a journal that was cut, replaced or edited there is
/// noticed when it is read from an old position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub(super) at: u64,
    pub(super) mark: u32,
}

/// How many bytes before a position its mark is made of, at most.
pub(super) const MARKED: usize = 64;

impl Position {
    pub const START: Position = Position { at: 0, mark: 0 };

    /// The position behind a line, given the last bytes before it, newline included.
    pub(super) fn behind(at: u64, ending: &[u8]) -> Position {
        let ending = &ending[ending.len().saturating_sub(MARKED)..];
        let before = ending.strip_suffix(b"\n").unwrap_or(ending);
        let line = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        Position { at, mark: crc32fast::hash(&ending[line..]) }
    }

    pub(crate) fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.at.to_le_bytes());
        bytes[8..].copy_from_slice(&self.mark.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; 12]) -> Position {
        let [a, b, c, d, e, f, g, h, mark @ ..] = bytes;
        let at = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        Position { at, mark: u32::from_le_bytes(mark) }
    }
}

/// One complete line of a journal.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    pub(super) bytes: &'a [u8],
    /// The last bytes of the line in the journal, newline included.
    pub(super) ending: &'a [u8],
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) wholeness: Wholeness,
    /// What is missing from the bytes.
    pub(super) elisions: &'a [Elision],
}

/// How much of a line is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wholeness {
    Whole,
    /// All but the middle of its long strings.
    Elided,
    /// Its beginning: even without long strings it is longer than the limit.
    TooLarge {
        limit: usize,
    },
}

impl<'a> Line<'a> {
    /// The line without its newline. In a line of many megabytes the middle of its long strings is left
    /// out; see [`is_whole`](Self::is_whole).
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn is_whole(&self) -> bool {
        self.wholeness == Wholeness::Whole
    }

    pub fn offset(&self) -> u64 {
        self.start
    }

    /// The offset in the file of an index in [`bytes`](Self::bytes).
    pub fn offset_of(&self, index: usize) -> u64 {
        self.start + offset_in_line(self.elisions, index)
    }

    pub fn length(&self) -> u64 {
        self.end - self.start
    }

    pub fn position(&self) -> Position {
        Position::behind(self.end, self.ending)
    }

    /// The records in it, and what is not a record: nearly always a single record.
    pub fn pieces(&self) -> Vec<Piece<'a>> {
        if let Wholeness::TooLarge { limit } = self.wholeness {
            let content = Err(BadLine::TooLarge { limit });
            return vec![Piece { at: 0, bytes: self.bytes, content }];
        }
        let mut found = pieces(self.bytes);
        if self.wholeness == Wholeness::Elided {
            for piece in &mut found {
                let refusal = match &piece.content {
                    // What was left out may be invalid.
                    Ok(_) => self.defect(piece, |defects| defects.refused.as_ref()),
                    Err(bad) => Some(self.counted_in_file(piece.at, bad.clone())),
                };
                if let Some(bad) = refusal {
                    piece.content = Err(bad);
                }
            }
        }
        found
    }

    /// What a strict reader rejects in a piece, also where a lazy one accepts it.
    pub fn flaw(&self, piece: &Piece<'_>) -> Option<BadLine> {
        if let Err(bad) = &piece.content {
            return Some(bad.clone());
        }
        match parse(piece.bytes) {
            Err(bad) => Some(self.counted_in_file(piece.at, bad)),
            Ok(_) => self.defect(piece, |defects| defects.forgiven.as_ref()),
        }
    }

    /// The same error with bytes counted that were left out, for a piece that begins at an index.
    fn counted_in_file(&self, begin: usize, bad: BadLine) -> BadLine {
        let counted = |at: usize| {
            let bytes = self.offset_of(begin + at).saturating_sub(self.offset_of(begin));
            usize::try_from(bytes).unwrap_or(usize::MAX)
        };
        placed(bad, counted)
    }

    /// The first defect of a sort in what was left out of a piece.
    fn defect(
        &self,
        piece: &Piece<'_>,
        sort: impl Fn(&Defects) -> Option<&Defect>,
    ) -> Option<BadLine> {
        let offset = |index| offset_in_line(self.elisions, index);
        let range = offset(piece.at)..offset(piece.at + piece.bytes.len());
        self.elisions
            .iter()
            .filter_map(|elision| sort(&elision.defects))
            .find(|defect| range.contains(&defect.offset))
            .map(|defect| defect.reason(range.start))
    }

    /// Visits the records in it and skips everything else.
    pub fn records(&self, mut visit: impl FnMut(&Glance<'a>)) {
        // Nearly every line is one record. Not for a giant: what is left of it could look like a record
        // that the whole line is not.
        if self.is_whole()
            && let Ok(record) = Glance::read(self.bytes)
        {
            return visit(&record);
        }
        for piece in self.pieces() {
            if let Ok(record) = &piece.content {
                visit(record);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_made_of_the_last_line_alone() {
        let long = format!("{}\n", "x".repeat(200));
        assert_eq!(Position::behind(9, b"one\ntwo\n"), Position::behind(9, b"two\n"));
        assert_ne!(Position::behind(9, b"one\n"), Position::behind(9, b"two\n"));
        assert_eq!(
            Position::behind(9, long.as_bytes()),
            Position::behind(9, &long.as_bytes()[long.len() - MARKED..])
        );
        assert_eq!(Position::behind(0, b""), Position::START);
    }

    #[test]
    fn keeping_a_position_outside_changes_nothing() {
        let position = Position::behind(0x0102_0304_0506_0708, b"line\n");
        assert_eq!(Position::from_bytes(position.to_bytes()), position);
    }
}
