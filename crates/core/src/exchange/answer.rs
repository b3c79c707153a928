//! The answer of a reviewer: a findings packet in its final message.

use crate::message::{Packet, Problem};
use crate::verdict::{Ruling, Verdict};

/// Maximum number of commands that a reviewer may cite; the harness runs each of them.
pub const MAX_CITED: usize = 10;

/// What an answer has to contain besides a valid packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerRules<'a> {
    pub round: u64,
    /// The findings of the round before.
    pub earlier: Option<&'a Packet>,
    /// Whether the project has checks of its own.
    pub has_checks: bool,
}

/// Reads the packet in a final message: its last fenced block, or all of it. An error lists all problems.
pub fn read_answer(message: &str, rules: AnswerRules<'_>) -> Result<Packet, String> {
    let text = last_block(message).unwrap_or_else(|| message.to_owned());
    let checked = Packet::read(text.as_bytes());
    let line = |problem: &Problem| {
        format!("line {}, column {}: {}", problem.line, problem.column, problem.message)
    };
    let mut problems: Vec<String> = checked.problems.errors.iter().map(line).collect();
    if let Some(packet) = &checked.value {
        problems.extend(breaches(packet, rules));
    }
    match (problems.is_empty(), checked.value) {
        (true, Some(packet)) => Ok(packet),
        _ => Err(problems.join("\n")),
    }
}

fn breaches(packet: &Packet, rules: AnswerRules<'_>) -> Vec<String> {
    let mut breaches = Vec::new();
    if packet.round != rules.round {
        breaches.push(format!("round is {}, but this is round {}", packet.round, rules.round));
    }
    let is_listed = |id: &str| packet.findings.iter().any(|finding| finding.id == id);
    let earlier = rules.earlier.map(|packet| &packet.findings[..]).unwrap_or_default();
    for missing in earlier.iter().filter(|finding| !is_listed(&finding.id)) {
        let id = &missing.id;
        breaches
            .push(format!("finding {id} of the last round is missing: list it with its status"));
    }
    match packet.validations.len() {
        0 if !rules.has_checks => breaches.push(
            "qa_validation.commands_run is empty: name at least one command that validates the change"
                .to_owned(),
        ),
        count if count > MAX_CITED => {
            breaches.push(format!("{count} commands in commands_run: the limit is {MAX_CITED}"));
        }
        _ => {}
    }
    breaches
}

/// The verdict in a packet, as a contract reads it. Whether the gate opens is decided later, by the harness.
pub fn verdict_of(packet: &Packet) -> Verdict {
    let is_blocked = packet.unresolved_blockers().next().is_some();
    let ruling = if is_blocked { Ruling::Drift } else { Ruling::Pass };
    Verdict { ruling, follow_up: packet.verdict.clone() }
}

/// The content of the last fenced block.
fn last_block(message: &str) -> Option<String> {
    let mut block: Option<Vec<&str>> = None;
    let mut last = None;
    for line in message.lines() {
        let is_fence = line.trim_start().starts_with("```");
        match (&mut block, is_fence) {
            (Some(lines), true) => {
                last = Some(lines.join("\n") + "\n");
                block = None;
            }
            (Some(lines), false) => lines.push(line),
            (None, true) => block = Some(Vec::new()),
            (None, false) => {}
        }
    }
    last
}
