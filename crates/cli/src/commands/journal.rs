//! `autoloop journal`: the journal file.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use autoloop_core::config::Settings;
use autoloop_core::provenance::{Provenance, Seal, Unsealed};
use autoloop_core::record::{BadLine, Glance};
use autoloop_runtime::journal::file::FragmentKind;
use autoloop_runtime::journal::{Journal, Line, Position, ReadError};
use autoloop_runtime::world::{Access, Key, World};
use clap::Subcommand;

use super::inspect::note;
use super::listing::{Filter, Format, Listing};
use super::settings;
use crate::failure::Failure;
use crate::terminal;

/// How long to wait for the journal to grow before checking whether the output is still read.
const POLL: Duration = Duration::from_secs(2);

/// Verify or follow the journal file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Report invalid lines, and removed, edited or copied records.
    ///
    /// Prints the line number, the byte offset and the problem of each. Changes nothing: readers skip a torn line and
    /// read the records after it. Records of a harness are checked by their seals if this user's key wrote them.
    Verify {
        /// Journal file [default: that of the current project]
        file: Option<PathBuf>,
    },
    Follow(FollowArgs),
}

/// Print records of all processes as they are appended.
///
/// Prints the existing records, then new ones until interrupted. The journal need not exist yet.
#[derive(Debug, clap::Args)]
struct FollowArgs {
    /// Journal file [default: that of the current project]
    file: Option<PathBuf>,
    /// Skip existing records
    #[arg(long)]
    new: bool,
    /// Print records of this run only
    #[arg(long)]
    run: Option<String>,
    /// Print records with this topic only; repeatable
    #[arg(long, value_name = "TOPIC")]
    topic: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let (What::Verify { file } | What::Follow(FollowArgs { file, .. })) = &args.what;
    let path = match file {
        Some(path) => path.clone(),
        None => settings::locate(None, world)?.files.journal,
    };
    let journal = settings::journal(path, world, &Settings::default());
    match &args.what {
        What::Verify { .. } => verify(&*journal, world),
        What::Follow(args) => follow(&*journal, args),
    }
}

fn follow(journal: &dyn Journal, args: &FollowArgs) -> Result<(), Failure> {
    let filter = Filter { run: args.run.clone(), topics: args.topic.clone() };
    let mut listing = Listing::new(journal, args.format, filter);
    let mut position = if args.new { journal.head()? } else { Position::START };
    loop {
        position = match journal.read(position, &mut |line| listing.show(line)) {
            Err(ReadError::Changed { path }) => {
                let path = path.display();
                note(&format!(
                    "{path} was truncated, replaced or edited; restarting from its beginning"
                ));
                journal.read(Position::START, &mut |line| listing.show(line))?
            }
            read => read?,
        };
        listing.flush()?;
        journal.wait(position, POLL)?;
        terminal::ensure_read()?;
    }
}

fn verify(journal: &dyn Journal, world: &World) -> Result<(), Failure> {
    if let Err(error) = world.disk.open(journal.path(), Access::Read) {
        let message = format!("cannot read {}: {error}", journal.path().display());
        return Err(Failure::usage(message).hint("name the journal, or run this in a project"));
    }
    let seals = Seals { key: world.key(), runs: BTreeMap::new() };
    let out = BufWriter::new(io::stdout());
    let mut report = Report { out, lines: 0, records: 0, bad: 0, seals };
    let mut written = Ok(());
    journal.read(Position::START, &mut |line| {
        written = report.check(line);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    report.check_end(journal)?;
    report.conclude(journal)
}

struct Report<W: Write> {
    out: W,
    lines: u64,
    records: u64,
    bad: u64,
    seals: Seals,
}

struct Seals {
    key: Option<Key>,
    runs: BTreeMap<String, RunSeals>,
}

struct RunSeals {
    provenance: Provenance,
    /// Whether a seal is valid. Otherwise another user wrote the records, and nothing is known about them.
    has_fitting: bool,
    problems: Vec<String>,
}

impl Seals {
    fn check(&mut self, record: &Glance<'_>, line: u64, offset: u64) {
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
            Seal::Broken => "the record was edited: its seal is invalid".to_owned(),
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
            // Includes what the lazy reader accepts, and flaws in the unread part of a giant record.
            match line.flaw(piece) {
                None => {
                    self.records += 1;
                    if let Ok(record) = &piece.content {
                        self.seals.check(record, self.lines, line.offset_of(piece.at));
                    }
                }
                Some(bad) => {
                    let rest = if is_followed { "; the record after it was read" } else { "" };
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
            FragmentKind::Torn => "torn: the last line has no end; the next writer ends it",
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
        let failed = |what: String| Failure::failed(format!("{read}, {what}"));
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let ended = match (bad, problems.len()) {
            (0, 0) => {
                let verdict = format!("{read}, no problems\n");
                self.out.write_all(terminal::harmless(&verdict).as_bytes())?;
                Ok(())
            }
            (0, count) => Err(failed(format!(
                "{count} place{} where records were removed, edited or copied",
                plural(count)
            ))
            .hint("resuming such a run repeats the steps without valid records")),
            (bad, _) => Err(failed(format!("{bad} invalid"))
                .hint("do nothing: readers skip what is invalid, and every record is intact")),
        };
        self.out.flush()?;
        ended
    }
}
