//! What a run was asked to do, kept in its directory so that the run can be resumed.

use autoloop_core::config::shell_words::join;

use crate::error::DriveError;
use crate::harness::{RunPlace, keep_request};
use crate::project::Overrides;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptRequest {
    pub(super) overrides: Overrides,
    pub(super) objective: Option<String>,
    /// The name of the preset or of the chain.
    pub(super) preset: Option<String>,
    /// The directory of the preset, unless the run has a copy.
    pub(super) preset_dir: Option<String>,
    pub(super) settings_files: Option<String>,
    pub(super) steps: Option<String>,
}

impl KeptRequest {
    /// Each part behind its flag, as it could be typed.
    fn text(&self) -> String {
        let KeptRequest { objective, preset, preset_dir, settings_files, steps, .. } = self;
        let parts = [
            ("--objective", objective),
            ("--preset", preset),
            ("--preset-dir", preset_dir),
            ("--settings-files", settings_files),
            ("--steps", steps),
        ];
        let words = parts.iter().filter_map(|(flag, value)| Some([*flag, value.as_deref()?]));
        let words = join(words.flatten());
        let line = self.overrides.line().unwrap_or_default();
        match (words.is_empty(), line.is_empty()) {
            (true, _) => line,
            (false, true) => words + "\n",
            (false, false) => words + " " + &line,
        }
    }

    pub(super) fn parse(text: &str) -> KeptRequest {
        let mut request = KeptRequest::default();
        let overrides = Overrides::read_among(text, |flag, value| match flag {
            "--objective" => request.objective = value,
            "--preset" => request.preset = value,
            "--preset-dir" => request.preset_dir = value,
            "--settings-files" => request.settings_files = value,
            _ => request.steps = value,
        });
        KeptRequest { overrides, ..request }
    }

    /// Writes it to the directory of a run. Only the process that carries the run out may.
    pub(super) fn keep(&self, place: &RunPlace<'_>) -> Result<(), DriveError> {
        keep_request(place, &self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_kept_is_read(
            objective in any::<Option<String>>(),
            preset in any::<Option<String>>(),
            preset_dir in any::<Option<String>>(),
            steps in any::<Option<String>>(),
            backend in any::<Option<String>>(),
            more_args in proptest::collection::vec(any::<String>(), 0..3),
        ) {
            let overrides = Overrides { backend, more_args, ..Overrides::default() };
            let settings_files = steps.clone();
            let request =
                KeptRequest { overrides, objective, preset, preset_dir, settings_files, steps };
            prop_assert_eq!(KeptRequest::parse(&request.text()), request);
        }
    }
}
