//! Creates findings packets, adds to them, and checks them.

use std::path::{Path, PathBuf};

use autoloop_core::message::{AgentName, Finding, Outcome, Packet, Validation};
use autoloop_core::review::{FindingStatus, Severity};
use autoloop_core::timestamp::Timestamp;
use autoloop_runtime::mailbox;
use autoloop_runtime::world::{Access, World};
use clap::Subcommand;

use crate::commands::mail::check::{self, unreadable};
use crate::commands::mail::home::Home;
use crate::failure::{Failure, Kind};
use crate::terminal;

/// Work with findings packets.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    New(NewArgs),
    Add(AddArgs),
    /// Check findings packets and print all their problems.
    ///
    /// Needs no project. Prints each problem with its line and column.
    Check(check::Args),
}

/// Create a packet without findings in the workspace, and print its file.
#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// Reviewer
    #[arg(long, value_name = "AGENT")]
    reviewer: AgentName,
    /// Round of the review, 1 to 3
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=3))]
    round: u64,
    /// Topic, part of the packet's id
    #[arg(long, value_name = "NAME")]
    topic: String,
    #[command(flatten)]
    home: Home,
}

/// Add a finding or a validation command to a packet.
///
/// Prints the id of the finding. The counts of the summary are updated.
#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// Findings packet
    packet: PathBuf,
    /// Severity of the finding: P0, P1, P2 or P3
    #[arg(long, value_name = "P0-P3", value_parser = severity, required_unless_present = "command")]
    severity: Option<Severity>,
    /// Let a P2 finding block; P0 and P1 always do
    #[arg(long)]
    blocking: bool,
    /// Status of the finding
    #[arg(long, value_name = "STATUS", default_value = "open", value_parser = status)]
    status: FindingStatus,
    /// Area, such as code or test
    #[arg(long, value_name = "AREA", default_value = "code")]
    area: String,
    /// File, relative to the project
    #[arg(long, value_name = "PATH", default_value = "")]
    file: String,
    /// Line in the file
    #[arg(long, value_name = "N")]
    line: Option<u64>,
    /// What is wrong
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    description: String,
    /// What was expected
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    expected: String,
    /// What was observed
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    evidence: String,
    /// What to do
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    recommendation: String,
    /// Validation command, instead of a finding
    #[arg(long, value_name = "COMMAND", conflicts_with = "severity", requires = "result")]
    command: Option<String>,
    /// Result of the command: pass, warn or fail
    #[arg(long, value_name = "RESULT", value_parser = outcome, requires = "command")]
    result: Option<Outcome>,
}

fn severity(word: &str) -> Result<Severity, String> {
    Severity::from_word(word).ok_or_else(|| "expected P0, P1, P2 or P3".to_owned())
}

fn status(word: &str) -> Result<FindingStatus, String> {
    FindingStatus::from_word(word)
        .ok_or_else(|| format!("expected one of {}", FindingStatus::WORDS.join(", ")))
}

fn outcome(word: &str) -> Result<Outcome, String> {
    Outcome::from_word(word).ok_or_else(|| "expected pass, warn or fail".to_owned())
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match args {
        Args::New(args) => args.run(world),
        Args::Add(args) => args.run(world),
        Args::Check(args) => check::run(args, world, "packets", |_, bytes| Packet::read(bytes)),
    }
}

impl NewArgs {
    fn run(&self, world: &World) -> Result<(), Failure> {
        let now = Timestamp::from_millis(world.clock.now().millis().div_euclid(1000) * 1000);
        let date: String = now.to_string().chars().filter(char::is_ascii_digit).take(8).collect();
        let packet = Packet {
            id: format!("{date}_{}_{}_r{}", self.topic, self.reviewer, self.round),
            source_review_packet: None,
            reviewer: self.reviewer.clone(),
            round: self.round,
            created_at: now,
            verdict: String::new(),
            findings: Vec::new(),
            validations: Vec::new(),
            rest: Vec::new(),
            qa_rest: Vec::new(),
        };
        let text = checked(&packet)?;
        let workspace = self.home.workspace(world)?;
        let path = workspace.add_packet(&packet.file_name(), text.as_bytes())?;
        Ok(terminal::print(&format!("{}\n", path.display()))?)
    }
}

impl AddArgs {
    fn run(&self, world: &World) -> Result<(), Failure> {
        let path = &self.packet;
        let _lock = lock(path, world)?;
        let read = mailbox::check(&*world.disk, path, Packet::read);
        let read = read.map_err(|error| unreadable(path, &error))?;
        let Some(mut packet) = read.value else {
            let message = format!("the packet {} is invalid", path.display());
            let hint =
                format!("list its problems with `autoloop review packet check {}`", path.display());
            return Err(Failure::new(Kind::Refused, message).hint(hint));
        };
        let id = packet.next_finding_id();
        if let (Some(command), Some(result)) = (&self.command, self.result) {
            packet.validations.push(Validation {
                command: command.clone(),
                result,
                notes: String::new(),
                exit_code: None,
                duration_ms: None,
                output_digest: None,
                rest: Vec::new(),
            });
        }
        if let Some(severity) = self.severity {
            packet.findings.push(self.finding(&id, severity));
        }
        let text = checked(&packet)?;
        world.disk.replace(path, text.as_bytes()).map_err(|error| {
            Failure::failed(format!("cannot write {}: {error}", path.display()))
                .hint("make its directory writable")
        })?;
        match self.severity {
            Some(_) => Ok(terminal::print(&format!("{id}\n"))?),
            None => Ok(()),
        }
    }

    fn finding(&self, id: &str, severity: Severity) -> Finding {
        let mut finding = Finding {
            id: id.to_owned(),
            severity,
            blocking: self.blocking,
            status: self.status,
            area: self.area.clone(),
            file: self.file.clone(),
            line: self.line,
            description: self.description.clone(),
            repro: String::new(),
            expected: self.expected.clone(),
            evidence: self.evidence.clone(),
            recommendation: self.recommendation.clone(),
            rest: Vec::new(),
        };
        finding.blocking = finding.blocks();
        finding
    }
}

/// Locks a packet, so that no other process adds to it at the same time.
fn lock(path: &Path, world: &World) -> Result<Box<dyn autoloop_runtime::world::DiskFile>, Failure> {
    let failed = |error: std::io::Error| unreadable(path, &error);
    loop {
        let file = world.disk.open(path, Access::ReadNoFollow).map_err(failed)?;
        if !file.try_lock().map_err(failed)? {
            let message = format!("another process adds to {}", path.display());
            return Err(Failure::new(Kind::Busy, message).hint("try again"));
        }
        // Another process may have replaced the file before it was locked.
        let named = world.disk.stat(path).map_err(failed)?;
        if file.stat().map_err(failed)?.is_same_file(&named) {
            return Ok(file);
        }
    }
}

/// The text of a packet, which has to be valid.
fn checked(packet: &Packet) -> Result<String, Failure> {
    let text = packet.print();
    let problems = Packet::read(text.as_bytes()).problems;
    match problems.is_accepted() {
        true => Ok(text),
        false => {
            let refused =
                Failure::new(Kind::Refused, "the packet would be invalid, so it was not written");
            Err(problems
                .errors
                .iter()
                .map(|problem| problem.message.clone())
                .fold(refused, Failure::hint))
        }
    }
}
