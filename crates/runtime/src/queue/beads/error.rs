//! Why a call of the tracker failed.

use std::fmt;
use std::time::Duration;

use autoloop_core::duration;
use autoloop_core::queue::beads::{BadAnswer, complaint, is_unknown_option};

use crate::failure::Failure;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeadsError {
    #[error("cannot ask the issue tracker: {why}")]
    NotStarted { program: String, why: String },
    #[error("`{doing}` failed with exit code {code}: {complaint}")]
    Failed { doing: String, code: i32, complaint: Said },
    #[error("`{doing}` gave no answer within {}", duration::print(*.after))]
    Late { doing: String, after: Duration },
    #[error("`{doing}` answered with {bytes} bytes, which is more than is read")]
    TooMuch { doing: String, bytes: u64 },
    #[error("`{doing}`: {source}")]
    BadAnswer { doing: String, source: BadAnswer },
    #[error("the issue tracker knows no issue '{id}'")]
    Unknown { id: String },
    #[error("the issue tracker refused {id}: {complaint}")]
    Refused { id: String, complaint: Said },
}

/// The message of a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said(String);

impl Said {
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
    pub(super) fn failed(doing: String, code: i32, stdout: &str, stderr: &str) -> Self {
        BeadsError::Failed { doing, code, complaint: Said(complaint(stdout, stderr)) }
    }

    /// A failure to claim or to close this issue, as a refusal.
    pub(super) fn refused(self, id: &str) -> Self {
        match self {
            // A signal or a broken program refuses nothing.
            BeadsError::Failed { code: 1..=124, complaint, .. } => {
                BeadsError::Refused { id: id.to_owned(), complaint }
            }
            other => other,
        }
    }
}

impl From<BeadsError> for Failure {
    fn from(error: BeadsError) -> Self {
        let message = error.to_string();
        match error {
            BeadsError::NotStarted { .. } => Failure::failed(message)
                .hint("install it, or name its command in slots.beads.command"),
            BeadsError::Refused { .. } => Failure::refused(message),
            BeadsError::Unknown { .. } => Failure::failed(message),
            BeadsError::Failed { doing, .. }
            | BeadsError::Late { doing, .. }
            | BeadsError::TooMuch { doing, .. }
            | BeadsError::BadAnswer { doing, .. } => {
                Failure::failed(message).hint(format!("try `{doing}` yourself"))
            }
        }
    }
}
