//! A stream of events: a JSON object in every line, or printed over several lines.

use serde_json::Value;

use super::line_buffer::{Line, Lines};
use super::multiline::{Part, Spread};
use super::{Answer, Outcome, Session, Usage};
use crate::json::mend_surrogates;

/// How many bytes of lines that are no events are kept for messages.
pub(super) const OTHER_KEPT: usize = 1000;

/// How one client's events are interpreted.
pub(super) trait Client: std::fmt::Debug + Default + Send {
    fn counts(kind: &str) -> bool;

    /// Applies an event that counts. One that was too long to be read is `Null`.
    fn take(&mut self, kind: &str, event: &Value);

    /// What a person is shown of an event: a text of the agent, a tool call or an error.
    fn show(kind: &str, event: &Value) -> Option<String>;

    fn conclude(self) -> Conclusion;
}

#[derive(Debug, Default)]
pub(super) struct Conclusion {
    /// The last text of the agent.
    pub(super) text: String,
    /// `None` if the agent printed no message.
    pub(super) outcome: Option<Outcome>,
    pub(super) usage: Option<Usage>,
    pub(super) session: Session,
}

/// Reads the events of a client from a stream.
#[derive(Debug, Default)]
pub(super) struct Events<C> {
    lines: Lines,
    state: State<C>,
}

#[derive(Debug, Default)]
struct State<C> {
    client: C,
    spread: Spread,
    unreadable: u64,
    /// The beginning of what is no event.
    other: Vec<u8>,
}

/// A decoder, whatever its client.
pub(super) trait Decode: std::fmt::Debug + Send {
    fn push(&mut self, piece: &[u8]);
    fn finish(self: Box<Self>) -> Answer;
}

impl<C: Client> Decode for Events<C> {
    fn push(&mut self, piece: &[u8]) {
        let Events { lines, state } = self;
        lines.push(piece, may_count::<C>, |line| state.take(line));
    }

    fn finish(self: Box<Self>) -> Answer {
        let Events { lines, mut state } = *self;
        lines.finish(may_count::<C>, |line| state.take(line));
        let unended = state.spread.give_up();
        state.no_events(&unended);
        state.answer()
    }
}

impl<C: Client> State<C> {
    fn take(&mut self, line: Line<'_>) {
        let part = match line {
            Line::Whole(bytes) => self.spread.take(bytes),
            // The rest of it may be anything.
            Line::TooLong(_) => Part::Apart(self.spread.give_up()),
        };
        match part {
            Part::Within => {}
            Part::Whole(whole) => {
                if !self.events(&whole) {
                    self.no_events(&whole);
                }
            }
            Part::Apart(lines) if lines.is_empty() => self.alone(line),
            // It may begin another.
            Part::Apart(lines) => {
                self.no_events(&lines);
                self.take(line);
            }
        }
    }

    /// Takes a line that is not part of a multi-line event.
    fn alone(&mut self, line: Line<'_>) {
        match line {
            Line::Whole(line) => {
                if !self.events(line) {
                    self.no_event(line);
                }
            }
            Line::TooLong(beginning) => match leading_type(beginning) {
                Some(kind) => self.client.take(kind, &Value::Null),
                None => self.no_event(beginning),
            },
        }
    }

    /// Takes an event or a list of events; returns whether it was one.
    fn events(&mut self, text: &[u8]) -> bool {
        match parse(text) {
            Some(Value::Array(events)) => events.iter().for_each(|event| self.event(event)),
            Some(event) => self.event(&event),
            None => return false,
        }
        true
    }

    fn event(&mut self, event: &Value) {
        let kind = text(event, "type");
        if C::counts(kind) {
            self.client.take(kind, event);
        }
    }

    fn no_events(&mut self, lines: &[u8]) {
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.for_each(|line| self.no_event(line));
    }

    fn no_event(&mut self, line: &[u8]) {
        self.unreadable += 1;
        let room = OTHER_KEPT.saturating_sub(self.other.len());
        if room > 0 {
            self.other.extend(line.iter().take(room));
            self.other.push(b'\n');
        }
    }

    fn answer(self) -> Answer {
        let Conclusion { text, outcome, usage, session } = self.client.conclude();
        let outcome = outcome.unwrap_or_else(|| {
            let other = String::from_utf8_lossy(&self.other).trim().to_owned();
            if other.is_empty() { Outcome::Silent } else { Outcome::Unrecognized(other) }
        });
        Answer { text, outcome, usage, session, unreadable: self.unreadable }
    }
}

/// Whether a line with this beginning has to be read. One that does not begin with its type may be of any
/// type, or no event at all.
fn may_count<C: Client>(beginning: &[u8]) -> bool {
    leading_type(beginning).is_none_or(C::counts)
}

/// The type of an event that begins with it, as most clients write them.
fn leading_type(line: &[u8]) -> Option<&str> {
    let rest = line.strip_prefix(b"{\"type\":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// Parses an event or a list of events. Halves of surrogate pairs, which JavaScript allows, are repaired.
pub(super) fn parse(line: &[u8]) -> Option<Value> {
    // A log may have millions of lines that are no events, and the parser is slow to refuse them.
    let line = line.trim_ascii();
    if !matches!((line.first()?, line.last()?), (b'{', b'}') | (b'[', b']')) {
        return None;
    }
    let event: Value = serde_json::from_slice(line)
        .or_else(|_| {
            let mut mended = String::from_utf8_lossy(line).into_owned().into_bytes();
            mend_surrogates(&mut mended);
            serde_json::from_slice(&mended)
        })
        .ok()?;
    let is_event = match &event {
        Value::Array(events) => !events.is_empty() && events.iter().all(Value::is_object),
        event => event.is_object(),
    };
    is_event.then_some(event)
}

pub(super) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

pub(super) fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_default()
}

/// The text of a message without thoughts and tool calls.
pub(super) fn spoken(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter(|part| text(part, "type") == "text");
            texts.map(|part| text(part, "text")).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
