//! What a run was asked to do, kept in its directory for the day it is resumed.
//!
//! The file `flags` is for people to read and for the harness to use, so it is sealed: an edited one is not
//! used. The same is noted beside the marks of the run's records.

use std::path::{Path, PathBuf};

use autoloop_core::config::words::{join, split};

use super::DriveError;
use super::ledger::unwritable;
use super::notebook::{Notes, Trust};
use crate::layout::RunDir;
use crate::project::{Overrides, read_text};
use crate::world::World;

/// No command line is longer on any system that we know of.
const LONGEST: u64 = 8 * 1024 * 1024;
/// What begins the last line.
const SEAL: &str = "seal ";

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
    /// The file was edited, damaged or removed; this is from the notes about the run.
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

    /// The text with its seal, `None` without a key.
    fn sealed(&self, notes: Notes<'_>) -> String {
        let text = self.text();
        let seal = notes.world.key().map_or(0, |key| key.seal("request", &parts(notes, &text)));
        format!("{text}{SEAL}{seal:032x}\n")
    }

    /// Reads such a text, if its seal is valid.
    pub(super) fn unsealed(sealed: &str, notes: Notes<'_>) -> Option<Request> {
        let (text, seal) = split_seal(sealed)?;
        let key = notes.world.key()?;
        (seal == key.seal("request", &parts(notes, text))).then(|| Request::parse(text))
    }

    /// The request in the file `flags`, if it is proven.
    pub(super) fn read_sealed(notes: Notes<'_>) -> Option<Request> {
        let text = read_text(&*notes.world.disk, &path(notes.dir), LONGEST).ok()??;
        Request::unsealed(&text, notes)
    }

    /// Keeps it in the directory of a run, for the day the run is resumed.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written to.
    pub fn keep(&self, dir: &Path, run: &str, world: &World) -> Result<(), DriveError> {
        let notes = Notes { dir, run, world };
        let sealed = self.sealed(notes);
        let path = path(dir);
        world
            .disk
            .replace(&path, sealed.as_bytes())
            .map_err(|source| DriveError::Write { path, source })?;
        notes.note_request(&sealed).map_err(unwritable)
    }

    /// The request of a run. A user who trusts the journal trusts it as it stands.
    pub fn of_run(dir: &Path, run: &str, world: &World, trust: Trust) -> KeptRequest {
        let notes = Notes { dir, run, world };
        if let Some(request) = Request::read_sealed(notes) {
            return KeptRequest::Intact(request);
        }
        if let Some(request) = notes.request() {
            return KeptRequest::Restored(request);
        }
        if trust == Trust::Proven {
            return KeptRequest::Unproven;
        }
        let text = read_text(&*world.disk, &path(dir), LONGEST).ok().flatten().unwrap_or_default();
        let text = split_seal(&text).map_or(text.as_str(), |(text, _)| text);
        KeptRequest::Intact(Request::parse(text))
    }
}

fn parts<'a>(notes: Notes<'a>, text: &'a str) -> [&'a [u8]; 2] {
    [notes.run.as_bytes(), text.as_bytes()]
}

/// The text before the last line, and the seal in it.
fn split_seal(sealed: &str) -> Option<(&str, u128)> {
    let body = sealed.strip_suffix('\n')?;
    let start = body.rfind('\n').map_or(0, |newline| newline + 1);
    let (text, line) = body.split_at(start);
    let seal = line.strip_prefix(SEAL).filter(|seal| seal.len() == 32)?;
    Some((text, u128::from_str_radix(seal, 16).ok()?))
}

fn path(dir: &Path) -> PathBuf {
    RunDir::at(dir).flags()
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
