//! What is wrong with settings, as a value that any view can show.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Whether settings with a problem can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// They cannot.
    Error,
    /// They can, but hardly as they were meant.
    Warning,
    /// They can be read, but a run does not begin with them: a key would limit it that is not enforced.
    Unenforced,
}

/// Something wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// What the text is called: a file, a variable or a flag.
    pub name: String,
    /// The whole text.
    pub text: Arc<str>,
    /// The bytes of it that are meant.
    pub span: Range<usize>,
    /// What is wrong, in a few words.
    pub message: String,
    /// What to say about those bytes; may be empty.
    pub label: String,
    /// What could be done about it.
    pub hint: Option<String>,
}

impl Problem {
    /// Whether the settings cannot be used.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Where the meant bytes begin.
    pub fn place(&self) -> Place {
        Place::of(&self.text, self.span.start)
    }

    /// The problem in one line, without the name of the text.
    pub fn in_short(&self) -> String {
        let Problem { message, label, .. } = self;
        let separator = if label.is_empty() { "" } else { "; " };
        format!("{}: {message}{separator}{label}", self.place())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name.escape_debug(), self.in_short())?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Where in a text something is, counted in lines and characters from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl Place {
    /// The beginning of a text.
    pub const START: Place = Place { line: 1, column: 1 };

    /// The place of a byte.
    pub fn of(text: &str, byte: usize) -> Place {
        Place::START.behind(&text.as_bytes()[..byte.min(text.len())])
    }

    /// The place behind these bytes, which begin here.
    #[must_use]
    pub fn behind(self, bytes: &[u8]) -> Place {
        // A character is counted by its first byte.
        let is_first = |byte: &&u8| **byte & 0b1100_0000 != 0b1000_0000;
        let characters = |bytes: &[u8]| bytes.iter().filter(is_first).count();
        match memchr::memrchr(b'\n', bytes) {
            None => Place { column: self.column + characters(bytes), ..self },
            Some(newline) => Place {
                line: self.line + memchr::memchr_iter(b'\n', bytes).count(),
                column: 1 + characters(&bytes[newline + 1..]),
            },
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_problem_is_told_in_one_line() {
        let problem = Problem {
            severity: Severity::Error,
            name: "autoloops\u{1b}.toml".into(),
            text: "a = 1\nb = 2".into(),
            span: 10..11,
            message: "b is 2".into(),
            label: "accepted is 3".into(),
            hint: Some("write b = 3".into()),
        };
        insta::assert_snapshot!(problem, @r"autoloops\u{1b}.toml: line 2, column 5: b is 2; accepted is 3 (write b = 3)");
        let bare = Problem { label: String::new(), hint: None, ..problem };
        insta::assert_snapshot!(bare, @r"autoloops\u{1b}.toml: line 2, column 5: b is 2");
    }

    proptest! {
        #[test]
        fn a_place_is_where_an_editor_shows_it(lines in prop::collection::vec("[a-zé🎉]{0,6}", 1..5), pick: prop::sample::Index) {
            let text = lines.join("\n");
            let line = pick.index(lines.len());
            let start: usize = lines[..line].iter().map(|line| line.len() + 1).sum();
            for (column, (at, _)) in lines[line].char_indices().enumerate() {
                let expected = Place { line: line + 1, column: column + 1 };
                prop_assert_eq!(Place::of(&text, start + at), expected);
            }
        }
    }
}
