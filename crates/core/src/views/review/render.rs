//! What can be said about a review before its long texts.

use std::fmt::Write as _;

use super::{Review, Violation};

impl<P> Review<P> {
    /// Everything but the long texts, each as a name and what it is.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts =
            vec![("run", self.run.clone()), ("before", format!("iteration {}", self.before))];
        facts.extend(self.began.clone().map(|began| ("began", began)));
        facts.push(("command", self.command.clone()));
        let bounds = self.enforcement.clone();
        facts.push(("held by", bounds.unwrap_or_else(|| "nothing that is on record".to_owned())));
        facts.push(("ended", self.ended()));
        if let Some(at) = &self.reverted {
            facts.push(("undone", at.clone()));
        }
        facts
    }

    fn ended(&self) -> String {
        let Some(end) = &self.end else { return "not yet, or it was cut off".to_owned() };
        let mut text = format!("exit code {}", end.exit_code);
        if end.timed_out {
            text.push_str(", its time was up");
        }
        if let Some(at) = &end.at {
            let _ = write!(text, ", {at}");
        }
        text
    }

    /// What it may not have done, one line each.
    pub fn told_violations(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.violations.iter().map(ToString::to_string).collect();
        if self.more_violations > 0 {
            lines.push(format!("{} more", self.more_violations));
        }
        lines
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.what)?;
        if self.beneath > 0 {
            write!(f, ", with {} more inside", self.beneath)?;
        }
        write!(f, " ({})", self.outcome)
    }
}
