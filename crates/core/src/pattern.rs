//! A name of an event, or a description of several.

use std::fmt;

use regex_lite::Regex;

#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    regex: Option<Regex>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not a regular expression: {problem}", .text.escape_debug())]
pub struct BadPattern {
    /// With slashes.
    pub text: String,
    pub problem: String,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Pattern, BadPattern> {
        let regex = inside_slashes(text)
            .map(|inside| Regex::new(&format!("^(?:{inside})$")))
            .transpose()
            .map_err(|error| BadPattern { text: text.to_owned(), problem: error.to_string() })?;
        Ok(Pattern { text: text.to_owned(), regex })
    }

    pub fn matches(&self, event: &str) -> bool {
        match &self.regex {
            Some(regex) => regex.is_match(event),
            None => self.text == event,
        }
    }

    /// The event, if it is not a regular expression.
    pub fn exact(&self) -> Option<&str> {
        self.regex.is_none().then_some(&self.text)
    }

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
