//! Printing records: raw, or a line each for people.

use std::io::{self, IsTerminal, StdoutLock, Write};
use std::ops::ControlFlow;

use autoloop_core::format::safe_json;
use autoloop_core::record::{Glance, Piece};
use autoloop_runtime::journal::{Journal, Line};
use clap::ValueEnum;

use crate::failure::Failure;
use crate::terminal;

/// How records are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The lines of the journal as they stand.
    Json,
    /// A line each: time, run, iteration, topic and what there is to say.
    Text,
}

/// Which records are printed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Those of this run only.
    pub(crate) run: Option<String>,
    /// Those with one of these topics only; with none, all.
    pub(crate) topics: Vec<String>,
}

impl Filter {
    fn admits(&self, record: &Glance<'_>) -> bool {
        let run = self.run.as_ref().is_none_or(|run| record.run() == *run);
        run && (self.topics.is_empty() || self.topics.iter().any(|topic| record.topic() == *topic))
    }
}

/// Prints records and counts what was not one.
pub(crate) struct Listing<'a> {
    journal: &'a dyn Journal,
    format: Format,
    filter: Filter,
    out: io::BufWriter<StdoutLock<'static>>,
    /// Control characters are for terminals to obey, so none are sent to one.
    to_terminal: bool,
    pub(crate) printed: u64,
    pub(crate) bad: u64,
    failure: Option<Failure>,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(journal: &'a dyn Journal, format: Format, filter: Filter) -> Self {
        let stdout = io::stdout();
        let to_terminal = stdout.is_terminal();
        let out = io::BufWriter::with_capacity(64 * 1024, stdout.lock());
        Listing { journal, format, filter, out, to_terminal, printed: 0, bad: 0, failure: None }
    }

    /// Prints the records of a line; breaks off when the output cannot be written.
    pub(crate) fn show(&mut self, line: &Line<'_>) -> ControlFlow<()> {
        for piece in line.pieces() {
            let Ok(record) = &piece.content else {
                self.bad += 1;
                continue;
            };
            if !self.filter.admits(record) {
                continue;
            }
            self.printed += 1;
            if let Err(failure) = self.print(line, &piece, record) {
                self.failure = Some(failure);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Sees that everything printed so far can be seen, and tells of what went wrong.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(self.out.flush()?),
        }
    }

    fn print(
        &mut self,
        line: &Line<'_>,
        piece: &Piece<'_>,
        record: &Glance<'_>,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Text => writeln!(self.out, "{}", summary(record))?,
            Format::Json if self.to_terminal => {
                let text = String::from_utf8_lossy(piece.bytes);
                writeln!(self.out, "{}", safe_json(&text))?;
            }
            Format::Json if line.is_whole() => {
                match str::from_utf8(piece.bytes) {
                    Ok(text) => self.out.write_all(safe_json(text).as_bytes())?,
                    Err(_) => self.out.write_all(piece.bytes)?,
                }
                self.out.write_all(b"\n")?;
            }
            // Only the beginning of a giant line is at hand: it is copied from the file.
            Format::Json => {
                let begin = line.offset_of(piece.at);
                let end = line.offset_of(piece.at + piece.bytes.len());
                let mut unwritten = None;
                let copied = self.journal.copy(begin..end, &mut |bytes| {
                    self.out.write_all(bytes).map_err(|error| {
                        let kind = error.kind();
                        unwritten = Some(error);
                        kind.into()
                    })
                });
                // Whose fault it was decides what is said.
                match unwritten {
                    Some(error) => return Err(error.into()),
                    None => copied?,
                }
                self.out.write_all(b"\n")?;
            }
        }
        Ok(())
    }
}

/// One record in one line.
fn summary(record: &Glance<'_>) -> String {
    let ts = record.ts().unwrap_or("-".into());
    let iteration = match record.iteration() {
        none if none.is_empty() => String::new(),
        number => format!("#{number}"),
    };
    let said = match record.payload() {
        Some(payload) => payload.into_owned(),
        None => said_by_fields(record),
    };
    let line = format!("{ts}  {}{iteration}  {}  {said}", record.run(), record.topic());
    terminal::one_line(line.trim_end(), 200)
}

/// The fields that say most in a few words.
fn said_by_fields(record: &Glance<'_>) -> String {
    const TELLING: [&str; 9] = [
        "reason",
        "emitted",
        "recent_event",
        "suggested_roles",
        "exit_code",
        "timed_out",
        "elapsed_s",
        "objective",
        "offset",
    ];
    TELLING
        .iter()
        .filter_map(|name| Some((name, record.field(name)?)))
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(" ")
}
