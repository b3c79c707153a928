//! What a new squad is to build: the specification and the plan of a command line.

#![expect(clippy::disallowed_methods, reason = "reads the files that the command line names")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_core::config::{Problem, Severity};
use autoloop_core::squad::{GivenPlan, Task};
use autoloop_core::text::first_line;
use autoloop_runtime::drive::SquadSpec;
use autoloop_runtime::project::{LoadError, read_text};
use autoloop_runtime::world::World;

use super::Flags;
use crate::diagnostic;
use crate::failure::Failure;

/// No agent reads more.
const LONGEST: u64 = 1024 * 1024;

/// The specification and the plan, and the directory of the project.
pub(super) fn read(flags: &Flags, world: &World) -> Result<(SquadSpec, Option<PathBuf>), Failure> {
    let plan = flags.plan.as_deref().map(|path| read_plan(path, world)).transpose()?;
    let (spec, dir) = match (&flags.spec, &flags.dir) {
        // With a plan, a single directory is that of the project.
        (Some(word), None) if plan.is_some() && Path::new(word).is_dir() => {
            (None, Some(PathBuf::from(word)))
        }
        (spec, dir) => (spec.as_deref(), dir.clone()),
    };
    let text = match spec {
        Some(word) => read_spec(word, world)?,
        None if plan.is_some() => String::new(),
        None => {
            return Err(Failure::usage("no specification: nothing says what to build").hint(
                "name a file or a text: `autoloop squad spec.md`, or a plan: `--plan plan.toml`",
            ));
        }
    };
    Ok((SquadSpec { text, plan }, dir))
}

/// The text of a file, or the word itself where it is a text.
fn read_spec(word: &str, world: &World) -> Result<String, Failure> {
    let path = Path::new(word);
    if path.is_dir() {
        return Err(Failure::usage(format!("the specification is a directory: {word}"))
            .hint("name a file or a text before the directory of the project"));
    }
    let is_text = word.contains(char::is_whitespace) && fs::symlink_metadata(path).is_err();
    let text = match is_text {
        true => word.to_owned(),
        false => required(path, world)?,
    };
    match text.trim() {
        "" => Err(Failure::usage(format!("the specification is empty: '{}'", word.escape_debug()))),
        _ => Ok(text),
    }
}

fn required(path: &Path, world: &World) -> Result<String, Failure> {
    let text = read_text(&*world.disk, path, LONGEST)
        .map_err(|why| Failure::from(LoadError::Unreadable { path: path.to_owned(), why }))?;
    text.ok_or_else(|| {
        Failure::usage(format!("no such file: {}", path.display()))
            .hint("a specification that is not a file needs at least two words")
    })
}

fn read_plan(path: &Path, world: &World) -> Result<GivenPlan, Failure> {
    let text: Arc<str> = required(path, world)
        .map_err(|failure| Failure::usage(format!("--plan: {}", failure.message())))?
        .into();
    GivenPlan::read(&text).map_err(|invalid| {
        let problem = Problem {
            severity: Severity::Error,
            name: path.display().to_string(),
            text: Arc::clone(&text),
            span: invalid.span,
            message: invalid.message,
            label: String::new(),
            hint: None,
        };
        diagnostic::show(&[problem]);
        Failure::usage(format!("the plan {} cannot be built", path.display()))
    })
}

/// A plan for people.
pub(super) fn printed(tasks: &[Task], groups: &[Vec<String>]) -> String {
    let mut out = String::new();
    for (number, group) in (1..).zip(groups) {
        // A failed write to a string does not exist.
        let _ = writeln!(out, "group {number}");
        for task in tasks.iter().filter(|task| group.contains(&task.id)) {
            let _ = writeln!(out, "  {}  {}", task.id, first_line(&task.title, 120));
        }
    }
    out
}
