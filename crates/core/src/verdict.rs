//! The verdict of a reviewer: a JSON object in its final message.
//!
//! The contract is strict, because a loop acts on it. One JSON value is read from the first `{`: an object with
//! `verdict`, which is `"pass"` or `"drift"`, and `followUpPrompt`, a string. Text before and after it does not
//! count, and nothing that follows repairs what the first `{` began. The last of duplicate keys counts; unknown
//! keys are ignored, however deep their values are nested.
//!
//! Output may be any bytes. At most [`LONGEST`] bytes of it are kept, from the first `{`.

mod message;

use serde::{Deserialize, Serialize};

use crate::agents::{Answer, Decoder, Outcome, Stream};
use crate::config::Place;
use crate::wire_enum::words;

pub use message::LONGEST;
use message::Message;

words! {
    Ruling {
        Pass = "pass",
        Drift = "drift",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub ruling: Ruling,
    /// `followUpPrompt`: what to fix, or a remark on work that passed.
    pub follow_up: String,
}

pub fn read(final_message: &str) -> Result<Verdict, Violation> {
    let mut message = Message::default();
    message.push(final_message.as_bytes());
    message.finish()
}

/// Reads what a client made of its stream. The final message of an agent that failed is no verdict,
/// whatever it contains.
pub fn read_answer(answer: &Answer) -> Result<Verdict, Violation> {
    if answer.outcome.is_failure() {
        return Err(Violation::Unanswered(answer.outcome.clone()));
    }
    read(&answer.text)
}

/// Reads what a reviewer prints, in pieces of any size.
#[derive(Debug)]
pub enum Reader {
    Message(Message),
    Stream(Box<Decoder>),
}

impl Reader {
    pub fn new(stream: Stream) -> Self {
        match stream.decoder() {
            Some(decoder) => Reader::Stream(Box::new(decoder)),
            None => Reader::Message(Message::default()),
        }
    }

    /// Takes the next piece. Bytes that are not UTF-8 count as U+FFFD.
    pub fn push(&mut self, piece: &[u8]) {
        match self {
            Reader::Message(message) => message.push(piece),
            Reader::Stream(decoder) => decoder.push(piece),
        }
    }

    pub fn finish(self) -> Result<Verdict, Violation> {
        match self {
            Reader::Message(message) => message.finish(),
            Reader::Stream(decoder) => read_answer(&decoder.finish()),
        }
    }
}

/// How a reviewer's output broke the contract.
///
/// `quote` is the text around the first `{`, if text comes before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The stream of the client has no final message, or reports a failure.
    #[error("{0}")]
    Unanswered(Outcome),
    #[error("the reviewer's final message is empty: expected a JSON object with the verdict")]
    Empty,
    #[error(
        "the reviewer's final message contains no '{{': expected a JSON object with the verdict"
    )]
    NoObject,
    #[error(
        "the first '{{' (at {begin}) does not begin a JSON object: {problem} at {at}{}",
        quoted(.quote)
    )]
    NotJson { begin: Place, at: Place, problem: String, quote: Option<String> },
    #[error("the JSON object at {0} is incomplete: the message ends before its last '}}'")]
    Incomplete(Place),
    #[error("the JSON object at {0} is longer than {size} MiB", size = LONGEST >> 20)]
    TooLong(Place),
    #[error("the first JSON object has no '{key}'; {}{}", keys(.found), quoted(.quote))]
    Missing {
        key: &'static str,
        /// The first keys of the object.
        found: Vec<String>,
        quote: Option<String>,
    },
    #[error("invalid '{key}': expected a string, found {found}")]
    NotText { key: &'static str, found: &'static str },
    #[error("invalid 'verdict' '{}': expected 'pass' or 'drift'", .0.escape_debug())]
    BadVerdict(String),
}

impl Violation {
    /// Whether the object looks like an event of a client's stream that was read as plain text.
    pub fn looks_like_a_stream(&self) -> bool {
        match self {
            Violation::Missing { found, .. } => found.iter().any(|key| key == "type"),
            _ => false,
        }
    }
}

fn quoted(quote: &Option<String>) -> String {
    quote.as_ref().map(|quote| format!("; the text there: {quote}")).unwrap_or_default()
}

fn keys(found: &[String]) -> String {
    if found.is_empty() {
        return "it is empty".to_owned();
    }
    let found: Vec<_> = found.iter().map(|key| format!("'{}'", key.escape_debug())).collect();
    format!("it begins with {}", found.join(", "))
}

/// A verdict or violation as JSON: an object with `verdict` (also `"violation"`), `followUpPrompt` and `reason`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Printed<'r> {
    verdict: &'static str,
    follow_up_prompt: Option<&'r str>,
    reason: Option<String>,
}

impl<'r> Printed<'r> {
    pub fn new(read: &'r Result<Verdict, Violation>) -> Self {
        match read {
            Ok(Verdict { ruling, follow_up }) => {
                Printed { verdict: ruling.name(), follow_up_prompt: Some(follow_up), reason: None }
            }
            Err(violation) => Printed {
                verdict: "violation",
                follow_up_prompt: None,
                reason: Some(violation.to_string()),
            },
        }
    }
}

#[cfg(test)]
mod tests;
