//! Failures of commands: the kind decides the exit code, and hints contain what to do next.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use autoloop_core::coordinator::Kind as Coordinator;
use autoloop_core::run_id::BadRunId;
use autoloop_runtime::drive::DriveError;
use autoloop_runtime::failure::{self, FailureKind};
use autoloop_runtime::journal::{AppendError, ReadError};
use autoloop_runtime::launch::LaunchError;
use autoloop_runtime::queue::QueueError;
use autoloop_runtime::runs::LookupError;
use autoloop_runtime::store::StoreError;

use crate::style::{Color, Tone};
use crate::terminal;

/// The maximum number of ids that a hint lists.
const MAX_IDS: usize = 10;
const BUSY: &str = "wait for it, or end that process; the journal shows its progress";
const WRITABLE: &str = "make the state directory writable";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Failed,
    /// The command line, the environment or a settings file is invalid.
    Usage,
    /// The protocol does not allow it; a retry fails too.
    Refused,
    /// Another process holds the lock.
    Busy,
    /// Ended by this signal.
    Interrupted(u8),
    /// A defect of this program.
    Bug,
    /// The reader of the output closed it, so nothing is printed.
    Unread,
}

impl Kind {
    /// The codes that `docs/exit-codes.md` explains.
    fn code(self) -> u8 {
        match self {
            Kind::Failed => 1,
            Kind::Usage => 2,
            Kind::Refused => 3,
            Kind::Busy => 4,
            Kind::Interrupted(signal) => 128_u8.saturating_add(signal),
            Kind::Bug => 70,
            // As if ended by SIGPIPE: 128 + 13.
            Kind::Unread => 141,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    hints: Vec<String>,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into(), hints: Vec::new() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Failure::new(Kind::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::new(Kind::Usage, message)
    }

    /// The failure after a panic, whose message is on standard error already.
    pub(crate) fn bug() -> Self {
        Failure::new(Kind::Bug, "this is a bug in autoloop")
            .hint("report it with the lines above; the journal is intact")
    }

    /// The message without the hints.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn of_kind(self, kind: Kind) -> Self {
        Failure { kind, ..self }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hints.extend(hint);
        self
    }

    /// Adds the name that was probably meant, or another hint where none is similar.
    pub(crate) fn did_you_mean(self, name: Option<&str>, otherwise: &str) -> Self {
        self.hint(name.map_or_else(|| otherwise.to_owned(), did_you_mean))
    }

    fn rendered(&self, color: Color) -> String {
        let name = color.paint(Tone::Bad, "autoloop:");
        let mut text = format!("{name} {}\n", terminal::harmless(&self.message));
        let label = color.paint(Tone::Good, "hint:");
        for hint in &self.hints {
            text.push_str(&format!("  {label} {}\n", terminal::harmless(hint)));
        }
        text
    }

    /// Prints the failure and returns its exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if self.kind != Kind::Unread {
            let stderr = io::stderr();
            let text = self.rendered(Color::of(&stderr));
            // Standard error may be closed; the exit code is returned nevertheless.
            let _ = stderr.lock().write_all(text.as_bytes());
        }
        ExitCode::from(self.kind.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rendered(Color::No))
    }
}

impl std::error::Error for Failure {}

impl From<failure::Failure> for Failure {
    fn from(failure: failure::Failure) -> Self {
        let kind = match failure.kind {
            FailureKind::Failed => Kind::Failed,
            FailureKind::Usage => Kind::Usage,
            FailureKind::Refused => Kind::Refused,
        };
        Failure { kind, message: failure.message, hints: failure.hints }
    }
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        failure::Failure::from(error).into()
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        failure::Failure::from(error).into()
    }
}

impl From<QueueError> for Failure {
    fn from(error: QueueError) -> Self {
        failure::Failure::from(error).into()
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Failure::failed(error.to_string());
        match error {
            StoreError::Locked(_) => Failure { kind: Kind::Busy, ..failure }
                .hint("`lsof` on the database shows who has it open; try again when it is free"),
            StoreError::Damaged { .. } | StoreError::Failed { .. } => {
                failure.hint("build it again from the journal with `autoloop store rebuild`")
            }
            StoreError::Newer { .. } => {
                failure.hint("update autoloop, or remove the file: the next query builds it again")
            }
            StoreError::Query(_) => Failure { kind: Kind::Usage, ..failure }
                .hint("give one statement that only reads; `autoloop store sql \"select name, sql from sqlite_schema\"` lists the tables"),
            StoreError::Write { .. } => failure.hint(WRITABLE),
            StoreError::Read(error) => error.into(),
        }
    }
}

impl From<BadRunId> for Failure {
    fn from(error: BadRunId) -> Self {
        Failure::usage(error.to_string())
    }
}

/// For writing to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::new(Kind::Unread, "the output was closed"),
            _ => Failure::failed(format!("cannot write to standard output: {error}")),
        }
    }
}

impl From<DriveError> for Failure {
    fn from(error: DriveError) -> Self {
        let message = error.to_string();
        match error {
            DriveError::Launch(error) => error.into(),
            DriveError::Load(error) => error.into(),
            DriveError::Append(error) => error.into(),
            DriveError::Mail(error) => error.into(),
            DriveError::Queue(error) => error.into(),
            DriveError::Read(error @ ReadError::Changed { .. }) => Failure::from(error)
                .hint("another process truncated, replaced or edited the journal during the run"),
            DriveError::Read(error) => error.into(),
            DriveError::Step { number, source } => {
                Failure::from(*source).hint(format!("this is step {number}"))
            }
            DriveError::Busy { .. } => {
                Failure::new(Kind::Busy, message).hint(BUSY)
            }
            DriveError::Client { error, .. } => Failure::failed(message)
                .maybe_hint(error.class.advice().map(str::to_owned)),
            DriveError::Sandbox(_) => Failure::usage(message).hint(
                "set review.sandbox = \"auto\" to restore what a reviewer changes, or turn reviews off",
            ),
            DriveError::NoTrees(_) => Failure::usage(message)
                .hint("set parallel.isolation = \"shared\" to run branches in the project itself"),
            DriveError::NoWorktrees(_) => Failure::usage(message)
                .hint("pass `--isolation shared` to run all slots in the project itself"),
            DriveError::OtherSource { ref began, .. } => Failure::usage(message).hint(format!(
                "pass `--source {}`, or start a new run with `autoloop slots`",
                began.to_string().escape_debug()
            )),
            DriveError::BadRunId(_) | DriveError::NoMessage => Failure::usage(message),
            DriveError::NoBranch => Failure::new(Kind::Refused, message)
                .hint("check a branch out with `git switch`"),
            DriveError::OtherBranch(branch) => Failure::new(Kind::Refused, message)
                .hint(format!("check it out with `git switch {branch}`")),
            DriveError::NoBase { .. } => {
                Failure::usage(message).hint("name the revision before the change with --base")
            }
            DriveError::NoCommit(_) => Failure::new(Kind::Refused, message)
                .hint("fetch it, or name another one"),
            DriveError::NotDescendant { .. } => Failure::new(Kind::Refused, message)
                .hint("commit the fixes on top of the reviewed commit"),
            DriveError::NoRepository(_) => Failure::usage(message),
            DriveError::Git(_) | DriveError::Write { .. } | DriveError::NoRoom(_)
                if error.is_full_disk() =>
            {
                Failure::failed(message).hint("free some space on the disk")
            }
            DriveError::Panicked => Failure::bug(),
            DriveError::NotBegun(_) => {
                Failure::usage(message).hint("start it again with `autoloop squad SPEC`")
            }
            DriveError::NoThread(_) => Failure::failed(message)
                .hint("allow more processes (`ulimit -u`), or fewer loops with --max-loops"),
            DriveError::Write { .. } => Failure::failed(message).hint(WRITABLE),
            DriveError::Git(_) | DriveError::NoRoom(_) => Failure::failed(message),
        }
    }
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        let kind = match &error {
            LaunchError::Running { .. } => Kind::Busy,
            error if error.is_usage() => Kind::Usage,
            _ => Kind::Failed,
        };
        let failure = Failure::new(kind, error.to_string());
        match error {
            LaunchError::Load(error) => error.into(),
            LaunchError::Lookup { kind, source } => Failure::from(source).hint(begin(kind)),
            LaunchError::UnknownPreset { meant, .. } => failure
                .maybe_hint(meant.as_deref().map(did_you_mean))
                .hint("list the presets with `autoloop presets`, or name the directory of a loop"),
            LaunchError::NoLoop(_) => failure
                .hint("name the directory of a loop, or a preset that `autoloop presets` lists"),
            LaunchError::PresetTooLarge(_) => {
                failure.hint("move files that are not part of the loop to another directory")
            }
            LaunchError::BadArgument { .. } => {
                failure.hint("leave the argument out; docs/agents.md lists those that are added")
            }
            LaunchError::NoAgent { .. } => failure.hint(
                "install it, put its directory on PATH, make it executable, or name another agent",
            ),
            LaunchError::Copy { .. } => failure.hint(WRITABLE),
            LaunchError::PresetGone { preset, .. } => {
                failure.hint(format!("start a new run with `autoloop run -p {preset} …`"))
            }
            LaunchError::OtherKind { id, found, .. } => {
                failure.hint(format!("resume it with `{}`", found.resume_command(&id)))
            }
            LaunchError::Running { .. } => failure.hint(BUSY),
            LaunchError::NothingToResume { kind, .. } | LaunchError::Completed { kind, .. } => {
                failure.hint(begin(kind))
            }
            LaunchError::Unproven { kind, run, key_dir } => {
                let writable = key_dir.map(|dir| {
                    let dir = dir.display();
                    format!("make {dir} writable: the key that proves them is kept there")
                });
                let resume = kind.resume_command(&run);
                failure
                    .maybe_hint(writable)
                    .hint(format!("trust them as they are with `{resume} --trust-journal`"))
            }
            LaunchError::UnknownChain { meant, .. } => failure.did_you_mean(
                meant.as_deref(),
                "list the chains with `autoloop chain list`, or name steps with `autoloop run --chain a,b`",
            ),
            LaunchError::StepsChanged { .. } => {
                failure.hint("restore the steps in chains.toml, or start a new chain")
            }
            LaunchError::PartOfRun { parent, .. } => failure.hint(format!(
                "resume both with `autoloop run --resume={parent}`, unless the run completed"
            )),
            LaunchError::Steps(_)
            | LaunchError::NoStep(_)
            | LaunchError::ChainsOff
            | LaunchError::NotFound { .. }
            | LaunchError::NoObjective(_) => failure,
        }
    }
}

fn did_you_mean(name: &str) -> String {
    format!("did you mean '{name}'?")
}

fn begin(kind: Coordinator) -> &'static str {
    match kind {
        Coordinator::Loop => "start a new run with `autoloop run DIR`",
        Coordinator::Chain => "start a new chain with `autoloop chain run NAME`",
        Coordinator::Slots => "start a new run with `autoloop slots`",
        Coordinator::Exchange => "request a review with `autoloop review request`",
        Coordinator::Squad => "start a new squad with `autoloop squad SPEC`",
    }
}

impl From<LookupError> for Failure {
    fn from(error: LookupError) -> Self {
        let failure = Failure::failed(error.to_string());
        match error {
            LookupError::Unknown { meant, .. } => {
                failure.did_you_mean(meant.as_deref(), "list all runs with `autoloop loops --all`")
            }
            LookupError::Read(error) => error.into(),
            LookupError::Empty { .. } => failure.hint(begin(Coordinator::Loop)),
            LookupError::Ambiguous { ids, .. } => {
                let more = match ids.len().saturating_sub(MAX_IDS) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let shown = ids[..ids.len().min(MAX_IDS)].join(", ");
                Failure { kind: Kind::Usage, ..failure }
                    .hint(format!("name one of them: {shown}{more}"))
            }
        }
    }
}
