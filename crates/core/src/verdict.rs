//! The verdict of a reviewer: a JSON object in the last thing that it said.
//!
//! The contract is strict, because a loop goes by it. One JSON value is read from the first `{`: it has to be
//! an object with `verdict`, which is `"pass"` or `"drift"`, and `followUpPrompt`, a string. What stands before
//! it and behind it does not count, and nothing that comes later makes good what the first `{` began. Of a key
//! that stands there twice the last one holds; keys that nobody asked for are passed over.
//!
//! Any bytes can be read. It takes one pass and no recursion, and memory for the `followUpPrompt` alone: of one that
//! is longer than three megabytes, for its ends.

mod message;
mod print;
mod scan;
mod text;
mod violation;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::agents::{Answer, Decoder, Stream};

pub use print::Printed;
pub use scan::{Flaw, Kind};
pub use violation::Violation;

use message::Message;

/// What a reviewer ruled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ruling {
    /// The work is as it should be.
    Pass,
    /// It is not, and has to be fixed.
    Drift,
}

/// A verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What the reviewer ruled.
    pub ruling: Ruling,
    /// `followUpPrompt`: what is to be fixed, or a word on what is well.
    pub follow_up: String,
}

/// Reads the last message of a reviewer.
pub fn read(final_message: &str) -> Result<Verdict, Violation> {
    let mut message = Message::default();
    message.push(final_message.as_bytes());
    message.finish()
}

/// Reads what a client made of its stream. The last message of an agent that failed is no verdict,
/// whatever stands in it.
pub fn read_answer(answer: &Answer) -> Result<Verdict, Violation> {
    if answer.outcome.is_failure() {
        return Err(Violation::Unanswered(answer.outcome.clone()));
    }
    read(&answer.text)
}

/// Reads what a reviewer printed, in pieces of any size.
#[derive(Debug)]
pub struct Reader(Source);

#[derive(Debug)]
enum Source {
    Message(Message),
    Stream(Decoder),
}

impl Reader {
    /// For what a client prints.
    pub fn new(stream: Stream) -> Self {
        Reader(match stream.decoder() {
            None => Source::Message(Message::default()),
            Some(decoder) => Source::Stream(decoder),
        })
    }

    /// Takes the next piece. Bytes that are not UTF-8 count as U+FFFD.
    pub fn push(&mut self, piece: &[u8]) {
        match &mut self.0 {
            Source::Message(message) => message.push(piece),
            Source::Stream(decoder) => decoder.push(piece),
        }
    }

    /// Says that nothing more comes.
    pub fn finish(self) -> Result<Verdict, Violation> {
        match self.0 {
            Source::Message(message) => message.finish(),
            Source::Stream(decoder) => read_answer(&decoder.finish()),
        }
    }
}

impl Ruling {
    /// What a word means.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "pass" => Some(Ruling::Pass),
            "drift" => Some(Ruling::Drift),
            _ => None,
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Ruling::Pass => "pass",
            Ruling::Drift => "drift",
        }
    }
}

impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests;
