//! A name of an event, or a description of several.

use std::fmt;

use regex_lite::Regex;

/// An event as a topology names it: exactly, or as `/…/`, a regular expression for the whole name.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    /// Set when the text is `/…/`.
    regex: Option<Regex>,
}

/// What stands between the slashes is not a regular expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not a regular expression: {problem}", .text.escape_debug())]
pub struct BadPattern {
    /// The pattern, slashes included.
    pub text: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// When it is `/…/` and what stands in between is not a regular expression.
    pub fn parse(text: &str) -> Result<Pattern, BadPattern> {
        let regex = inside_slashes(text)
            .map(|inside| Regex::new(&format!("^(?:{inside})$")))
            .transpose()
            .map_err(|error| BadPattern { text: text.to_owned(), problem: error.to_string() })?;
        Ok(Pattern { text: text.to_owned(), regex })
    }

    /// Whether an event is meant by it.
    pub fn matches(&self, event: &str) -> bool {
        match &self.regex {
            Some(regex) => regex.is_match(event),
            None => self.text == event,
        }
    }

    /// The event, if exactly one is meant.
    pub fn exact(&self) -> Option<&str> {
        self.regex.is_none().then_some(&self.text)
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn inside_slashes(text: &str) -> Option<&str> {
    text.strip_prefix('/')?.strip_suffix('/').filter(|inside| !inside.is_empty())
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_itself_and_an_expression_the_whole_name() {
        for (pattern, event, matches) in [
            ("build.blocked", "build.blocked", true),
            ("build.blocked", "buildXblocked", false),
            ("/build\\..*/", "build.blocked", true),
            ("/build\\..*/", "rebuild.blocked", false),
            ("/a|b/", "a", true),
            ("/a|b/", "b", true),
            ("/a|b/", "ab", false),
            ("/", "/", true),
            ("//", "//", true),
            ("/half", "/half", true),
        ] {
            assert_eq!(
                Pattern::parse(pattern).unwrap().matches(event),
                matches,
                "{pattern} {event}"
            );
        }
    }

    #[test]
    fn what_is_no_expression_is_told() {
        let error = Pattern::parse("/build(/").unwrap_err();
        assert_eq!(error.text, "/build(/");
        assert!(
            error.to_string().starts_with("'/build(/' is not a regular expression: "),
            "{error}"
        );
    }
}
