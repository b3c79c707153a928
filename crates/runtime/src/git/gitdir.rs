//! Which git directory a checkout has, by the files that link the two.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::GitError;
use crate::files::{self, Links};
use crate::world::RealDisk;

/// No path and no commit name is longer.
const LONGEST: u64 = 64 * 1024;

/// The content of a small file in which git notes a name or a path; `None` if it cannot be read. Agents can put
/// anything in its place.
pub(super) fn read_small(path: &Path) -> Option<Vec<u8>> {
    files::read(&RealDisk, path, Links::Refuse, LONGEST).ok().flatten()
}

/// Writes a small file anew: what is there may be a link or a pipe of an agent.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), GitError> {
    files::remove_if_exists(path)
        .and_then(|()| File::create_new(path))
        .and_then(|mut file| file.write_all(bytes))
        .map_err(GitError::io("write", path))
}

/// Whether the checkout at `dir` has the git directory `own`, in the repository `common`. An agent can have
/// written anything into these files, and a killed git can have left some of them out.
pub(super) fn belongs(dir: &Path, own: &Path, common: &Path) -> bool {
    links_to(dir, own) && is_sound(own, common)
}

/// Whether the checkout at `dir` names the git directory `own`.
pub(super) fn links_to(dir: &Path, own: &Path) -> bool {
    git_dir_at(&dir.join(".git")).is_some_and(|named| is_same(&named, own))
}

/// Whether git can use `own` as a git directory of the repository `common`.
pub(super) fn is_sound(own: &Path, common: &Path) -> bool {
    // Git would wait for a pipe in place of the index.
    let index = own.join("index").symlink_metadata();
    is_same(&common_dir(own), common)
        && read_small(&own.join("HEAD")).is_some_and(|head| !head.trim_ascii().is_empty())
        && index.map_or(true, |found| found.is_file())
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Whether HEAD is this commit itself, not a branch.
pub(super) fn is_detached(own: &Path, commit: &str) -> bool {
    read_small(&own.join("HEAD")).is_some_and(|head| head.trim_ascii() == commit.as_bytes())
}

/// The directory of the worktree that a git directory belongs to, by the link in it.
pub(crate) fn linked_dot_git(own: &Path) -> Option<PathBuf> {
    let link = read_small(&own.join("gitdir"))?;
    Some(own.join(OsStr::from_bytes(link.trim_ascii())))
}

/// The directories in which a git that is started in `dir` may write: its own and the common one.
pub(super) fn found_from(dir: &Path) -> Vec<PathBuf> {
    let own = dir.ancestors().find_map(|dir| match git_dir_at(&dir.join(".git")) {
        None if dir.join("HEAD").is_file() => Some(dir.to_owned()),
        own => own,
    });
    own.map_or_else(Vec::new, with_common)
}

/// A git directory, or the one that a file names, and its common directory.
pub(super) fn with_common(own: PathBuf) -> Vec<PathBuf> {
    let own = git_dir_at(&own).unwrap_or(own);
    vec![common_dir(&own), own]
}

/// The git directory at a path: a directory is it itself, a file names it.
pub(crate) fn git_dir_at(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.to_owned());
    }
    let text = read_small(path)?;
    Some(path.parent()?.join(trimmed(text.strip_prefix(b"gitdir: ")?)))
}

pub(crate) fn common_dir(own: &Path) -> PathBuf {
    match read_small(&own.join("commondir")) {
        Some(text) => own.join(trimmed(&text)),
        None => own.to_owned(),
    }
}

fn trimmed(text: &[u8]) -> &Path {
    let end = text.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
    Path::new(OsStr::from_bytes(&text[..end]))
}
