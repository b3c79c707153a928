//! `autoloop journal`: checks and prints the records of the journal.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, StdoutLock, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use autoloop_core::config::Settings;
use autoloop_core::format::safe_json;
use autoloop_core::provenance::{Provenance, Seal, Unsealed};
use autoloop_core::record::{Glance, Piece};
use autoloop_runtime::journal::file::FragmentKind;
use autoloop_runtime::journal::{Journal, Line, Position, ReadError};
use autoloop_runtime::world::{Access, Key, World};
use clap::{Subcommand, ValueEnum};

use super::settings;
use crate::failure::Failure;
use crate::terminal;

/// How long to wait for the journal to grow before checking whether the output is still read.
const POLL: Duration = Duration::from_secs(2);

/// Verify or follow the journal file.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
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
pub(crate) struct FollowArgs {
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
    let (Args::Verify { file } | Args::Follow(FollowArgs { file, .. })) = args;
    let path = match file {
        Some(path) => path.clone(),
        None => settings::locate(None, world)?.files.journal,
    };
    let journal = settings::journal(path, world, &Settings::default());
    match args {
        Args::Verify { .. } => verify(&*journal, world),
        Args::Follow(args) => follow(&*journal, args),
    }
}

fn follow(journal: &dyn Journal, args: &FollowArgs) -> Result<(), Failure> {
    let filter = Filter { run: args.run.clone(), topics: args.topic.clone() };
    let mut listing = Listing::new(journal, args.format, filter);
    let mut position = if args.new { journal.head()? } else { Position::START };
    loop {
        position = match journal.read(position, &mut |line| listing.show(line)) {
            Err(ReadError::Changed { path }) => {
                terminal::note(&format!(
                    "{} was truncated, replaced or edited; restarting from its beginning",
                    path.display()
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
    let mut report = Report { text: String::new(), lines: 0, records: 0, bad: 0, seals };
    journal.read(Position::START, &mut |line| {
        report.check(line);
        ControlFlow::Continue(())
    })?;
    report.check_end(journal)?;
    report.conclude(journal)
}

struct Report {
    text: String,
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

impl Report {
    fn check(&mut self, line: &Line<'_>) {
        self.lines += 1;
        let pieces = line.pieces();
        for (index, piece) in pieces.iter().enumerate() {
            let offset = line.offset_of(piece.at);
            // Includes what the lazy reader accepts, and flaws in the unread part of a giant record.
            if let Some(bad) = line.flaw(piece) {
                let is_followed = pieces.get(index + 1).is_some_and(|next| next.content.is_ok());
                let rest = if is_followed { "; the record after it was read" } else { "" };
                self.add(self.lines, offset, &format!("{bad}{rest}"));
                continue;
            }
            self.records += 1;
            if let Ok(record) = &piece.content {
                self.seals.check(record, self.lines, offset);
            }
        }
    }

    fn add(&mut self, line: u64, offset: u64, problem: &str) {
        self.bad += 1;
        self.text.push_str(&format!("line {line}, byte {offset}: {problem}\n"));
    }

    fn check_end(&mut self, journal: &dyn Journal) -> Result<(), Failure> {
        let Some(file) = journal.file() else { return Ok(()) };
        let Some(fragment) = file.fragment()? else { return Ok(()) };
        let problem = match fragment.kind {
            FragmentKind::Torn => "torn: the last line has no end; the next writer ends it",
            FragmentKind::BeingWritten => "unfinished: the last line is being written",
        };
        self.add(self.lines + 1, fragment.offset, problem);
        Ok(())
    }

    fn conclude(self, journal: &dyn Journal) -> Result<(), Failure> {
        let Report { mut text, lines, records, bad, seals } = self;
        let runs = seals.runs.values().filter(|run| run.has_fitting);
        let problems: Vec<&str> = runs.flat_map(|run| &run.problems).map(String::as_str).collect();
        text.push_str(&problems.concat());
        let read = format!("{}: {records} records in {lines} lines", journal.path().display());
        let failed = |what: String| Failure::failed(format!("{read}, {what}"));
        let ended = match (bad, problems.len()) {
            (0, 0) => {
                text.push_str(&format!("{read}, no problems\n"));
                Ok(())
            }
            (0, count) => {
                let places = terminal::counted(count as u64, "place");
                let what = format!("{places} where records were removed, edited or copied");
                Err(failed(what)
                    .hint("resuming such a run repeats the steps without valid records"))
            }
            (bad, _) => Err(failed(format!("{bad} invalid"))
                .hint("do nothing: readers skip what is invalid, and every record is intact")),
        };
        terminal::print(&text)?;
        ended
    }
}

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
