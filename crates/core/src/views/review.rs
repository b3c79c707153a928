//! One metareview: what held it to its bounds, how it ended, what it changed.

mod render;

use serde::Serialize;

use crate::record::{Event, ExitCode, Glance};
use crate::text::{head, one_line};

/// So many violations are kept; no review of ours has more on record.
const MOST_KEPT: usize = 200;
/// So many characters are kept of what a violation is about.
const LONGEST: usize = 1000;

/// Takes in the records of a journal, each with its place, and keeps those of one review of one run.
/// One that was begun again counts as it was the last time.
///
/// Long texts are not kept: whoever wants them finds them at their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewSearch<P> {
    run: String,
    /// The iteration that it came before; `None` is the latest.
    before: Option<u64>,
    /// The review.
    pub found: Option<Review<P>>,
    /// The first and the last iteration that a review came before.
    pub others: Option<(u64, u64)>,
}

/// A review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review<P> {
    /// The run.
    pub run: String,
    /// The iteration that it came before.
    pub before: u64,
    /// When it began, if that is on record.
    pub began: Option<String>,
    /// Which sort of review.
    pub kind: String,
    /// What was run.
    pub command: String,
    /// What held it to its bounds.
    pub enforcement: Option<String>,
    /// What it changed and may not have changed.
    pub violations: Vec<Violation>,
    /// How many more there are.
    pub more_violations: u64,
    /// How it ended; `None` while it runs, or when it was cut off.
    pub end: Option<End<P>>,
    /// When it was undone.
    pub reverted: Option<String>,
}

/// Something that a reviewer may not have done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// To what.
    pub path: String,
    /// What.
    pub what: String,
    /// What came of it.
    pub outcome: String,
    /// How many more changes inside of it belong to it.
    pub beneath: u64,
}

/// How a review ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End<P> {
    /// When, if that is on record.
    pub at: Option<String>,
    /// The status of the reviewer.
    pub exit_code: ExitCode,
    /// Whether its time was up.
    pub timed_out: bool,
    /// Whether anything that was allowed is different.
    pub has_diff: bool,
    /// Where its output and its diff are.
    pub place: P,
}

impl<P> ReviewSearch<P> {
    /// Looks for a review before an iteration, or for the latest one.
    pub fn new(run: impl Into<String>, before: Option<u64>) -> Self {
        ReviewSearch { run: run.into(), before, found: None, others: None }
    }

    /// Takes in a record.
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
                outcome: cut(&violation.outcome),
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

/// In one line, so that nothing in it passes for another fact.
fn cut(text: &str) -> String {
    head(&one_line(head(text, LONGEST)), LONGEST).to_owned()
}

#[cfg(test)]
mod tests;
