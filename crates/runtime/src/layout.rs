//! The state directory of a project: the names of everything below it, and how it is created, private to
//! its owner and ignored by git.

#![expect(
    clippy::disallowed_methods,
    reason = "checks the owner and the links of the real state directory"
)]

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::private_files;

pub use autoloop_core::layout::{RunDir, StateDir, WaveDir};

/// The list that git reads in every directory.
const LIST: &str = ".gitignore";
/// Everything, the list itself included.
const EVERYTHING: &[u8] = b"*\n";

/// Creates the state directory of a project where it is missing, and protects it.
pub fn prepare(dir: &Path, project: &Path) -> io::Result<()> {
    private_files::create_dirs(dir)?;
    protect(dir, project)
}

/// Closes an existing state directory to other users, and has git ignore it, so that `git clean -fd`, `git stash -u` and
/// `git add -A` leave it alone. A list that a user wrote stays as it is.
///
/// A state directory that contains the project is left as it is: the project would be ignored with it.
pub fn protect(dir: &Path, project: &Path) -> io::Result<()> {
    // The target of a link is not ours. Opening the journal reports it.
    let Ok(found) = fs::symlink_metadata(dir) else { return Ok(()) };
    // Most often nothing is left to do, and every event of an agent comes this way.
    let is_done = found.mode() & 0o077 == 0 && has_list(dir);
    if !found.is_dir() || is_done || contains(dir, project) {
        return Ok(());
    }
    private_files::close(dir)?;
    ignore(dir)
}

fn contains(dir: &Path, project: &Path) -> bool {
    let project = if project.as_os_str().is_empty() { Path::new(".") } else { project };
    let real = |path: &Path| path.canonicalize();
    match (real(dir), real(project)) {
        (Ok(dir), Ok(project)) => project.starts_with(&dir) || dir.join(".git").exists(),
        // What cannot be compared is not changed.
        _ => true,
    }
}

fn has_list(dir: &Path) -> bool {
    fs::symlink_metadata(dir.join(LIST)).is_ok_and(|list| !list.is_file() || list.len() > 0)
}

/// Writes the list, unless there is one.
fn ignore(dir: &Path) -> io::Result<()> {
    if has_list(dir) {
        return Ok(());
    }
    let list = dir.join(LIST);
    let mut file = match fs::symlink_metadata(&list) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match private_files::create_file(&list, private_files::Use::Data) {
                // Another process wrote it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
                file => file?,
            }
        }
        Err(error) => return Err(error),
        Ok(_) => {
            let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
            OpenOptions::new().append(true).custom_flags(flags).open(&list)?
        }
    };
    file.write_all(EVERYTHING)
}
