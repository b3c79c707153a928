//! Prints a record as one JSON line, and parses it.

use super::value::{Value, print_text};
use super::{Body, Object, Record};
use crate::topic::Topic;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    #[error("not UTF-8 at byte {at} of the line")]
    NotUtf8 { at: usize },
    #[error("not JSON: {reason} at byte {at} of the line")]
    NotJson { reason: String, at: usize },
    #[error("torn: the line ends in the middle of a record")]
    Torn,
    /// A key occurs twice: two readers could read two different records.
    #[error("ambiguous: {0}")]
    Ambiguous(String),
    #[error("not a record: the line contains {0}, not an object")]
    NotAnObject(&'static str),
    #[error("not a record: {0:?} is missing")]
    Missing(&'static str),
    #[error("not a record: {0:?} is not a string")]
    NotText(&'static str),
    /// Exceeds the limit even without its long strings.
    #[error("too large: more than {limit} bytes besides long strings")]
    TooLarge { limit: usize },
}

/// Parses one line strictly, without its newline.
pub fn parse(line: &[u8]) -> Result<Record, BadLine> {
    let text =
        std::str::from_utf8(line).map_err(|error| BadLine::NotUtf8 { at: error.valid_up_to() })?;
    match Value::parse(text)? {
        Value::Object(object) => from_object(object),
        Value::Null => Err(BadLine::NotAnObject("null")),
        Value::Flag(_) => Err(BadLine::NotAnObject("true or false")),
        Value::Number(_) => Err(BadLine::NotAnObject("a number")),
        Value::Text(_) => Err(BadLine::NotAnObject("a string")),
        Value::List(_) => Err(BadLine::NotAnObject("a list")),
    }
}

impl BadLine {
    /// An error in a value that begins at this byte of the line.
    pub(super) fn not_json(error: &serde_json::Error, begin: usize) -> BadLine {
        // serde_json ends its messages with the position, which is reported in bytes here. A line has no
        // newline in it, so the column is the byte.
        let at = begin + error.column();
        let mut reason = error.to_string();
        if let Some(end) = reason.rfind(" at line ") {
            reason.truncate(end);
        }
        match error.is_eof() {
            true => BadLine::Torn,
            false => BadLine::NotJson { reason, at },
        }
    }
}

fn from_object(object: Object) -> Result<Record, BadLine> {
    let mut extra = Object::new();
    let (mut run, mut iteration, mut topic) = (None, None, None);
    let (mut fields, mut payload, mut source) = (None, None, None);
    let (mut ts, mut version, mut seal) = (None, None, None);
    for (key, value) in object {
        match (key.as_str(), value) {
            ("run", Value::Text(text)) => run = Some(text),
            ("run", _) => return Err(BadLine::NotText("run")),
            ("topic", Value::Text(text)) => topic = Some(text),
            ("topic", _) => return Err(BadLine::NotText("topic")),
            ("iteration", Value::Text(text)) => iteration = Some(text),
            ("iteration", Value::Number(number)) => iteration = Some(number),
            ("fields", Value::Object(pairs)) => fields = Some(pairs),
            ("payload", Value::Text(text)) => payload = Some(text),
            ("source", Value::Text(text)) => source = Some(text),
            ("ts", Value::Text(text)) => ts = Some(text),
            ("seal", Value::Text(text)) => seal = Some(text),
            ("v", Value::Number(number)) if number.parse::<u64>().is_ok() => {
                version = number.parse().ok();
            }
            (_, value) => extra.push((key, value)),
        }
    }
    let body = match (fields, payload) {
        (None, Some(payload)) => Body::Agent { payload, source: source.unwrap_or_default() },
        (fields, payload) => {
            extra.extend(payload.map(|text| ("payload".to_owned(), Value::Text(text))));
            extra.extend(source.map(|text| ("source".to_owned(), Value::Text(text))));
            Body::System(fields.unwrap_or_default())
        }
    };
    Ok(Record {
        run: run.ok_or(BadLine::Missing("run"))?,
        iteration: iteration.unwrap_or_default(),
        topic: Topic::new(topic.ok_or(BadLine::Missing("topic"))?),
        body,
        ts,
        version,
        seal,
        extra,
    })
}

pub fn print(record: &Record, out: &mut Vec<u8>) {
    print_with(record, out);
}

/// Prints a record in two parts, between which more (escaped) text belongs that is too long for memory:
/// of the payload of an agent's record, or of the field `output` of a system record. Without such a text
/// the second part is empty.
pub fn print_around(record: &Record) -> (Vec<u8>, Vec<u8>) {
    let mut before = Vec::new();
    let at = print_with(record, &mut before);
    let after = at.map(|at| before.split_off(at)).unwrap_or_default();
    (before, after)
}

/// Returns where the text ends to which more can be added.
fn print_with(record: &Record, out: &mut Vec<u8>) -> Option<usize> {
    let mut end_of_text = None;
    // A known key of an unexpected type is among the extra ones; it must not be printed twice.
    let is_extra = |name: &str| record.extra.iter().any(|(key, _)| key == name);
    let print_member = |name: &str, text: &str, out: &mut Vec<u8>| {
        if !is_extra(name) {
            print_key(name, out);
            print_text(text, out);
        }
    };
    out.extend_from_slice(b"{\"run\": ");
    print_text(&record.run, out);
    print_member("iteration", &record.iteration, out);
    print_member("topic", record.topic.as_str(), out);
    match &record.body {
        Body::System(_) if is_extra("fields") => {}
        Body::System(fields) => {
            print_key("fields", out);
            out.push(b'{');
            for (index, (key, value)) in fields.iter().enumerate() {
                match (index, key.as_str()) {
                    // Without a space, so that `{"run": "` only ever begins a record.
                    (0, "run") => out.extend_from_slice(b"\"run\":"),
                    (0, key) => {
                        print_text(key, out);
                        out.extend_from_slice(b": ");
                    }
                    (_, key) => print_key(key, out),
                }
                value.print(out);
                if key == "output" && matches!(value, Value::Text(_)) {
                    end_of_text = Some(out.len() - 1);
                }
            }
            out.push(b'}');
        }
        Body::Agent { payload, source } => {
            print_member("payload", payload, out);
            end_of_text = Some(out.len() - 1);
            print_member("source", source, out);
        }
    }
    for (key, value) in &record.extra {
        print_key(key, out);
        value.print(out);
    }
    if let Some(ts) = &record.ts {
        print_member("ts", ts, out);
    }
    if let Some(version) = record.version {
        out.extend_from_slice(format!(", \"v\": {version}").as_bytes());
    }
    if let Some(seal) = &record.seal {
        print_member("seal", seal, out);
    }
    out.extend_from_slice(b"}\n");
    end_of_text
}

/// Prints the key of a pair that is not the first.
fn print_key(key: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b", ");
    print_text(key, out);
    out.extend_from_slice(b": ");
}
