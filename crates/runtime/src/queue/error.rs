//! Why a queue did not do what it was asked to.

use std::time::Duration;

use autoloop_core::duration;
use autoloop_core::queue::Refusal;

use super::BeadsError;
use crate::complaint::Complaint;
use crate::journal::{AppendError, ReadError};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The queue does not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nothing could be written down.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The journal could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Others were faster again and again.
    #[error(
        "the journal grew each of the {attempts} times that the queue was to be changed in {}",
        duration::print(*.waited)
    )]
    Busy {
        /// How often it was tried.
        attempts: u64,
        /// For how long.
        waited: Duration,
    },
    /// The tracker did not do it.
    #[error(transparent)]
    Beads(#[from] BeadsError),
}

impl QueueError {
    /// Whether the item is simply not to be had: closed, blocked, taken, gone, or a claim that is over. The
    /// queue itself is well.
    pub fn is_refusal(&self) -> bool {
        match self {
            QueueError::Refused(_) => true,
            QueueError::Beads(error) => {
                matches!(error, BeadsError::Refused { .. } | BeadsError::Unknown { .. })
            }
            _ => false,
        }
    }
}

impl From<QueueError> for Complaint {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Refused(refusal) => of_refusal(&refusal),
            QueueError::Append(error) => error.into(),
            QueueError::Read(error) => error.into(),
            QueueError::Busy { .. } => {
                Complaint::failed(error.to_string()).hint("try again when less is written")
            }
            QueueError::Beads(error) => error.into(),
        }
    }
}

fn of_refusal(refusal: &Refusal) -> Complaint {
    let message = refusal.to_string();
    if let Refusal::Unknown { .. } = refusal {
        return Complaint::failed(message).hint("`autoloop tasks list --all` names every task");
    }
    let complaint = match refusal.is_mistake() {
        true => Complaint::usage(message),
        false => Complaint::refused(message),
    };
    match refusal {
        Refusal::Held { id, .. } => complaint.hint(format!(
            "wait for it, or take it away with `autoloop tasks release {id} --force`"
        )),
        Refusal::Closed { id } => {
            complaint.hint(format!("`autoloop tasks reopen {id}` opens it again"))
        }
        Refusal::Cycle { path, .. } => match path.as_slice() {
            [first, second, ..] => complaint.hint(format!(
                "`autoloop tasks dep rm {first} {second}` lets {first} not wait for {second} any more"
            )),
            _ => complaint,
        },
        Refusal::Blocked { id, .. } | Refusal::After { id, .. } | Refusal::NotAfter { id, .. } => {
            complaint.hint(format!("`autoloop tasks dep list {id}` shows what it waits for"))
        }
        Refusal::NotClaimed { id } | Refusal::NotClosed { id } => {
            complaint.hint(format!("`autoloop tasks show {id}` tells how it stands"))
        }
        Refusal::Itself { .. } => complaint.hint("name the task that it is to wait for"),
        Refusal::Endless { .. } => complaint.hint("claim it again before that time is over"),
        Refusal::BadOwner { .. } => complaint.hint("name somebody with --as"),
        Refusal::TooLong { .. } => {
            complaint.hint("put it into a file of the project, and name the file")
        }
        _ => complaint,
    }
}
