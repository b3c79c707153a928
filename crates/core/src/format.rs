//! How a view is written out.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::str::FromStr;

use serde::Serialize;

/// For whom a view is written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For prompts and notes.
    Markdown,
    /// For a person.
    Terminal,
    /// For programs.
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

/// Whether a terminal or an editor does something else than to show a character: controls, marks of
/// direction and separators of lines.
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A JSON text that means the same, with everything that is [obeyed](is_obeyed) as an escape. Outside of strings JSON
/// has none of these but line breaks, which stay.
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

/// A value as JSON over several lines, ended by a line break, without anything that is obeyed.
pub fn json_text(value: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    safe_json(&json).into_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn safe_json_means_the_same(texts in proptest::collection::vec(any::<String>(), 0..4), nasty in "[\u{0}-\u{a0}\u{200e}\u{2028}\u{202e}\u{2066}]{0,9}") {
            let texts: Vec<String> = texts.into_iter().chain([nasty]).collect();
            let json = json_text(&texts);
            prop_assert!(!json.contains(|c| is_obeyed(c) && c != '\n'));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), texts);
        }
    }
}
