//! How a command fails: the kind decides the exit code, hints say what to do next.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::process::ExitCode;

use autoloop_runtime::journal::{AppendError, ReadError, Unsuitable};

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

    /// Adds what could be done about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Tells the user, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if self.kind != Kind::Unread {
            // Standard error may be closed; the exit code still tells.
            let _ = io::stderr().write_all(self.to_string().as_bytes());
        }
        ExitCode::from(self.kind.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("autoloop: {}\n", self.message);
        for hint in &self.hints {
            writeln!(text, "  hint: {hint}")?;
        }
        f.write_str(&terminal::harmless(&text))
    }
}

/// The whole chain of an error in one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let because = error.to_string();
        // Several of our messages name their cause already.
        if !text.contains(&because) {
            let _ = write!(text, ": {because}");
        }
        cause = error.source();
    }
    text
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        let failure = Failure::failed(format!("not stored: {}", chain(&error)));
        match error {
            AppendError::Full { .. } => failure.hint("make room and try again: what was there before is intact"),
            AppendError::Locked { holder: Some(pid), .. } => {
                failure.hint(format!("see what process {pid} is doing; if it is stopped, let it go on or end it"))
            }
            AppendError::Locked { holder: None, .. } => {
                failure.hint("`lsof` on the journal shows who has it open")
            }
            AppendError::NotDurable { .. } => failure
                .hint("the disk may be failing: look at the system's log before anything else is written there"),
            AppendError::Unsuitable { why, .. } => hint_about(failure, why),
            AppendError::Conflict { .. } | AppendError::Spool { .. } | AppendError::Io { .. } => failure,
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let failure = Failure::failed(chain(&error));
        match error {
            ReadError::Unsuitable { why, .. } => hint_about(failure, why),
            ReadError::Changed { .. } | ReadError::Io { .. } => failure,
        }
    }
}

fn hint_about(failure: Failure, why: Unsuitable) -> Failure {
    match why {
        Unsuitable::HardLinks(_) => failure.hint("`find -samefile` shows the other names; remove them, or move the journal away and back by copying"),
        Unsuitable::Directory | Unsuitable::Symlink | Unsuitable::Special => {
            failure.hint("move it away, or name another journal in AUTOLOOP_JOURNAL_FILE")
        }
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
