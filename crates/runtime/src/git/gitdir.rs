//! Which directory of git a checkout has, by the files that lead from one to the other.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::files::{self, Links};
use crate::world::RealDisk;

/// No path and no name of a commit is longer.
const LONGEST: u64 = 64 * 1024;

/// A small file in which git notes a name or a path. Agents can put anything in its place.
pub(crate) fn noted(path: &Path) -> Option<Vec<u8>> {
    files::read(&RealDisk, path, Links::Refuse, LONGEST).ok().flatten()
}

/// Whether the checkout at `dir` has `own` for its directory of git, in the repository that is kept in
/// `common`. Whoever works in a checkout can have written anything into these files, and a git that
/// was killed can have left some of them out.
pub(super) fn belongs(dir: &Path, own: &Path, common: &Path) -> bool {
    let same = |one: Option<PathBuf>, other: &Path| {
        one.and_then(|one| one.canonicalize().ok())
            .is_some_and(|one| other.canonicalize().is_ok_and(|other| one == other))
    };
    same(linked(&dir.join(".git")), own)
        && same(shared(own), common)
        && noted(&own.join("HEAD")).is_some_and(|head| !head.trim_ascii().is_empty())
        && has_plain_index(own)
}

/// Whether the index is a file, or none is written yet. Git would wait for a pipe in its place.
fn has_plain_index(own: &Path) -> bool {
    own.join("index").symlink_metadata().map_or(true, |found| found.is_file())
}

/// Whether this commit itself is checked out, and not a branch that stands at it.
pub(super) fn is_detached(own: &Path, commit: &str) -> bool {
    noted(&own.join("HEAD")).is_some_and(|head| head.trim_ascii() == commit.as_bytes())
}

/// The directories in which a git that is started in `dir` may write: its own and the shared one.
pub(super) fn found_from(dir: &Path) -> Vec<PathBuf> {
    let own = dir.ancestors().find_map(|dir| match linked(&dir.join(".git")) {
        None if dir.join("HEAD").is_file() => Some(dir.to_owned()),
        own => own,
    });
    own.map_or_else(Vec::new, with_shared)
}

/// A directory of git, or a file that names it, and the directory that it shares with others.
pub(super) fn with_shared(own: PathBuf) -> Vec<PathBuf> {
    let own = linked(&own).unwrap_or(own);
    shared(&own).into_iter().chain([own]).collect()
}

/// Where `.git` leads: a directory is it itself, a file names it.
fn linked(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.to_owned());
    }
    let text = noted(path)?;
    Some(path.parent()?.join(named(text.strip_prefix(b"gitdir: ")?)))
}

/// Where a directory of git has what it shares with others; in itself, if it names no other.
fn shared(own: &Path) -> Option<PathBuf> {
    match noted(&own.join("commondir")) {
        Some(text) => Some(own.join(named(&text))),
        None => Some(own.to_owned()),
    }
}

fn named(text: &[u8]) -> &Path {
    let end = text.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
    Path::new(OsStr::from_bytes(&text[..end]))
}
