//! Suggests a command where the words of `run` name no loop or are ambiguous.

use std::path::Path;

use autoloop_core::config::shell_words::join;
use autoloop_core::suggest::suggest;
use autoloop_runtime::launch::is_path;
use autoloop_runtime::launch::presets::{Preset, is_loop};

use crate::commands::settings;
use crate::failure::Failure;

const SOMETHING: &str = "what to do";
const USUAL: &str = "autofix";

const LISTED: &str = "list the presets with `autoloop presets`";

/// A command line as it is typed, with an objective.
pub(crate) fn command(words: &[impl AsRef<str>], objective: &str) -> String {
    let objective = match objective.trim() {
        "" => SOMETHING,
        objective => objective,
    };
    format!("`autoloop {} {}`", join(words.iter().map(AsRef::as_ref)), quoted(objective))
}

/// In double quotes, unless the shell would expand something in them.
fn quoted(text: &str) -> String {
    match text.contains(['"', '$', '`', '\\', '!']) {
        true => join([text]),
        false => format!("\"{text}\""),
    }
}

pub(super) fn no_loop() -> Failure {
    with_example(Failure::usage("no loop was named"), "")
}

/// The failure of a first word that is neither a directory nor a preset.
pub(super) fn unknown(first: &str, rest: &[String], presets: &[Preset]) -> Failure {
    let shown = first.escape_debug();
    let text = rest.join(" ");
    if Path::new(first).is_file() {
        let objective = format!("\"$(cat {})\"", join([first]));
        return Failure::usage(format!("'{shown}' is a file, not a loop"))
            .hint(format!("take its text as the objective: `autoloop run autocode {objective}`"));
    }
    let is_preset = |word: &str| presets.iter().any(|preset| preset.name() == word);
    let failure = Failure::usage(format!("'{shown}' is neither a directory nor a preset"));
    if first.contains(',') && first.split(',').all(|name| is_preset(name.trim())) {
        let hint = format!("run several loops: {}", command(&["run", "--chain", first], &text));
        return failure.hint(hint);
    }
    if let Some(near) = suggest(first, presets.iter().map(Preset::name)) {
        return failure
            .hint(format!("did you mean {}?", command(&["run", near], &text)))
            .hint(LISTED);
    }
    if let Some(place) = rest.iter().position(|word| is_preset(word)) {
        let before = std::iter::once(first).chain(rest[..place].iter().map(String::as_str));
        let others = before.chain(rest[place + 1..].iter().map(String::as_str));
        let objective = others.collect::<Vec<_>>().join(" ");
        return failure
            .hint(format!("name the loop first: {}", command(&["run", &rest[place]], &objective)));
    }
    let all = [first, &text].join(" ");
    with_example(failure, &all)
}

fn with_example(failure: Failure, objective: &str) -> Failure {
    let example = match is_loop(Path::new(".")) {
        true => format!("run the loop of this directory: {}", command(&["run", "."], objective)),
        false => {
            format!("name a loop, then the objective: {}", command(&["run", USUAL], objective))
        }
    };
    failure.hint(example).hint(LISTED)
}

pub(super) fn no_loop_in(dir: &Path, rest: &[String], presets: &[Preset]) -> Failure {
    let failure = Failure::usage(format!("no autoloops.toml in {}", dir.display()));
    let (preset, objective) = match preset_first(rest, presets) {
        Some(preset) => (preset, rest[1..].join(" ")),
        None => (USUAL, rest.join(" ")),
    };
    let shown = dir.to_string_lossy();
    let above = settings::discovered(dir).filter(|project| is_loop(project)).map(|project| {
        let meant = command(&["run", &*project.to_string_lossy()], &rest.join(" "));
        format!("run the loop of the project above: {meant}")
    });
    failure
        .maybe_hint(above)
        .hint(format!("run a preset there: {}", there(preset, &shown, &objective)))
        .hint(format!("or write a loop of your own: `autoloop init {}`", join([&*shown])))
}

/// Refuses a preset behind a directory, which would become part of the objective.
pub(super) fn refuse_preset_behind(
    dir: &Path,
    rest: &[String],
    presets: &[Preset],
) -> Result<(), Failure> {
    let Some(preset) = preset_first(rest, presets) else { return Ok(()) };
    let shown = dir.to_string_lossy();
    let whole = rest.join(" ");
    Err(Failure::usage(format!("'{preset}' could be the loop or part of the objective"))
        .hint(format!("run the preset: {}", there(preset, &shown, &rest[1..].join(" "))))
        .hint(format!(
            "or the directory's own loop: {}",
            command(&["run", &shown], &format!("objective: {whole}"))
        )))
}

/// Refuses a directory behind a preset, which would become part of the objective.
pub(super) fn refuse_dir_behind(preset: &str, rest: &[String]) -> Result<(), Failure> {
    let is_dir = |word: &String| Path::new(word).is_dir();
    let is_sentence = |word: &String| word.contains(char::is_whitespace);
    let (dir, objective) = match rest {
        [dir, sentence] | [sentence, dir] if is_dir(dir) && is_sentence(sentence) => {
            (dir, sentence.clone())
        }
        [dir, others @ ..] if is_dir(dir) && is_path(Path::new(dir)) => (dir, others.join(" ")),
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("'{dir}' could be the project or part of the objective"))
        .hint(format!("run the preset there: {}", command(&["run", "-p", preset, dir], &objective)))
        .hint(format!("or here: {}", command(&["run", preset], &rest.join(" ")))))
}

fn preset_first<'r>(rest: &'r [String], presets: &[Preset]) -> Option<&'r str> {
    let first = rest.first()?;
    presets.iter().any(|preset| preset.name() == first).then_some(first)
}

fn there(preset: &str, dir: &str, objective: &str) -> String {
    match dir {
        "." => command(&["run", preset], objective),
        dir => command(&["run", "-p", preset, dir], objective),
    }
}

/// The failure of a command line without `run`: its first word is the name of a preset or a sentence.
pub(crate) fn without_run(words: &[String], presets: &[Preset]) -> Option<Failure> {
    let (first, rest) = words.split_first()?;
    let failure = Failure::usage(format!("unrecognized command '{}'", first.escape_debug()));
    if presets.iter().any(|preset| preset.name() == first) {
        let hint = format!("run the preset: {}", command(&["run", first], &rest.join(" ")));
        return Some(failure.hint(hint));
    }
    let is_sentence = first.contains(char::is_whitespace);
    is_sentence.then(|| with_example(failure, &words.join(" ")))
}
