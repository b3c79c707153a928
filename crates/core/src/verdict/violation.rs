//! Why what a reviewer said is no verdict.

use super::scan::{Flaw, Kind};
use crate::agents::Outcome;
use crate::config::Place;

/// How the contract was broken. Printed, it is told to people and put on record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The stream of the client has no last message, or tells of a failure.
    #[error("{0}")]
    Unanswered(Outcome),
    /// Nothing but white space.
    #[error("the reviewer's final message is empty; it has to hold a JSON object with the verdict")]
    Empty,
    /// No `{` anywhere.
    #[error(
        "there is no '{{' in the reviewer's final message, so there is no JSON object with a verdict"
    )]
    NoObject,
    /// Something else than an object begins at the first `{`.
    #[error("the first '{{' (at {begin}) does not begin a JSON object: at {at}, {flaw}{}", there(.quote))]
    NotJson {
        /// Where the first `{` is.
        begin: Place,
        /// Where it goes wrong.
        at: Place,
        /// What is wrong there.
        flaw: Flaw,
        /// The text around the first `{`, where text comes before it.
        quote: Option<String>,
    },
    /// The message ends inside of the object.
    #[error("the JSON object that begins at {0} is cut off: the message ends before its last '}}'")]
    CutOff(Place),
    /// A key that is not there.
    #[error("the first JSON object has no '{key}'; {}{}", keys(.found), there(.quote))]
    Missing {
        /// The key.
        key: &'static str,
        /// The first of those that are there.
        found: Vec<String>,
        /// The text around the first `{`, where text comes before it.
        quote: Option<String>,
    },
    /// A value that is no string.
    #[error("'{key}' is {found}; it has to be a string")]
    NotText {
        /// The key.
        key: &'static str,
        /// What its value is.
        found: Kind,
    },
    /// A verdict of another name.
    #[error("'verdict' is '{}'; it can only be 'pass' or 'drift'", .0.escape_debug())]
    BadVerdict(String),
}

impl Violation {
    /// Whether the object looks like an event out of a client's stream, which nobody unwrapped.
    pub fn looks_like_a_stream(&self) -> bool {
        match self {
            Violation::Missing { found, .. } => found.iter().any(|key| key == "type"),
            _ => false,
        }
    }
}

/// The text around the first `{`, quoted at the end of a message.
fn there(quote: &Option<String>) -> String {
    quote.as_ref().map(|quote| format!("; the text there: {quote}")).unwrap_or_default()
}

fn keys(found: &[String]) -> String {
    match found {
        [] => "it is empty".to_owned(),
        found => {
            let found = found.iter().map(|key| format!("'{}'", key.escape_debug()));
            format!("it begins with {}", found.collect::<Vec<_>>().join(", "))
        }
    }
}
