//! The violations of a review, as they are recorded.

use std::fmt::{self, Write as _};
use std::io;

use autoloop_core::record::{ReviewViolation, ViolationOutcome};

use crate::sandbox::{Allowed, ReviewChanges, Violation, ViolationKind};

/// So many violations are recorded one by one.
const MOST_RECORDED: usize = 100;
/// The longest diff that is recorded, in bytes.
const LONGEST_DIFF: usize = 1024 * 1024;

#[derive(Clone, Debug, Default)]
pub(crate) struct Violations {
    /// Of the review.
    kind: String,
    violations: Vec<ReviewViolation>,
    /// The allowed changes.
    pub(crate) diff: Option<String>,
    /// For the next prompt.
    pub(crate) notices: Vec<String>,
    /// How many violations are not recorded one by one.
    omitted: usize,
}

impl Violations {
    pub(crate) fn of(kind: &str) -> Violations {
        Violations { kind: kind.to_owned(), ..Violations::default() }
    }

    /// Adds changes, allowed or not.
    pub(crate) fn add(&mut self, changes: &ReviewChanges) {
        self.add_violations(&changes.violations);
        self.diff = diff(&changes.allowed).or(self.diff.take());
        let is_broken = |it: &&Violation| matches!(it.kind, ViolationKind::Unreadable(_));
        let broken = changes.violations.iter().filter(is_broken);
        self.notices.extend(broken.map(|broken| format!("a metareview broke {broken}")));
    }

    pub(crate) fn add_violations(&mut self, violations: &[Violation]) {
        for violation in violations {
            if self.violations.len() >= MOST_RECORDED {
                self.omitted += 1;
                continue;
            }
            let place = violation.place().display();
            let mut recorded = self.violation(place, &violation.kind, violation.outcome());
            recorded.beneath = Some(violation.beneath as u64).filter(|count| *count > 0);
            self.violations.push(recorded);
        }
    }

    pub(crate) fn add_moved(&mut self) {
        self.violations.push(self.violation(
            "HEAD",
            "another commit checked out",
            ViolationOutcome::PutBack,
        ));
    }

    pub(crate) fn fail(&mut self, what: &str, error: &io::Error) {
        let failed =
            self.violation(".", format_args!("{what}: {error}"), ViolationOutcome::NotPutBack);
        self.violations.push(failed);
    }

    pub(crate) fn all_violations(&self) -> Vec<ReviewViolation> {
        let omitted = (self.omitted > 0).then(|| {
            let what = format!("{} more changes of this review", self.omitted);
            self.violation(".", what, ViolationOutcome::NotListed)
        });
        self.violations.iter().cloned().chain(omitted).collect()
    }

    fn violation(
        &self,
        path: impl fmt::Display,
        what: impl fmt::Display,
        outcome: ViolationOutcome,
    ) -> ReviewViolation {
        ReviewViolation {
            kind: self.kind.clone(),
            path: path.to_string(),
            what: what.to_string(),
            outcome: outcome.into(),
            beneath: None,
        }
    }
}

/// All allowed changes as one diff; those that would make it too long are only named.
fn diff(allowed: &[Allowed]) -> Option<String> {
    let mut text = String::new();
    for change in allowed {
        let Some(diff) = &change.diff else { continue };
        if text.len() + diff.text.len() <= LONGEST_DIFF {
            text.push_str(&diff.text);
        } else {
            let path = change.path.display();
            let _ = writeln!(text, "--- a/{path}\n+++ b/{path}\n# too much to show");
        }
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use autoloop_core::permissions::{Kind, What};

    use super::*;

    #[test]
    fn many_violations_are_counted() {
        let one = |number: usize| Violation {
            path: format!("f{number}").into(),
            kind: ViolationKind::Changed(What::Added(Kind::File)),
            beneath: 0,
            restored: true,
        };
        let mut violations = Violations::of("metareview");
        violations.add_violations(&(0..250).map(one).collect::<Vec<_>>());
        let all = violations.all_violations();
        assert_eq!(all.len(), 101);
        assert_eq!((all[0].path.as_str(), all[0].outcome.as_str()), ("f0", "put back"));
        assert_eq!(all[100].what, "150 more changes of this review");
    }
}
