//! Finds the project that a directory belongs to, as git finds a repository.

#![expect(clippy::disallowed_methods, reason = "the Disk does not report owners of files")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::layout::StateDir;

/// What makes a directory a project: a state directory, or a loop.
const MARKS: [&str; 3] = [StateDir::NAME, "autoloops.toml", "autoloops.conf"];

/// Finds the nearest project at or above a directory.
///
/// The search ends at the top of the git repository. Outside of a repository it ends below the home
/// directory, and it never leaves the file system or enters a directory for temporary files. A
/// directory inside of a project's state directory, such as the worktree of a slot, belongs to that
/// project. Marks that belong to another user are ignored, because settings name programs.
pub fn discover(start: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let start = start.canonicalize().ok()?;
    let search = Search::from(&start)?;
    let around_state = start.ancestors().find(|dir| search.is_state(dir)).and_then(Path::parent);
    let project = around_state.or_else(|| {
        let places = search.places(&start, home);
        places.into_iter().find(|dir| MARKS.iter().any(|mark| search.trusts(&dir.join(mark))))
    });
    project.map(Path::to_owned)
}

struct Search {
    device: u64,
    /// The user, and the owner of the directory in which the search starts.
    trusted: [u32; 2],
}

impl Search {
    fn from(start: &Path) -> Option<Search> {
        let stat = fs::metadata(start).ok()?;
        let user = rustix::process::geteuid().as_raw();
        Some(Search { device: stat.dev(), trusted: [user, stat.uid()] })
    }

    /// The directory and its parents, up to the end of the search.
    fn places<'p>(&self, start: &'p Path, home: Option<&Path>) -> Vec<&'p Path> {
        let above = start.ancestors().skip(1).take_while(|dir| self.may_enter(dir));
        let mut places: Vec<&Path> = std::iter::once(start).chain(above).collect();
        let top = places.iter().position(|dir| dir.join(".git").symlink_metadata().is_ok());
        let home = home.and_then(|home| home.canonicalize().ok());
        let below_home = || places.iter().skip(1).position(|dir| Some(*dir) == home.as_deref());
        if let Some(count) = top.or_else(below_home) {
            places.truncate(count + 1);
        }
        places
    }

    fn may_enter(&self, dir: &Path) -> bool {
        const STICKY_AND_OPEN: u32 = 0o1002;
        let is_temporary = |mode: u32| mode & STICKY_AND_OPEN == STICKY_AND_OPEN;
        let stat = fs::metadata(dir);
        stat.is_ok_and(|stat| stat.dev() == self.device && !is_temporary(stat.mode()))
            && dir.parent().is_some()
    }

    fn trusts(&self, mark: &Path) -> bool {
        mark.symlink_metadata().is_ok_and(|stat| self.trusted.contains(&stat.uid()))
    }

    fn is_state(&self, dir: &Path) -> bool {
        let is_named = dir.file_name().is_some_and(|name| name == MARKS[0]);
        is_named && self.trusts(dir) && dir.join(StateDir::JOURNAL).is_file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_project_is_found() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for dir in [
            "home/.autoloop",
            "home/repo/.git",
            "home/repo/.autoloop/trees/slot-1/src",
            "home/repo/src/deep",
            "home/repo/vendor/.git",
            "home/repo/tools/lib",
            "home/plain/.autoloop",
            "home/plain/src",
            "home/notes",
        ] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        fs::write(root.join("home/repo/tools/autoloops.toml"), "").unwrap();
        fs::write(root.join("home/repo/.autoloop/journal.jsonl"), "").unwrap();
        fs::write(root.join("home/repo/.autoloop/trees/slot-1/.git"), "gitdir: x").unwrap();
        for (start, found) in [
            ("home/repo", "home/repo"),
            ("home/repo/src/deep", "home/repo"),
            ("home/repo/tools/lib", "home/repo/tools"),
            ("home/repo/.autoloop/trees/slot-1/src", "home/repo"),
            ("home/plain/src", "home/plain"),
            ("home", "home"),
            ("home/repo/vendor", ""),
            ("home/notes", ""),
            ("", ""),
        ] {
            let project = discover(&root.join(start), Some(&root.join("home")));
            let project = project.map(|dir| dir.strip_prefix(&root).unwrap().to_owned());
            assert_eq!(project.unwrap_or_default(), Path::new(found), "{start}");
        }
    }
}
