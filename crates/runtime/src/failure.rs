//! Failures of requests of agents, with hints.
//!
//! `emit` and `memory` are carried out by the process that the agent started or, where its sandbox keeps that from
//! writing, by the harness through its [socket](crate::ipc). Either way the agent gets the same message and the same exit
//! code, so both are made here.

use std::error::Error;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::journal::{AppendError, ReadError, Unsuitable};

/// Decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    Failed,
    Usage,
    /// The protocol does not allow the request.
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
    pub hints: Vec<String>,
}

impl Failure {
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure { kind: FailureKind::Failed, message: message.into(), hints: Vec::new() }
    }

    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { kind: FailureKind::Usage, ..Failure::failed(message) }
    }

    pub fn refused(message: impl Into<String>) -> Failure {
        Failure { kind: FailureKind::Refused, ..Failure::failed(message) }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hints.push(hint.into());
        self
    }
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let because = error.to_string();
        // Several of our messages contain their cause already.
        if !text.contains(&because) {
            let _ = write!(text, ": {because}");
        }
        cause = error.source();
    }
    text
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        let failure = Failure::failed(format!("not stored: {}", with_causes(&error)));
        match error {
            AppendError::Full { .. } => {
                failure.hint("free some space and try again: existing records are intact")
            }
            AppendError::Locked { holder: Some(pid), .. } => {
                failure.hint(format!("check process {pid}: if it is stopped, continue or end it"))
            }
            AppendError::Locked { holder: None, .. } => {
                failure.hint("`lsof` on the journal shows who has it open")
            }
            AppendError::NotDurable { .. } => failure
                .hint("check the system log before you write to the disk again: it may be failing"),
            AppendError::Unsuitable { why, .. } => hint_about(failure, why),
            AppendError::Conflict { .. } | AppendError::Spool { .. } | AppendError::Io { .. } => {
                failure
            }
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let failure = Failure::failed(with_causes(&error));
        match error {
            ReadError::Unsuitable { why, .. } => hint_about(failure, why),
            ReadError::Changed { .. } | ReadError::Io { .. } => failure,
        }
    }
}

fn hint_about(failure: Failure, why: Unsuitable) -> Failure {
    match why {
        Unsuitable::HardLinks(_) => failure.hint("`find -samefile` shows the other names; remove them, or move the journal away and back by copying"),
        Unsuitable::Hole { at, .. } => failure.hint(format!("`truncate -s {at} FILE` removes them and everything after them")),
        Unsuitable::Directory | Unsuitable::Symlink | Unsuitable::Special => {
            failure.hint("move it away, or name another journal in AUTOLOOP_JOURNAL_FILE")
        }
    }
}
