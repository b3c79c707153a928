//! Small TOML files, read value by value, with the place of every mistake.
//!
//! Whoever reads a file has mistakes of its own; these two every file can have. The functions return
//! them as whatever the reader makes of them.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::unenforced::is_unenforced;
use crate::suggest::suggest;

/// A mistake, and where in the text it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misplaced<F> {
    /// The bytes of the text that are meant.
    pub span: Range<usize>,
    /// What is wrong with them.
    pub fault: F,
}

impl<F: fmt::Display> fmt::Display for Misplaced<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl<F: std::error::Error> std::error::Error for Misplaced<F> {}

/// What can be wrong with any file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misread {
    /// Not TOML.
    #[error("this is not TOML: {0}")]
    Syntax(String),
    /// Something else than what belongs there.
    #[error("'{key}' has to be {expected}")]
    Type {
        /// Where.
        key: &'static str,
        /// What belongs there.
        expected: &'static str,
    },
}

/// A key that means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKey {
    /// Where it stands.
    pub span: Range<usize>,
    /// The key, with its table.
    pub path: String,
    /// The key that was probably meant.
    pub near: Option<&'static str>,
    /// Whether it sets a limit in another version of this tool, which this one does not enforce.
    pub is_unenforced: bool,
}

impl UnknownKey {
    /// What may be done about it.
    pub fn advice(&self) -> String {
        match self.near {
            Some(near) => format!("did you mean {near}?"),
            None => "nothing is known by this name".to_owned(),
        }
    }
}

impl fmt::Display for UnknownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown key {}", self.path.escape_debug())
    }
}

/// A value with its place.
pub(crate) type Value<'t> = Spanned<DeValue<'t>>;

/// The table that a text is.
pub(crate) fn parse<F: From<Misread>>(text: &str) -> Result<Spanned<DeTable<'_>>, Misplaced<F>> {
    DeTable::parse(text).map_err(|error| {
        // The parser writes one thought a line.
        let problem = error.message().lines().collect::<Vec<_>>().join("; ");
        at(Misread::Syntax(problem), error.span().unwrap_or_default())
    })
}

/// The keys of a table that mean nothing there.
pub(crate) fn unknown_keys(
    table: &DeTable<'_>,
    prefix: &str,
    known: &'static [&'static str],
) -> Vec<UnknownKey> {
    let unknown = table.iter().filter(|(key, _)| !known.contains(&key.get_ref().as_ref()));
    unknown
        .map(|(key, value)| {
            let path = format!("{prefix}{}", key.get_ref());
            UnknownKey {
                span: key.span(),
                is_unenforced: is_unenforced(&path, value.get_ref()),
                near: suggest(key.get_ref(), known.iter().copied()),
                path,
            }
        })
        .collect()
}

/// A mistake at a place.
pub(crate) fn at<F: From<E>, E>(fault: E, span: Range<usize>) -> Misplaced<F> {
    Misplaced { span, fault: fault.into() }
}

/// A value that is something else than what belongs there.
pub(crate) fn wrong<F: From<Misread>>(
    value: &Value<'_>,
    key: &'static str,
    expected: &'static str,
) -> Misplaced<F> {
    at(Misread::Type { key, expected }, value.span())
}

pub(crate) fn table<'a, 't, F: From<Misread>>(
    value: &'a Value<'t>,
    key: &'static str,
    expected: &'static str,
) -> Result<&'a DeTable<'t>, Misplaced<F>> {
    match value.get_ref() {
        DeValue::Table(table) => Ok(table),
        _ => Err(wrong(value, key, expected)),
    }
}

pub(crate) fn list<'a, 't, F: From<Misread>>(
    value: &'a Value<'t>,
    key: &'static str,
    expected: &'static str,
) -> Result<&'a [Value<'t>], Misplaced<F>> {
    match value.get_ref() {
        DeValue::Array(list) => Ok(&list[..]),
        _ => Err(wrong(value, key, expected)),
    }
}

pub(crate) fn text<F: From<Misread>>(
    value: &Value<'_>,
    key: &'static str,
) -> Result<String, Misplaced<F>> {
    let text = value.get_ref().as_str().map(str::to_owned);
    text.ok_or_else(|| wrong(value, key, "a text in quotes"))
}

pub(crate) fn number<F: From<Misread>>(
    value: &Value<'_>,
    key: &'static str,
) -> Result<u64, Misplaced<F>> {
    let number = match value.get_ref() {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    number.ok_or_else(|| wrong(value, key, "a whole number"))
}
