//! What an agent answered, how that ended, and what it cost.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ClientError;
use super::line_buffer::LONGEST;

/// The content of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The last message of the agent.
    pub text: String,
    pub outcome: Outcome,
    pub usage: Option<Usage>,
    pub session: Session,
    /// The number of unreadable lines of the stream.
    pub unreadable: u64,
}

/// How an agent ended according to its stream. Its exit code counts only in the second place: some clients
/// always exit with 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Done,
    /// The model reached its limit in the middle of the answer.
    CutShort,
    Failed(ClientError),
    Aborted,
    /// The stream ends in the middle of its work.
    Unfinished,
    Unknown(String),
    #[default]
    Silent,
    /// No answer; this is the beginning of other output, which may say why.
    Unrecognized(String),
}

impl Outcome {
    /// Whether the agent failed. A truncated answer is still an answer, and the work before it counts.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Outcome::Done | Outcome::CutShort)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done => f.write_str("the agent is done"),
            Outcome::CutShort => {
                f.write_str("the model reached its limit in the middle of this answer")
            }
            Outcome::Failed(error) if error.message.is_empty() => {
                f.write_str("the agent failed without a reason")
            }
            Outcome::Failed(error) => write!(f, "the agent failed: {error}"),
            Outcome::Aborted => f.write_str("the agent was stopped before it finished"),
            Outcome::Unfinished => f.write_str("the agent ended in the middle of its work"),
            Outcome::Unknown(status) => {
                write!(f, "the agent ended with an unknown status '{status}'")
            }
            Outcome::Silent => f.write_str("the agent ended without an answer"),
            Outcome::Unrecognized(text) => {
                write!(f, "the agent ended without an answer; it printed: {text}")
            }
        }
    }
}

impl Answer {
    /// The offset of the first occurrence; an empty text is never found.
    pub fn find(&self, text: &[u8]) -> Option<u64> {
        let at = memchr::memmem::find(self.text.as_bytes(), text).filter(|_| !text.is_empty());
        at.map(|at| at as u64)
    }

    /// The answer, followed by the outcome if it is not `Done`.
    pub fn told(&self) -> String {
        match (&self.outcome, self.text.is_empty()) {
            (Outcome::Done, _) => self.text.clone(),
            (outcome, true) => format!("[{outcome}]"),
            (outcome, false) => format!("{}\n\n[{outcome}]", self.text),
        }
    }
}

/// An answer that a client prints in many events. Like an event, it is given up where it is too long: a part of it could
/// mean something else.
#[derive(Debug, Default)]
pub(super) struct Message {
    text: String,
    is_too_long: bool,
}

impl Message {
    pub(super) fn push(&mut self, part: &str) {
        self.is_too_long |= self.text.len() + part.len() > LONGEST;
        if self.is_too_long {
            self.text = String::new();
        } else {
            self.text.push_str(part);
        }
    }

    /// Begins on a line of its own.
    pub(super) fn push_line(&mut self, part: &str) {
        if !self.text.is_empty() {
            self.push("\n");
        }
        self.push(part);
    }

    pub(super) fn clear(&mut self) {
        *self = Message::default();
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// The conversation of a client with its model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// With which the client can resume it.
    pub id: Option<String>,
    pub model: Option<String>,
    /// How often the model was asked.
    pub turns: u64,
}

impl Session {
    /// The session that an event names in these fields.
    pub(super) fn new(event: &Value, id: &str, model: &str) -> Session {
        let text = |key: &str| event[key].as_str().map(str::to_owned);
        Session { id: text(id), model: text(model), turns: 0 }
    }
}

/// The tokens and the cost of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub total: u64,
    pub cost: Option<Dollars>,
}

impl Usage {
    #[must_use]
    pub fn sum(mut self, other: Usage) -> Usage {
        self.add(other);
        self
    }

    pub fn add(&mut self, turn: Usage) {
        let Usage { input, output, cache_read, cache_write, total, cost } = turn;
        self.input = self.input.saturating_add(input);
        self.output = self.output.saturating_add(output);
        self.cache_read = self.cache_read.saturating_add(cache_read);
        self.cache_write = self.cache_write.saturating_add(cache_write);
        self.total = self.total.saturating_add(total);
        let sum =
            |Dollars(one): Dollars, Dollars(other): Dollars| Dollars(one.saturating_add(other));
        self.cost = match (self.cost, cost) {
            (Some(one), Some(other)) => Some(sum(one, other)),
            (one, other) => one.or(other),
        };
    }
}

/// In billionths of a dollar, so that sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Dollars(pub u64);

const BILLION: f64 = 1e9;

impl Dollars {
    /// Rounds to the nearest amount; `None` for negative amounts and NaN.
    pub fn new(amount: f64) -> Option<Self> {
        let billionths = (amount * BILLION).round();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a cast to an integer stays in its range"
        )]
        (billionths >= 0.0).then_some(Dollars(billionths as u64))
    }

    pub fn amount(self) -> f64 {
        self.0 as f64 / BILLION
    }
}

/// In cents, and with two more digits below one cent.
impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 | 9_950_000.. => write!(f, "${:.2}", self.amount()),
            1..50_000 => f.write_str("<$0.0001"),
            _ => write!(f, "${:.4}", self.amount()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_as_it_should_be_is_told_behind_the_answer() {
        let failed = Outcome::Failed("429 slow down".into());
        let outcomes = [
            Outcome::Done,
            Outcome::CutShort,
            failed.clone(),
            Outcome::Failed("".into()),
            Outcome::Aborted,
            Outcome::Unfinished,
            Outcome::Unknown("weary".to_owned()),
            Outcome::Silent,
            Outcome::Unrecognized("Fork this session? [y/N]".to_owned()),
        ];
        let told: Vec<_> = outcomes
            .into_iter()
            .map(|outcome| {
                let is = if outcome.is_failure() { "failed" } else { "fine" };
                format!("{is}: {}", Answer { outcome, ..Answer::default() }.told())
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        fine: 
        fine: [the model reached its limit in the middle of this answer]
        failed: [the agent failed: 429 slow down]
        failed: [the agent failed without a reason]
        failed: [the agent was stopped before it finished]
        failed: [the agent ended in the middle of its work]
        failed: [the agent ended with an unknown status 'weary']
        failed: [the agent ended without an answer]
        failed: [the agent ended without an answer; it printed: Fork this session? [y/N]]
        ");
        let answer = Answer { text: "half".to_owned(), outcome: failed, ..Answer::default() };
        assert_eq!(
            [&b"al"[..], b"failed", b""].map(|text| answer.find(text)),
            [Some(1), None, None]
        );
        assert_eq!(answer.told(), "half\n\n[the agent failed: 429 slow down]");
    }

    #[test]
    fn costs_add_up_without_crumbs() {
        let mut usage = Usage::default();
        for amount in [0.1, 0.2] {
            usage.add(Usage { input: u64::MAX, cost: Dollars::new(amount), ..Usage::default() });
        }
        assert_eq!(usage.cost.unwrap().amount(), 0.3);
        assert_eq!(usage.input, u64::MAX);
        assert_eq!(Dollars::new(f64::NAN), None);
        assert_eq!(Dollars::new(-1.0), None);
        assert_eq!(Dollars::new(1e300), Some(Dollars(u64::MAX)));
        let printed = [0.0, 0.000_01, 0.001_24, 0.0099, 0.009_96, 0.375, 1234.5]
            .map(|amount| Dollars::new(amount).unwrap().to_string());
        assert_eq!(
            printed,
            ["$0.00", "<$0.0001", "$0.0012", "$0.0099", "$0.01", "$0.38", "$1234.50"]
        );
    }
}
