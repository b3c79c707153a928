//! Problems of settings, printed like those of rustc: the line, underlined, with a hint.

use std::io::{self, Write};
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use autoloop_core::config::{Problem, Severity};
use autoloop_runtime::project::LoadError;

use crate::failure::Failure;
use crate::style::Color;
use crate::terminal;

/// Prints problems on standard error.
pub(crate) fn show(problems: &[Problem]) {
    let stderr = io::stderr();
    let text = render(problems, Color::of(&stderr));
    // Standard error may be closed; the exit code is returned nevertheless.
    let _ = stderr.lock().write_all(text.as_bytes());
}

/// Prints the problems of a project, and makes a failure of them.
impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let failure = Failure::usage(error.to_string());
        match error {
            LoadError::Problems(problems) => {
                show(&problems);
                Failure::usage(match problems.iter().filter(|problem| problem.is_error()).count() {
                    1 => "the settings cannot be used because of this error".to_owned(),
                    many => format!("the settings cannot be used because of these {many} errors"),
                })
            }
            LoadError::NoDirectory(_) => {
                failure.hint("name the directory that contains autoloops.toml")
            }
            LoadError::Missing { .. } => failure.hint("write the file, or remove its name"),
            LoadError::BadVariable { .. } => failure.hint("set it to plain text, or unset it"),
            LoadError::Unreadable { .. } | LoadError::BadPreset(_) => failure,
        }
    }
}

fn render(problems: &[Problem], color: Color) -> String {
    let renderer = match color {
        Color::Yes => Renderer::styled(),
        Color::No => Renderer::plain(),
    };
    problems.iter().map(|problem| render_one(problem, &renderer) + "\n\n").collect()
}

fn render_one(problem: &Problem, renderer: &Renderer) -> String {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning | Severity::Unenforced => Level::WARNING,
    };
    let excerpt = Excerpt::of(problem);
    let label = terminal::harmless(&problem.label);
    let label = Some(&*label).filter(|label| !label.is_empty());
    let snippet = Snippet::source(&*excerpt.text)
        .path(terminal::harmless(&problem.name))
        .line_start(problem.place().line)
        .annotation(AnnotationKind::Primary.span(excerpt.span).label(label));
    let title = level.primary_title(terminal::harmless(&problem.message));
    let group = Group::with_title(title).element(snippet);
    let hint = problem.hint.as_deref().map(terminal::harmless);
    renderer.render(&[group.elements(hint.map(|hint| Level::HELP.message(hint)))])
}

/// The line of a problem, without control characters.
///
/// The replacement of a control character has more bytes, so the span is computed after the replacement.
struct Excerpt {
    text: String,
    span: Range<usize>,
}

impl Excerpt {
    /// Maximum number of bytes before, in and after the span.
    const LONGEST: usize = 4 * 1024;

    fn of(problem: &Problem) -> Excerpt {
        let Problem { text, span, .. } = problem;
        let line_start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        // The first line is enough to recognise a value of several lines.
        let line_end = text[span.start..].find('\n').map_or(text.len(), |at| span.start + at);
        let end = span.end.clamp(span.start, line_end);
        let start = floor(text, line_start.max(span.start.saturating_sub(Self::LONGEST)));
        let end = floor(text, end.min(span.start + Self::LONGEST));
        let line_end = floor(text, line_end.min(end + Self::LONGEST));

        let before = terminal::harmless(&text[start..span.start]);
        let marked = terminal::harmless(&text[span.start..end]);
        let behind = terminal::harmless(text[end..line_end].trim_end_matches('\r'));
        let span = before.len()..before.len() + marked.len();
        Excerpt { text: format!("{before}{marked}{behind}"), span }
    }
}

/// The last character boundary at or before this byte.
fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoloop_core::config::{Layer, Origin, Settings};

    fn problems(text: &str) -> Vec<Problem> {
        Settings::resolve(&[Layer::file(Origin::Project, "autoloops.toml", text)]).problems
    }

    fn rendered(text: &str) -> String {
        render(&problems(text), Color::No)
    }

    #[test]
    fn a_wrong_value_is_underlined() {
        insta::assert_snapshot!(rendered("[journal]\nsync = \"sometimes\" # how often\nlock_timeout = \"1s\"\n"), @r#"
        error: journal.sync is "sometimes"
         --> autoloops.toml:2:8
          |
        2 | sync = "sometimes" # how often
          |        ^^^^^^^^^^^ expected "always", "iteration" or "never"
        "#);
        insta::assert_snapshot!(rendered("[backend]\nargs = [\n  \"-p\",\n  5,\n]\n"), @r#"
        error: backend.args is a list with 5
         --> autoloops.toml:4:3
          |
        4 |   5,
          |   ^ expected a list of texts: ["--verbose", "a,b"] or "--verbose,a"
        "#);
        insta::assert_snapshot!(rendered("backend.prompt_mode = 'studin'"), @r#"
        error: backend.prompt_mode is "studin"
         --> autoloops.toml:1:23
          |
        1 | backend.prompt_mode = 'studin'
          |                       ^^^^^^^^ expected "arg", "stdin" or "file"
          |
          = help: write "stdin"
        "#);
    }

    #[test]
    fn an_unknown_key_is_a_warning_with_the_nearest() {
        insta::assert_snapshot!(rendered("[event_loop]\r\nmax_iteration = 3\r\n"), @"
        warning: unknown key event_loop.max_iteration
         --> autoloops.toml:2:1
          |
        2 | max_iteration = 3
          | ^^^^^^^^^^^^^ did you mean event_loop.max_iterations?
        ");
        insta::assert_snapshot!(rendered("zzz = 3\n"), @"
        warning: unknown key zzz
         --> autoloops.toml:1:1
          |
        1 | zzz = 3
          | ^^^ no such key
          |
          = help: run `autoloop config show` to list all keys
        ");
    }

    #[test]
    fn what_is_not_toml_is_shown() {
        insta::assert_snapshot!(rendered("a = 1\nsync always\n"), @"
        error: invalid TOML: key with no value, expected `=`
         --> autoloops.toml:2:6
          |
        2 | sync always
          |      ^
        ");
        insta::assert_snapshot!(rendered("[journal"), @"
        error: invalid TOML: unclosed table, expected `]`
         --> autoloops.toml:1:9
          |
        1 | [journal
          |         ^
        ");
    }

    #[test]
    fn flags_and_variables_are_shown_too() {
        let layers = [Layer::set("backend.kind=pie"), Layer::variable("review.enabled=maybe")];
        insta::assert_snapshot!(render(&Settings::resolve(&layers).problems, Color::No), @r#"
        error: review.enabled is "maybe"
         --> AUTOLOOP_SET:1:16
          |
        1 | review.enabled=maybe
          |                ^^^^^ expected true or false

        error: backend.kind is "pie"
         --> --set:1:14
          |
        1 | backend.kind=pie
          |              ^^^ expected "command", "claude", "codex", "gemini", "opencode", "pi", "acp", "script" or "replay"
          |
          = help: write "pi"
        "#);
    }

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let text = "# \u{1b}]0;title\u{7}\n\"\u{9b}31m\u{202e}é\" = 1 # \u{1b}[2J\n";
        // Not all of these may stand in TOML; then the first of them is the problem.
        for text in
            [text, "\"\u{202e}\u{9b}é\" = 1", "a = \"\u{1b}[31m\"", "review.enabled = '\u{85}'"]
        {
            for problem in problems(text) {
                let plain = render(std::slice::from_ref(&problem), Color::No);
                let harmful = |c: char| c.is_control() && c != '\n';
                assert!(!plain.contains(harmful), "{plain:?}");
            }
        }
        let problem = Problem {
            severity: Severity::Error,
            name: "a\u{1b}.toml".into(),
            text: "\u{1b}\u{1b}xé\u{7}\u{7f}y".into(),
            span: 2..6,
            message: "odd\u{1b}".into(),
            label: "here\u{9b}".into(),
            hint: Some("no\u{7}".into()),
        };
        insta::assert_snapshot!(render(&[problem], Color::No), @"
        error: odd�
         --> a�.toml:1:3
          |
        1 | ��xé��y
          |   ^^^ here�
          |
          = help: no�
        ");
    }

    #[test]
    fn colours_are_written_only_when_wanted() {
        let text = "zzz = 1";
        assert!(render(&problems(text), Color::Yes).contains('\u{1b}'));
        assert!(!render(&problems(text), Color::No).contains('\u{1b}'));
    }

    #[test]
    fn huge_lines_and_floods_stay_small() {
        let text = format!("x = [{}, 'é']\nzzz = 1", "'é', ".repeat(100_000));
        assert!(rendered(&text).len() < 2_000);
        let text = format!("{} = 1", "x".repeat(900_000));
        assert!(rendered(&text).len() < 20_000);
        let flood: String = (0..50_000).map(|n| format!("zz{n} = 1\n")).collect();
        assert!(rendered(&flood).len() < 10_000);
    }
}
