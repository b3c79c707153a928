//! Where a long text of a record is, and how it gets out.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::ops::Range;

use autoloop_core::format::write_json_line;
use autoloop_core::record::{Extract, Glance, Piece};
use autoloop_runtime::journal::{Journal, Line};
use serde::{Serialize, Serializer};

use super::note;
use crate::failure::Failure;
use crate::terminal;

/// Where a text is.
#[derive(Debug)]
pub(in crate::commands) enum Found {
    /// In the record that these bytes of the journal are.
    At(Range<u64>),
    /// In a giant record that shares its line with a torn one: only its ends are at hand.
    Ends(String),
}

impl Found {
    /// Remembers where a record is.
    pub(in crate::commands) fn new(
        line: &Line<'_>,
        piece: &Piece<'_>,
        text: Option<&str>,
    ) -> Found {
        let begin = line.offset() + piece.at as u64;
        if line.is_whole() {
            return Found::At(begin..begin + piece.bytes.len() as u64);
        }
        match line.pieces().first() {
            Some(first) if first.at == piece.at => Found::At(begin..line.offset() + line.length()),
            _ => Found::Ends(text.unwrap_or_default().to_owned()),
        }
    }

    /// The text of a field, to be serialized.
    pub(super) fn text<'a>(
        &'a self,
        journal: &'a dyn Journal,
        field: &'static str,
    ) -> LongText<'a> {
        LongText { found: self, journal, field, failure: RefCell::new(None) }
    }

    /// Shows the text that is looked for, piece by piece.
    pub(in crate::commands) fn show(
        &self,
        journal: &dyn Journal,
        mut extract: Extract,
        show: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let range = match self {
            Found::At(range) => range.clone(),
            Found::Ends(text) => {
                note("this record is glued to a torn one; the middle of its text is left out");
                return Ok(show(text)?);
            }
        };
        let mut text = String::new();
        let mut shown = Ok(());
        let read = journal.copy(range, &mut |bytes| {
            let more = extract.push(bytes, &mut text);
            shown = show(&text);
            text.clear();
            // Nothing that matters follows, or nobody wants it: the rest need not be read.
            if more && shown.is_ok() { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        });
        shown?;
        match read {
            Err(autoloop_runtime::journal::ReadError::Io { source, .. })
                if source.kind() == io::ErrorKind::Interrupted => {}
            read => read?,
        }
        extract.finish(&mut text);
        Ok(show(&text)?)
    }
}

/// The text of a record, serialized piece by piece.
pub(in crate::commands) struct LongText<'a> {
    found: &'a Found,
    journal: &'a dyn Journal,
    field: &'static str,
    /// A serializer has no place for what went wrong with the journal.
    failure: RefCell<Option<Failure>>,
}

impl LongText<'_> {
    /// Fails if the text could not be read to its end.
    pub(in crate::commands) fn finish(self) -> Result<(), Failure> {
        self.failure.into_inner().map_or(Ok(()), Err)
    }
}

impl Serialize for LongText<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl fmt::Display for LongText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = Ok(());
        let shown = self.found.show(self.journal, Extract::field(self.field), &mut |text| {
            written = f.write_str(text);
            written.map_err(io::Error::other)
        });
        if written.is_ok() {
            *self.failure.borrow_mut() = shown.err();
        }
        written
    }
}

/// The records of a line that are wanted, each with its place.
pub(in crate::commands) fn each_record(
    line: &Line<'_>,
    mut visit: impl FnMut(&Glance<'_>, &Piece<'_>),
) {
    for piece in line.pieces() {
        if let Ok(record) = &piece.content {
            visit(record, &piece);
        }
    }
}

/// Standard output, which obeys no control characters when it is a terminal.
pub(in crate::commands) struct Out {
    out: BufWriter<StdoutLock<'static>>,
    to_terminal: bool,
    ended: bool,
}

impl Out {
    pub(in crate::commands) fn new() -> Self {
        let stdout = io::stdout();
        let to_terminal = stdout.is_terminal();
        Out { out: BufWriter::with_capacity(64 * 1024, stdout.lock()), to_terminal, ended: true }
    }

    /// Text as it is; harmless where it could do harm.
    pub(in crate::commands) fn text(&mut self, text: &str) -> io::Result<()> {
        if let Some(last) = text.chars().next_back() {
            self.ended = last == '\n';
        }
        match self.to_terminal {
            true => self.out.write_all(terminal::harmless(text).as_bytes()),
            false => self.out.write_all(text.as_bytes()),
        }
    }

    /// JSON in one line.
    pub(in crate::commands) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.ended = false;
        write_json_line(value, &mut self.out)
    }

    /// Ends a line that the text did not end.
    pub(in crate::commands) fn end_line(&mut self) -> io::Result<()> {
        if self.ended { Ok(()) } else { self.text("\n") }
    }

    /// Sees that everything can be seen. A terminal gets the newline that the text may lack.
    pub(in crate::commands) fn finish(mut self) -> Result<(), Failure> {
        if self.to_terminal {
            self.end_line()?;
        }
        Ok(self.out.flush()?)
    }
}
