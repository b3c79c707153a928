//! The one model of review: the contract, how its answer is read, and what follows from it.
//!
//! Each contract is a variant with its policy. The harness runs the reviewer and collects the [`Evidence`];
//! [`Channel::read`] and [`Contract::settle`] decide.

use crate::verdict::{self, Ruling as Ruled};
use crate::wire_enum::words;

/// The subject of a review, and its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contract {
    /// The loop's own files, before an iteration. The loop continues whatever the result is.
    Metareview,
    Slot {
        /// How often work may be fixed.
        revisions: u64,
        /// How often a reviewer that broke the contract is asked again.
        repairs: u64,
    },
}

/// How a reviewer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Not at all: it edits files and exits.
    Silent,
    /// It prints a verdict.
    Stdout,
}

/// The result of a reviewer's turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Why the reviewer failed.
    pub failure: Option<String>,
    /// What was read from its output.
    pub answer: Option<Result<verdict::Verdict, String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// The reviewer failed; its output is not read.
    Failed(String),
    /// The reviewer broke the contract.
    Malformed(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub verdict: Verdict,
    pub follow_up: String,
    /// Why the reviewer gave no verdict.
    pub reason: String,
}

words! {
    /// The result of a review.
    Verdict {
        Pass = "pass",
        Drift = "drift",
        /// The reviewer broke the contract.
        Violation = "violation",
        Failed = "failed",
    }
}

/// How often a review was repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// How often the work was revised before.
    pub revisions: u64,
    /// How often the contract was broken in this round, this time included.
    pub breaches: u64,
}

/// What follows from a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ruling {
    Proceed,
    Revise,
    /// Ask the reviewer again.
    Repeat,
    /// No revision is left.
    Stuck,
    /// There is no verdict.
    Fail,
}

impl Contract {
    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Contract::Metareview => "metareview",
            Contract::Slot { .. } => "slot",
        }
    }

    pub fn channel(self) -> Channel {
        match self {
            Contract::Metareview => Channel::Silent,
            Contract::Slot { .. } => Channel::Stdout,
        }
    }

    /// Reads the answer. A silent reviewer passes only where no answer is expected.
    pub fn read(self, evidence: Evidence) -> Answer {
        self.channel().read(evidence).into()
    }

    pub fn settle(self, verdict: Verdict, round: Round) -> Ruling {
        match (self, verdict) {
            (Contract::Metareview, _) | (Contract::Slot { .. }, Verdict::Pass) => Ruling::Proceed,
            (Contract::Slot { .. }, Verdict::Failed) => Ruling::Fail,
            (Contract::Slot { repairs, .. }, Verdict::Violation) if round.breaches <= repairs => {
                Ruling::Repeat
            }
            (Contract::Slot { .. }, Verdict::Violation) => Ruling::Fail,
            (Contract::Slot { revisions, .. }, Verdict::Drift) if round.revisions < revisions => {
                Ruling::Revise
            }
            (Contract::Slot { .. }, Verdict::Drift) => Ruling::Stuck,
        }
    }
}

impl Channel {
    /// Reads the answer; `None` where none is expected.
    pub fn read(self, evidence: Evidence) -> Result<Option<verdict::Verdict>, Breach> {
        match (self, evidence.failure, evidence.answer) {
            (_, Some(failure), _) => Err(Breach::Failed(failure)),
            (Channel::Silent, None, _) => Ok(None),
            (Channel::Stdout, None, Some(answer)) => answer.map(Some).map_err(Breach::Malformed),
            (Channel::Stdout, None, None) => {
                Err(Breach::Malformed(verdict::Violation::Empty.to_string()))
            }
        }
    }
}

impl From<Result<Option<verdict::Verdict>, Breach>> for Answer {
    fn from(read: Result<Option<verdict::Verdict>, Breach>) -> Self {
        let answer = |verdict, follow_up, reason| Answer { verdict, follow_up, reason };
        match read {
            Ok(None) => answer(Verdict::Pass, String::new(), String::new()),
            Ok(Some(found)) => match found.ruling {
                Ruled::Pass => answer(Verdict::Pass, found.follow_up, String::new()),
                Ruled::Drift => answer(Verdict::Drift, found.follow_up, String::new()),
            },
            Err(Breach::Failed(reason)) => answer(Verdict::Failed, String::new(), reason),
            Err(Breach::Malformed(reason)) => answer(Verdict::Violation, String::new(), reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_reviewer_passes_nothing_where_a_verdict_is_expected() {
        let silent = Evidence { failure: None, answer: None };
        assert_eq!(Contract::Metareview.read(silent.clone()).verdict, Verdict::Pass);
        let slot = Contract::Slot { revisions: 1, repairs: 1 };
        assert_eq!(slot.read(silent).verdict, Verdict::Violation);
        let answer = verdict::Verdict { ruling: Ruled::Pass, follow_up: String::new() };
        let failed = Evidence { failure: Some("exit 1".to_owned()), answer: Some(Ok(answer)) };
        let answer = slot.read(failed);
        assert_eq!((answer.verdict, answer.reason), (Verdict::Failed, "exit 1".to_owned()));
    }

    #[test]
    fn revisions_and_repairs_are_counted() {
        let slot = Contract::Slot { revisions: 1, repairs: 1 };
        let settle =
            |verdict, revisions, breaches| slot.settle(verdict, Round { revisions, breaches });
        assert_eq!(settle(Verdict::Pass, 9, 9), Ruling::Proceed);
        assert_eq!(settle(Verdict::Drift, 0, 0), Ruling::Revise);
        assert_eq!(settle(Verdict::Drift, 1, 0), Ruling::Stuck);
        assert_eq!(settle(Verdict::Violation, 0, 1), Ruling::Repeat);
        assert_eq!(settle(Verdict::Violation, 0, 2), Ruling::Fail);
        assert_eq!(settle(Verdict::Failed, 0, 0), Ruling::Fail);
    }
}
