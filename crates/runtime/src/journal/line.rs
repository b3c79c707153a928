//! One line, as a reader is shown it.

use autoloop_core::record::{BadLine, Glance, Piece, parse, pieces};

use super::Position;
use super::elide::{Blemish, Blemishes, Elision, place_in_line};

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
            Wholeness::Whole => pieces(self.bytes),
            Wholeness::Elided => {
                let mut found = pieces(self.bytes);
                for piece in &mut found {
                    // What was left out is part of the record: it may be what makes it none.
                    let hidden = self.blemish(piece, |blemishes| blemishes.refused);
                    let refusal = match &piece.content {
                        Ok(_) => hidden,
                        Err(bad) => Some(self.counted_in_file(piece.at, bad.clone())),
                    };
                    if let Some(bad) = refusal {
                        piece.content = Err(bad);
                    }
                }
                found
            }
        }
    }

    /// What is wrong with a piece of it to the letter, also if it is forgiven by whoever only looks.
    pub fn flaw(&self, piece: &Piece<'_>) -> Option<BadLine> {
        if let Err(bad) = &piece.content {
            return Some(bad.clone());
        }
        match parse(piece.bytes) {
            Err(bad) => Some(self.counted_in_file(piece.at, bad)),
            Ok(_) => self.blemish(piece, |blemishes| blemishes.forgiven),
        }
    }

    /// The same with the bytes counted that were left out, given where the piece begins.
    fn counted_in_file(&self, begin: usize, bad: BadLine) -> BadLine {
        let counted = |at: usize| {
            let bytes = self.offset_of(begin + at).saturating_sub(self.offset_of(begin));
            usize::try_from(bytes).unwrap_or(usize::MAX)
        };
        match bad {
            BadLine::NotUtf8 { at } => BadLine::NotUtf8 { at: counted(at) },
            BadLine::NotJson { reason, at } => BadLine::NotJson { reason, at: counted(at) },
            other => other,
        }
    }

    /// The first blemish of a sort in what was left out of a piece.
    fn blemish(
        &self,
        piece: &Piece<'_>,
        sort: impl Fn(Blemishes) -> Option<Blemish>,
    ) -> Option<BadLine> {
        let place = |at| place_in_line(self.elisions, at);
        let range = place(piece.at)..place(piece.at + piece.bytes.len());
        self.elisions
            .iter()
            .filter_map(|elision| sort(elision.blemishes))
            .find(|blemish| range.contains(&blemish.place))
            .map(|blemish| blemish.reason(range.start))
    }

    /// Shows the records in it and passes over what is not one.
    pub fn records(&self, mut visit: impl FnMut(&Glance<'a>)) {
        // The way of nearly every line, without a list in between. What is at hand of a giant could
        // look like a record that the whole line is not.
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
