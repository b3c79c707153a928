//! Checks: commands that the harness runs on a clean checkout of a commit, and what they showed.
//!
//! A result is a record, [`CheckFinish`]: an observation of the harness, whatever an agent reports about the same
//! command.

use std::fmt::Write as _;
use std::time::Duration;

use crate::duration;
use crate::record::{CheckFinish, ExitCode};
use crate::text::{fenced, one_line};

impl CheckFinish {
    pub fn passed(&self) -> bool {
        self.exit_code == ExitCode::from(0) && !self.timed_out && self.reason.is_none()
    }

    /// The result in a few words.
    pub fn result(&self) -> String {
        let elapsed = duration::print(Duration::from_secs(self.elapsed_ms / 1_000));
        match (&self.reason, self.timed_out) {
            (Some(reason), _) => format!("could not be run: {reason}"),
            (None, true) => format!("timed out after {elapsed}"),
            (None, false) if self.passed() => format!("passed in {elapsed}"),
            (None, false) => format!("exit code {} after {elapsed}", self.exit_code),
        }
    }
}

/// A command on one line, in backquotes.
pub fn in_code(command: &str) -> String {
    format!("`{}`", one_line(command).replace('`', "'"))
}

/// The results as an agent reads them: a line per check, and below a failed one the end of its output.
pub fn render(results: &[CheckFinish]) -> String {
    let mut text = String::new();
    for result in results {
        // A failed write to a string does not exist.
        let _ = writeln!(text, "- {}: {}", in_code(&result.command), result.result());
        if !result.passed() && !result.output.is_empty() {
            text.push_str(&fenced(&result.output));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exit_code_0_in_time_passes() {
        let result = |change: fn(&mut CheckFinish)| {
            let mut result = CheckFinish {
                command: "make test".to_owned(),
                exit_code: 0.into(),
                elapsed_ms: 61_000,
                output: "1 failed\n2 passed".to_owned(),
                ..CheckFinish::default()
            };
            change(&mut result);
            result
        };
        let results = [
            result(|_| {}),
            result(|result| result.exit_code = 2.into()),
            result(|result| result.timed_out = true),
            result(|result| result.reason = Some("no such directory".to_owned())),
        ];
        assert_eq!(results.each_ref().map(CheckFinish::passed), [true, false, false, false]);
        insta::assert_snapshot!(render(&results), @r"
        - `make test`: passed in 1m1s
        - `make test`: exit code 2 after 1m1s
        ```text
        1 failed
        2 passed
        ```
        - `make test`: timed out after 1m1s
        ```text
        1 failed
        2 passed
        ```
        - `make test`: could not be run: no such directory
        ```text
        1 failed
        2 passed
        ```
        ");
    }
}
