//! The `chains.toml` of a project.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_core::chain::{Definitions, StepDefinition};
use autoloop_core::config::{LONGEST, Problem, Severity};
use autoloop_core::suggest::suggest;
use autoloop_runtime::project::read_text;
use autoloop_runtime::world::World;

use crate::diagnostic;
use crate::failure::Failure;

/// The most unknown keys that are told of.
const MOST_TOLD: usize = 5;

/// The text of the file, and where it is; nothing if there is none.
fn text(dir: &Path, world: &World) -> Result<(PathBuf, Arc<str>), Failure> {
    let path = dir.join("chains.toml");
    let text = read_text(&*world.disk, &path, LONGEST as u64)
        .map_err(|why| Failure::usage(format!("cannot read {}: {why}", path.display())))?;
    Ok((path, text.unwrap_or_default().into()))
}

/// The chains of a project, for a run that goes on whatever is wrong with them.
pub(super) fn read_quietly(dir: &Path, world: &World) -> Result<Definitions, String> {
    let (_, text) = text(dir, world).map_err(|failure| failure.message().to_owned())?;
    match Definitions::read(&text) {
        Ok((definitions, _)) => Ok(definitions),
        Err(bad) => Err(bad.to_string()),
    }
}

/// The chains of a project; none if it has no file of them. What is wrong with the file is shown.
pub(super) fn read(dir: &Path, world: &World) -> Result<Definitions, Failure> {
    let (path, text) = text(dir, world)?;
    let problem = |severity, span, message| Problem {
        severity,
        name: path.display().to_string(),
        text: Arc::clone(&text),
        span,
        message,
        label: String::new(),
        hint: None,
    };
    match Definitions::read(&text) {
        Ok((definitions, unknown)) => {
            let told = unknown.into_iter().take(MOST_TOLD).map(|key| {
                let warning = problem(Severity::Warning, key.span.clone(), key.to_string());
                Problem { label: key.advice(), ..warning }
            });
            diagnostic::show(&told.collect::<Vec<_>>());
            Ok(definitions)
        }
        Err(bad) => {
            diagnostic::show(&[problem(Severity::Error, bad.span.clone(), bad.to_string())]);
            Err(Failure::usage("the chains cannot be used because of this error"))
        }
    }
}

/// The steps of a chain by its name, with those of the chains in it.
pub(super) fn named(
    definitions: &Definitions,
    name: &str,
    dir: &Path,
) -> Result<Vec<StepDefinition>, Failure> {
    let Some(chain) = definitions.named(name) else { return Err(unknown(definitions, name, dir)) };
    definitions.expand(&chain.name, &chain.steps).map_err(|bad| Failure::usage(bad.to_string()))
}

fn unknown(definitions: &Definitions, name: &str, dir: &Path) -> Failure {
    let path = dir.join("chains.toml");
    let failure = Failure::usage(format!(
        "there is no chain '{}' in {}",
        name.escape_debug(),
        path.display()
    ));
    match suggest(name, definitions.chains.iter().map(|chain| chain.name.as_str())) {
        Some(near) => failure.hint(format!("did you mean '{near}'?")),
        None => failure.hint(
            "`autoloop chain list` lists the chains; `autoloop run --chain a,b` needs no file",
        ),
    }
}
