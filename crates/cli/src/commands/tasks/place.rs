//! Which queue is meant: the one of the project that is named, or of this directory.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use autoloop_core::env::Env;

use crate::commands::settings::Located;
use crate::failure::Failure;
use crate::terminal;

/// Refuses a project that is not there, and warns where a queue would begin in the midst of a project.
pub(super) fn check(env: &Env, located: &Located) -> Result<(), Failure> {
    if let Some(dir) = env.project_dir.as_ref().filter(|dir| !dir.is_dir()) {
        let message =
            format!("AUTOLOOP_PROJECT_DIR is {}, and there is no such directory", dir.display());
        return Err(Failure::usage(message).hint("name the directory of a project, or none"));
    }
    let is_named =
        env.project_dir.is_some() || env.state_dir.is_some() || env.journal_file.is_some();
    let here = std::env::current_dir().unwrap_or_default();
    if is_named || located.files.journal.exists() || is_project(&here) {
        return Ok(());
    }
    if let Some(above) = project_above(&here) {
        let (here, above) = (here.display(), above.display());
        let warning = format!(
            "autoloop: warning: {here} is no project, and {above} is one; to use its queue, go there or \
             set AUTOLOOP_PROJECT_DIR={above}\n"
        );
        // A warning that cannot be shown is no reason not to go on.
        let _ = io::stderr().write_all(terminal::harmless(&warning).as_bytes());
    }
    Ok(())
}

fn is_project(dir: &Path) -> bool {
    dir.join("autoloops.toml").is_file() || dir.join(".autoloop/journal.jsonl").is_file()
}

/// The project that a directory lies in, up to the top of its repository.
fn project_above(here: &Path) -> Option<PathBuf> {
    let is_below_top = |dir: &&Path| !dir.join(".git").exists();
    let inside = here.ancestors().take_while(is_below_top).count();
    here.ancestors().take(inside + 1).find(|dir| is_project(dir)).map(Path::to_owned)
}
