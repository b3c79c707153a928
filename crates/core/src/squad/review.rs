//! The reviews of a squad: what is asked, when an answer is complete, and what it amounts to.

use std::fmt::Write as _;

use super::{Answer, Feedback, Issue, Lane, Loop, Squad, SquadRules, Step, Turn, TurnState};
use crate::config::Check;
use crate::evidence::in_code;
use crate::record::{CheckFinish, SquadPhase, SquadReview, SquadSubject, Support};
use crate::review::{self, Contract, Evidence, Ruling, Verdict};
use crate::verdict;

/// The reviewer's turns about one state of a subject, until they are decided.
pub struct Round<'s> {
    pub squad: &'s Squad,
    pub subject: SquadSubject,
    /// `None` for a review of the run.
    pub it: Option<&'s Loop>,
    /// Turns count from this number on.
    pub since: u64,
    /// The commit that is reviewed.
    pub commit: &'s str,
}

impl<'s> Round<'s> {
    /// The review of the task that a loop completed.
    pub fn of_task(squad: &'s Squad, it: &'s Loop) -> Round<'s> {
        let commit = it.work.as_ref().map_or("", |work| &work.commit);
        let since = it.built_in + 1;
        Round { squad, subject: SquadSubject::Task, it: Some(it), since, commit }
    }

    /// The review of a loop that is not complete, if one is under way.
    pub fn of_checkpoint(squad: &'s Squad, it: &'s Loop) -> Option<Round<'s>> {
        let since = it.checkpoint?.turn;
        let commit = squad.turn(since)?.start.commit.as_deref().unwrap_or_default();
        Some(Round { squad, subject: SquadSubject::Progress, it: Some(it), since, commit })
    }

    /// A review of the run, after a turn.
    pub fn of_run(squad: &'s Squad, subject: SquadSubject, after: u64) -> Round<'s> {
        Round { squad, subject, it: None, since: after + 1, commit: squad.head() }
    }

    pub fn lane(&self) -> Lane {
        match (self.it, self.subject) {
            (Some(it), SquadSubject::Progress) => Lane::Checkpoint(it.number),
            (Some(it), _) => Lane::Loop(it.number),
            (None, _) => Lane::Run,
        }
    }

    /// The decision, if the round has one.
    pub fn decided(&self) -> Option<&'s SquadReview> {
        let is_it = |review: &&SquadReview| review.turn >= self.since && self.is_about(review);
        self.squad.reviews.iter().rfind(is_it)
    }

    fn is_about(&self, review: &SquadReview) -> bool {
        review.subject == self.subject && review.loop_id.as_deref() == self.it.map(|it| &*it.id)
    }

    /// Its turns that were not lost.
    pub fn turns(&self) -> impl Iterator<Item = &'s Turn> {
        let (subject, id, since) = (self.subject, self.it.map(|it| &*it.id), self.since);
        self.squad.turns.iter().filter(move |turn| {
            turn.number() >= since
                && turn.state != TurnState::Lost
                && matches!(turn.phase(), Some(SquadPhase::Review | SquadPhase::Checkpoint))
                && turn.start.subject.as_ref().is_some_and(|it| *it == subject)
                && turn.start.loop_id.as_deref() == id
        })
    }

    /// What the round needs next; `None` while an agent works on it.
    pub fn step(&self, rules: &SquadRules) -> Option<Step> {
        let turns: Vec<&Turn> = self.turns().collect();
        if turns.iter().any(|turn| turn.state == TurnState::Open) {
            return None;
        }
        if let Some(check) = self.configured(rules).find(|check| !self.has_run(check)) {
            return Some(self.check(check.clone()));
        }
        let ask = |attempt: usize| Step::Review {
            subject: self.subject,
            loop_id: self.it.map(|it| it.id.clone()),
            attempt: attempt as u64,
            commit: self.commit.to_owned(),
        };
        let Some(last) = turns.last() else { return Some(ask(0)) };
        let contract =
            Contract::Squad { subject: self.subject, revisions: self.squad.effort().revisions() };
        let answer = contract.read(evidence(last));
        let round = review::Round { revisions: 0, breaches: turns.len() as u64 };
        if contract.settle(answer.verdict, round) == Ruling::Repeat {
            return Some(ask(turns.len()));
        }
        if answer.verdict == Verdict::Pass {
            let cited = last.cited.iter().map(|command| Check::cited(command));
            if let Some(check) = cited.into_iter().find(|check| !self.has_run(check)) {
                return Some(self.check(check));
            }
        }
        Some(Step::Settle(self.settle(rules, last, &answer)))
    }

    /// Unfinished work need not pass, and a list of tasks cannot be run.
    fn configured<'r>(&self, rules: &'r SquadRules) -> impl Iterator<Item = &'r Check> {
        let has_checks = matches!(self.subject, SquadSubject::Task | SquadSubject::Build);
        rules.checks.iter().filter(move |_| has_checks)
    }

    fn check(&self, check: Check) -> Step {
        Step::Check { lane: self.lane(), check, commit: self.commit.to_owned() }
    }

    fn has_run(&self, check: &Check) -> bool {
        self.result(check).is_some()
    }

    fn result(&self, check: &Check) -> Option<&'s CheckFinish> {
        self.squad.checks.iter().find(|done| {
            done.commit == self.commit && done.command == check.command && done.name == check.name
        })
    }

    fn settle(&self, rules: &SquadRules, last: &Turn, answer: &review::Answer) -> SquadReview {
        let cited: Vec<Check> = last.cited.iter().map(|command| Check::cited(command)).collect();
        let results = self.configured(rules).chain(&cited).filter_map(|check| self.result(check));
        let results: Vec<&CheckFinish> = results.collect();
        let is_configured = self.configured(rules).any(|check| self.result(check).is_some());
        let failed = results.iter().find(|result| !result.passed());
        let (verdict, reason) = match (answer.verdict, failed) {
            (Verdict::Pass, Some(failed)) => {
                let command = in_code(&failed.command);
                (Verdict::Drift, format!("the check {command} failed: {}", failed.result()))
            }
            (verdict, _) => (verdict, answer.reason.clone()),
        };
        let given =
            last.answer().filter(|_| !matches!(verdict, Verdict::Violation | Verdict::Failed));
        SquadReview {
            review_id: given.map_or_else(
                || format!("{}-{}", self.squad.id, last.number()),
                |answer| answer.id.clone(),
            ),
            subject: self.subject.into(),
            loop_id: self.it.map(|it| it.id.clone()),
            task_id: last.start.task_id.clone(),
            turn: last.number(),
            verdict: verdict.into(),
            reason,
            // Any command can be cited.
            support: match is_configured {
                true => Support::Verified,
                false => Support::Unverified,
            }
            .into(),
            commit: (!self.commit.is_empty()).then(|| self.commit.to_owned()),
        }
    }
}

/// What a reviewer left. A reviewer that failed after it passed something may have been about to say more.
fn evidence(turn: &Turn) -> Evidence {
    let failure = turn.end().and_then(|end| end.reason.clone());
    let counts = |answer: &&Answer| failure.is_none() || !answer.is_pass();
    let answer = turn.answer().filter(counts).map(|answer| Ok(verdict_of(answer)));
    Evidence { failure, exhausted: None, answer }
}

fn verdict_of(answer: &Answer) -> verdict::Verdict {
    let ruling = match answer.is_pass() {
        true => verdict::Ruling::Pass,
        false => verdict::Ruling::Drift,
    };
    verdict::Verdict { ruling, follow_up: String::new() }
}

impl Squad {
    /// What the next builder is told about a review that did not pass.
    pub fn feedback(&self, review: &SquadReview) -> Feedback {
        let answer = self.turn(review.turn).and_then(Turn::answer);
        let is_undelivered =
            matches!(review.verdict.known(), Some(Verdict::Violation | Verdict::Failed));
        let reason = match (is_undelivered, answer) {
            (true, _) => format!("the review was not delivered: {}", review.reason),
            (false, Some(answer)) if answer.passed && !answer.is_pass() => {
                "the reviewer says that the intent is not satisfied".to_owned()
            }
            (false, _) => review.reason.clone(),
        };
        let issues = answer.filter(|_| !is_undelivered).map(|answer| answer.issues.clone());
        Feedback { reason, issues: issues.unwrap_or_default() }
    }
}

impl Feedback {
    /// The feedback as an agent reads it.
    pub fn render(&self) -> String {
        let mut out = String::new();
        if !self.reason.is_empty() {
            let _ = writeln!(out, "{}\n", self.reason);
        }
        self.issues.iter().for_each(|issue| issue.render(&mut out));
        match out.trim_end() {
            "" => "the reviewer named no issue".to_owned(),
            out => out.to_owned(),
        }
    }
}

impl Issue {
    fn render(&self, out: &mut String) {
        let line = self.line.as_ref().map(|line| format!(":{line}")).unwrap_or_default();
        let place = self.file.as_ref().map(|file| format!("`{file}{line}` "));
        let kind = self.kind.as_ref().map(|kind| format!("({kind}) "));
        let description = self.description.as_deref().unwrap_or("no description").trim();
        // A failed write to a string does not exist.
        let _ = writeln!(
            out,
            "- {}{}{}",
            place.unwrap_or_default(),
            kind.unwrap_or_default(),
            description.replace('\n', "\n  ")
        );
        if let Some(suggestion) = &self.suggestion {
            let _ = writeln!(out, "  Suggestion: {}", suggestion.trim().replace('\n', "\n  "));
        }
    }
}
