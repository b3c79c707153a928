//! Fields and long texts of a record that are unescaped when they are read.

use std::borrow::Cow;
use std::fmt;

use super::Value;
use super::scan::Scalar;
use crate::json::unescape;

/// A field of a system record.
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
