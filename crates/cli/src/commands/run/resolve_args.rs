//! The meaning of the words of `run`: which loop is run in which project, or which run is resumed.

use std::path::{Path, PathBuf};

use autoloop_runtime::launch::presets::{Preset, is_loop};
use autoloop_runtime::launch::{RunRequest, existing_dir, is_path};
use autoloop_runtime::project::Environment;

use super::suggest;
use crate::failure::Failure;

#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    /// The first word: a directory, the name of a preset, or the beginning of the objective.
    pub(super) first: Option<&'a Path>,
    pub(super) rest: &'a [String],
    pub(super) preset: Option<&'a str>,
    /// Finds the project where no word names one.
    pub(super) here: fn() -> Result<PathBuf, Failure>,
}

impl Words<'_> {
    /// Resolves words that begin a run. A directory takes precedence over a preset of the same name; a word that is
    /// written like a path is always a directory.
    pub(super) fn resolve(self, env: &Environment) -> Result<RunRequest, Failure> {
        let Words { first, rest, preset, here } = self;
        let mut request = match (preset, first) {
            (Some(preset), first) => {
                let (dir, objective) = project_and_objective(first, rest, here)?;
                let request = RunRequest::named(preset, Path::new(""), &dir, env)?;
                if let Some(first) = first.filter(|first| !is_project(first)) {
                    let first = first.to_string_lossy().into_owned();
                    suggest::refuse_dir_behind(preset, &[&[first], rest].concat())?;
                }
                RunRequest { objective, ..request }
            }
            (None, None) => return Err(suggest::no_loop()),
            (None, Some(dir)) if is_project(dir) => own_loop(dir, rest, env)?,
            (None, Some(first)) => {
                let presets = Preset::all(env);
                let name = first.to_string_lossy();
                let Some(preset) = presets.iter().find(|preset| preset.name() == name) else {
                    return Err(suggest::unknown(&name, rest, &presets));
                };
                suggest::refuse_dir_behind(&name, rest)?;
                let dir = existing_dir(&here()?)?;
                let request = RunRequest::of_preset(&dir, preset.clone());
                RunRequest { objective: objective(rest), ..request }
            }
        };
        request.project.env = env.clone();
        Ok(request)
    }

    /// Resolves words behind `--resume` to the project and the name of the run, which is empty for the latest:
    /// `--resume=RUN` names it, and so does a word that is not a directory. A run keeps its objective.
    pub(super) fn resolve_resumed(self, name: &str) -> Result<(PathBuf, String), Failure> {
        let first = self.first.map(|first| first.to_string_lossy().into_owned());
        let all = first.into_iter().chain(self.rest.iter().cloned());
        let (dirs, runs): (Vec<_>, Vec<_>) = all.partition(|word| is_project(Path::new(word)));
        let named = Some(name.to_owned()).filter(|name| !name.is_empty());
        let runs: Vec<String> = named.into_iter().chain(runs).collect();
        let failure = match (&dirs[..], &runs[..]) {
            ([], [] | [_]) => return Ok(((self.here)()?, runs.concat())),
            ([dir], [] | [_]) => return Ok((dir.into(), runs.concat())),
            ([] | [_], [run, more @ ..]) => format!(
                "unexpected '{}': run '{run}' is resumed with its original objective",
                more.join(" ")
            ),
            _ => format!("a run is in one directory, not in {}", dirs.join(" and ")),
        };
        Err(Failure::usage(failure).hint("type `autoloop run --resume=RUN DIR` and nothing else"))
    }
}

fn own_loop(dir: &Path, rest: &[String], env: &Environment) -> Result<RunRequest, Failure> {
    let presets = Preset::all(env);
    if dir.is_file() {
        return Err(suggest::unknown(&dir.to_string_lossy(), rest, &presets));
    }
    let found = existing_dir(dir)?;
    if !is_loop(&found) {
        return Err(suggest::no_loop_in(dir, rest, &presets));
    }
    suggest::refuse_preset_behind(dir, rest, &presets)?;
    Ok(RunRequest { objective: objective(rest), ..RunRequest::of_loop(&found, &found)? })
}

/// Whether a word names a project: it is a directory, or is written like one.
fn is_project(word: &Path) -> bool {
    word.is_dir() || is_path(word)
}

/// The words as one text; blank words are no objective.
fn objective(words: &[String]) -> Option<String> {
    Some(words.join(" ")).filter(|text| !text.trim().is_empty())
}

/// The project and the objective, where flags name the loop: the first word is the project only if it is a directory
/// or written like one.
pub(crate) fn project_and_objective(
    first: Option<&Path>,
    rest: &[String],
    here: fn() -> Result<PathBuf, Failure>,
) -> Result<(PathBuf, Option<String>), Failure> {
    match first {
        Some(dir) if is_project(dir) => Ok((existing_dir(dir)?, objective(rest))),
        first => {
            let first = first.map(|first| first.to_string_lossy().into_owned());
            let words: Vec<String> = first.into_iter().chain(rest.iter().cloned()).collect();
            Ok((existing_dir(&here()?)?, objective(&words)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current() -> Result<PathBuf, Failure> {
        Ok(PathBuf::from("."))
    }

    /// What words are resolved to: the project, the loop, the objective.
    fn meant(first: Option<&str>, rest: &[&str], preset: Option<&str>) -> String {
        let rest: Vec<String> = rest.iter().map(ToString::to_string).collect();
        let words = Words { first: first.map(Path::new), rest: &rest, preset, here: current };
        let here = Path::new(".").canonicalize().unwrap();
        let shown = |dir: &Path| match dir.strip_prefix(&here) {
            Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
            Ok(inside) => inside.display().to_string(),
            Err(_) => dir.display().to_string(),
        };
        match words.resolve(&Environment::default()) {
            Ok(RunRequest { project, preset, objective }) => {
                let runs = match preset {
                    None if !project.is_preset() => "its own".to_owned(),
                    None => format!("that in {}", shown(&project.loop_dir)),
                    Some(preset) => preset.name().to_owned(),
                };
                format!("{}: {runs}: {}", shown(&project.dir), objective.unwrap_or_default())
            }
            Err(failure) => failure.message().to_owned(),
        }
    }

    // The tests of a crate run in its directory, which contains `src`.
    #[test]
    fn words_mean_what_they_look_like() {
        for (first, rest, preset, expected) in [
            (Some("."), &["a", "b"][..], None, "no autoloops.toml in ."),
            (Some("src"), &[], None, "no autoloops.toml in src"),
            (Some("autofix"), &["it", "crashes"], None, ".: autofix: it crashes"),
            (Some("autofix"), &[], Some("autocode"), ".: autocode: autofix"),
            (Some("it crashes"), &[], Some("autofix"), ".: autofix: it crashes"),
            (Some("src"), &["it crashes"], Some("autofix"), "src: autofix: it crashes"),
            (None, &[], Some("autofix"), ".: autofix: "),
            (None, &[], None, "no loop was named"),
            (Some("./autofix"), &[], None, "no such directory: ./autofix"),
            (Some("./nowhere"), &[], Some("autofix"), "no such directory: ./nowhere"),
            (None, &[], Some("./autofix"), "no such directory: ./autofix"),
            (Some("autofx"), &[], None, "'autofx' is neither a directory nor a preset"),
            (None, &[], Some("src"), "no loop in src: neither autoloops.toml nor topology.toml"),
        ] {
            assert_eq!(meant(first, rest, preset), expected, "{first:?} {rest:?} {preset:?}");
        }
        let in_a_directory = meant(None, &["x"], Some("../../presets/autofix"));
        assert!(in_a_directory.ends_with("presets/autofix: x"), "{in_a_directory}");
        let own = meant(Some("../../presets/autofix"), &["a", "b"], None);
        assert!(own.ends_with("presets/autofix: its own: a b"), "{own}");
    }

    #[test]
    fn a_resumed_run_is_named_in_any_way_but_not_twice() {
        let meant = |words: &[&str], name: &str| {
            let rest: Vec<String> = words.iter().skip(1).map(ToString::to_string).collect();
            let first = words.first().map(Path::new);
            let words = Words { first, rest: &rest, preset: None, here: current };
            match words.resolve_resumed(name) {
                Ok((dir, run)) => format!("{}: {run}", dir.display()),
                Err(failure) => failure.message().to_owned(),
            }
        };
        for (words, name, expected) in [
            (&[][..], "", ".: "),
            (&["src"], "", "src: "),
            (&[], "calm-heron", ".: calm-heron"),
            (&["src"], "calm-heron", "src: calm-heron"),
            (&["calm-heron"], "", ".: calm-heron"),
            (&["calm-heron", "src"], "", "src: calm-heron"),
            (&["src", "calm-heron"], "", "src: calm-heron"),
            (&["./nowhere"], "", "./nowhere: "),
            (
                &[".", "faster", "please"],
                "calm-heron",
                "unexpected 'faster please': run 'calm-heron' is resumed with its original objective",
            ),
            (&["src", "."], "", "a run is in one directory, not in src and ."),
        ] {
            assert_eq!(meant(words, name), expected, "{words:?} {name:?}");
        }
    }
}
