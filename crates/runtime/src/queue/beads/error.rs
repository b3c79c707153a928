//! What can go wrong with the tracker, told to a person.

use std::fmt;
use std::time::Duration;

use autoloop_core::duration;
use autoloop_core::queue::beads::{BadAnswer, complaint, is_unknown_option};

use crate::complaint::Complaint;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeadsError {
    /// The program could not be started.
    #[error("cannot ask the issue tracker: {why}")]
    NotStarted {
        /// The program.
        program: String,
        /// Why.
        why: String,
    },
    /// It exited with another code than 0.
    #[error("`{doing}` failed with exit code {code}: {complaint}")]
    Failed {
        /// The call.
        doing: String,
        /// Its exit code.
        code: i32,
        /// What it said.
        complaint: Said,
    },
    /// It took too long.
    #[error("`{doing}` gave no answer within {}", duration::print(*.after))]
    Late {
        /// The call.
        doing: String,
        /// How long it had.
        after: Duration,
    },
    /// It said more than can be meant.
    #[error("`{doing}` answered with {bytes} bytes, which is more than is read")]
    TooMuch {
        /// The call.
        doing: String,
        /// How much it said.
        bytes: u64,
    },
    /// It said something that cannot be understood.
    #[error("`{doing}`: {source}")]
    BadAnswer {
        /// The call.
        doing: String,
        /// What is wrong with it.
        source: BadAnswer,
    },
    /// It knows no such issue.
    #[error("the issue tracker knows no issue '{id}'")]
    Unknown {
        /// The issue.
        id: String,
    },
    /// It does not allow it.
    #[error("the issue tracker refused {id}: {complaint}")]
    Refused {
        /// The issue.
        id: String,
        /// What it said.
        complaint: Said,
    },
}

/// What the tracker said when it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said(String);

impl Said {
    /// Whether it does not know something that it was asked for.
    pub(super) fn is_unknown_option(&self) -> bool {
        is_unknown_option(&self.0)
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl BeadsError {
    pub(super) fn failed(doing: String, code: i32, (stdout, stderr): (&str, &str)) -> Self {
        BeadsError::Failed { doing, code, complaint: Said(complaint(stdout, stderr)) }
    }

    /// A failure that is an answer: to claim or to close this issue is not possible.
    pub(super) fn refused(self, id: &str) -> Self {
        match self {
            // A signal, or a program that is broken, is no answer.
            BeadsError::Failed { code: 1..=124, complaint, .. } => {
                BeadsError::Refused { id: id.to_owned(), complaint }
            }
            other => other,
        }
    }
}

impl From<BeadsError> for Complaint {
    fn from(error: BeadsError) -> Self {
        let message = error.to_string();
        match error {
            BeadsError::NotStarted { .. } => Complaint::failed(message)
                .hint("install it, or name its command in slots.beads.command"),
            BeadsError::Refused { .. } => Complaint::refused(message),
            BeadsError::Unknown { .. } => Complaint::failed(message),
            BeadsError::Failed { doing, .. }
            | BeadsError::Late { doing, .. }
            | BeadsError::TooMuch { doing, .. }
            | BeadsError::BadAnswer { doing, .. } => {
                Complaint::failed(message).hint(format!("try `{doing}` yourself"))
            }
        }
    }
}
