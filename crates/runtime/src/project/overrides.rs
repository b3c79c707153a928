//! The settings of the command line, and their text form, which is kept for a resume.

use autoloop_core::config::shell_words::{join, split};
use autoloop_core::config::{Problem, Severity};

/// What the command line set. It takes precedence over every file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--backend`: a command with its arguments.
    pub backend: Option<String>,
    /// `--max-iterations`, as it was typed.
    pub max_iterations: Option<String>,
    /// `--set`: `key=value`, in order; they take precedence over the two above.
    pub set: Vec<String>,
    /// The words behind `--`: additional arguments for the backend.
    pub more_args: Vec<String>,
    pub unenforced: Unenforced,
}

/// How keys are treated that would limit a run and are not enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unenforced {
    /// A run does not begin with them.
    #[default]
    Refuse,
    /// They are reported, and the run continues without them.
    Ignore,
}

impl Unenforced {
    pub(super) fn judge(self, problems: Vec<Problem>) -> Result<Vec<Problem>, Vec<Problem>> {
        let severity = match self {
            Unenforced::Refuse => Severity::Error,
            Unenforced::Ignore => Severity::Warning,
        };
        let judged: Vec<Problem> = problems
            .into_iter()
            .map(|problem| match problem.severity {
                Severity::Unenforced => Problem { severity, ..problem },
                Severity::Error | Severity::Warning => problem,
            })
            .collect();
        if judged.iter().any(Problem::is_error) { Err(judged) } else { Ok(judged) }
    }
}

impl From<bool> for Unenforced {
    fn from(is_ignored: bool) -> Self {
        if is_ignored { Unenforced::Ignore } else { Unenforced::Refuse }
    }
}

impl Overrides {
    /// The flags as they could be typed, on one line; `None` where there are none.
    pub fn line(&self) -> Option<String> {
        let mut words = Vec::new();
        let mut flag = |name, value| words.extend([name, value]);
        self.backend.iter().for_each(|command| flag("--backend", command));
        self.max_iterations.iter().for_each(|most| flag("--max-iterations", most));
        self.set.iter().for_each(|pair| flag("--set", pair));
        if self.unenforced == Unenforced::Ignore {
            words.push("--ignore-unenforced");
        }
        if !self.more_args.is_empty() {
            words.push("--");
            words.extend(self.more_args.iter().map(String::as_str));
        }
        (!words.is_empty()).then(|| join(words) + "\n")
    }

    /// The inverse of [`Overrides::line`]. Unknown words are ignored.
    pub fn read(line: &str) -> Self {
        Overrides::read_among(line, |_, _| {})
    }

    /// The same for a kept request, with its parts that are not about settings.
    pub(crate) fn read_among(line: &str, mut other: impl FnMut(&str, Option<String>)) -> Self {
        let mut read = Overrides::default();
        let mut words = split(line).unwrap_or_default().into_iter();
        while let Some(flag) = words.next() {
            match flag.as_str() {
                "--backend" => read.backend = words.next(),
                "--max-iterations" => read.max_iterations = words.next(),
                "--set" => read.set.extend(words.next()),
                "--ignore-unenforced" => read.unenforced = Unenforced::Ignore,
                "--objective" | "--preset" | "--preset-dir" | "--settings-files" | "--steps" => {
                    other(&flag, words.next());
                }
                "--" => read.more_args.extend(words.by_ref()),
                _ => {}
            }
        }
        read
    }

    /// These flags of a resume on top of those that the run began with. Another agent does not inherit
    /// the arguments of the one that it replaces.
    #[must_use]
    pub fn above(self, earlier: Overrides) -> Self {
        let inherits = self.backend.is_none() && self.more_args.is_empty();
        Overrides {
            more_args: if inherits { earlier.more_args } else { self.more_args },
            backend: self.backend.or(earlier.backend),
            max_iterations: self.max_iterations.or(earlier.max_iterations),
            set: [earlier.set, self.set].concat(),
            unenforced: match self.unenforced {
                Unenforced::Ignore => Unenforced::Ignore,
                Unenforced::Refuse => earlier.unenforced,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection, prelude::*};

    fn overrides(line: &str) -> Overrides {
        Overrides::read(line)
    }

    #[test]
    fn they_are_written_as_they_could_be_typed() {
        let all = Overrides {
            backend: Some("sh 'my agent.sh'".to_owned()),
            max_iterations: Some("9".to_owned()),
            set: vec!["a=1".to_owned(), "b=x y".to_owned()],
            more_args: vec!["--fast".to_owned(), "--".to_owned()],
            unenforced: Unenforced::Ignore,
        };
        let line = r"--backend 'sh '\''my agent.sh'\''' --max-iterations 9 --set a=1 --set 'b=x y' --ignore-unenforced -- --fast --";
        assert_eq!(all.line(), Some(format!("{line}\n")));
        assert_eq!(Overrides::default().line(), None);
    }

    #[test]
    fn what_is_said_later_comes_before_what_was_said_at_the_beginning() {
        let begun = || overrides("--backend a --max-iterations 3 --set k=1 -- x");
        for (later, both) in [
            ("", "--backend a --max-iterations 3 --set k=1 -- x\n"),
            ("--max-iterations 9", "--backend a --max-iterations 9 --set k=1 -- x\n"),
            ("--set k=2", "--backend a --max-iterations 3 --set k=1 --set k=2 -- x\n"),
            ("-- y", "--backend a --max-iterations 3 --set k=1 -- y\n"),
            ("--backend b", "--backend b --max-iterations 3 --set k=1\n"),
        ] {
            assert_eq!(overrides(later).above(begun()).line().as_deref(), Some(both), "{later}");
        }
    }

    #[test]
    fn a_damaged_line_says_what_it_still_says() {
        assert_eq!(overrides("'never closed"), Overrides::default());
        assert_eq!(overrides("--odd --backend").line(), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            backend in any::<Option<String>>(),
            max_iterations in any::<Option<String>>(),
            set in collection::vec(any::<String>(), 0..3),
            more_args in collection::vec(any::<String>(), 0..3),
            is_ignored in any::<bool>(),
        ) {
            let unenforced = is_ignored.into();
            let written = Overrides { backend, max_iterations, set, more_args, unenforced };
            let line = written.line().unwrap_or_default();
            prop_assert_eq!(Overrides::read(&line), written);
        }
    }
}
