//! Long texts of records: found in one pass, printed in bounded memory.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::ops::{ControlFlow, Range};

use autoloop_core::format::write_json_line;
use autoloop_core::record::{Extract, Glance, Piece};
use autoloop_runtime::journal::{Journal, Line, Position, ReadError};
use serde::{Serialize, Serializer};

use crate::failure::Failure;
use crate::terminal;

/// Visits every record of a journal, with its place.
pub(crate) fn for_each_record(
    journal: &dyn Journal,
    mut visit: impl FnMut(&Glance<'_>, Place<'_>),
) -> Result<(), Failure> {
    journal.read(Position::START, &mut |line| {
        for piece in line.pieces() {
            if let Ok(record) = &piece.content {
                visit(record, Place { line, piece: &piece });
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(())
}

/// The place of a record that is being visited.
#[derive(Clone, Copy)]
pub(crate) struct Place<'l> {
    line: &'l Line<'l>,
    piece: &'l Piece<'l>,
}

/// The place of a text.
#[derive(Debug)]
pub(crate) enum Found {
    /// In the record at these bytes of the journal.
    At(Range<u64>),
    /// In a giant record in the same line as a torn one: only its beginning and its end are known.
    Ends(String),
}

impl Place<'_> {
    /// Keeps the place of the record. `text` reads the known part of the wanted text.
    pub(crate) fn keep<'t>(self, text: impl FnOnce() -> Option<Cow<'t, str>>) -> Found {
        let Place { line, piece } = self;
        let begin = line.offset() + piece.at as u64;
        if line.is_whole() {
            return Found::At(begin..begin + piece.bytes.len() as u64);
        }
        match line.pieces().first() {
            Some(first) if first.at == piece.at => Found::At(begin..line.offset() + line.length()),
            _ => Found::Ends(text().unwrap_or_default().into_owned()),
        }
    }
}

impl Found {
    /// The text of a field, to be serialized.
    pub(super) fn text<'a>(
        &'a self,
        journal: &'a dyn Journal,
        field: &'static str,
    ) -> LongText<'a> {
        LongText { found: self, journal, field, failure: RefCell::new(None) }
    }

    /// Shows the extracted text piece by piece.
    pub(crate) fn show(
        &self,
        journal: &dyn Journal,
        mut extract: Extract,
        show: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let range = match self {
            Found::At(range) => range.clone(),
            Found::Ends(text) => {
                terminal::note(
                    "this record follows a torn one in the same line; the middle of its text is missing",
                );
                return Ok(show(text)?);
            }
        };
        let mut text = String::new();
        let mut shown = Ok(());
        let read = journal.copy(range, &mut |bytes| {
            let more = extract.push(bytes, &mut text);
            shown = show(&text);
            text.clear();
            // The rest need not be read after the text, or after a failure.
            if more && shown.is_ok() { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        });
        shown?;
        match read {
            Err(ReadError::Io { source, .. }) if source.kind() == io::ErrorKind::Interrupted => {}
            read => read?,
        }
        extract.finish(&mut text);
        Ok(show(&text)?)
    }
}

/// A text that is serialized piece by piece.
pub(crate) struct LongText<'a> {
    found: &'a Found,
    journal: &'a dyn Journal,
    field: &'static str,
    /// A serializer cannot return an error of the journal.
    failure: RefCell<Option<Failure>>,
}

impl LongText<'_> {
    /// Fails if the text could not be read to its end.
    pub(crate) fn finish(self) -> Result<(), Failure> {
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

/// Standard output. Control characters are replaced where it is a terminal.
pub(crate) struct Out {
    out: BufWriter<StdoutLock<'static>>,
    to_terminal: bool,
    ended: bool,
}

impl Out {
    pub(crate) fn new() -> Self {
        let stdout = io::stdout();
        let to_terminal = stdout.is_terminal();
        Out { out: BufWriter::with_capacity(64 * 1024, stdout.lock()), to_terminal, ended: true }
    }

    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        if let Some(last) = text.chars().next_back() {
            self.ended = last == '\n';
        }
        match self.to_terminal {
            true => self.out.write_all(terminal::harmless(text).as_bytes()),
            false => self.out.write_all(text.as_bytes()),
        }
    }

    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.ended = false;
        write_json_line(value, &mut self.out)
    }

    /// Ends the line unless the text did.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        if self.ended { Ok(()) } else { self.text("\n") }
    }

    /// Flushes. On a terminal the last line is ended.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        if self.to_terminal {
            self.end_line()?;
        }
        Ok(self.out.flush()?)
    }
}
