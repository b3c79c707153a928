//! `[checks.NAME]`: the commands with which a project is checked.

use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;

use super::key::Kind;
use super::layer::{LayerContent, Reader};
use super::problem::Severity;
use super::value::{Refusal, Value, found, read};
use crate::suggest::suggest;

/// The table of the checks.
pub(super) const CHECKS: &str = "checks";

/// A command for the shell, with which the harness checks a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Empty for a command that a reviewer cited.
    pub name: String,
    pub command: String,
    pub timeout: Duration,
}

impl Check {
    /// How long a check may take, unless its settings say otherwise.
    pub const TIMEOUT: Duration = Duration::from_secs(600);

    /// A command that a reviewer cited.
    pub fn cited(command: &str) -> Check {
        Check { name: String::new(), command: command.to_owned(), timeout: Check::TIMEOUT }
    }
}

/// A check, and the bytes of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WrittenCheck {
    pub(super) check: Check,
    pub(super) span: Range<usize>,
}

impl Reader<'_> {
    /// Reads `[checks.NAME]` tables, each with a command and perhaps a timeout.
    pub(super) fn checks(&mut self, written: &Spanned<DeValue<'_>>) {
        let DeValue::Table(checks) = written.get_ref() else {
            let label = "expected a table like [checks.test]";
            let message = format!("{CHECKS} is {}", found(written.get_ref()));
            return self.error(written.span(), message, label);
        };
        for (name, value) in checks {
            self.check(name.get_ref(), name.span(), value);
        }
    }

    fn check(&mut self, name: &str, span: Range<usize>, written: &Spanned<DeValue<'_>>) {
        let path = format!("{CHECKS}.{}", name.escape_debug());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || !name.chars().all(is_plain) {
            let label = "expected letters, digits, '-' and '_'";
            return self.error(span, format!("invalid name of a check: {path}"), label);
        }
        let DeValue::Table(fields) = written.get_ref() else {
            let message = format!("{path} is {}", found(written.get_ref()));
            return self.error(written.span(), message, format!("expected a table: [{path}]"));
        };
        let mut check =
            Check { name: name.to_owned(), command: String::new(), timeout: Check::TIMEOUT };
        let errors = |content: &LayerContent| {
            content.problems.iter().filter(|problem| problem.is_error()).count()
        };
        let before = errors(&self.content);
        for (key, value) in fields {
            let kind = match &**key.get_ref() {
                "command" => Kind::NeededText,
                "timeout_ms" => Kind::Millis { least: 1 },
                other => {
                    let near = suggest(other, ["command", "timeout_ms"]);
                    let label =
                        near.map_or("no such key".into(), |near| format!("did you mean {near}?"));
                    let message = format!("unknown key {path}.{}", other.escape_debug());
                    self.problem(self.severity_of_unknown(), key.span(), message, label, None);
                    continue;
                }
            };
            match read(kind, value) {
                Ok(Value::Text(command)) => check.command = command,
                Ok(Value::Time(timeout)) => check.timeout = timeout,
                Ok(_) => {}
                Err(Refusal { span, found, label, hint }) => {
                    let message = format!("{path}.{} is {found}", key.get_ref());
                    let span = span.unwrap_or(value.span());
                    self.problem(Severity::Error, span, message, label, hint);
                }
            }
        }
        match check.command.is_empty() {
            false => self.content.checks.push(WrittenCheck { check, span }),
            // The command was refused.
            true if errors(&self.content) > before => {}
            true => {
                let label = "expected a command for the shell: command = \"make test\"";
                self.error(span, format!("{path} has no command"), label);
            }
        }
    }
}
