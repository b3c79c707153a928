//! The rounds of an exchange, as a table shows them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Exchange, Round};
use crate::message::{Finding, Type};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoundRow {
    pub round: u64,
    pub commit: String,
    /// As `2 P1 open, 1 P2 fixed`.
    pub findings: String,
    pub blocking: u64,
    /// As `2 of 3 passed`.
    pub checks: String,
    /// What was answered; empty while there is no answer.
    pub response: String,
    pub addressed: Vec<String>,
    /// The time of the reviewer.
    pub elapsed_ms: u64,
    pub turns: u64,
}

pub fn rows(exchange: &Exchange) -> Vec<RoundRow> {
    exchange.rounds.iter().map(row).collect()
}

fn row(round: &Round) -> RoundRow {
    let response = round.response.as_ref();
    let packet = response.and_then(|response| response.findings());
    let findings = packet.map(|packet| packet.findings).unwrap_or_default();
    let passed = round.checks.iter().filter(|check| check.passed()).count();
    let addressed = round.addressed.as_ref().map_or("", |mail| &mail.findings);
    RoundRow {
        round: round.number,
        commit: round.request.commit.clone(),
        findings: in_words(&findings),
        blocking: response.map_or(0, |response| response.blocking_count),
        checks: match round.checks.len() {
            0 => String::new(),
            all => format!("{passed} of {all} passed"),
        },
        response: response
            .map(|response| match (response.kind, &response.escalation) {
                (Type::ReviewLgtm, _) => "lgtm".to_owned(),
                (_, Some(escalation)) => format!("feedback: {escalation}"),
                (_, None) => "feedback".to_owned(),
            })
            .unwrap_or_default(),
        addressed: addressed.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect(),
        elapsed_ms: round.elapsed_ms(),
        turns: round.turns(),
    }
}

/// How many findings there are of each severity and status.
fn in_words(findings: &[Finding]) -> String {
    let mut counts = BTreeMap::new();
    for finding in findings {
        *counts.entry((finding.severity.name(), finding.status.name())).or_insert(0) += 1;
    }
    let counts =
        counts.iter().map(|((severity, status), count)| format!("{count} {severity} {status}"));
    counts.collect::<Vec<_>>().join(", ")
}

impl Round {
    /// The time of the reviewer, in all of its turns.
    pub fn elapsed_ms(&self) -> u64 {
        self.reviews.iter().map(|review| review.elapsed_ms).sum()
    }

    /// How often the model of the reviewer was asked.
    pub fn turns(&self) -> u64 {
        self.reviews.iter().map(|review| review.turns).sum()
    }
}
