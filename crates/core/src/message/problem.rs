//! What is wrong with a message or a packet, and where.

use serde::Serialize;

/// The maximum number of errors that are reported for one file.
const MAX_ERRORS: usize = 100;

/// A line and a column, in characters, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl Place {
    pub const START: Place = Place { line: 1, column: 1 };

    /// The place behind a text that begins at the start of the file.
    pub(super) fn after(text: &str) -> Place {
        let line = text.matches('\n').count() + 1;
        let last = text.rsplit('\n').next().unwrap_or_default();
        Place { line, column: last.chars().count() + 1 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub message: String,
    pub line: usize,
    pub column: usize,
}

impl Problem {
    pub fn new(at: Place, message: impl Into<String>) -> Self {
        Problem { message: message.into(), line: at.line, column: at.column }
    }
}

/// All problems of one file. It is accepted if there is no error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Problems {
    pub errors: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

impl Problems {
    pub fn is_accepted(&self) -> bool {
        self.errors.is_empty()
    }

    pub fn error(&mut self, at: Place, message: impl Into<String>) {
        self.push(Problem::new(at, message));
    }

    pub(super) fn push(&mut self, problem: Problem) {
        match self.errors.len() {
            count if count < MAX_ERRORS => self.errors.push(problem),
            MAX_ERRORS => self.errors.push(Problem {
                message: format!("more than {MAX_ERRORS} problems; the rest is left out"),
                ..problem
            }),
            _ => {}
        }
    }

    pub fn warning(&mut self, at: Place, message: impl Into<String>) {
        if self.warnings.len() < MAX_ERRORS {
            self.warnings.push(Problem::new(at, message));
        }
    }
}
