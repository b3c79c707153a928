//! Reviews by message: an author asks a reviewer to judge a commit, in rounds, until a gate opens.
//!
//! [`Exchange`] is the fold of the records of one review. [`next_step`] decides what its harness does next, from the
//! fold and the [`ExchangeRules`]. Every message is recorded before it is delivered, under the name of its file, so
//! that it is delivered once, whatever crashes.

mod answer;
mod response;
mod step;
mod table;
mod target;

pub use crate::record::{ExchangeOutcome as Outcome, Side};
pub use answer::{AnswerRules, MAX_CITED, read_answer, verdict_of};
pub use response::{Stamp, addressed, request, response};
pub use step::{Acting, ExchangeRules, Step, next_step, within_limits};
pub use table::{RoundRow, rows};
pub use target::{Refusal, Target, check_findings, target, to_address};

use crate::coordinator::{Fold, Kind, Status};
use crate::limits::Ledger;
use crate::message::{Packet, Type};
use crate::record::{
    CheckFinish, Event, ExchangeAuthor, ExchangeFinish, ExchangeMessage, ExchangeReview,
    ExchangeStart, Glance,
};
use crate::review::{Contract, Verdict};
use crate::wire_enum::Word;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    pub id: String,
    /// `None` without an `exchange.start`.
    pub start: Option<ExchangeStart>,
    /// The first and the last timestamp, as written.
    pub times: (String, String),
    pub rounds: Vec<Round>,
    /// Whether the harness runs the agent of the author too.
    pub is_auto: bool,
    /// The side whose command the exchange waits for.
    pub waits_for: Option<Side>,
    /// `None` before the end.
    pub finish: Option<ExchangeFinish>,
    /// What its turns took.
    pub ledger: Ledger,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Counted from 1.
    pub number: u64,
    pub request: Mail,
    pub checks: Vec<CheckFinish>,
    /// The turns of the reviewer, without those before the exchange was resumed after a failure.
    pub reviews: Vec<Reviewed>,
    pub response: Option<Mail>,
    /// The last turn of the author's agent.
    pub authored: Option<Authored>,
    pub addressed: Option<Mail>,
}

/// A message of the exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    pub kind: Type,
    pub id: String,
    pub file: String,
    pub commit: String,
    pub blocking_count: u64,
    pub escalation: Option<String>,
    /// The findings that the author addressed, separated by commas.
    pub findings: String,
    pub packet: Option<MailedPacket>,
    pub text: String,
    pub is_sent: bool,
}

/// The findings packet of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailedPacket {
    /// Relative to the workspace.
    pub path: String,
    pub text: String,
}

/// A turn of the reviewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reviewed {
    pub verdict: Word<Verdict>,
    pub reason: String,
    pub elapsed_ms: u64,
    pub turns: u64,
    pub packet: Option<String>,
}

/// A turn of the author's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authored {
    pub commit: String,
    /// Why it failed.
    pub reason: Option<String>,
    /// Shortened.
    pub output: String,
}

impl Exchange {
    /// The status by the records, which cannot tell a crashed exchange from a running one.
    pub fn status(&self) -> Status {
        match (&self.finish, self.waits_for) {
            (Some(finish), _) => Status::of_reason(finish.outcome.as_str()),
            (None, Some(_)) => Status::Waiting,
            (None, None) => Status::Running,
        }
    }

    pub fn outcome(&self) -> Option<Outcome> {
        self.finish.as_ref()?.outcome.known()
    }

    pub fn contract(&self) -> Contract {
        Contract::Exchange { rounds: self.start.as_ref().map_or(1, |start| start.rounds) }
    }

    pub fn round(&self) -> Option<&Round> {
        self.rounds.last()
    }

    /// The messages, in order.
    pub fn mails(&self) -> impl Iterator<Item = &Mail> {
        self.rounds.iter().flat_map(|round| {
            [Some(&round.request), round.response.as_ref(), round.addressed.as_ref()]
                .into_iter()
                .flatten()
        })
    }

    pub fn has_message(&self, id: &str) -> bool {
        self.mails().any(|mail| mail.id == id)
    }

    /// Whether a request is the last one, and not answered yet.
    pub fn awaits_answer_to(&self, request: &str) -> bool {
        let is_open = |round: &Round| {
            let is_answered = round.response.as_ref().is_some_and(|mail| mail.is_sent);
            round.request.id == request && !is_answered
        };
        self.round().is_some_and(is_open)
    }

    /// The commit that was approved.
    pub fn approved(&self) -> Option<&str> {
        let response = self.round()?.response.as_ref()?;
        (response.kind == Type::ReviewLgtm && response.is_sent).then_some(&*response.commit)
    }

    /// The packet of the round before this one.
    pub fn earlier_packet(&self, round: u64) -> Option<Packet> {
        let earlier = self.rounds.iter().rfind(|earlier| earlier.number < round)?;
        earlier.response.as_ref()?.findings()
    }

    fn record_message(&mut self, message: ExchangeMessage<'_>) {
        let Some(kind) = message.kind.known() else { return };
        let number = message.round;
        let mail = Mail::of(kind, message);
        if kind == Type::ReviewRequest {
            // A round is requested once.
            if self.rounds.last().is_none_or(|last| last.number < number) {
                self.rounds.push(Round::new(number, mail));
            }
            return;
        }
        let Some(round) = self.rounds.last_mut().filter(|round| round.number == number) else {
            return;
        };
        let place = match kind {
            Type::ReviewAddressed => &mut round.addressed,
            _ => &mut round.response,
        };
        // A response, once recorded, is the only one.
        place.get_or_insert(mail);
    }

    fn record_sent(&mut self, id: &str) {
        for round in &mut self.rounds {
            let places =
                [Some(&mut round.request), round.response.as_mut(), round.addressed.as_mut()];
            for mail in places.into_iter().flatten().filter(|mail| mail.id == id) {
                mail.is_sent = true;
            }
        }
    }

    /// A failed turn is repeated. An exchange that ended with a response ends again, unless a round is requested.
    fn resumed(&mut self) {
        let outcome = self.outcome();
        if matches!(outcome, Some(Outcome::Approved | Outcome::BlockersRemain)) {
            return;
        }
        self.finish = None;
        let Some(round) = self.rounds.last_mut() else { return };
        match outcome {
            Some(Outcome::Undelivered) => round.reviews.clear(),
            Some(Outcome::AuthorFailed) => round.authored = None,
            _ => {}
        }
    }
}

impl Round {
    fn new(number: u64, request: Mail) -> Round {
        Round {
            number,
            request,
            checks: Vec::new(),
            reviews: Vec::new(),
            response: None,
            authored: None,
            addressed: None,
        }
    }

    /// The packet of the last answer.
    pub fn answer(&self) -> Option<Packet> {
        Packet::read(self.reviews.last()?.packet.as_ref()?.as_bytes()).value
    }

    pub fn check(&self, command: &str) -> Option<&CheckFinish> {
        self.checks.iter().find(|check| check.command == command)
    }
}

impl Mail {
    fn of(kind: Type, message: ExchangeMessage<'_>) -> Mail {
        let text = message.packet_text.map(|text| text.read().into_owned());
        Mail {
            kind,
            id: message.message_id,
            file: message.file,
            commit: message.commit,
            blocking_count: message.blocking_count.unwrap_or_default(),
            escalation: message.escalation.filter(|escalation| !escalation.is_empty()),
            findings: message.findings.unwrap_or_default(),
            packet: message.packet.zip(text).map(|(path, text)| MailedPacket { path, text }),
            text: message.text.read().into_owned(),
            is_sent: false,
        }
    }

    /// The agent whose inbox it belongs into.
    pub fn recipient<'s>(&self, start: &'s ExchangeStart) -> &'s str {
        match self.kind {
            Type::ReviewFeedback | Type::ReviewLgtm => &start.author,
            _ => &start.reviewer,
        }
    }

    pub fn sender<'s>(&self, start: &'s ExchangeStart) -> &'s str {
        match self.kind {
            Type::ReviewFeedback | Type::ReviewLgtm => &start.reviewer,
            _ => &start.author,
        }
    }

    /// Whether it is the answer to another one, which is then done.
    pub fn answers(&self, other: &Mail) -> bool {
        match self.kind {
            Type::ReviewFeedback | Type::ReviewLgtm => {
                matches!(other.kind, Type::ReviewRequest | Type::ReviewAddressed)
            }
            Type::ReviewAddressed => other.kind == Type::ReviewFeedback,
            _ => false,
        }
    }

    /// The findings packet that it refers to.
    pub fn findings(&self) -> Option<Packet> {
        Packet::read(self.packet.as_ref()?.text.as_bytes()).value
    }
}

impl Fold for Exchange {
    const KIND: Kind = Kind::Exchange;

    fn new(id: &str) -> Self {
        Exchange { id: id.to_owned(), ..Exchange::default() }
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        self.ledger.apply(record);
        if !Kind::Exchange.concerns(record) {
            return;
        }
        if let Some(ts) = record.ts() {
            self.times.1 = ts.into_owned();
        }
        let event = record.event();
        if !matches!(event, Event::ExchangeWait(_)) {
            self.waits_for = None;
        }
        match event {
            // An exchange starts once.
            Event::ExchangeStart(_) if self.start.is_some() => {}
            Event::ExchangeStart(start) => {
                self.times.0.clone_from(&self.times.1);
                self.start = Some(start);
            }
            Event::ExchangeResume(_) => self.resumed(),
            _ if self.finish.is_some() => {}
            Event::ExchangeAuto(_) => self.is_auto = true,
            Event::ExchangeMessage(message) => self.record_message(message),
            Event::ExchangeSent(sent) => self.record_sent(&sent.message_id),
            Event::ExchangeWait(wait) => self.waits_for = wait.side.known(),
            Event::ExchangeFinish(finish) => self.finish = Some(finish),
            event => {
                if let Some(round) = self.rounds.last_mut() {
                    round.apply(event);
                }
            }
        }
    }
}

impl Round {
    fn apply(&mut self, event: Event<'_>) {
        match event {
            Event::CheckFinish(check) if check.commit == self.request.commit => {
                self.checks.push(check);
            }
            // Nothing is reviewed after the response.
            Event::ExchangeReview(review) if self.response.is_none() => {
                self.reviews.push(Reviewed::of(review));
            }
            Event::ExchangeAuthor(turn) if self.addressed.is_none() => {
                self.authored = Some(Authored::of(turn));
            }
            _ => {}
        }
    }
}

impl Reviewed {
    fn of(review: ExchangeReview<'_>) -> Reviewed {
        Reviewed {
            verdict: review.verdict,
            reason: review.reason,
            elapsed_ms: review.elapsed_ms,
            turns: review.turns.unwrap_or_default(),
            packet: review.packet.map(|packet| packet.read().into_owned()),
        }
    }
}

impl Authored {
    fn of(turn: ExchangeAuthor<'_>) -> Authored {
        Authored {
            commit: turn.commit,
            reason: turn.reason,
            output: turn.output.map(|output| output.read().into_owned()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
