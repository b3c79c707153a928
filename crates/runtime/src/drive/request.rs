//! What a run was asked to do, kept in its directory for the day it is resumed.

use autoloop_core::config::shell_words::{join, split};

use super::DriveError;
use crate::harness::{RequestText, RunPlace, keep_request, read_request};
use crate::layout::RunDir;
use crate::project::Overrides;
use crate::site::Trust;
use crate::world::World;

/// What a run was begun with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// What the command line said about settings.
    pub overrides: Overrides,
    /// What the run is for, if that was said.
    pub objective: Option<String>,
    /// The preset or the chain that it runs.
    pub preset: Option<String>,
    /// Where the files of the preset are, unless the run has a copy.
    pub preset_dir: Option<String>,
    /// Which settings files there were.
    pub settings_files: Option<String>,
    /// The steps of a chain.
    pub steps: Option<String>,
}

/// The request of a run that is to be resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptRequest {
    /// As it was kept.
    Intact(Request),
    /// The file was edited, damaged or removed; this is its copy.
    Restored(Request),
    /// Nothing proves what it was.
    Unproven,
}

impl Request {
    /// As it could be typed, each part behind its flag.
    fn text(&self) -> String {
        let Request { objective, preset, preset_dir, settings_files, steps, .. } = self;
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

    fn parse(text: &str) -> Request {
        let mut request = Request { overrides: Overrides::read(text), ..Request::default() };
        let mut words = split(text).unwrap_or_default().into_iter();
        while let Some(flag) = words.next().filter(|flag| flag != "--") {
            // The one flag without a value.
            if flag == "--ignore-unenforced" {
                continue;
            }
            let value = words.next();
            match flag.as_str() {
                "--objective" => request.objective = value,
                "--preset" => request.preset = value,
                "--preset-dir" => request.preset_dir = value,
                "--settings-files" => request.settings_files = value,
                "--steps" => request.steps = value,
                _ => {}
            }
        }
        request
    }

    /// Keeps it in the directory of a run, for the day the run is resumed.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written to.
    pub fn keep(&self, dir: &RunDir, run: &str, world: &World) -> Result<(), DriveError> {
        keep_request(RunPlace { dir, run, world }, &self.text())
    }

    /// The request of a run. A user who trusts the journal trusts it as it stands.
    pub fn of_run(dir: &RunDir, run: &str, world: &World, trust: Trust) -> KeptRequest {
        match read_request(RunPlace { dir, run, world }, trust) {
            RequestText::Intact(text) => KeptRequest::Intact(Request::parse(&text)),
            RequestText::Restored(text) => KeptRequest::Restored(Request::parse(&text)),
            RequestText::Unproven => KeptRequest::Unproven,
        }
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
                Request { overrides, objective, preset, preset_dir, settings_files, steps };
            prop_assert_eq!(Request::parse(&request.text()), request);
        }
    }
}
