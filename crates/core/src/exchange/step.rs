//! The next step of an exchange.

use super::{Exchange, Mail, Outcome, Round, Side};
use crate::config::Check;
use crate::limits::{RunLimits, Start};
use crate::message::{MAX_ROUNDS_EXCEEDED, Type};
use crate::record::ExchangeFinish;
use crate::review::{Round as Repeated, Ruling, Verdict};
use crate::timestamp::Timestamp;

/// The sides that this harness acts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acting {
    /// It delivers what the author's commands recorded, and runs no agent.
    Author,
    /// It runs the reviewer; the author too if the exchange is automatic.
    Reviewer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeRules {
    pub acting: Acting,
    /// The checks of the settings.
    pub checks: Vec<Check>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    Deliver(Mail),
    Check(Check),
    /// Run the reviewer; counted from 0.
    Review {
        attempt: u64,
    },
    /// Record the response to the reviewer's answer.
    Respond,
    /// Run the agent of the author on the findings.
    Author,
    /// Record that the author addressed the findings.
    Address,
    /// Record the request of the next round.
    Request {
        round: u64,
    },
    Wait(Side),
    Finish(ExchangeFinish),
    Over,
}

/// Decides what a started exchange does next. No message is sent twice, and no ended turn is repeated.
pub fn next_step(exchange: &Exchange, rules: &ExchangeRules) -> Step {
    if exchange.finish.is_some() {
        return Step::Over;
    }
    if let Some(mail) = exchange.mails().find(|mail| !mail.is_sent) {
        return Step::Deliver(mail.clone());
    }
    let Some(round) = exchange.round() else { return Step::Wait(Side::Author) };
    match (&round.response, rules.acting) {
        (None, Acting::Author) => Step::Wait(Side::Reviewer),
        (None, Acting::Reviewer) => review_step(exchange, round, rules),
        (Some(response), acting) => match end(round, response) {
            Some((outcome, reason)) => finish(outcome, reason),
            None if exchange.is_auto && acting == Acting::Reviewer => author_step(round),
            None => Step::Wait(Side::Author),
        },
    }
}

/// The same within the limits of the run: no agent starts for which nothing is left.
pub fn within_limits(step: Step, exchange: &Exchange, limits: &RunLimits, now: Timestamp) -> Step {
    let side = match &step {
        Step::Review { .. } => Side::Reviewer,
        Step::Author => Side::Author,
        _ => return step,
    };
    let start = Start { lane: side.name().to_owned(), step: side.name().to_owned() };
    match exchange.ledger.reserve(&start, limits, now) {
        Ok(_) => step,
        Err(reached) => finish(Outcome::LimitReached, reached.detail),
    }
}

fn review_step(exchange: &Exchange, round: &Round, rules: &ExchangeRules) -> Step {
    let missing = |checks: &[Check]| {
        checks.iter().find(|check| round.check(&check.command).is_none()).cloned()
    };
    if let Some(check) = missing(&rules.checks) {
        return Step::Check(check);
    }
    let Some(last) = round.reviews.last() else { return Step::Review { attempt: 0 } };
    let verdict = last.verdict.known().unwrap_or(Verdict::Violation);
    let repeated = Repeated { revisions: round.number - 1, breaches: round.reviews.len() as u64 };
    match exchange.contract().settle(verdict, repeated) {
        Ruling::Repeat => Step::Review { attempt: round.reviews.len() as u64 },
        Ruling::Fail => finish(Outcome::Undelivered, last.reason.clone()),
        Ruling::Proceed | Ruling::Revise | Ruling::Stuck | Ruling::Escalate => {
            let cited = round.answer().map(|packet| packet.validations).unwrap_or_default();
            let cited: Vec<Check> = cited.iter().map(|run| Check::cited(&run.command)).collect();
            missing(&cited).map_or(Step::Respond, Step::Check)
        }
    }
}

fn author_step(round: &Round) -> Step {
    match (&round.addressed, &round.authored) {
        (Some(_), _) => Step::Request { round: round.number + 1 },
        (None, None) => Step::Author,
        (None, Some(turn)) => match &turn.reason {
            Some(reason) => finish(Outcome::AuthorFailed, reason.clone()),
            None => Step::Address,
        },
    }
}

/// How a response ends the exchange; `None` where another round follows.
fn end(round: &Round, response: &Mail) -> Option<(Outcome, String)> {
    match (response.kind, response.escalation.as_deref()) {
        (Type::ReviewLgtm, _) => Some((Outcome::Approved, String::new())),
        (_, Some(MAX_ROUNDS_EXCEEDED)) => {
            let count = response.blocking_count;
            let noun = if count == 1 { "finding" } else { "findings" };
            Some((Outcome::BlockersRemain, format!("{count} blocking {noun} left")))
        }
        (_, Some(_)) => {
            let budget = round.reviews.last().map(|review| review.reason.clone());
            Some((Outcome::BudgetExceeded, budget.unwrap_or_default()))
        }
        (_, None) => None,
    }
}

fn finish(outcome: Outcome, reason: String) -> Step {
    Step::Finish(ExchangeFinish { outcome: outcome.into(), reason })
}
