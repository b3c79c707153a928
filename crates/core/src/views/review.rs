//! One metareview: its sandbox, how it ended, its violations.

use std::fmt::Write as _;

use serde::Serialize;

use crate::record::{Event, ExitCode, Glance};
use crate::text::{head, one_line};

/// No review of ours records more violations.
const MOST_KEPT: usize = 200;
/// In characters.
const LONGEST: usize = 1000;

/// Finds one review of one run in the records of a journal, each with its place. A restarted review
/// replaces the earlier attempt. Long texts are not kept, only their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewSearch<P> {
    run: String,
    /// The iteration that the review precedes; `None` for the latest.
    before: Option<u64>,
    pub found: Option<Review<P>>,
    /// The first and the last iteration that a review precedes.
    pub others: Option<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review<P> {
    pub run: String,
    pub before: u64,
    /// As written.
    pub began: Option<String>,
    pub kind: String,
    pub command: String,
    pub enforcement: Option<String>,
    pub violations: Vec<Violation>,
    pub more_violations: u64,
    /// `None` while it runs, or where it was interrupted.
    pub end: Option<End<P>>,
    pub reverted: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub path: String,
    pub what: String,
    pub outcome: String,
    /// How many changes below this path are part of it.
    pub beneath: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End<P> {
    /// As written.
    pub at: Option<String>,
    pub exit_code: ExitCode,
    pub timed_out: bool,
    /// Whether it made allowed changes.
    pub has_diff: bool,
    pub place: P,
}

impl<P> ReviewSearch<P> {
    pub fn new(run: impl Into<String>, before: Option<u64>) -> Self {
        ReviewSearch { run: run.into(), before, found: None, others: None }
    }

    pub fn apply(&mut self, record: &Glance<'_>, place: impl FnOnce() -> P) {
        if record.has_payload() || record.run() != self.run {
            return;
        }
        let event = record.event();
        let number = match &event {
            Event::LoopReverted(reverted) => reverted.review,
            _ => record.iteration().parse().ok(),
        };
        let Some(number) = number else { return };
        if let Event::ReviewStart(start) = event {
            let (first, last) = self.others.unwrap_or((number, number));
            self.others = Some((first.min(number), last.max(number)));
            if self.before.is_none_or(|before| before == number) {
                self.found = Some(Review {
                    run: self.run.clone(),
                    before: number,
                    began: record.ts().map(Into::into),
                    kind: start.kind,
                    command: start.command,
                    enforcement: start.enforcement,
                    violations: Vec::new(),
                    more_violations: 0,
                    end: None,
                    reverted: None,
                });
            }
            return;
        }
        let Some(review) = self.found.as_mut().filter(|review| review.before == number) else {
            return;
        };
        match event {
            Event::ReviewViolation(_) if review.violations.len() >= MOST_KEPT => {
                review.more_violations += 1;
            }
            Event::ReviewViolation(violation) => review.violations.push(Violation {
                path: cut(&violation.path),
                what: cut(&violation.what),
                outcome: cut(violation.outcome.as_str()),
                beneath: violation.beneath.unwrap_or_default(),
            }),
            Event::ReviewFinish(finish) => {
                review.end = Some(End {
                    at: record.ts().map(Into::into),
                    exit_code: finish.exit_code,
                    timed_out: finish.timed_out,
                    has_diff: finish.diff.is_some_and(|diff| !diff.read().is_empty()),
                    place: place(),
                });
            }
            Event::LoopReverted(_) => {
                review.reverted = Some(record.ts().unwrap_or_default().into_owned());
            }
            _ => {}
        }
    }
}

/// In one line, so that nothing in it is taken for another fact.
fn cut(text: &str) -> String {
    head(&one_line(head(text, LONGEST)), LONGEST).to_owned()
}

impl<P> Review<P> {
    /// Everything but the long texts, by name.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts =
            vec![("run", self.run.clone()), ("before", format!("iteration {}", self.before))];
        facts.extend(self.began.clone().map(|began| ("began", began)));
        facts.push(("command", self.command.clone()));
        let bounds = self.enforcement.clone();
        facts.push(("sandbox", bounds.unwrap_or_else(|| "not recorded".to_owned())));
        facts.push(("ended", self.ended()));
        if let Some(at) = &self.reverted {
            facts.push(("reverted", at.clone()));
        }
        facts
    }

    fn ended(&self) -> String {
        let Some(end) = &self.end else { return "not yet, or interrupted".to_owned() };
        let mut text = format!("exit code {}", end.exit_code);
        if end.timed_out {
            text.push_str(", timed out");
        }
        if let Some(at) = &end.at {
            let _ = write!(text, ", {at}");
        }
        text
    }

    pub fn violation_lines(&self) -> Vec<String> {
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

#[cfg(test)]
mod tests;
