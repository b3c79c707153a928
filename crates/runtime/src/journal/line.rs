//! One line, as a reader is shown it.

use autoloop_core::record::{BadLine, Glance, Piece, pieces};

use super::Position;
use super::elide::{Elision, place_in_line};

/// One complete line of a journal.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    pub(super) bytes: &'a [u8],
    /// The last bytes of the line as it stands in the journal, its newline included.
    pub(super) ending: &'a [u8],
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) wholeness: Wholeness,
    /// What is missing from the bytes.
    pub(super) elisions: &'a [Elision],
}

/// How much of a line is at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wholeness {
    /// All of it.
    Whole,
    /// All of it but the middle of its long strings.
    Elided,
    /// Only its beginning: even without long strings there was too much of it.
    TooLarge {
        /// The most that is held.
        limit: usize,
    },
}

impl<'a> Line<'a> {
    /// The line without its newline. Of a line of many megabytes, the middle of its long strings is
    /// left out; [`is_whole`](Self::is_whole) tells.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether [`bytes`](Self::bytes) is all of it.
    pub fn is_whole(&self) -> bool {
        self.wholeness == Wholeness::Whole
    }

    /// Where in the file it begins.
    pub fn offset(&self) -> u64 {
        self.start
    }

    /// Where in the file a place in [`bytes`](Self::bytes) lies.
    pub fn offset_of(&self, place: usize) -> u64 {
        self.start + place_in_line(self.elisions, place)
    }

    /// How many bytes it takes in the file, its newline included.
    pub fn length(&self) -> u64 {
        self.end - self.start
    }

    /// The position behind it.
    pub fn position(&self) -> Position {
        Position::behind(self.end, self.ending)
    }

    /// The records in it, and what is not one: nearly always a single record.
    pub fn pieces(&self) -> Vec<Piece<'a>> {
        match self.wholeness {
            Wholeness::TooLarge { limit } => {
                vec![Piece { at: 0, bytes: self.bytes, content: Err(BadLine::TooLarge { limit }) }]
            }
            Wholeness::Whole | Wholeness::Elided => pieces(self.bytes),
        }
    }

    /// Shows the records in it and passes over what is not one.
    pub fn records(&self, mut visit: impl FnMut(&Glance<'a>)) {
        // The way of nearly every line, without a list in between. The beginning of a line could look
        // like a record that the whole line is not.
        let is_complete = !matches!(self.wholeness, Wholeness::TooLarge { .. });
        if is_complete && let Ok(record) = Glance::read(self.bytes) {
            return visit(&record);
        }
        for piece in self.pieces() {
            if let Ok(record) = &piece.content {
                visit(record);
            }
        }
    }
}
