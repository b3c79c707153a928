//! What a reviewer said, as far as it counts.

use std::io::Read as _;

use autoloop_core::slot::{Turn, Verdict};
use autoloop_core::verdict::{self, Ruling};

use super::agent::failure;
use crate::world::{Finished, Spool};

/// What came of a review.
pub(super) struct Ruled {
    pub(super) verdict: Verdict,
    pub(super) follow_up: String,
    /// Why there is no verdict of the reviewer, where there is none.
    pub(super) reason: String,
}

impl Ruled {
    /// A reviewer that failed is not listened to.
    pub(super) fn of(finished: &Finished, spool: Option<&Spool>) -> Ruled {
        let turn = Turn {
            exit_code: finished.exit_code(),
            timed_out: finished.timed_out(),
            reason: failure(finished).unwrap_or_default(),
            ..Turn::default()
        };
        if !turn.is_well() {
            let (follow_up, reason) = (String::new(), turn.failure("reviewer"));
            return Ruled { verdict: Verdict::Failed, follow_up, reason };
        }
        match read(finished, spool) {
            Ok(found) => Ruled {
                verdict: match found.ruling {
                    Ruling::Pass => Verdict::Pass,
                    Ruling::Drift => Verdict::Drift,
                },
                follow_up: found.follow_up,
                reason: String::new(),
            },
            Err(violation) => Ruled {
                verdict: Verdict::Violation,
                follow_up: String::new(),
                reason: violation.to_string(),
            },
        }
    }
}

/// Reads the verdict out of all that the reviewer printed, also where that is not held in memory.
fn read(
    finished: &Finished,
    spool: Option<&Spool>,
) -> Result<verdict::Verdict, verdict::Violation> {
    if let Some(answer) = &finished.answer {
        return verdict::read_answer(answer);
    }
    let output = &finished.stdout;
    let mut reader = verdict::Reader::new(autoloop_core::agents::Stream::Plain);
    let file = spool.filter(|_| output.left_out() > 0 && output.spooled == output.bytes);
    match file.and_then(|spool| std::fs::File::open(&spool.stdout).ok()) {
        Some(mut file) => {
            let mut piece = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = file.read(&mut piece) {
                reader.push(&piece[..count]);
            }
        }
        None => {
            reader.push(&output.head);
            // What stands behind a gap could mean anything.
            if output.left_out() == 0 {
                reader.push(&output.tail);
            }
        }
    }
    reader.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Ending, Exit, Output};

    #[test]
    fn nothing_behind_a_gap_makes_a_verdict() {
        let verdict = |head: &str, tail: &str, missing: usize| {
            let bytes = (head.len() + tail.len() + missing) as u64;
            let (head, tail) = (head.into(), tail.into());
            let mut finished = Finished::new(Ending::Exited(Exit::Code(0)));
            finished.stdout = Output { head, tail, bytes, spooled: 0 };
            Ruled::of(&finished, None).verdict
        };
        let (begin, end) = (r#"{"verdict": "pass", "a": "#, r#"1, "followUpPrompt": "x"}"#);
        assert_eq!(verdict(begin, end, 0), Verdict::Pass);
        assert_eq!(verdict(begin, end, 9), Verdict::Violation);
        let whole = [begin, end].concat();
        assert_eq!(verdict(&whole, "and so on", 9), Verdict::Pass);
        assert_eq!(verdict("I think ", &whole, 9), Verdict::Violation);
    }
}
