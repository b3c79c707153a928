//! `pi --mode json`: an event in every line.
//!
//! A turn is one message of the model and the results of the tools that it called. Each piece of a
//! message is printed as a `message_update` with all that came before it, so most of a stream is
//! passed over unread. The events that count are few:
//!
//! - `message_end` has a message; `turn_end` has that of the model again, with the results;
//! - `agent_end` ends the work on the prompt. After a failure that pi tries to get over, another
//!   `agent_start` follows, so only the last message of all counts.

use serde_json::Value;

use super::lines::{Line, Lines};
use super::{Answer, Dollars, Outcome, Usage};
use crate::record::mend_surrogates;

/// How many bytes of what could not be read are kept, for a person to see.
const STRAY_KEPT: usize = 1000;

/// Takes the answer out of the stream.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    lines: Lines,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    /// A message whose turn has not ended.
    pending: Option<Message>,
    /// The last message whose turn has ended.
    last: Option<Message>,
    /// Whether a turn has ended since the work on the prompt began.
    turned: bool,
    /// Whether the work on the prompt is over.
    over: bool,
    usage: Option<Usage>,
    unreadable: u64,
    stray: Vec<u8>,
}

/// Something that the model said.
#[derive(Debug, Default)]
struct Message {
    text: String,
    stop_reason: String,
    error: String,
    usage: Option<Usage>,
}

/// The events that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    AgentStart,
    MessageEnd,
    TurnEnd,
    AgentEnd,
    Other,
}

impl Decoder {
    pub(super) fn push(&mut self, piece: &[u8]) {
        let Decoder { lines, state } = self;
        lines.push(piece, may_count, |line| state.take(line));
    }

    pub(super) fn finish(self) -> Answer {
        let Decoder { lines, mut state } = self;
        lines.finish(may_count, |line| state.take(line));
        state.answer()
    }
}

impl State {
    fn take(&mut self, line: Line<'_>) {
        match line {
            Line::Whole(line) => match parse(line) {
                Some(event) => self.event(Kind::of(text(&event, "type")), &event),
                None => self.strayed(line),
            },
            // What was in the message is known from its `message_end`.
            Line::TooLong(beginning) => match leading_type(beginning) {
                Some(kind) => self.event(Kind::of(kind), &Value::Null),
                None => self.strayed(beginning),
            },
        }
    }

    fn event(&mut self, kind: Kind, event: &Value) {
        match kind {
            Kind::AgentStart => {
                self.over = false;
                self.turned = false;
            }
            Kind::MessageEnd => {
                let said = Message::said(&event["message"]);
                self.pending = said.or_else(|| self.pending.take());
            }
            Kind::TurnEnd => {
                let message = Message::said(&event["message"]);
                let pending = self.pending.take();
                self.conclude(message.or(pending));
            }
            Kind::AgentEnd => {
                let pending = self.pending.take();
                // A failure outside of any turn is told nowhere else.
                let at_the_end = || {
                    let messages = event["messages"].as_array().filter(|_| !self.turned)?;
                    messages.iter().rev().find_map(Message::said)
                };
                let message = pending.or_else(at_the_end);
                self.conclude(message);
                self.over = true;
            }
            Kind::Other => {}
        }
    }

    /// The turn of a message has ended.
    fn conclude(&mut self, message: Option<Message>) {
        let Some(message) = message else { return };
        if let Some(usage) = message.usage {
            self.usage.get_or_insert_default().add(usage);
        }
        self.last = Some(message);
        self.turned = true;
    }

    fn strayed(&mut self, line: &[u8]) {
        self.unreadable += 1;
        let room = STRAY_KEPT.saturating_sub(self.stray.len());
        if room > 0 {
            self.stray.extend(line.iter().take(room));
            self.stray.push(b'\n');
        }
    }

    fn answer(mut self) -> Answer {
        let pending = self.pending.take();
        self.conclude(pending);
        let outcome = self.outcome();
        Answer {
            text: self.last.map(|message| message.text).unwrap_or_default(),
            outcome,
            usage: self.usage,
            unreadable: self.unreadable,
        }
    }

    fn outcome(&self) -> Outcome {
        let Some(last) = &self.last else {
            let stray = String::from_utf8_lossy(&self.stray).trim().to_owned();
            return if stray.is_empty() { Outcome::Silent } else { Outcome::Strayed(stray) };
        };
        match &last.stop_reason[..] {
            "stop" => Outcome::Done,
            "length" => Outcome::CutShort,
            "error" => Outcome::Failed(last.error.clone()),
            "aborted" => Outcome::Aborted,
            // A tool may end the work.
            "toolUse" if self.over => Outcome::Done,
            "toolUse" => Outcome::Unfinished,
            other => Outcome::Unknown(other.to_owned()),
        }
    }
}

impl Message {
    /// What the model said, if this is a message of the model.
    fn said(message: &Value) -> Option<Message> {
        (text(message, "role") == "assistant").then(|| Message {
            text: spoken(&message["content"]),
            stop_reason: text(message, "stopReason").to_owned(),
            error: text(message, "errorMessage").to_owned(),
            usage: usage(&message["usage"]),
        })
    }
}

impl Kind {
    fn of(name: &str) -> Kind {
        match name {
            "agent_start" => Kind::AgentStart,
            "message_end" => Kind::MessageEnd,
            "turn_end" => Kind::TurnEnd,
            "agent_end" => Kind::AgentEnd,
            _ => Kind::Other,
        }
    }
}

/// Whether a line that begins so has to be read. One that does not begin with its type has to: it may
/// be of any type, or no event at all.
fn may_count(beginning: &[u8]) -> bool {
    leading_type(beginning).is_none_or(|kind| Kind::of(kind) != Kind::Other)
}

/// The type of an event that begins with it, as pi writes them.
fn leading_type(line: &[u8]) -> Option<&str> {
    let rest = line.strip_prefix(b"{\"type\":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// An event. Halves of surrogate pairs, which JavaScript has and JSON text has not, are mended.
fn parse(line: &[u8]) -> Option<Value> {
    let event = serde_json::from_slice(line).or_else(|_| {
        let mut mended = String::from_utf8_lossy(line).into_owned().into_bytes();
        mend_surrogates(&mut mended);
        serde_json::from_slice(&mended)
    });
    event.ok().filter(Value::is_object)
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// The text of a message, without thoughts and calls of tools.
fn spoken(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter(|part| text(part, "type") == "text");
            texts.map(|part| text(part, "text")).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    let number = |key: &str| usage[key].as_u64().unwrap_or_default();
    usage.is_object().then(|| Usage {
        input: number("input"),
        output: number("output"),
        cache_read: number("cacheRead"),
        cache_write: number("cacheWrite"),
        total: number("totalTokens"),
        cost: usage["cost"]["total"].as_f64().and_then(Dollars::new),
    })
}

#[cfg(test)]
mod tests;
