//! What a reviewer said, as far as it counts.

use autoloop_core::excerpt::Shortened;
use autoloop_core::plan::BackendPlan;
use autoloop_core::prompt::slot::CAP;
use autoloop_core::slot::Verdict;
use autoloop_core::verdict::{self, Ruling, Violation};

use crate::turn::{LINE, failure};
use crate::world::Finished;

/// What came of a review.
pub(super) struct Ruled {
    pub(super) verdict: Verdict,
    pub(super) follow_up: String,
    /// Why there is no verdict of the reviewer, where there is none.
    pub(super) reason: String,
}

impl Ruled {
    /// A reviewer that failed is not listened to.
    pub(super) fn of(finished: &Finished, reviewer: &BackendPlan) -> Ruled {
        if let Some(failure) = failure(finished, reviewer) {
            let (follow_up, reason) = (String::new(), failure.of("reviewer"));
            return Ruled { verdict: Verdict::Failed, follow_up, reason };
        }
        match read(finished) {
            Ok(found) => Ruled {
                verdict: match found.ruling {
                    Ruling::Pass => Verdict::Pass,
                    Ruling::Drift => Verdict::Drift,
                },
                // Nobody is shown more of it.
                follow_up: Shortened::new(&found.follow_up, CAP - LINE).to_string(),
                reason: String::new(),
            },
            Err(reason) => Ruled { verdict: Verdict::Violation, follow_up: String::new(), reason },
        }
    }
}

/// The verdict in what the reviewer printed. The file with its output is not looked at: other agents can write to it.
fn read(finished: &Finished) -> Result<verdict::Verdict, String> {
    match (&finished.answer, &finished.verdict) {
        (Some(answer), _) => {
            verdict::read_answer(answer).map_err(|violation| violation.to_string())
        }
        (None, Some(verdict)) => verdict.clone(),
        (None, None) => Err(Violation::Empty.to_string()),
    }
}
