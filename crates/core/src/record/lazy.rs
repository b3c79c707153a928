//! A record that is parsed lazily: fields and long texts are unescaped when they are read.

use std::borrow::Cow;
use std::fmt;

use super::scan::{Scalar, Scan, pairs, scan};
use super::{BadLine, Body, Record, Value, parse};
use crate::json::{mend_surrogates, unescape};

/// One record, parsed lazily: views that fold a gigabyte read it this way. Unlike [`parse`], it
/// accepts bytes that are not UTF-8 and halves of surrogate pairs: both read as U+FFFD. Otherwise
/// it accepts the same lines and reads the same values.
#[derive(Debug)]
pub struct Glance<'a>(Seen<'a>);

#[derive(Debug)]
enum Seen<'a> {
    /// Written to the rule: slices of the line.
    Scanned(Scan<'a>),
    /// Written by another program.
    Parsed(Box<Record>),
}

impl<'a> Glance<'a> {
    pub fn read(line: &'a [u8]) -> Result<Self, BadLine> {
        if let Some(scan) = scan(line) {
            return Ok(Glance(Seen::Scanned(scan)));
        }
        match parse(line) {
            Ok(record) => Ok(Glance(Seen::Parsed(Box::new(record)))),
            Err(bad @ (BadLine::NotUtf8 { .. } | BadLine::NotJson { .. })) => {
                let mut mended = String::from_utf8_lossy(line).into_owned().into_bytes();
                mend_surrogates(&mut mended);
                parse(&mended).map(|record| Glance(Seen::Parsed(Box::new(record)))).map_err(|_| bad)
            }
            Err(bad) => Err(bad),
        }
    }

    /// A text that may be missing. Inlined, because views read a gigabyte of records with it.
    #[inline(always)]
    fn text<'s>(
        &'s self,
        scanned: impl FnOnce(&Scan<'a>) -> Option<&'a [u8]>,
        parsed: impl FnOnce(&'s Record) -> Option<&'s str>,
    ) -> Option<Cow<'s, str>> {
        match &self.0 {
            Seen::Scanned(scan) => scanned(scan).map(unescape),
            Seen::Parsed(record) => parsed(record).map(Cow::Borrowed),
        }
    }

    pub fn run(&self) -> Cow<'_, str> {
        match &self.0 {
            Seen::Scanned(scan) => unescape(scan.run),
            Seen::Parsed(record) => Cow::Borrowed(&record.run),
        }
    }

    pub fn iteration(&self) -> Cow<'_, str> {
        match &self.0 {
            Seen::Scanned(scan) => unescape(scan.iteration),
            Seen::Parsed(record) => Cow::Borrowed(&record.iteration),
        }
    }

    pub fn topic(&self) -> Cow<'_, str> {
        match &self.0 {
            Seen::Scanned(scan) => unescape(scan.topic),
            Seen::Parsed(record) => Cow::Borrowed(record.topic.as_str()),
        }
    }

    /// The fields of a system record, in order, still escaped.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&[u8], Field<'_>)> {
        let (scanned, parsed) = match &self.0 {
            Seen::Scanned(scan) => (scan.fields, None),
            Seen::Parsed(record) => match &record.body {
                Body::System(fields) => (None, Some(fields)),
                Body::Agent { .. } => (None, None),
            },
        };
        let scanned = scanned.into_iter().flat_map(pairs);
        let parsed = parsed.into_iter().flatten();
        scanned
            .map(|(name, value)| (name, Field::Scanned(value)))
            .chain(parsed.map(|(name, value)| (name.as_bytes(), Field::Parsed(value))))
    }

    /// A field of a system record, as text: `"0"` and `0` both read as `0`.
    pub fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        self.fields().find(|(key, _)| *key == name.as_bytes())?.1.text()
    }

    /// Calls back with all fields of a system record that are no structures, in order.
    pub fn each_field(&self, mut tell: impl FnMut(&str, Cow<'_, str>)) {
        for (name, field) in self.fields() {
            if let Some(text) = field.text() {
                tell(&String::from_utf8_lossy(name), text);
            }
        }
    }

    pub fn has_payload(&self) -> bool {
        match &self.0 {
            Seen::Scanned(scan) => scan.payload.is_some(),
            Seen::Parsed(record) => record.body.agent().is_some(),
        }
    }

    pub fn payload(&self) -> Option<Cow<'_, str>> {
        self.text(|scan| scan.payload, |record| Some(record.body.agent()?.0))
    }

    pub fn source(&self) -> Option<Cow<'_, str>> {
        let scanned = |scan: &Scan<'a>| scan.payload.and(scan.source.or(Some(&[])));
        self.text(scanned, |record| Some(record.body.agent()?.1))
    }

    pub fn ts(&self) -> Option<Cow<'_, str>> {
        self.text(|scan| scan.ts, |record| record.ts.as_deref())
    }

    pub fn seal(&self) -> Option<Cow<'_, str>> {
        self.text(|scan| scan.seal, |record| record.seal.as_deref())
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Field<'a> {
    /// Still escaped.
    Scanned(Scalar<'a>),
    Parsed(&'a Value),
}

impl<'a> Field<'a> {
    /// The value as text: `"0"` and `0` both read as `0`; `None` for `null` and for structures.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Field::Scanned(Scalar::Text(raw)) => Some(unescape(raw)),
            Field::Scanned(Scalar::Literal(b"null")) => None,
            Field::Scanned(Scalar::Literal(raw)) => Some(String::from_utf8_lossy(raw)),
            Field::Parsed(Value::Text(text)) => Some(Cow::Borrowed(text)),
            Field::Parsed(value) => value.to_text().map(Cow::Owned),
        }
    }

    pub(super) fn long_text(self) -> Option<Text<'a>> {
        match self {
            Field::Scanned(Scalar::Text(raw)) => Some(Text(Held::Escaped(raw))),
            field => field.text().map(|text| Text(Held::Plain(text))),
        }
    }
}

/// A text that may be long, such as an output. One of a record is unescaped when it is read.
#[derive(Clone)]
pub struct Text<'a>(Held<'a>);

#[derive(Clone)]
enum Held<'a> {
    Plain(Cow<'a, str>),
    Escaped(&'a [u8]),
}

impl Text<'_> {
    pub fn read(&self) -> Cow<'_, str> {
        match &self.0 {
            Held::Plain(text) => Cow::Borrowed(text),
            Held::Escaped(raw) => unescape(raw),
        }
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text(Held::Plain(Cow::Owned(text)))
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Text(Held::Plain(Cow::Borrowed(text)))
    }
}

impl Default for Text<'_> {
    fn default() -> Self {
        Text::from("")
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.read() == other.read()
    }
}

impl Eq for Text<'_> {}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &[u8] = br#"{"run": "swift-agent", "iteration": "3", "topic": "iteration.finish", "fields": {"exit_code": "0", "timed_out": false, "elapsed_s": 12, "output": "a\u0022b\u000a"}, "ts": "2026-11-15T21:12:06.031Z", "v": 1}"#;
    const AGENT: &[u8] = br#"{"run": "swift-agent", "iteration": "3", "topic": "review.ready", "payload": "done", "source": "agent"}"#;

    #[test]
    fn lines_written_to_the_rule_are_scanned_and_not_parsed() {
        for line in [SYSTEM, AGENT] {
            assert!(matches!(Glance::read(line).unwrap().0, Seen::Scanned(_)));
        }
    }

    #[test]
    fn fields_read_as_text_in_either_form() {
        let by_hand = br#"{"topic":"iteration.finish","run":"swift-agent","iteration":3,"fields":{"exit_code":0,"timed_out":"false","elapsed_s":"12","output":"a\"b\n"}}"#;
        for line in [SYSTEM, by_hand.as_slice()] {
            let glance = Glance::read(line).unwrap();
            assert_eq!(glance.run(), "swift-agent");
            assert_eq!(glance.iteration(), "3");
            assert_eq!(glance.field("exit_code").unwrap(), "0");
            assert_eq!(glance.field("timed_out").unwrap(), "false");
            assert_eq!(glance.field("elapsed_s").unwrap(), "12");
            assert_eq!(glance.field("output").unwrap(), "a\"b\n");
            assert_eq!(glance.field("prompt"), None);
            assert_eq!(glance.payload(), None);
            assert!(!glance.has_payload());
        }
    }

    #[test]
    fn doubled_keys_are_refused_at_both_speeds() {
        for line in [
            br#"{"run": "a", "run": "b", "iteration": "", "topic": "t", "payload": "", "source": ""}"#
                .as_slice(),
            br#"{"run": "a", "iteration": "", "topic": "t", "fields": {"x": "1", "x": "2"}}"#,
            br#"{"run": "a", "iteration": "", "topic": "t", "fields": {"x": "1", "\u0078": "2"}}"#,
            br#"{"run": "a", "iteration": "", "topic": "t", "fields": {"y": {"x": 1, "x": 2}}}"#,
        ] {
            assert!(matches!(parse(line), Err(BadLine::Ambiguous(_))), "{:?}", parse(line));
            assert!(matches!(Glance::read(line), Err(BadLine::Ambiguous(_))));
        }
    }

    #[test]
    fn what_is_no_json_is_refused_at_both_speeds() {
        let with = |value: &str| {
            format!(r#"{{"run": "a", "iteration": "", "topic": "t", "fields": {{"x": {value}}}}}"#)
        };
        for value in [
            "1x",
            "tru",
            "+1",
            "01",
            "-",
            "1.",
            ".5",
            "1.e3",
            "--1",
            "NaN",
            "1 ",
            "\"\u{1}\"",
            "\"\t\"",
            "\"\\q\"",
            "\"\\u12\"",
            "\"\\u00\"",
            "\"\\u00g0\"",
            "\"\\\"",
            "\"\\u-001\"",
            "",
        ] {
            let line = with(value);
            let is_json = value == "1 ";
            assert_eq!(parse(line.as_bytes()).is_ok(), is_json, "{line}");
            assert_eq!(Glance::read(line.as_bytes()).is_ok(), is_json, "{line}");
            let line =
                line.replace("}}", &format!("}}, \"v\": {value}}}")).replace("\"x\": ", "\"x\": 1");
            assert!(
                !matches!(Glance::read(line.as_bytes()), Ok(Glance(Seen::Scanned(_)))),
                "{line}"
            );
        }
        for value in [
            "0",
            "-0",
            "-1.50",
            "18446744073709551616",
            "1e999",
            "null",
            "true",
            r#""\n\\""#,
            r#""\ud83e\uDD80""#,
        ] {
            let line = with(value);
            assert!(parse(line.as_bytes()).is_ok(), "{line}");
            assert!(
                matches!(Glance::read(line.as_bytes()), Ok(Glance(Seen::Scanned(_)))),
                "{line}"
            );
        }
    }

    #[test]
    fn keys_that_become_one_when_they_are_mended_are_doubled() {
        let line = b"{\"run\": \"a\", \"iteration\": \"\", \"topic\": \"t\", \"fields\": {\"\xff\": 1, \"\xfe\": 2}}";
        assert!(Glance::read(line).is_err());
    }

    #[test]
    fn what_cannot_be_text_is_forgiven() {
        let line = b"{\"run\": \"a\", \"iteration\": \"\", \"topic\": \"t\", \"payload\": \"\xff \\ud800\", \"source\": \"agent\", \"mood\": 1}";
        let glance = Glance::read(line).unwrap();
        assert_eq!(glance.payload().unwrap(), "\u{fffd} \u{fffd}");
        assert!(glance.has_payload());
        assert_eq!(parse(line), Err(BadLine::NotUtf8 { at: 56 }));
    }
}
