//! The one model of review: the contract, how its answer is read, and what follows from it.
//!
//! Each contract is a variant with its policy. The harness runs the reviewer and collects the [`Evidence`];
//! [`Contract::read`] and [`Contract::settle`] decide.

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
    /// A commit, by messages between its author and a reviewer.
    Exchange {
        /// The maximum number of rounds.
        rounds: u64,
    },
    /// A part of the work of a squad, by a tool call.
    Squad { subject: SquadSubject, revisions: u64 },
}

/// How often a reviewer of an exchange or a squad is asked again that gave no usable answer.
const REPAIRS: u64 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    pub failure: Option<String>,
    /// The budget that it used up.
    pub exhausted: Option<String>,
    /// What was read from its output.
    pub answer: Option<Result<verdict::Verdict, String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub verdict: Verdict,
    pub follow_up: String,
    /// Why the reviewer gave no verdict.
    pub reason: String,
}

words! {
    Verdict {
        Pass = "pass",
        Drift = "drift",
        /// The reviewer broke the contract.
        Violation = "violation",
        Failed = "failed",
        /// Its budget was used up.
        Budget = "budget",
    }
}

words! {
    /// What a review of a squad is about.
    SquadSubject {
        /// The completed task of one loop.
        Task = "task",
        /// The unfinished work of one loop.
        Progress = "progress",
        /// The list of tasks.
        Enumerate = "enumerate",
        Plan = "plan",
        /// The merged work of all loops.
        Build = "build",
    }
}

impl Verdict {
    fn of(ruling: Ruled) -> Verdict {
        match ruling {
            Ruled::Pass => Verdict::Pass,
            Ruled::Drift => Verdict::Drift,
        }
    }
}

words! {
    /// How bad a finding is; also the priority of a message.
    Severity {
        P0 = "P0",
        P1 = "P1",
        P2 = "P2",
        P3 = "P3",
    }
    /// What became of a finding.
    FindingStatus {
        Open = "open",
        Fixed = "fixed",
        WontFix = "wont_fix",
        NotFixed = "not_fixed",
        NeedsClarification = "needs_clarification",
    }
}

/// How often a review was repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
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
    Repeat,
    Stuck,
    /// The users have to decide: no round or no budget is left.
    Escalate,
    Fail,
}

impl Contract {
    pub fn name(self) -> &'static str {
        match self {
            Contract::Metareview => "metareview",
            Contract::Slot { .. } => "slot",
            Contract::Exchange { .. } => "exchange",
            Contract::Squad { .. } => "squad",
        }
    }

    /// Whether the reviewer may change some of the files that it sees.
    pub fn allows_edits(self) -> bool {
        self == Contract::Metareview
    }

    /// Reads the answer. A failed reviewer's output is not read, and a silent reviewer passes only where no
    /// answer is expected: at a metareview, it edits files and exits.
    pub fn read(self, evidence: Evidence) -> Answer {
        let answer = |verdict, follow_up, reason| Answer { verdict, follow_up, reason };
        let malformed = |reason| answer(Verdict::Violation, String::new(), reason);
        if let (Contract::Exchange { .. }, Some(budget)) = (self, evidence.exhausted) {
            return answer(Verdict::Budget, String::new(), budget);
        }
        match (self, evidence.failure, evidence.answer) {
            // A tool call is complete, even if its client failed afterwards.
            (Contract::Squad { .. }, _, Some(Ok(found))) => {
                answer(Verdict::of(found.ruling), found.follow_up, String::new())
            }
            (Contract::Squad { .. }, None, None) => {
                malformed("the reviewer ended without an answer".to_owned())
            }
            (_, Some(failure), _) => answer(Verdict::Failed, String::new(), failure),
            (Contract::Metareview, None, _) => answer(Verdict::Pass, String::new(), String::new()),
            (_, None, Some(Ok(found))) => {
                answer(Verdict::of(found.ruling), found.follow_up, String::new())
            }
            (_, None, Some(Err(breach))) => malformed(breach),
            (_, None, None) => malformed(verdict::Violation::Empty.to_string()),
        }
    }

    pub fn settle(self, verdict: Verdict, round: Round) -> Ruling {
        let repairs = match self {
            Contract::Slot { repairs, .. } => repairs,
            Contract::Metareview | Contract::Exchange { .. } | Contract::Squad { .. } => REPAIRS,
        };
        match (self, verdict) {
            (Contract::Metareview, _) | (_, Verdict::Pass) => Ruling::Proceed,
            (Contract::Slot { .. }, Verdict::Failed | Verdict::Budget) => Ruling::Fail,
            (_, Verdict::Violation | Verdict::Failed) if round.breaches <= repairs => {
                Ruling::Repeat
            }
            (
                Contract::Slot { .. } | Contract::Exchange { .. },
                Verdict::Violation | Verdict::Failed,
            ) => Ruling::Fail,
            (Contract::Slot { revisions, .. }, Verdict::Drift) if round.revisions < revisions => {
                Ruling::Revise
            }
            (Contract::Slot { .. }, Verdict::Drift) => Ruling::Stuck,
            // It counts as failed, however it failed.
            (Contract::Squad { subject: SquadSubject::Progress, .. }, _) => Ruling::Proceed,
            (Contract::Squad { revisions, .. }, _) if round.revisions < revisions => Ruling::Revise,
            (Contract::Squad { .. }, _) => Ruling::Stuck,
            (Contract::Exchange { rounds }, Verdict::Drift) if round.revisions + 1 < rounds => {
                Ruling::Revise
            }
            (Contract::Exchange { .. }, Verdict::Drift | Verdict::Budget) => Ruling::Escalate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_reviewer_passes_nothing_where_a_verdict_is_expected() {
        let silent = Evidence { failure: None, exhausted: None, answer: None };
        assert_eq!(Contract::Metareview.read(silent.clone()).verdict, Verdict::Pass);
        let slot = Contract::Slot { revisions: 1, repairs: 1 };
        assert_eq!(slot.read(silent).verdict, Verdict::Violation);
        let answer = verdict::Verdict { ruling: Ruled::Pass, follow_up: String::new() };
        let failed = Some("exit 1".to_owned());
        let failed = Evidence { failure: failed, exhausted: None, answer: Some(Ok(answer)) };
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

    #[test]
    fn an_exchange_escalates_when_no_round_or_no_budget_is_left() {
        let exchange = Contract::Exchange { rounds: 2 };
        let settle =
            |verdict, revisions, breaches| exchange.settle(verdict, Round { revisions, breaches });
        assert_eq!(settle(Verdict::Pass, 1, 1), Ruling::Proceed);
        assert_eq!(settle(Verdict::Drift, 0, 0), Ruling::Revise);
        assert_eq!(settle(Verdict::Drift, 1, 0), Ruling::Escalate);
        assert_eq!(settle(Verdict::Budget, 0, 0), Ruling::Escalate);
        for silent in [Verdict::Violation, Verdict::Failed] {
            assert_eq!(settle(silent, 0, 1), Ruling::Repeat);
            assert_eq!(settle(silent, 0, 2), Ruling::Fail);
        }
        let used_up = Evidence {
            failure: Some("timed out".to_owned()),
            exhausted: Some("max_runtime_s_reviewer".to_owned()),
            answer: None,
        };
        assert_eq!(exchange.read(used_up).verdict, Verdict::Budget);
    }
}
