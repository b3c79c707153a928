//! What a reviewer said, as far as it counts.

use std::fs::File;
use std::io::Read;

use autoloop_core::excerpt::Shortened;
use autoloop_core::plan::BackendPlan;
use autoloop_core::prompt::slot::CAP;
use autoloop_core::slot::Verdict;
use autoloop_core::verdict::{self, Ruling, Violation};

use super::recorded::LINE;
use crate::drive::failure::failure;
use crate::world::{Finished, Output, Spool};

/// What a reviewer of plain text is searched for, so that its verdict is found however much it prints.
pub(super) const BEGIN: &[u8] = b"{";

/// What came of a review.
pub(super) struct Ruled {
    pub(super) verdict: Verdict,
    pub(super) follow_up: String,
    /// Why there is no verdict of the reviewer, where there is none.
    pub(super) reason: String,
}

impl Ruled {
    /// A reviewer that failed is not listened to.
    pub(super) fn of(finished: &Finished, reviewer: &BackendPlan, spool: Option<&Spool>) -> Ruled {
        if let Some(failure) = failure(finished, reviewer) {
            let (follow_up, reason) = (String::new(), failure.of("reviewer"));
            return Ruled { verdict: Verdict::Failed, follow_up, reason };
        }
        match read(finished, spool) {
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

/// Reads the verdict out of what the reviewer printed, also where that is not held in memory.
fn read(finished: &Finished, spool: Option<&Spool>) -> Result<verdict::Verdict, String> {
    if let Some(answer) = &finished.answer {
        return verdict::read_answer(answer).map_err(|violation| violation.to_string());
    }
    let output = &finished.stdout;
    let mut reader = verdict::Reader::new(autoloop_core::agents::Stream::Plain);
    let tail = output.bytes.saturating_sub(output.tail.len() as u64);
    let file = stored(output, spool);
    let beginning = file.as_ref().map_or(output.head.len() as u64, |_| output.spooled);
    let begin = finished.found_at.filter(|at| *at >= tail && beginning < tail);
    let known = match (begin, file) {
        // What comes before the first `{` does not matter.
        (Some(at), _) => at,
        (None, Some(file)) => push_all(&mut reader, file.take(output.spooled)),
        (None, None) => {
            reader.push(&output.head);
            beginning
        }
    };
    let is_whole = known >= tail;
    if is_whole {
        let behind = usize::try_from(known - tail).unwrap_or(usize::MAX);
        reader.push(output.tail.get(behind..).unwrap_or_default());
    }
    let is_lost = |violation: &Violation| match violation {
        // What stands in a gap could mean anything.
        Violation::CutOff(_) => !is_whole,
        Violation::NoObject | Violation::Empty => finished.found_at.is_some(),
        _ => false,
    };
    reader.finish().map_err(|violation| match begin {
        _ if is_lost(&violation) => format!(
            "the reviewer printed {} bytes, and its verdict is not among those that are kept; `slots.reviewer.output_cap` says how many are",
            output.bytes
        ),
        Some(at) => format!("{at} bytes into what the reviewer printed, {violation}"),
        None => violation.to_string(),
    })
}

/// The file with the beginning of an output, where that has more of it than is held in memory.
fn stored(output: &Output, spool: Option<&Spool>) -> Option<File> {
    let is_more = output.left_out() > 0 && output.spooled > output.head.len() as u64;
    spool.filter(|_| is_more).and_then(|spool| File::open(&spool.stdout).ok())
}

/// Takes all that can be read, and says how much that is.
fn push_all(reader: &mut verdict::Reader, mut from: impl Read) -> u64 {
    let (mut piece, mut taken) = (vec![0; 64 * 1024], 0);
    while let Ok(count @ 1..) = from.read(&mut piece) {
        reader.push(&piece[..count]);
        taken += count as u64;
    }
    taken
}

#[cfg(test)]
mod tests {
    use autoloop_core::config::Settings;
    use autoloop_core::plan::Plan;
    use autoloop_core::topology::Topology;

    use super::*;
    use crate::world::{Ending, Exit, Output};

    fn reviewer() -> BackendPlan {
        let settings = Settings::resolve(&[]).settings;
        Plan::resolve(&settings, &Topology::default()).unwrap().slots.reviewer
    }

    /// What comes of an output of which only the ends are kept, so many bytes apart.
    fn ruled(head: &str, tail: &str, missing: usize) -> Ruled {
        let bytes = (head.len() + tail.len() + missing) as u64;
        let in_tail = |at: usize| at + head.len() + missing;
        let first = head.find('{').or_else(|| tail.find('{').map(in_tail));
        let mut finished = Finished::new(Ending::Exited(Exit::Code(0)));
        finished.found_at = first.map(|at| at as u64);
        finished.stdout = Output { head: head.into(), tail: tail.into(), bytes, spooled: 0 };
        Ruled::of(&finished, &reviewer(), None)
    }

    #[test]
    fn a_verdict_behind_a_gap_counts_and_one_in_a_gap_does_not() {
        let (begin, end) = (r#"{"verdict": "pass", "a": "#, r#"1, "followUpPrompt": "x"}"#);
        let whole = [begin, end].concat();
        assert_eq!(ruled(begin, end, 0).verdict, Verdict::Pass);
        assert_eq!(ruled(&whole, "and so on", 9).verdict, Verdict::Pass);
        assert_eq!(ruled("I think ", &whole, 9).verdict, Verdict::Pass);
        assert_eq!(ruled("I think ", &format!("it is {whole} well"), 9).verdict, Verdict::Pass);
        let broken = [
            ruled(begin, end, 9),
            ruled("I think ", "it is well", 9),
            ruled("I think ", "it is { well", 9),
            ruled("I think ", r#"it is {"verdict": "#, 9),
        ];
        insta::assert_snapshot!(broken.map(|ruled| ruled.reason).join("\n"), @r"
        the reviewer printed 59 bytes, and its verdict is not among those that are kept; `slots.reviewer.output_cap` says how many are
        there is no '{' in the reviewer's final message, so there is no JSON object with a verdict
        23 bytes into what the reviewer printed, the first '{' (at line 1, column 1) does not begin a JSON object: at line 1, column 3, 'w' stands where a key in double quotes or '}' should
        23 bytes into what the reviewer printed, the JSON object that begins at line 1, column 1 is cut off: the message ends before its last '}'
        ");
    }

    #[test]
    fn a_first_brace_in_a_gap_makes_no_verdict_of_what_comes_behind_it() {
        let mut finished = Finished::new(Ending::Exited(Exit::Code(0)));
        let tail = br#"{"verdict": "pass", "followUpPrompt": "x"}"#;
        finished.found_at = Some(7);
        finished.stdout =
            Output { head: b"I think".into(), tail: tail.into(), bytes: 100, spooled: 0 };
        let ruled = Ruled::of(&finished, &reviewer(), None);
        assert_eq!(ruled.verdict, Verdict::Violation);
        assert!(ruled.reason.contains("is not among those that are kept"), "{}", ruled.reason);
    }
}
