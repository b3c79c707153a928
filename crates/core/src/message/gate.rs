//! The quality gate: whether a change may be merged after this round of its review.

use std::fmt;

use super::body::{GateResult, Lgtm, Nit};
use super::packet::{Finding, Outcome, Packet};
use crate::review::{FindingStatus, Severity};

/// Why the gate is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    Blocker {
        id: String,
        severity: Severity,
        status: FindingStatus,
    },
    NoValidation,
    Failed {
        command: String,
        result: Outcome,
    },
    /// A deferred finding that the approval does not list.
    NotInNits {
        id: String,
        severity: Severity,
    },
    /// The approval itself says that the gate failed.
    NotApproved,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Blocker { id, severity: Severity::P0, status: FindingStatus::WontFix } => {
                write!(f, "{id} is P0, which wont_fix does not resolve")
            }
            Reason::Blocker { id, severity, status } => {
                write!(f, "{id} is a blocking {severity} finding with the status {status}")
            }
            Reason::NoValidation => {
                f.write_str("no validation command is recorded in qa_validation")
            }
            Reason::Failed { command, result } => {
                write!(f, "validation command '{command}' has the result {result}")
            }
            Reason::NotInNits { id, severity } => {
                write!(f, "{id} is a deferred {severity} finding that is not among the nits")
            }
            Reason::NotApproved => f.write_str("the approval has quality_gate_result: fail"),
        }
    }
}

/// The reasons for a closed gate; none if it is open. With the approval, deferred findings must be among its nits.
#[must_use]
pub fn gate(packet: &Packet, lgtm: Option<&Lgtm>) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = packet.unresolved_blockers().map(blocker).collect();
    if packet.validations.is_empty() {
        reasons.push(Reason::NoValidation);
    }
    for run in packet.validations.iter().filter(|run| run.result != Outcome::Pass) {
        reasons.push(Reason::Failed { command: run.command.clone(), result: run.result });
    }
    if let Some(lgtm) = lgtm {
        if lgtm.quality_gate_result == GateResult::Fail {
            reasons.push(Reason::NotApproved);
        }
        reasons.extend(not_in_nits(packet, &lgtm.nits));
    }
    reasons
}

/// Findings that are neither resolved nor blocking.
pub fn deferred(packet: &Packet) -> impl Iterator<Item = &Finding> {
    packet.findings.iter().filter(|finding| !finding.blocks() && !finding.is_resolved())
}

fn blocker(finding: &Finding) -> Reason {
    Reason::Blocker { id: finding.id.clone(), severity: finding.severity, status: finding.status }
}

/// A nit covers the finding that its source names; without a source, any one finding of its tier.
fn not_in_nits(packet: &Packet, nits: &[Nit]) -> Vec<Reason> {
    let is_named = |finding: &Finding| {
        nits.iter().any(|nit| nit.source.as_ref().is_some_and(|source| names(source, &finding.id)))
    };
    let names_any =
        |source: &String| packet.findings.iter().any(|finding| names(source, &finding.id));
    let mut free: Vec<Severity> = nits
        .iter()
        .filter(|nit| !nit.source.as_ref().is_some_and(names_any))
        .map(|nit| nit.tier)
        .collect();
    let mut reasons = Vec::new();
    for finding in deferred(packet).filter(|finding| !is_named(finding)) {
        match free.iter().position(|tier| *tier == finding.severity) {
            Some(at) => drop(free.swap_remove(at)),
            None => reasons
                .push(Reason::NotInNits { id: finding.id.clone(), severity: finding.severity }),
        }
    }
    reasons
}

/// Whether a source names a finding: its id as a whole word.
fn names(source: &str, id: &str) -> bool {
    source.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(|word| word == id)
}
