//! How a command fails: the kind decides the exit code, hints say what to do next.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use autoloop_core::run_id::BadRunId;
use autoloop_runtime::failure::{self, FailureKind};
use autoloop_runtime::journal::{AppendError, ReadError};

use crate::style::{Color, Tone};
use crate::terminal;

/// What went wrong, as far as the caller of the program is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It was tried, and did not work out.
    Failed,
    /// The command line, the environment or a settings file cannot be meant as written.
    Usage,
    /// The protocol does not allow it, and trying the same again will not change that.
    Refused,
    /// Another process is at it.
    Busy,
    /// It was ended by a signal.
    Interrupted(u8),
    /// This program is wrong.
    Bug,
    /// Whoever reads our output has stopped reading. Nobody is left to be told.
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

/// A command that did not do what it was asked to.
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

    /// After a panic, whose message is on standard error already.
    pub(crate) fn bug() -> Self {
        Failure::new(Kind::Bug, "this is a bug in autoloop, not in what you did")
            .hint("please report it, with the lines above; the journal is as it was")
    }

    /// What happened, without the hints.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What sort of failure it is.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Adds what could be done about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
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

    /// Tells the user, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if self.kind != Kind::Unread {
            // Standard error may be closed; the exit code still tells.
            let stderr = io::stderr();
            let text = self.rendered(Color::of(&stderr));
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

impl From<BadRunId> for Failure {
    fn from(error: BadRunId) -> Self {
        Failure::usage(error.to_string())
    }
}

/// For writing to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::new(Kind::Unread, "nobody reads the output"),
            _ => Failure::failed(format!("cannot write to standard output: {error}")),
        }
    }
}
