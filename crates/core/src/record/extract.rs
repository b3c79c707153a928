//! Reads one text of a line that is too long for memory.

use crate::json::{Unescaper, unescape};

/// The deepest nesting that is followed. The parser, which has read the line before, allows less.
const DEEPEST: usize = 256;
/// Longer keys are not compared.
const LONGEST_KEY: usize = 64;

/// Reads the text of one field of a record, or its payload, while the record arrives in pieces. It
/// reads the JSON of any writer and assumes that the line is a record: [`Glance`](super::Glance)
/// has read it, with its long strings shortened.
#[derive(Debug)]
pub struct Extract {
    wanted: Wanted,
    state: State,
    /// For each open brace (`true`) or bracket.
    open: Vec<bool>,
    /// The last key, still escaped.
    key: Vec<u8>,
    in_fields: bool,
    /// Whether the last piece ended with a backslash in a string.
    is_escaped: bool,
    text: Unescaper,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Field(&'static str),
    Payload,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between tokens; in an object, before a key.
    BeforeKey,
    /// After a colon, or in a list.
    BeforeValue,
    Inside(Role),
    Literal,
    /// The text was found, or the record ended.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Key,
    Wanted,
    Other,
}

impl Extract {
    pub fn field(name: &'static str) -> Self {
        Extract::new(Wanted::Field(name))
    }

    pub fn payload() -> Self {
        Extract::new(Wanted::Payload)
    }

    fn new(wanted: Wanted) -> Self {
        Extract {
            wanted,
            state: State::BeforeKey,
            open: Vec::new(),
            key: Vec::new(),
            in_fields: false,
            is_escaped: false,
            text: Unescaper::default(),
        }
    }

    /// Appends the part of the text that this piece contains. Returns `false` once nothing more can
    /// follow.
    pub fn push(&mut self, mut piece: &[u8], out: &mut String) -> bool {
        while !piece.is_empty() && self.state != State::Over {
            let taken = match self.state {
                State::Inside(role) => self.inside(role, piece, out),
                State::Literal => self.literal(piece, out),
                _ => self.between(piece[0], out),
            };
            piece = &piece[taken..];
        }
        self.state != State::Over
    }

    pub fn finish(self, out: &mut String) {
        self.text.finish(out);
    }

    fn between(&mut self, byte: u8, out: &mut String) -> usize {
        let is_value = self.state == State::BeforeValue;
        match byte {
            b'"' => {
                let in_object = self.open.last() == Some(&true);
                self.state = State::Inside(match (in_object && !is_value, self.is_wanted()) {
                    (true, _) => Role::Key,
                    (false, true) => Role::Wanted,
                    (false, false) => Role::Other,
                });
                if in_object && !is_value {
                    self.key.clear();
                }
            }
            b':' => self.state = State::BeforeValue,
            b',' => self.state = State::BeforeKey,
            b'{' | b'[' => {
                self.in_fields |= self.open.len() == 1 && byte == b'{' && self.key == b"fields";
                self.open.push(byte == b'{');
                self.state = State::BeforeKey;
                if self.open.len() > DEEPEST {
                    self.state = State::Over;
                }
            }
            b'}' | b']' => {
                self.open.pop();
                self.in_fields &= self.open.len() > 1;
                self.state = State::BeforeKey;
                if self.open.is_empty() {
                    self.state = State::Over;
                }
            }
            b' ' | b'\t' | b'\r' => {}
            _ if is_value && self.is_wanted() => {
                self.state = State::Literal;
                self.key.clear();
                return self.literal(&[byte], out);
            }
            _ => {}
        }
        1
    }

    fn is_wanted(&self) -> bool {
        let (is_there, name) = match self.wanted {
            Wanted::Field(name) => (self.in_fields && self.open.len() == 2, name),
            Wanted::Payload => (self.open[..] == [true], "payload"),
        };
        is_there && self.state == State::BeforeValue && unescape(&self.key) == name
    }

    fn inside(&mut self, role: Role, piece: &[u8], out: &mut String) -> usize {
        let mut end = usize::from(self.is_escaped);
        while let Some(found) = memchr::memchr2(b'"', b'\\', piece.get(end..).unwrap_or_default()) {
            end += found;
            if piece[end] == b'"' {
                break;
            }
            // An escaped quote does not end the string.
            end += 2;
        }
        let is_closed = piece.get(end) == Some(&b'"');
        self.is_escaped = end > piece.len();
        if !is_closed {
            end = piece.len();
        }
        match role {
            Role::Key if self.key.len() < LONGEST_KEY => self.key.extend_from_slice(&piece[..end]),
            Role::Wanted => self.text.push(&piece[..end], out),
            Role::Key | Role::Other => {}
        }
        if is_closed {
            let is_found = role == Role::Wanted;
            self.state = if is_found { State::Over } else { State::BeforeKey };
        }
        end + usize::from(is_closed)
    }

    /// Numbers and flags read as text, `null` as no text.
    fn literal(&mut self, piece: &[u8], out: &mut String) -> usize {
        let is_literal = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let end = piece.iter().position(|byte| !is_literal(byte));
        let literal = &piece[..end.unwrap_or(piece.len())];
        // The buffer of the key is free: no second value is wanted.
        let room = LONGEST_KEY.saturating_sub(self.key.len());
        self.key.extend_from_slice(&literal[..literal.len().min(room)]);
        if end.is_some() {
            self.state = State::Over;
            if self.key != b"null" {
                self.text.push(&self.key, out);
            }
        }
        literal.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Glance, Heading, IterationFinish, print};
    use super::*;
    use crate::timestamp::Timestamp;
    use proptest::prelude::*;

    fn output(line: &[u8], step: usize) -> String {
        text(Extract::field("output"), line, step)
    }

    fn text(mut extract: Extract, line: &[u8], step: usize) -> String {
        let mut out = String::new();
        for piece in line.chunks(step) {
            if !extract.push(piece, &mut out) {
                break;
            }
        }
        extract.finish(&mut out);
        out
    }

    #[test]
    fn the_field_is_found_whatever_the_writer() {
        for (line, text) in [
            (r#"{"run": "r", "fields": {"exit_code": "0", "output": "a\u0022b"}}"#, "a\"b"),
            (r#"{"fields":{"output":"a\"b\\","more":"x"},"output":"no"}"#, "a\"b\\"),
            (r#"{"output": "no", "x": {"output": "no"}, "fields" : {"output" : "yes"}}"#, "yes"),
            (
                r#"{"fields": {"x": {"output": "no"}, "y": ["output", "no"], "output": "yes"}}"#,
                "yes",
            ),
            (r#"{"fields": {"out\u0070ut": "yes"}}"#, "yes"),
            (r#"{"fields": {"x": "output", "output": 12}, "run": "r"}"#, "12"),
            (r#"{"fields": {"output": null}}"#, ""),
            (r#"{"fields": {"exit_code": "0"}, "payload": "output"}"#, ""),
            (r#"["output", "no"]"#, ""),
            ("nonsense \" } : {", ""),
        ] {
            for step in [1, 2, 3, 5, 1000] {
                assert_eq!(output(line.as_bytes(), step), text, "{line} by {step}");
            }
        }
    }

    #[test]
    fn the_payload_is_found_where_it_stands() {
        for (line, found) in [
            (r#"{"run": "payload", "payload": "a\u0022b", "source": "agent"}"#, "a\"b"),
            (r#"{"x":{"payload":"no"},"y":["payload"],"payload":"yes","payload2":"no"}"#, "yes"),
            (r#"{"fields": {"payload": "no"}, "topic": "payload"}"#, ""),
            (r#"{"payload": 12, "run": "r"}"#, "12"),
        ] {
            for step in [1, 3, 1000] {
                assert_eq!(text(Extract::payload(), line.as_bytes(), step), found, "{line}");
            }
        }
    }

    #[test]
    fn what_lies_behind_the_text_is_not_read() {
        let mut extract = Extract::field("output");
        let mut out = String::new();
        assert!(extract.push(br#"{"fields": {"output": "yes"#, &mut out));
        assert!(!extract.push(br#"", "output": "no"}}"#, &mut out));
        assert!(!extract.push(b"\"no", &mut out));
        assert_eq!(out, "yes");
    }

    proptest! {
        #[test]
        fn it_finds_what_a_glance_finds(text in any::<String>(), step in 1..40usize) {
            let heading = Heading { run: "r".into(), iteration: "1".into(), now: Timestamp::from_millis(0) };
            let mut line = Vec::new();
            let finish = IterationFinish { output: text.as_str().into(), ..Default::default() };
            print(&finish.record(&heading), &mut line);
            let glance = Glance::read(line.trim_ascii_end()).unwrap();
            prop_assert_eq!(glance.field("output").unwrap(), text.as_str());
            prop_assert_eq!(output(&line, step), text);
        }

        #[test]
        fn any_bytes_can_be_tried(bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(b"{}[]\":,\\ output".to_vec())], 0..60)) {
            output(&bytes, 7);
        }
    }
}
