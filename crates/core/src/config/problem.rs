//! What is wrong with settings, as a value that any view can show.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Whether settings with a problem can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    Error,
    Warning,
    /// They can be read, but no run starts with them: a key sets a limit that is not enforced.
    Unenforced,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    pub name: String,
    pub text: Arc<str>,
    pub span: Range<usize>,
    pub message: String,
    /// A remark on those bytes; may be empty.
    pub label: String,
    pub hint: Option<String>,
}

impl Problem {
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

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

/// A position in a text, counted in lines and characters from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl Place {
    pub const START: Place = Place { line: 1, column: 1 };

    pub fn of(text: &str, byte: usize) -> Place {
        Place::START.behind(&text.as_bytes()[..byte.min(text.len())])
    }

    /// The position after these bytes, which begin here.
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
            label: "expected 3".into(),
            hint: Some("write b = 3".into()),
        };
        insta::assert_snapshot!(problem, @r"autoloops\u{1b}.toml: line 2, column 5: b is 2; expected 3 (write b = 3)");
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
