//! A verdict as JSON, for people who try a reviewer, and for programs.

use serde::Serialize;

use super::{Verdict, Violation};

/// What was read, about to be printed: an object with `verdict`, `followUpPrompt` and `reason`.
///
/// What is no verdict has `"violation"` in its place, and a reason. The text is never copied: it may be long.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Printed<'r> {
    verdict: &'static str,
    follow_up_prompt: Option<&'r str>,
    reason: Option<String>,
}

impl<'r> Printed<'r> {
    /// The object for what was read.
    pub fn new(read: &'r Result<Verdict, Violation>) -> Self {
        match read {
            Ok(Verdict { ruling, follow_up }) => {
                Printed { verdict: ruling.name(), follow_up_prompt: Some(follow_up), reason: None }
            }
            Err(violation) => Printed {
                verdict: "violation",
                follow_up_prompt: None,
                reason: Some(violation.to_string()),
            },
        }
    }
}
