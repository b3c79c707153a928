//! Which queue is meant: the one of the project that is named, or of this directory.

use autoloop_core::env::Env;

use crate::failure::Failure;

/// Refuses a project that does not exist.
pub(super) fn check(env: &Env) -> Result<(), Failure> {
    let Some(dir) = env.project_dir.as_ref().filter(|dir| !dir.is_dir()) else { return Ok(()) };
    let message =
        format!("AUTOLOOP_PROJECT_DIR is {}, and there is no such directory", dir.display());
    Err(Failure::usage(message).hint("set it to the directory of a project, or unset it"))
}
