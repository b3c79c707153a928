//! What a check found.

use autoloop_core::table;
use serde::Serialize;

use crate::style::{Color, Tone};
use crate::terminal;

/// What a check found, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What was looked at.
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    /// What was found, in one line.
    pub(super) found: String,
    /// What to do about it; nothing where all is well.
    pub(super) advice: Option<String>,
}

/// Whether a loop can be run with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// A loop can be run, but something will be missing or could go wrong.
    Warning,
    /// A loop cannot be run.
    Problem,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Problem => "problem",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Verdict::Ok => Tone::Good,
            Verdict::Warning => Tone::Warning,
            Verdict::Problem => Tone::Bad,
        }
    }
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Finding {
        Finding { check, verdict: Verdict::Ok, found: found.into(), advice: None }
    }

    pub(super) fn warning(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        let advice = Some(advice.into());
        Finding { check, verdict: Verdict::Warning, found: found.into(), advice }
    }

    pub(super) fn problem(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding { verdict: Verdict::Problem, ..Finding::warning(check, found, advice) }
    }
}

/// All findings, one below the other.
pub(super) fn report(findings: &[Finding], color: Color) -> String {
    let (mut words, mut rows) = (Vec::new(), Vec::new());
    for Finding { check, verdict, found, advice } in findings {
        words.push(color.paint(verdict.tone(), &format!("{:<7}", verdict.word())));
        rows.push([(*check).to_owned(), one_line(found, color)]);
        if let Some(advice) = advice {
            words.push(" ".repeat(7));
            rows.push([String::new(), format!("-> {}", one_line(advice, color))]);
        }
    }
    table::pad(&mut rows);
    words.iter().zip(&rows).map(|(word, row)| format!("{word}  {}", table::line(row))).collect()
}

/// What programs and people say may go over several lines.
fn one_line(text: &str, color: Color) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match color {
        Color::Yes => terminal::harmless(&line).into_owned(),
        Color::No => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_a_line_for_what_was_found_and_one_for_what_to_do() {
        let findings = [
            Finding::ok("git", "git 2.43"),
            Finding::warning("sandbox", "none here", "use another kernel"),
            Finding::problem("backend", "'x' is not\non PATH", "install it"),
        ];
        insta::assert_snapshot!(report(&findings, Color::No), @r"
        ok       git      git 2.43
        warning  sandbox  none here
                          -> use another kernel
        problem  backend  'x' is not on PATH
                          -> install it
        ");
    }
}
