//! `autoloop journal verify`: is every line a record?

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use autoloop_core::config::Config;
use autoloop_core::record::BadLine;
use autoloop_runtime::journal::file::FragmentKind;
use autoloop_runtime::journal::{FileJournal, Journal, Line, Position};
use autoloop_runtime::world::{Access, World};

use crate::commands::settings;
use crate::failure::{Failure, Kind};
use crate::terminal;

/// Read the whole journal and name every line that is not a record.
///
/// Each bad line is named with its number, its byte offset and what is wrong with it. Nothing is
/// changed: a torn line harms nobody, and whatever follows it is read as usual. Exits with 0 only when
/// every line is a record.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The journal [default: that of the current project].
    file: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let path = match &args.file {
        Some(path) => path.clone(),
        None => settings::locate(None, world)?.files.journal,
    };
    if let Err(error) = world.disk.open(&path, Access::Read) {
        return Err(Failure::usage(format!("cannot read {}: {error}", path.display()))
            .hint("name the journal, or run this where .autoloop is"));
    }
    let journal = settings::journal(path, world, &Config::default());
    let mut report = Report { out: BufWriter::new(io::stdout()), lines: 0, records: 0, bad: 0 };
    let mut written = Ok(());
    journal.read(Position::START, &mut |line| {
        written = report.check(line);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    report.check_end(&journal)?;
    report.conclude(&journal)
}

struct Report<W: Write> {
    out: W,
    lines: u64,
    records: u64,
    bad: u64,
}

impl<W: Write> Report<W> {
    fn check(&mut self, line: &Line<'_>) -> io::Result<()> {
        self.lines += 1;
        let pieces = line.pieces();
        for (index, piece) in pieces.iter().enumerate() {
            let is_followed = pieces.get(index + 1).is_some_and(|next| next.content.is_ok());
            // Also what a glance forgives, and what is wrong in the part of a giant that is not shown.
            match line.flaw(piece) {
                None => self.records += 1,
                Some(bad) => {
                    let rest = if is_followed { "; the record behind it was found" } else { "" };
                    self.complain(line.offset_of(piece.at), &bad, rest)?;
                }
            }
        }
        Ok(())
    }

    fn complain(&mut self, offset: u64, bad: &BadLine, rest: &str) -> io::Result<()> {
        self.bad += 1;
        let complaint = format!("line {}, byte {offset}: {bad}{rest}\n", self.lines);
        self.out.write_all(terminal::harmless(&complaint).as_bytes())
    }

    fn check_end(&mut self, journal: &FileJournal) -> Result<(), Failure> {
        let Some(fragment) = journal.fragment()? else { return Ok(()) };
        self.bad += 1;
        let what = match fragment.kind {
            FragmentKind::Torn => {
                "torn: the last line has no end; the next writer ends it and goes on"
            }
            FragmentKind::BeingWritten => "unfinished: the last line is being written",
        };
        writeln!(self.out, "line {}, byte {}: {what}", self.lines + 1, fragment.offset)?;
        Ok(())
    }

    fn conclude(mut self, journal: &FileJournal) -> Result<(), Failure> {
        let Report { lines, records, bad, .. } = self;
        let path = journal.path().display();
        if bad == 0 {
            let verdict = format!("{path}: {records} records in {lines} lines, all is well\n");
            self.out.write_all(terminal::harmless(&verdict).as_bytes())?;
        }
        self.out.flush()?;
        match bad {
            0 => Ok(()),
            _ => Err(Failure::new(
                Kind::Failed,
                format!(
                    "{path}: {records} records in {lines} lines, and {bad} {} not a record",
                    if bad == 1 { "piece that is" } else { "pieces that are" }
                ),
            )
            .hint("nothing has to be done: readers pass over them, and every record is intact")),
        }
    }
}
