//! How a view is written out.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::str::FromStr;

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};

/// The reader of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prompts and notes.
    Markdown,
    Terminal,
    Json,
}

impl FromStr for Format {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "md" => Ok(Format::Markdown),
            "terminal" | "text" => Ok(Format::Terminal),
            "json" => Ok(Format::Json),
            _ => Err("the formats are md, terminal and json"),
        }
    }
}

/// A number of tokens in three digits: `950 tokens`, `41.2k tokens`, `1.3M tokens`.
pub fn tokens(count: u64) -> String {
    let exact = count as f64;
    let (scaled, unit) = match count {
        0..1_000 => return format!("{count} token{}", if count == 1 { "" } else { "s" }),
        1_000..999_500 => (exact / 1e3, "k"),
        999_500..999_500_000 => (exact / 1e6, "M"),
        _ => (exact / 1e9, "G"),
    };
    let decimals = usize::from(scaled < 99.95);
    format!("{scaled:.decimals$}{unit} tokens")
}

/// Whether a terminal or an editor interprets a character instead of showing it: controls, direction marks
/// and line separators.
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes everything that is [interpreted](is_obeyed) in a JSON text. Outside of strings JSON contains only
/// line breaks of these, which stay.
pub fn safe_json(json: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| is_obeyed(c) && c != '\n';
    if !json.contains(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match is_unsafe(c) {
            // All of them fit into one escape. Writing to a string cannot fail.
            true => _ = write!(safe, "\\u{:04x}", u32::from(c)),
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Prints JSON on several lines with a final line break, without characters that are
/// [interpreted](is_obeyed).
pub fn json_text(value: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    safe_json(&json).into_owned() + "\n"
}

/// Prints JSON on one line without a line break. Quotes and backslashes are escaped as in the journal, so
/// that none can look like the beginning of a record.
pub fn json_line(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    // Writing to memory cannot fail, and what is shown has a JSON form.
    let _ = write_json_line(value, &mut bytes);
    String::from_utf8(bytes).unwrap_or_default()
}

/// Writes what [`json_line`] returns, piece by piece.
pub fn write_json_line(value: &impl Serialize, out: &mut impl io::Write) -> io::Result<()> {
    Ok(value.serialize(&mut Serializer::with_formatter(out, OneLine))?)
}

/// Serializes a text as a number if it is one: other writers of journals may number differently.
#[derive(Clone, Copy, Debug)]
pub struct NumberOrText<'a>(pub &'a str);

impl Serialize for NumberOrText<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0.parse::<i64>() {
            Ok(number) => to.serialize_i64(number),
            Err(_) => to.serialize_str(self.0),
        }
    }
}

struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        out.write_all(if first { &b""[..] } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        out.write_all(if first { &b""[..] } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        let byte = match escape {
            CharEscape::Quote => b'"',
            CharEscape::ReverseSolidus => b'\\',
            CharEscape::Solidus => b'/',
            CharEscape::Backspace => 0x08,
            CharEscape::FormFeed => 0x0c,
            CharEscape::LineFeed => b'\n',
            CharEscape::CarriageReturn => b'\r',
            CharEscape::Tab => b'\t',
            CharEscape::AsciiControl(byte) => byte,
        };
        write!(out, "\\u{byte:04x}")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        out.write_all(safe_json(text).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tokens_are_printed_in_three_digits() {
        let counts =
            [0, 1, 999, 1_000, 41_234, 99_949, 99_950, 999_499, 999_500, 1_250_000, 5 << 30];
        assert_eq!(
            counts.map(tokens).join(", "),
            "0 tokens, 1 token, 999 tokens, 1.0k tokens, 41.2k tokens, 99.9k tokens, 100k tokens, \
             999k tokens, 1.0M tokens, 1.2M tokens, 5.4G tokens"
        );
    }

    #[test]
    fn json_in_one_line_has_spaces_and_no_control_character() {
        let value =
            serde_json::json!([{ "text": "a\"b\\c\n\u{7f}\u{9b}é", "none": null }, [1, [], {}]]);
        insta::assert_snapshot!(json_line(&value), @r#"[{"text": "a\u0022b\u005cc\u000a\u007f\u009bé", "none": null}, [1, [], {}]]"#);
    }

    proptest! {
        #[test]
        fn safe_json_means_the_same(texts in proptest::collection::vec(any::<String>(), 0..4), nasty in "[\u{0}-\u{a0}\u{200e}\u{2028}\u{202e}\u{2066}]{0,9}") {
            let texts: Vec<String> = texts.into_iter().chain([nasty]).collect();
            for json in [json_text(&texts), json_line(&texts)] {
                prop_assert!(!json.contains(|c| is_obeyed(c) && c != '\n'));
                prop_assert_eq!(&serde_json::from_str::<Vec<String>>(&json).unwrap(), &texts);
            }
        }
    }
}
