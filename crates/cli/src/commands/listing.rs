//! Printing records: raw, or one line each.

use std::borrow::Cow;
use std::io::{self, IsTerminal, StdoutLock, Write};
use std::ops::ControlFlow;

use autoloop_core::format::safe_json;
use autoloop_core::record::{Glance, Piece};
use autoloop_runtime::journal::{Journal, Line};
use clap::ValueEnum;

use crate::failure::Failure;
use crate::terminal;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The lines of the journal, unchanged
    Json,
    /// One line per record: time, run, iteration, topic and payload
    Text,
}

/// Which records are printed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) run: Option<String>,
    /// All topics where it is empty.
    pub(crate) topics: Vec<String>,
}

impl Filter {
    fn admits(&self, record: &Glance<'_>) -> bool {
        let run = self.run.as_ref().is_none_or(|run| record.run() == *run);
        run && (self.topics.is_empty() || self.topics.iter().any(|topic| record.topic() == *topic))
    }
}

/// Prints records, and counts lines that are not valid ones.
pub(crate) struct Listing<'a> {
    journal: &'a dyn Journal,
    format: Format,
    filter: Filter,
    out: io::BufWriter<StdoutLock<'static>>,
    to_terminal: bool,
    pub(crate) bad: u64,
    failure: Option<Failure>,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(journal: &'a dyn Journal, format: Format, filter: Filter) -> Self {
        let stdout = io::stdout();
        let to_terminal = stdout.is_terminal();
        let out = io::BufWriter::with_capacity(64 * 1024, stdout.lock());
        Listing { journal, format, filter, out, to_terminal, bad: 0, failure: None }
    }

    /// Prints the records of a line; breaks when the output cannot be written.
    pub(crate) fn show(&mut self, line: &Line<'_>) -> ControlFlow<()> {
        for piece in line.pieces() {
            let Ok(record) = &piece.content else {
                self.bad += 1;
                continue;
            };
            if !self.filter.admits(record) {
                continue;
            }
            if let Err(failure) = self.print(line, &piece, record) {
                self.failure = Some(failure);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Flushes the output; fails where a record could not be printed.
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
            Format::Text => self.out.write_all(summary(record).as_bytes())?,
            Format::Json if line.is_whole() || self.to_terminal => {
                match String::from_utf8_lossy(piece.bytes) {
                    // Invalid UTF-8 is harmful to a terminal only.
                    Cow::Owned(_) if !self.to_terminal => self.out.write_all(piece.bytes)?,
                    text => self.out.write_all(safe_json(&text).as_bytes())?,
                }
            }
            // Only the beginning of a giant line is in memory, so it is copied from the file.
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
                // An error of the output is reported differently from one of the journal.
                match unwritten {
                    Some(error) => return Err(error.into()),
                    None => copied?,
                }
            }
        }
        Ok(self.out.write_all(b"\n")?)
    }
}

fn summary(record: &Glance<'_>) -> String {
    let ts = record.ts().unwrap_or("-".into());
    let iteration = match record.iteration() {
        none if none.is_empty() => String::new(),
        number => format!("#{number}"),
    };
    let text = match record.payload() {
        Some(payload) => payload.into_owned(),
        None => important_fields(record),
    };
    let line = format!("{ts}  {}{iteration}  {}  {text}", record.run(), record.topic());
    terminal::one_line(line.trim_end(), 200)
}

fn important_fields(record: &Glance<'_>) -> String {
    const NAMES: [&str; 9] = [
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
    NAMES
        .iter()
        .filter_map(|name| Some((name, record.field(name)?)))
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(" ")
}
