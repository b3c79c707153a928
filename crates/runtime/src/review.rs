//! One review: the sandbox of the reviewer, its answer, and its violations.
//!
//! docs/review-permissions.md has what a reviewer may change, and what each layer prevents.

mod concurrent;
mod sandbox;
mod violations;

pub(crate) use concurrent::ConcurrentRuns;
pub(crate) use sandbox::{
    Confined, OtherWriters, ReviewSandbox, ReviewSite, Subject, seen_from, sweep,
    sweep_placeholders,
};
pub(crate) use violations::Violations;

use std::io;

use autoloop_core::review::Evidence;

use crate::turn::{self, Ended};
use crate::world::{Ending, Finished, NeverStarted, Obstacle};

/// The evidence in the end of a reviewer's turn. The file with its output is not read: other agents can write
/// to it.
pub(crate) fn evidence(
    finished: &Finished,
    reviewer: &autoloop_core::plan::BackendPlan,
) -> Evidence {
    use autoloop_core::verdict::read_answer;

    Evidence {
        failure: turn::failure(finished, reviewer).map(|failure| failure.of("reviewer")),
        exhausted: None,
        answer: match &finished.answer {
            Some(answer) => Some(read_answer(answer).map_err(|breach| breach.to_string())),
            None => finished.verdict.clone(),
        },
    }
}

/// The end of a review that could not be confined, and so was not started.
pub(crate) fn not_started(error: &io::Error) -> Ended {
    let message = format!("review skipped: the sandbox could not be set up: {error}");
    Ended::not_started(Finished::new(Ending::NeverStarted(NeverStarted {
        errno: error.raw_os_error().unwrap_or_default(),
        message,
        obstacle: Obstacle::Surroundings,
    })))
}
