//! Which exchange a command of the author is about, and what it may do to it.

use super::{Exchange, Outcome, Round};
use crate::message::Type;
use crate::record::ExchangeStart;

/// What a new request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Target<'e> {
    Begin,
    NextRound(&'e Exchange),
    /// It was recorded before, and has to be delivered.
    Deliver(&'e Exchange),
}

/// Why the protocol does not allow a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("round {round} of this review is requested already, and waits for the reviewer")]
    Requested { exchange: String, round: u64 },
    #[error("the findings of round {round} are not addressed")]
    NotAddressed { exchange: String, round: u64 },
    #[error("round {} is beyond the limit of {rounds} rounds", rounds + 1)]
    NoRoundLeft { exchange: String, rounds: u64 },
    #[error("no review of '{branch}' waits for its author")]
    NothingToAddress { branch: String },
    #[error("the findings packet has no finding {}", .ids.join(", "))]
    UnknownFindings { ids: Vec<String>, known: Vec<String> },
}

/// Decides what a request for a review does. Without `pr` the latest review of the branch is continued.
pub fn target<'e>(
    exchanges: &'e [Exchange],
    wanted: &ExchangeStart,
    pr: Option<u64>,
) -> Result<Target<'e>, Refusal> {
    let is_same = |exchange: &&Exchange| {
        exchange.start.as_ref().is_some_and(|start| {
            let agents = [(&start.author, &wanted.author), (&start.reviewer, &wanted.reviewer)];
            start.branch == wanted.branch
                && agents.iter().all(|(one, other)| one == other)
                && pr.is_none_or(|pr| start.pr == pr)
        })
    };
    let Some(exchange) = exchanges.iter().rfind(is_same) else { return Ok(Target::Begin) };
    let Some(round) = exchange.round() else { return Ok(Target::Begin) };
    let id = exchange.id.clone();
    let rounds = exchange.start.as_ref().map_or(0, |start| start.rounds);
    let has_round_left = || match round.number < rounds {
        true => Ok(Target::NextRound(exchange)),
        false => Err(Refusal::NoRoundLeft { exchange: id.clone(), rounds }),
    };
    match (exchange.outcome(), &round.response) {
        (Some(Outcome::Approved | Outcome::Undelivered), _) => Ok(Target::Begin),
        (Some(Outcome::BlockersRemain), _) => Err(Refusal::NoRoundLeft { exchange: id, rounds }),
        (Some(Outcome::BudgetExceeded), _) => has_round_left(),
        (_, None) if !round.request.is_sent => Ok(Target::Deliver(exchange)),
        (_, None) => Err(Refusal::Requested { exchange: id, round: round.number }),
        (_, Some(_)) if round.addressed.is_some() => has_round_left(),
        (_, Some(_)) => Err(Refusal::NotAddressed { exchange: id, round: round.number }),
    }
}

/// The latest review of a branch whose findings its author has to address.
pub fn to_address<'e>(exchanges: &'e [Exchange], branch: &str) -> Result<&'e Exchange, Refusal> {
    let is_answered = |round: &Round| {
        let response = round.response.as_ref();
        round.addressed.is_none()
            && response
                .is_some_and(|mail| mail.kind == Type::ReviewFeedback && mail.escalation.is_none())
    };
    let waits = |exchange: &&Exchange| {
        exchange.start.as_ref().is_some_and(|start| start.branch == branch)
            && exchange.round().is_some_and(is_answered)
    };
    let nothing = || Refusal::NothingToAddress { branch: branch.to_owned() };
    exchanges.iter().rfind(waits).ok_or_else(nothing)
}

/// Checks that the findings of the last response have these ids.
pub fn check_findings(exchange: &Exchange, ids: &[String]) -> Result<(), Refusal> {
    let packet = exchange.round().and_then(|round| round.response.as_ref()?.findings());
    let known: Vec<String> = packet
        .iter()
        .flat_map(|packet| &packet.findings)
        .map(|finding| finding.id.clone())
        .collect();
    let ids: Vec<String> = ids.iter().filter(|id| !known.contains(id)).cloned().collect();
    if ids.is_empty() { Ok(()) } else { Err(Refusal::UnknownFindings { ids, known }) }
}
