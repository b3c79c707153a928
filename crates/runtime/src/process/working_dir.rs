//! The variables that name a child's working directory.

use std::path::Path;
use std::process::Command;

/// Sets `PWD` of a child to the directory it works in and removes `OLDPWD`.
///
/// A child would otherwise inherit both from the shell that `autoloop` was started in, and some agents
/// work in the directory that `PWD` names.
pub fn set_pwd(command: &mut Command, dir: &Path) {
    match dir.canonicalize() {
        Ok(dir) => command.env("PWD", dir),
        Err(_) => command.env_remove("PWD"),
    };
    command.env_remove("OLDPWD");
}
