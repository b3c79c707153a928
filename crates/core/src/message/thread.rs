//! Whole histories of reviews: requests, answers and repairs in order, each by the right agent, with the right
//! packet, and approved only where the gate is open.

use std::collections::{BTreeMap, BTreeSet};

use super::body::{
    Addressed, Body, Feedback, Lgtm, MAX_ROUNDS, MAX_ROUNDS_EXCEEDED, Request, USUAL_ROUNDS,
};
use super::envelope::{AgentName, Envelope};
use super::gate::gate;
use super::packet::{Finding, Packet};
use super::{Message, Type};

/// A message and its file.
#[derive(Clone, Debug)]
pub struct Filed {
    /// Relative to the workspace.
    pub path: String,
    /// The agent to whom the mailbox belongs.
    pub owner: AgentName,
    pub folder: Folder,
    pub message: Message,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    /// Messages to the agent, processed ones included.
    Inbox,
    /// Copies of messages that the agent sent.
    Outbox,
}

impl Filed {
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Why a message with this envelope cannot be in this file.
    pub fn misfiled(&self) -> Option<String> {
        let Envelope { from, to, .. } = &self.message.envelope;
        let owner = &self.owner;
        match self.folder {
            Folder::Inbox if !to.contains(owner) => {
                Some(format!("it is in the inbox of '{owner}', but addressed to '{}'", list(to)))
            }
            Folder::Outbox if from != owner => {
                Some(format!("forged sender: it is in the outbox of '{owner}', but from '{from}'"))
            }
            _ => self.message.envelope.contradicts_name(self.name()),
        }
    }
}

fn list(names: &[AgentName]) -> String {
    names.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ")
}

/// What a workspace contains.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub messages: Vec<Filed>,
    /// Valid packets by their path, relative to the workspace.
    pub packets: BTreeMap<String, Packet>,
}

/// A remark about one file of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    pub file: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Notes {
    pub errors: Vec<Note>,
    pub warnings: Vec<Note>,
}

impl Notes {
    pub fn error(&mut self, file: &str, message: impl Into<String>) {
        self.errors.push(Note { file: file.to_owned(), message: message.into() });
    }

    fn warning(&mut self, file: &str, message: impl Into<String>) {
        self.warnings.push(Note { file: file.to_owned(), message: message.into() });
    }
}

/// A review of one pull request between two agents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    pr: u64,
    agents: BTreeSet<AgentName>,
}

/// Verifies all reviews of a history.
pub fn verify(history: &History) -> Notes {
    let mut notes = Notes::default();
    let messages = unique(history, &mut notes);
    let mut reviews: BTreeMap<Key, Vec<&Filed>> = BTreeMap::new();
    for filed in messages.iter().filter(|filed| filed.message.envelope.kind.is_review()) {
        match key(filed, &messages) {
            Some(key) => reviews.entry(key).or_default().push(filed),
            None => notes
                .error(&filed.path, "it does not say which review it belongs to: set related_pr"),
        }
    }
    for messages in reviews.values_mut() {
        let mut review = Review::new(history, &mut notes);
        review.fold(std::mem::take(messages));
        review.conclude();
    }
    notes
}

/// One file per id, oldest first. Copies in other mailboxes must be the same.
fn unique<'h>(history: &'h History, notes: &mut Notes) -> Vec<&'h Filed> {
    let mut messages: BTreeMap<&str, &Filed> = BTreeMap::new();
    for filed in &history.messages {
        if let Some(why) = filed.misfiled() {
            notes.error(&filed.path, why);
        }
        let id = filed.message.envelope.id.as_str();
        let first = messages.entry(id).or_insert(filed);
        if first.message != filed.message {
            let message = format!("the id {id} belongs to another message: {}", first.path);
            notes.error(&filed.path, message);
        }
    }
    let mut messages: Vec<&Filed> = messages.into_values().collect();
    messages.sort_by(|a, b| order(a).cmp(&order(b)));
    messages
}

fn order(filed: &Filed) -> impl Ord {
    (filed.message.envelope.created_at, filed.name().to_owned())
}

/// The review of a message: by its pull request, or by the message it answers.
fn key(filed: &Filed, messages: &[&Filed]) -> Option<Key> {
    let Message { envelope, body } = &filed.message;
    let agents: BTreeSet<AgentName> =
        [&envelope.from].into_iter().chain(&envelope.to).cloned().collect();
    let named = |filed: &Filed| match &filed.message.body {
        Body::Request(request) => Some(request.pr),
        _ => filed.message.envelope.related_pr,
    };
    let related = |other: &&&Filed| {
        let other = &other.message.envelope;
        Some(&other.id) == envelope.parent_message_id.as_ref()
            || (other.conversation_id.is_some()
                && other.conversation_id == envelope.conversation_id)
    };
    let pr = match body {
        Body::Request(request) => Some(request.pr),
        _ => {
            named(filed).or_else(|| messages.iter().filter(related).find_map(|other| named(other)))
        }
    };
    pr.map(|pr| Key { pr, agents })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No request yet.
    Idle,
    Requested,
    Answered,
    Addressed,
    Approved,
}

/// The fold of one review.
struct Review<'h> {
    history: &'h History,
    notes: &'h mut Notes,
    state: State,
    author: Option<AgentName>,
    round: u64,
    max_rounds: Option<u64>,
    /// The commit under review, where the author names it.
    head: Option<String>,
    request: Option<&'h Filed>,
    feedback: Option<(&'h Filed, &'h Feedback)>,
    /// The packet of the last feedback.
    packet: Option<&'h Packet>,
    addressed_ids: BTreeSet<&'h str>,
}

impl<'h> Review<'h> {
    fn new(history: &'h History, notes: &'h mut Notes) -> Self {
        Review {
            history,
            notes,
            state: State::Idle,
            author: None,
            round: 0,
            max_rounds: None,
            head: None,
            request: None,
            feedback: None,
            packet: None,
            addressed_ids: BTreeSet::new(),
        }
    }

    /// Takes the messages in order. Times have seconds, so of those with the same time the expected one is first.
    fn fold(&mut self, mut messages: Vec<&'h Filed>) {
        while let Some(first) = messages.first() {
            let now = first.message.envelope.created_at;
            let is_next = |filed: &&Filed| {
                filed.message.envelope.created_at == now
                    && self.expects(filed.message.envelope.kind)
            };
            let next = messages.iter().position(is_next).unwrap_or(0);
            self.take(messages.remove(next));
        }
    }

    fn expects(&self, kind: Type) -> bool {
        match self.state {
            State::Idle | State::Addressed | State::Approved => kind == Type::ReviewRequest,
            State::Requested => matches!(kind, Type::ReviewFeedback | Type::ReviewLgtm),
            State::Answered => kind == Type::ReviewAddressed,
        }
    }

    fn take(&mut self, filed: &'h Filed) {
        match &filed.message.body {
            Body::Request(request) => self.requested(filed, request),
            Body::Feedback(feedback) => self.answered(filed, feedback),
            Body::Addressed(addressed) => self.addressed(filed, addressed),
            Body::Lgtm(lgtm) => self.approved(filed, lgtm),
            Body::Other => {}
        }
    }

    fn error(&mut self, filed: &Filed, message: impl Into<String>) {
        self.notes.error(&filed.path, message);
    }

    fn requested(&mut self, filed: &'h Filed, request: &'h Request) {
        let from = &filed.message.envelope.from;
        if self.author.as_ref().is_some_and(|author| author != from) {
            self.error(filed, format!("'{from}' is the reviewer and cannot request the review"));
            return;
        }
        self.author = Some(from.clone());
        match self.state {
            State::Approved => {
                self.round = 1;
                self.packet = None;
                self.head = None;
            }
            State::Requested => {
                self.notes.warning(&filed.path, "an earlier request of this round is unanswered");
            }
            State::Answered if self.has_open_findings() => {
                let message = format!("round {} was not answered by review_addressed", self.round);
                self.error(filed, message);
                self.round += 1;
            }
            State::Idle | State::Answered | State::Addressed => self.round += 1,
        }
        self.max_rounds = request.max_rounds.or(self.max_rounds);
        let (round, most) = (self.round, self.max_rounds.unwrap_or(MAX_ROUNDS));
        let is_last =
            |feedback: &Feedback| feedback.escalation.as_deref() == Some(MAX_ROUNDS_EXCEEDED);
        if round > most {
            self.error(filed, format!("round {round} is beyond the limit of {most} rounds"));
        } else if self.state != State::Approved
            && self.feedback.is_some_and(|(_, last)| is_last(last))
        {
            self.error(filed, "the review ended with max_rounds_exceeded");
        }
        if let Some(named) = request.round.filter(|named| *named != round) {
            self.error(
                filed,
                format!("the request is of round {named}, but this is round {round}"),
            );
        }
        self.head = request.declared_head.clone().or(self.head.take());
        self.request = Some(filed);
        self.feedback = None;
        self.state = State::Requested;
    }

    fn has_open_findings(&self) -> bool {
        let blocking = self.feedback.is_some_and(|(_, feedback)| feedback.blocking_count > 0);
        blocking || self.packet.is_some_and(|packet| packet.unresolved_blockers().next().is_some())
    }

    /// What every terminal response has to fulfil; `false` if it does not belong to this review.
    fn is_response(&mut self, filed: &'h Filed, head: Option<&str>) -> bool {
        let Envelope { from, kind, .. } = &filed.message.envelope;
        if self.author.as_ref() == Some(from) {
            self.error(filed, format!("'{from}' is the author and cannot send a {kind}"));
            return false;
        }
        match self.state {
            State::Requested => {}
            State::Idle => {
                self.error(filed, format!("this {kind} answers no request"));
                return false;
            }
            State::Answered | State::Approved => {
                self.error(filed, format!("round {} has a terminal response already", self.round));
                return false;
            }
            State::Addressed => {
                let round = self.round + 1;
                let message =
                    format!("round {round} was not requested: only review_addressed was sent");
                self.error(filed, message);
                self.round = round;
            }
        }
        if let Some(request) = self.request
            && request.message.envelope.is_expired(filed.message.envelope.created_at)
        {
            self.notes.warning(&filed.path, "the request had expired");
        }
        if let (Some(reviewed), Some(head)) = (head, self.head.clone())
            && !is_same_commit(reviewed, &head)
        {
            let message = format!("it is about commit {reviewed}, but {head} is under review");
            self.error(filed, message);
        }
        true
    }

    fn answered(&mut self, filed: &'h Filed, feedback: &'h Feedback) {
        if !self.is_response(filed, feedback.validated_head.as_deref()) {
            return;
        }
        if feedback.round != self.round {
            let message =
                format!("the feedback is of round {}, not {}", feedback.round, self.round);
            self.error(filed, message);
        }
        let packet = self.packet_at(filed, &feedback.findings_packet);
        if let Some(packet) = packet {
            let all = packet.findings.iter().filter(|finding| finding.blocks()).count() as u64;
            let open = packet.unresolved_blockers().count() as u64;
            if ![all, open].contains(&feedback.blocking_count) {
                let message = format!(
                    "blocking_count is {}, but the packet has {open} unresolved blocking findings",
                    feedback.blocking_count
                );
                self.error(filed, message);
            }
        }
        self.packet = packet;
        self.addressed_ids.clear();
        self.feedback = Some((filed, feedback));
        self.state = State::Answered;
    }

    /// The packet that a response names, which must be of its round and its sender.
    fn packet_at(&mut self, filed: &'h Filed, path: &str) -> Option<&'h Packet> {
        let from = &filed.message.envelope.from;
        let Some(packet) = self.history.packets.get(path) else {
            self.error(filed, format!("there is no valid findings packet {path}"));
            return None;
        };
        if packet.round != self.round || packet.reviewer != *from {
            let message = format!(
                "{path} is of '{}' in round {}, not of '{from}' in round {}",
                packet.reviewer, packet.round, self.round
            );
            self.error(filed, message);
        }
        Some(packet)
    }

    fn addressed(&mut self, filed: &'h Filed, addressed: &'h Addressed) {
        let from = &filed.message.envelope.from;
        if self.author.as_ref().is_some_and(|author| author != from) {
            self.error(filed, format!("'{from}' is the reviewer and cannot address findings"));
            return;
        }
        let wrong = match self.state {
            State::Answered if addressed.round == self.round => None,
            State::Answered => Some(format!("round {} has no feedback yet", addressed.round)),
            State::Addressed => Some(format!("round {} was addressed already", self.round)),
            State::Approved => {
                Some("the change was approved already; request a new review".to_owned())
            }
            State::Idle | State::Requested => Some("there is no feedback to address".to_owned()),
        };
        if let Some(wrong) = wrong {
            self.error(filed, wrong);
        }
        let known = |id: &str| {
            self.packet.is_none_or(|packet| packet.findings.iter().any(|finding| finding.id == id))
        };
        let unknown: Vec<&String> =
            addressed.addressed_finding_ids.iter().filter(|id| !known(id)).collect();
        for id in unknown {
            self.error(filed, format!("{id} is no finding of round {}", self.round));
        }
        self.addressed_ids = addressed.addressed_finding_ids.iter().map(String::as_str).collect();
        if self.state == State::Answered {
            self.head = Some(addressed.commit_sha.clone());
            self.state = State::Addressed;
        }
    }

    fn approved(&mut self, filed: &'h Filed, lgtm: &'h Lgtm) {
        if !self.is_response(filed, lgtm.validated_head.as_deref()) {
            return;
        }
        let packets = match &lgtm.findings_packet {
            Some(path) => self.packet_at(filed, path).into_iter().collect(),
            None => self.packets_of_round(&filed.message.envelope.from),
        };
        let closed = packets.iter().map(|packet| gate(packet, Some(lgtm))).min_by_key(Vec::len);
        for reason in closed.unwrap_or_default() {
            self.error(filed, format!("the gate is closed: {reason}"));
        }
        let is_mentioned = |finding: &&Finding| {
            let is_listed =
                |packet: &&Packet| packet.findings.iter().any(|other| other.id == finding.id);
            !packets.is_empty()
                && (packets.iter().any(is_listed)
                    || self.addressed_ids.contains(finding.id.as_str()))
        };
        let left = self.packet.iter().flat_map(|packet| packet.unresolved_blockers());
        let forgotten: Vec<String> = left
            .filter(|finding| !is_mentioned(finding))
            .map(|finding| finding.id.clone())
            .collect();
        for id in forgotten {
            let message = format!("no packet of round {} shows that {id} is resolved", self.round);
            self.error(filed, message);
        }
        if packets.is_empty() {
            let message = format!("no findings packet of round {} backs this approval", self.round);
            self.notes.warning(&filed.path, message);
        }
        self.feedback = None;
        self.state = State::Approved;
    }

    /// The packets of this reviewer in this round that no feedback names; of this topic, if one is.
    fn packets_of_round(&self, reviewer: &AgentName) -> Vec<&'h Packet> {
        let named: BTreeSet<&str> = self
            .history
            .messages
            .iter()
            .filter_map(|filed| match &filed.message.body {
                Body::Feedback(feedback) => Some(feedback.findings_packet.as_str()),
                _ => None,
            })
            .collect();
        let candidates = self.history.packets.iter().filter(|(path, packet)| {
            packet.round == self.round
                && packet.reviewer == *reviewer
                && !named.contains(path.as_str())
        });
        let candidates: Vec<&Packet> = candidates.map(|(_, packet)| packet).collect();
        let topic = self.packet.map(|packet| packet.topic());
        let of_topic: Vec<&Packet> =
            candidates.iter().copied().filter(|packet| Some(packet.topic()) == topic).collect();
        if of_topic.is_empty() { candidates } else { of_topic }
    }

    /// Checks the end of the history.
    fn conclude(&mut self) {
        let Some((filed, feedback)) = self.feedback.filter(|_| self.state == State::Answered)
        else {
            return;
        };
        let most = self.max_rounds.unwrap_or(USUAL_ROUNDS);
        if feedback.blocking_count > 0 && feedback.escalation.is_none() && self.round >= most {
            let message = format!(
                "blocking findings are left after the last of {most} rounds: expected 'escalation: \
                 {MAX_ROUNDS_EXCEEDED}'"
            );
            self.error(filed, message);
        }
    }
}

/// Whether two commit ids, one of which may be shortened, can be of the same commit.
fn is_same_commit(a: &str, b: &str) -> bool {
    let length = a.len().min(b.len());
    a[..length].eq_ignore_ascii_case(&b[..length])
}
