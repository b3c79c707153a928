//! The messages of an exchange: request, response and what was addressed, as they are recorded before delivery.
//!
//! Whether a response approves is decided here by the gate, over the findings of the reviewer and the results of the
//! commands that the harness ran itself.

use std::time::Duration;

use super::{Exchange, Round};
use crate::evidence::in_code;
use crate::message::{
    Addressed, AgentName, Body, Envelope, Feedback, Finding, GateResult, Lgtm, MAX_ROUNDS_EXCEEDED,
    Message, Nit, Outcome, Packet, REVIEWER_BUDGET_EXCEEDED, Request, Telemetry, Type, Validation,
    deferred, gate, print_moment,
};
use crate::record::{CheckFinish, ExchangeMessage, ExchangeStart};
use crate::review::{FindingStatus, Round as Repeated, Ruling, Severity, Verdict};
use crate::text::{Shortened, first_line};
use crate::timestamp::Timestamp;

/// The maximum length of a summary in a message, in characters; its body has a limit.
const SUMMARY: usize = 8_000;
/// The maximum length of one line.
const LINE: usize = 120;
const TOUCHED: usize = 100;
const PACKETS: &str = "packets/findings";

/// What makes a message unique.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub now: Timestamp,
    pub random: u64,
}

impl Stamp {
    /// The id of a new conversation.
    pub fn conversation(&self, author: &str) -> String {
        format!("conv-{}-{author}-{}", &self.digits()[..8], self.random % 1_000_000)
    }

    /// Times of messages have seconds, and the order of a thread follows from them: each message is later than the
    /// one before.
    fn after(self, exchange: &Exchange) -> Stamp {
        let last =
            exchange.mails().last().and_then(|mail| Message::read(mail.text.as_bytes()).value);
        let next = last.map(|last| last.envelope.created_at.plus(Duration::from_secs(1)));
        Stamp { now: next.map_or(self.now, |next| next.max(self.now)), ..self }
    }

    fn digits(&self) -> String {
        print_moment(self.now).chars().filter(char::is_ascii_digit).collect()
    }
}

/// The request of a round.
pub fn request(
    exchange: &Exchange,
    start: &ExchangeStart,
    round: u64,
    commit: &str,
    diff_summary: &str,
    stamp: Stamp,
) -> Option<ExchangeMessage<'static>> {
    let body = Body::Request(Request {
        pr: start.pr,
        branch: start.branch.clone(),
        diff_summary: summary(diff_summary),
        handoff_ref: None,
        max_turns_reviewer: start.max_turns,
        max_runtime_s_reviewer: start.max_runtime_s,
        round: Some(round),
        max_rounds: Some(start.rounds),
        declared_head: Some(commit.to_owned()),
        rest: Vec::new(),
    });
    let subject = format!("Review: {}, round {round}", start.branch);
    let message = message(exchange, start, &body, &subject, Telemetry::default(), stamp)?;
    Some(ExchangeMessage { round, commit: commit.to_owned(), ..message })
}

/// What the author did about the findings of the last round.
pub fn addressed(
    exchange: &Exchange,
    done: &Addressed,
    stamp: Stamp,
) -> Option<ExchangeMessage<'static>> {
    let start = exchange.start.as_ref()?;
    let files = done.touched_files.iter().take(TOUCHED).cloned().collect();
    let done = Addressed {
        changes_summary: summary(&done.changes_summary),
        touched_files: files,
        ..done.clone()
    };
    let subject = format!("Feedback addressed: {}, round {}", start.branch, done.round);
    let body = Body::Addressed(done.clone());
    let message = message(exchange, start, &body, &subject, Telemetry::default(), stamp)?;
    Some(ExchangeMessage {
        round: done.round,
        commit: done.commit_sha,
        findings: Some(done.addressed_finding_ids.join(",")),
        ..message
    })
}

/// The response to the request of the last round.
pub fn response(exchange: &Exchange, stamp: Stamp) -> Option<ExchangeMessage<'static>> {
    let (start, round) = (exchange.start.as_ref()?, exchange.round()?);
    let verdict = round.reviews.last()?.verdict.known();
    let is_exhausted = verdict == Some(Verdict::Budget);
    let mut packet = packet(exchange, start, round, stamp)?;
    let path = format!("{PACKETS}/{}", packet.file_name());
    let commit = round.request.commit.clone();
    let blocking_count = packet.unresolved_blockers().count() as u64;
    let reasons = gate(&packet, None);
    let is_open = !is_exhausted && reasons.is_empty();
    if packet.verdict.is_empty() {
        let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        packet.verdict = if is_open { "approved".to_owned() } else { reasons.join("; ") };
    }
    let repeated = Repeated { revisions: round.number - 1, breaches: 0 };
    let closed = if is_exhausted { Verdict::Budget } else { Verdict::Drift };
    let escalation = match (is_open, is_exhausted, exchange.contract().settle(closed, repeated)) {
        (true, ..) => None,
        (false, true, _) => Some(REVIEWER_BUDGET_EXCEEDED.to_owned()),
        (false, false, Ruling::Escalate) => Some(MAX_ROUNDS_EXCEEDED.to_owned()),
        (false, false, _) => None,
    };
    let (body, subject) = match is_open {
        true => {
            let lgtm = Lgtm {
                quality_gate_result: GateResult::Pass,
                merge_ready: true,
                nits: nits(&packet, &start.author),
                validated_head: Some(commit.clone()),
                findings_packet: Some(path.clone()),
                rest: Vec::new(),
            };
            (Body::Lgtm(lgtm), format!("LGTM: {}, round {}", start.branch, round.number))
        }
        false => {
            let feedback = Feedback {
                findings_packet: path.clone(),
                round: round.number,
                blocking_count,
                escalation: escalation.clone(),
                validated_head: Some(commit.clone()),
                rest: Vec::new(),
            };
            let subject = format!("Review feedback: {}, round {}", start.branch, round.number);
            (Body::Feedback(feedback), subject)
        }
    };
    let message = message(exchange, start, &body, &subject, telemetry(round), stamp)?;
    Some(ExchangeMessage {
        round: round.number,
        commit,
        blocking_count: Some(blocking_count),
        escalation,
        packet: Some(path),
        packet_text: Some(packet.print().into()),
        ..message
    })
}

/// The packet of the reviewer with the results that the harness observed. Each command that did not pass is a
/// blocking finding.
fn packet(
    exchange: &Exchange,
    start: &ExchangeStart,
    round: &Round,
    stamp: Stamp,
) -> Option<Packet> {
    let answer = round.answer();
    let date = &stamp.digits()[..8];
    let mut packet = Packet {
        id: format!("{date}_{}_{}_r{}", exchange.id, start.reviewer, round.number),
        source_review_packet: None,
        reviewer: start.reviewer.parse().ok()?,
        round: round.number,
        created_at: stamp.now,
        verdict: answer.as_ref().map(|answer| answer.verdict.clone()).unwrap_or_default(),
        findings: answer.map(|answer| answer.findings).unwrap_or_default(),
        validations: round.checks.iter().map(validation).collect(),
        rest: Vec::new(),
        qa_rest: Vec::new(),
    };
    for check in round.checks.iter().filter(|check| !check.passed()) {
        let description = format!("{} does not pass", in_code(&check.command));
        let is_known =
            |finding: &Finding| !finding.is_resolved() && finding.description == description;
        if packet.findings.iter().any(is_known) {
            continue;
        }
        let finding = Finding {
            id: packet.next_finding_id(),
            severity: Severity::P1,
            blocking: true,
            status: FindingStatus::Open,
            area: "test".to_owned(),
            file: String::new(),
            line: None,
            description,
            repro: check.command.clone(),
            expected: "exit code 0".to_owned(),
            evidence: format!("{}\n{}", check.result(), check.output),
            recommendation: String::new(),
            rest: Vec::new(),
        };
        packet.findings.push(finding);
    }
    Some(packet)
}

fn validation(check: &CheckFinish) -> Validation {
    Validation {
        command: check.command.clone(),
        result: if check.passed() { Outcome::Pass } else { Outcome::Fail },
        notes: check.result(),
        exit_code: check.exit_code.known().and_then(|code| u64::try_from(code).ok()),
        duration_ms: Some(check.elapsed_ms),
        output_digest: Some(format!("blake3:{}", check.digest))
            .filter(|_| !check.digest.is_empty()),
        rest: Vec::new(),
    }
}

/// The findings that are left for later, each with an owner and its next action.
fn nits(packet: &Packet, author: &str) -> Vec<Nit> {
    let nit = |(number, finding): (usize, &Finding)| {
        let first = |text: &str| Some(first_line(text, LINE)).filter(|line| !line.is_empty());
        let summary = first(&finding.description).or_else(|| first(&finding.evidence));
        Nit {
            id: format!("NIT-{:03}", number + 1),
            tier: finding.severity,
            summary: summary.unwrap_or_else(|| format!("see {} of {}", finding.id, packet.id)),
            owner: author.to_owned(),
            next_action: first(&finding.recommendation)
                .unwrap_or_else(|| format!("resolve {} after the merge", finding.id)),
            source: Some(finding.id.clone()),
            tracking_ref: None,
            expires_at: None,
            rest: Vec::new(),
        }
    };
    deferred(packet).enumerate().map(nit).collect()
}

fn telemetry(round: &Round) -> Telemetry {
    let turns = round.turns();
    Telemetry {
        turns: (turns > 0).then_some(turns),
        wall_time_s: Some(round.elapsed_ms() as f64 / 1_000.0),
        ..Telemetry::default()
    }
}

/// A message from the side that sends such a body, with its whole file as text.
fn message(
    exchange: &Exchange,
    start: &ExchangeStart,
    body: &Body,
    subject: &str,
    telemetry: Telemetry,
    stamp: Stamp,
) -> Option<ExchangeMessage<'static>> {
    let kind = body.kind()?;
    let stamp = stamp.after(exchange);
    let (author, reviewer): (AgentName, AgentName) =
        (start.author.parse().ok()?, start.reviewer.parse().ok()?);
    let (from, to) = match kind {
        Type::ReviewFeedback | Type::ReviewLgtm => (reviewer, author),
        _ => (author, reviewer),
    };
    let id = format!("msg-{}-{from}-{:08x}", stamp.digits(), stamp.random >> 32);
    let envelope = Envelope {
        id: id.clone(),
        from,
        to: vec![to],
        kind,
        priority: Severity::P1,
        created_at: stamp.now,
        expires_at: None,
        channel: None,
        auto_proceed: false,
        related_packet: None,
        related_pr: Some(start.pr),
        conversation_id: Some(start.conversation.clone()).filter(|id| !id.is_empty()),
        parent_message_id: exchange.mails().last().map(|mail| mail.id.clone()),
        context_keys: None,
        subject: first_line(subject, LINE),
        body: body.print(),
        telemetry,
    };
    let random = stamp.random;
    Some(ExchangeMessage {
        kind: kind.into(),
        message_id: id,
        file: format!("{}_{:04x}_{:08x}.yaml", envelope.file_stem(), random & 0xffff, random >> 32),
        text: envelope.print().into(),
        ..ExchangeMessage::default()
    })
}

fn summary(text: &str) -> String {
    Shortened::new(text.trim(), SUMMARY).to_string()
}
