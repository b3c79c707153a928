//! Which project is worked on, and which loop is run there: what the words of the command line mean.

use std::path::{Path, PathBuf};

use autoloop_runtime::project::Surroundings;

use crate::failure::Failure;
use crate::presets::{Preset, is_loop};

use super::suggest;

/// What was typed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    /// The first word: a directory, the name of a preset, or the beginning of the objective.
    pub(super) first: Option<&'a Path>,
    /// The words behind it.
    pub(super) rest: &'a [String],
    /// `--preset`
    pub(super) preset: Option<&'a str>,
    /// Finds the project, where no word names one.
    pub(super) here: fn() -> Result<PathBuf, Failure>,
}

/// What was meant.
#[derive(Debug)]
pub(in crate::commands) struct Choice {
    /// The project.
    pub(in crate::commands) dir: PathBuf,
    /// The loop that is run there.
    pub(in crate::commands) runs: Loop,
    /// What the run is for, if that was said.
    pub(in crate::commands) objective: Option<String>,
}

/// Where the files of a loop come from.
#[derive(Debug)]
pub(in crate::commands) enum Loop {
    /// The project's own.
    Own,
    /// Those of another directory, as they are there.
    In(PathBuf),
    /// A preset's, of which each run has a copy.
    Preset(Preset),
}

/// Finds out what was meant. A directory comes before a preset of the same name; a word that is written
/// like a path is never anything else than a directory.
pub(super) fn decide(words: Words<'_>, surroundings: &Surroundings) -> Result<Choice, Failure> {
    match (words.preset, words.first) {
        (Some(preset), first) => {
            let runs = named(preset, Path::new(""), surroundings)?;
            if let Some(first) = first.filter(|first| !is_project(first)) {
                let first = first.to_string_lossy().into_owned();
                let spoken: Vec<String> = [&[first], words.rest].concat();
                suggest::refuse_dir_behind(preset, &spoken)?;
            }
            let (dir, objective) = place(first, words.rest, words.here)?;
            Ok(Choice { dir, runs, objective })
        }
        (None, None) => Err(suggest::no_loop()),
        (None, Some(first)) if is_project(first) => own(first, words.rest, surroundings),
        (None, Some(first)) => {
            let presets = Preset::all(surroundings);
            let name = first.to_string_lossy();
            let Some(preset) = presets.iter().find(|preset| preset.name() == name) else {
                return Err(suggest::unknown(&name, words.rest, &presets));
            };
            suggest::refuse_dir_behind(&name, words.rest)?;
            choice(&(words.here)()?, Loop::Preset(preset.clone()), words.rest)
        }
    }
}

/// The loop that a project has itself.
fn own(dir: &Path, rest: &[String], surroundings: &Surroundings) -> Result<Choice, Failure> {
    let presets = Preset::all(surroundings);
    if dir.is_file() {
        return Err(suggest::unknown(&dir.to_string_lossy(), rest, &presets));
    }
    let choice = choice(dir, Loop::Own, rest)?;
    if !is_loop(&choice.dir) {
        return Err(suggest::no_loop_in(dir, rest, &presets));
    }
    suggest::refuse_preset_behind(dir, rest, &presets)?;
    Ok(choice)
}

/// Whether a word names a project: it is a directory, or is written like one.
fn is_project(word: &Path) -> bool {
    word.is_dir() || is_path(word)
}

/// A run that is to go on.
#[derive(Debug)]
pub(in crate::commands) struct Old {
    /// The project.
    pub(in crate::commands) dir: PathBuf,
    /// Its name; empty is the latest that is not over.
    pub(in crate::commands) run: String,
}

/// Finds out which run `--resume` means: `--resume=RUN` names it, and so does a word that is no
/// directory. There is nothing else to be said, for a run keeps its objective.
pub(super) fn taken_up(words: Words<'_>, name: &str) -> Result<Old, Failure> {
    let first = words.first.map(|first| first.to_string_lossy().into_owned());
    let all: Vec<String> = first.into_iter().chain(words.rest.iter().cloned()).collect();
    let (dirs, runs): (Vec<_>, Vec<_>) = all.into_iter().partition(|word| {
        let word = Path::new(word);
        word.is_dir() || is_path(word)
    });
    let named = Some(name.to_owned()).filter(|name| !name.is_empty());
    match (&dirs[..], &named.into_iter().chain(runs).collect::<Vec<_>>()[..]) {
        ([], runs @ ([] | [_])) => Ok(old((words.here)()?, runs)),
        ([dir], runs @ ([] | [_])) => Ok(old(dir.into(), runs)),
        (_, [run, more @ ..]) if dirs.len() < 2 => Err(Failure::usage(format!(
            "it is not clear what '{}' is for: run '{run}' is to go on, and it keeps its objective",
            more.join(" ")
        ))
        .hint("`autoloop run --resume=RUN DIR` is all there is to say")),
        _ => {
            Err(Failure::usage(format!("a run is in one directory, not in {}", dirs.join(" and ")))
                .hint("`autoloop run --resume=RUN DIR` is all there is to say"))
        }
    }
}

fn old(dir: PathBuf, runs: &[String]) -> Old {
    Old { dir, run: runs.first().cloned().unwrap_or_default() }
}

fn choice(dir: &Path, runs: Loop, words: &[String]) -> Result<Choice, Failure> {
    Ok(Choice { dir: existing(dir)?, runs, objective: objective(words) })
}

/// The words as one text; blank words say nothing.
fn objective(words: &[String]) -> Option<String> {
    Some(words.join(" ")).filter(|text| !text.trim().is_empty())
}

/// The project and the objective, where it is known which loop is run: the first word is the project
/// only if it is a directory or written like one. `run -p autofix "it crashes"` says what is to be done.
pub(in crate::commands) fn place(
    first: Option<&Path>,
    rest: &[String],
    here: fn() -> Result<PathBuf, Failure>,
) -> Result<(PathBuf, Option<String>), Failure> {
    let dir = first.filter(|first| is_project(first));
    let spoken = first.filter(|_| dir.is_none()).map(|first| first.to_string_lossy().into_owned());
    let words: Vec<String> = spoken.into_iter().chain(rest.iter().cloned()).collect();
    let dir = dir.map_or_else(here, |dir| Ok(dir.to_owned()))?;
    Ok((existing(&dir)?, objective(&words)))
}

/// The loop that `--preset` or a step means; a path is seen from `base`.
pub(in crate::commands) fn named(
    word: &str,
    base: &Path,
    surroundings: &Surroundings,
) -> Result<Loop, Failure> {
    let dir = base.join(word);
    if !dir.is_dir() && !is_path(Path::new(word)) {
        return Preset::named(word, surroundings).map(Loop::Preset);
    }
    let dir = existing(&dir)?;
    match is_loop(&dir) {
        true => Ok(Loop::In(dir)),
        false => Err(Failure::usage(format!(
            "there is no loop in {word}: neither autoloops.toml nor topology.toml"
        ))
        .hint(
            "name a directory that holds one, or one of the presets that `autoloop presets` lists",
        )),
    }
}

/// A directory, without links and `..` in its path: it is written down and read again later.
pub(in crate::commands) fn existing(dir: &Path) -> Result<PathBuf, Failure> {
    if !dir.is_dir() {
        return Err(Failure::usage(format!("there is no directory {}", dir.display()))
            .hint("name the directory that holds autoloops.toml"));
    }
    dir.canonicalize()
        .map_err(|error| Failure::failed(format!("cannot find {}: {error}", dir.display())))
}

/// Whether a word is written like a path.
pub(super) fn is_path(word: &Path) -> bool {
    let bytes = word.as_os_str().as_encoded_bytes();
    bytes.contains(&b'/') || bytes == b"." || bytes == b".."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current() -> Result<PathBuf, Failure> {
        Ok(PathBuf::from("."))
    }

    /// What is made of words: the project, the loop, the objective.
    fn meant(first: Option<&str>, rest: &[&str], preset: Option<&str>) -> String {
        let rest: Vec<String> = rest.iter().map(ToString::to_string).collect();
        let words = Words { first: first.map(Path::new), rest: &rest, preset, here: current };
        let here = Path::new(".").canonicalize().unwrap();
        let shown = |dir: &Path| match dir.strip_prefix(&here) {
            Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
            Ok(inside) => inside.display().to_string(),
            Err(_) => dir.display().to_string(),
        };
        match decide(words, &Surroundings::default()) {
            Ok(Choice { dir, runs, objective }) => {
                let runs = match runs {
                    Loop::Own => "its own".to_owned(),
                    Loop::In(dir) => format!("that in {}", shown(&dir)),
                    Loop::Preset(preset) => preset.name().to_owned(),
                };
                format!("{}: {runs}: {}", shown(&dir), objective.unwrap_or_default())
            }
            Err(failure) => failure.message().to_owned(),
        }
    }

    // The tests of a crate run in its directory, which holds `src` and `presets`.
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
            (Some("./autofix"), &[], None, "there is no directory ./autofix"),
            (Some("./nowhere"), &[], Some("autofix"), "there is no directory ./nowhere"),
            (None, &[], Some("./autofix"), "there is no directory ./autofix"),
            (Some("autofx"), &[], None, "'autofx' is neither a directory nor a preset"),
            (
                None,
                &[],
                Some("src"),
                "there is no loop in src: neither autoloops.toml nor topology.toml",
            ),
        ] {
            assert_eq!(meant(first, rest, preset), expected, "{first:?} {rest:?} {preset:?}");
        }
        let in_a_directory = meant(None, &["x"], Some("presets/autofix"));
        assert!(in_a_directory.ends_with("presets/autofix: x"), "{in_a_directory}");
        let own = meant(Some("presets/autofix"), &["a", "b"], None);
        assert!(own.ends_with("presets/autofix: its own: a b"), "{own}");
    }

    #[test]
    fn a_run_that_goes_on_is_named_in_any_way_but_not_twice() {
        let meant = |words: &[&str], name: &str| {
            let rest: Vec<String> = words.iter().skip(1).map(ToString::to_string).collect();
            let first = words.first().map(Path::new);
            match taken_up(Words { first, rest: &rest, preset: None, here: current }, name) {
                Ok(Old { dir, run }) => format!("{}: {run}", dir.display()),
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
                "it is not clear what 'faster please' is for: run 'calm-heron' is to go on, and it keeps its objective",
            ),
            (&["src", "."], "", "a run is in one directory, not in src and ."),
        ] {
            assert_eq!(meant(words, name), expected, "{words:?} {name:?}");
        }
    }
}
