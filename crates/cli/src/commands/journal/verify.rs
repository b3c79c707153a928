//! `autoloop journal verify`: is every line a record, and every record of a harness still there?

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use autoloop_core::config::Config;
use autoloop_core::provenance::{Provenance, Seal, Unsealed};
use autoloop_core::record::{BadLine, Glance};
use autoloop_runtime::journal::file::FragmentKind;
use autoloop_runtime::journal::{Journal, Line, Position};
use autoloop_runtime::world::{Access, Key, World};

use crate::commands::settings;
use crate::failure::{Failure, Kind};
use crate::terminal;

/// Report invalid lines, and removed, edited or copied records.
///
/// Each is named with its line number, its byte offset and what is wrong with it. Nothing is changed: a torn
/// line does no harm, and what follows it is read as usual. Records of a harness are checked by their seals, where
/// the key of this user fits. Exits with 0 only when nothing is wrong.
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
    let seals = Seals { key: world.key(), runs: BTreeMap::new() };
    let out = BufWriter::new(io::stdout());
    let mut report = Report { out, lines: 0, records: 0, bad: 0, seals };
    let mut written = Ok(());
    journal.read(Position::START, &mut |line| {
        written = report.check(line);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    report.check_end(&*journal)?;
    report.conclude(&*journal)
}

struct Report<W: Write> {
    out: W,
    lines: u64,
    records: u64,
    bad: u64,
    seals: Seals,
}

/// What the seals of records say, for each run.
struct Seals {
    key: Option<Key>,
    runs: BTreeMap<String, RunSeals>,
}

struct RunSeals {
    provenance: Provenance,
    /// Whether one fits. Otherwise another user wrote the records, and nothing is known about them.
    has_fitting: bool,
    /// What is wrong.
    problems: Vec<String>,
}

impl Seals {
    fn check(&mut self, record: &Glance<'_>, (line, offset): (u64, u64)) {
        let Some(key) = self.key.filter(|_| record.seal().is_some()) else { return };
        let run = record.run();
        let seals = self.runs.entry(run.clone().into_owned()).or_insert_with(|| RunSeals {
            provenance: Provenance::new(Some(key.of_run(&run)), Unsealed::Claimed),
            has_fitting: false,
            problems: Vec::new(),
        });
        let seal = seals.provenance.check(record);
        seals.has_fitting |= matches!(seal, Seal::New { .. } | Seal::Old);
        let problem = match seal {
            Seal::Missing | Seal::New { skipped: 0 } => return,
            Seal::New { skipped: 1 } => "the record before it is missing".to_owned(),
            Seal::New { skipped } => format!("the {skipped} records before it are missing"),
            Seal::Old => "the record was copied or moved".to_owned(),
            Seal::Broken => "the record was edited: its seal does not fit".to_owned(),
        };
        seals.problems.push(format!("line {line}, byte {offset}: run '{run}': {problem}\n"));
    }
}

impl<W: Write> Report<W> {
    fn check(&mut self, line: &Line<'_>) -> io::Result<()> {
        self.lines += 1;
        let pieces = line.pieces();
        for (index, piece) in pieces.iter().enumerate() {
            let is_followed = pieces.get(index + 1).is_some_and(|next| next.content.is_ok());
            // Also what a glance forgives, and what is wrong in the part of a giant that is not shown.
            match line.flaw(piece) {
                None => {
                    self.records += 1;
                    if let Ok(record) = &piece.content {
                        self.seals.check(record, (self.lines, line.offset_of(piece.at)));
                    }
                }
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

    fn check_end(&mut self, journal: &dyn Journal) -> Result<(), Failure> {
        let Some(file) = journal.file() else { return Ok(()) };
        let Some(fragment) = file.fragment()? else { return Ok(()) };
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

    fn conclude(mut self, journal: &dyn Journal) -> Result<(), Failure> {
        let Report { lines, records, bad, .. } = self;
        let runs = self.seals.runs.values().filter(|run| run.has_fitting);
        let problems: Vec<&String> = runs.flat_map(|run| &run.problems).collect();
        for problem in &problems {
            self.out.write_all(terminal::harmless(problem).as_bytes())?;
        }
        let read = format!("{}: {records} records in {lines} lines", journal.path().display());
        let failed = |what: String| Failure::new(Kind::Failed, format!("{read}, and {what}"));
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let ended = match (bad, problems.len()) {
            (0, 0) => {
                let verdict = format!("{read}, all is well\n");
                self.out.write_all(terminal::harmless(&verdict).as_bytes())?;
                Ok(())
            }
            (0, count) => Err(failed(format!(
                "{count} place{} where records were removed, edited or copied",
                plural(count)
            ))
            .hint("resuming such a run repeats the steps whose records are not proven")),
            (bad, _) => Err(failed(format!(
                "{bad} {} not a record",
                if bad == 1 { "piece that is" } else { "pieces that are" }
            ))
            .hint("nothing has to be done: readers pass over them, and every record is intact")),
        };
        self.out.flush()?;
        ended
    }
}
