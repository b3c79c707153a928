//! Why something that an agent asked for was not done, in words.
//!
//! `emit` and `memory` are carried out by the process that the agent started or, where that one may
//! not write, by the harness through its [socket](crate::ipc). Either way the agent is to read the same words
//! and to see the same exit code, so the words are made here, next to what is done.

use std::error::Error;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::journal::{AppendError, ReadError, Unsuitable};

/// What sort of failure it is, as far as the caller is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// It was tried, and did not work out.
    Failed,
    /// It cannot be meant as it was said.
    Usage,
    /// The protocol does not allow it.
    Refused,
}

/// Something was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complaint {
    /// What sort of failure it is.
    pub fault: Fault,
    /// What happened, to which thing.
    pub message: String,
    /// What could be done about it.
    pub hints: Vec<String>,
}

impl Complaint {
    /// It was tried, and did not work out.
    pub fn failed(message: impl Into<String>) -> Complaint {
        Complaint { fault: Fault::Failed, message: message.into(), hints: Vec::new() }
    }

    /// It cannot be meant as it was said.
    pub fn usage(message: impl Into<String>) -> Complaint {
        Complaint { fault: Fault::Usage, ..Complaint::failed(message) }
    }

    /// The protocol does not allow it.
    pub fn refused(message: impl Into<String>) -> Complaint {
        Complaint { fault: Fault::Refused, ..Complaint::failed(message) }
    }

    /// Adds what could be done about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Complaint {
        self.hints.push(hint.into());
        self
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

impl From<AppendError> for Complaint {
    fn from(error: AppendError) -> Self {
        let complaint = Complaint::failed(format!("not stored: {}", chain(&error)));
        match error {
            AppendError::Full { .. } => complaint.hint("make room and try again: what was there before is intact"),
            AppendError::Locked { holder: Some(pid), .. } => {
                complaint.hint(format!("see what process {pid} is doing; if it is stopped, let it go on or end it"))
            }
            AppendError::Locked { holder: None, .. } => {
                complaint.hint("`lsof` on the journal shows who has it open")
            }
            AppendError::NotDurable { .. } => complaint
                .hint("the disk may be failing: look at the system's log before anything else is written there"),
            AppendError::Unsuitable { why, .. } => hint_about(complaint, why),
            AppendError::Conflict { .. } | AppendError::Spool { .. } | AppendError::Io { .. } => complaint,
        }
    }
}

impl From<ReadError> for Complaint {
    fn from(error: ReadError) -> Self {
        let complaint = Complaint::failed(chain(&error));
        match error {
            ReadError::Unsuitable { why, .. } => hint_about(complaint, why),
            ReadError::Changed { .. } | ReadError::Io { .. } => complaint,
        }
    }
}

fn hint_about(complaint: Complaint, why: Unsuitable) -> Complaint {
    match why {
        Unsuitable::HardLinks(_) => complaint.hint("`find -samefile` shows the other names; remove them, or move the journal away and back by copying"),
        Unsuitable::Hole { at, .. } => complaint.hint(format!("`truncate -s {at} FILE` removes them, and what was written after them")),
        Unsuitable::Directory | Unsuitable::Symlink | Unsuitable::Special => {
            complaint.hint("move it away, or name another journal in AUTOLOOP_JOURNAL_FILE")
        }
    }
}
