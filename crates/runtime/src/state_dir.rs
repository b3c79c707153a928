//! The state directory of a project: private to its owner, and ignored by git.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::files::private;

/// The list that git reads in every directory.
const LIST: &str = ".gitignore";
/// Everything, the list itself included.
const EVERYTHING: &[u8] = b"*\n";

/// Creates the state directory of a project where it is missing, and protects it.
///
/// # Errors
///
/// When the directory or its list cannot be written.
pub fn prepare(dir: &Path, project: &Path) -> io::Result<()> {
    private::create_dirs(dir)?;
    protect(dir, project)
}

/// Closes an existing state directory to other users, and has git ignore it, so that `git clean -fd`, `git stash -u` and
/// `git add -A` leave it alone. A list that a user wrote stays as it is.
///
/// A state directory that contains the project is left as it is: the project would be ignored with it.
///
/// # Errors
///
/// When the list cannot be written.
pub fn protect(dir: &Path, project: &Path) -> io::Result<()> {
    // What a link leads to is not ours. Whoever opens the journal says so.
    let is_own = fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir());
    if !is_own || contains(dir, project) {
        return Ok(());
    }
    private::close(dir)?;
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

/// Writes the list, unless there is one. An empty one was left by a power cut.
fn ignore(dir: &Path) -> io::Result<()> {
    let list = dir.join(LIST);
    let mut file = match fs::symlink_metadata(&list) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match private::create_file(&list, private::Use::Data) {
                // Another process wrote it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
                file => file?,
            }
        }
        Ok(found) if found.is_file() && found.len() == 0 => {
            let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
            OpenOptions::new().append(true).custom_flags(flags).open(&list)?
        }
        found => return found.map(drop),
    };
    file.write_all(EVERYTHING)
}
