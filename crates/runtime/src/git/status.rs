//! What one question to git tells about a checkout: the commit that is checked out, and what is not in it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::GitError;
use super::command::Git;

/// How a checkout differs from the commit that is checked out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// The commit, if there is one yet.
    pub(super) head: Option<String>,
    /// Whether a file that git knows is not as it is in the commit, staged or not.
    changed: bool,
    /// Whether a merge is not resolved.
    pub(super) unmerged: bool,
    /// What is neither tracked nor ignored. A repository in the tree is one of them.
    pub(super) untracked: Vec<PathBuf>,
}

impl Status {
    /// Asks git, but not about what is in one of the directories `except`. Nothing is changed by
    /// asking, not even the index.
    pub(super) fn of(git: &Git, except: &[&Path]) -> Result<Status, GitError> {
        let words = [
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=all",
            "--no-renames",
            "--no-ahead-behind",
            // Of a repository in the tree only its commit counts, as when it is staged.
            "--ignore-submodules=dirty",
            "--",
        ];
        let except = except.iter().map(|path| literal(":(exclude,top,literal)", path));
        let words = words.map(OsString::from).into_iter().chain([":/".into()]).chain(except);
        let said = git.with("GIT_OPTIONAL_LOCKS", "0").run(words)?;
        Ok(read(&said.names()))
    }

    /// Whether everything is as it is in the commit. Repositories in the tree are no part of it.
    pub(super) fn is_clean(&self) -> bool {
        !self.changed && self.untracked.iter().all(|path| is_repository(path))
    }

    /// Stages everything but what is ignored, excepted, or in a repository of its own, of which git
    /// would keep nothing but the name of a commit. What a sparse checkout leaves out is staged as
    /// well where somebody wrote it.
    pub(super) fn add_all(&self, git: &Git, except: &[&Path]) -> Result<(), GitError> {
        let nested = self.untracked.iter().filter(|path| is_repository(path));
        let nested = nested.map(|path| literal(":(exclude,top,literal)", path));
        let except = except.iter().map(|path| beneath(path));
        let words = ["add", "--all", "--sparse", "--ignore-errors", "--", ":/"].map(OsString::from);
        git.run(words.into_iter().chain(nested).chain(except)).map(drop)
    }
}

/// Reads the second version of git's porcelain format.
fn read(entries: &[PathBuf]) -> Status {
    let mut status = Status::default();
    for entry in entries {
        let entry = entry.as_os_str().as_bytes();
        if let Some(head) = entry.strip_prefix(b"# branch.oid ") {
            let head = String::from_utf8_lossy(head).into_owned();
            status.head = Some(head).filter(|head| head != "(initial)");
        } else if let Some(path) = entry.strip_prefix(b"? ") {
            status.untracked.push(PathBuf::from(OsStr::from_bytes(path)));
        } else if !entry.starts_with(b"# ") {
            status.changed = true;
            status.unmerged |= entry.starts_with(b"u ");
        }
    }
    status
}

/// Git tells a repository in the tree from a file by the slash behind it.
fn is_repository(listed: &Path) -> bool {
    listed.as_os_str().as_bytes().ends_with(b"/")
}

pub(super) fn literal(magic: &str, path: &Path) -> OsString {
    let mut spec = OsString::from(magic);
    spec.push(path);
    spec
}

/// Leaves out what is in a directory. Not by its plain name: a name that is ignored as well is one
/// that `git add` complains about. So it is a pattern in which no character means anything.
fn beneath(path: &Path) -> OsString {
    let mut spec = b":(exclude,top,glob)".to_vec();
    for (nth, byte) in path.as_os_str().as_bytes().iter().enumerate() {
        if nth == 0 || b"*?[]\\".contains(byte) {
            spec.push(b'\\');
        }
        spec.push(*byte);
    }
    spec.extend(b"/**");
    OsString::from_vec(spec)
}

#[cfg(test)]
mod tests {
    use super::super::scene::Scene;
    use super::*;

    #[test]
    fn one_question_tells_everything() {
        let scene = Scene::empty();
        let git = Git::new(&scene.top, &scene.world);
        let status = || Status::of(&git, &[Path::new("kept")]).unwrap();
        assert_eq!(status(), Status::default());
        scene.write("file", "one\n").write("kept/out", "no").write(".gitignore", "ignored\n");
        scene.git(&["add", "file", ".gitignore"]);
        scene.git(&["commit", "-q", "-m", "begin"]);
        let head = Some(scene.git(&["rev-parse", "HEAD"]));
        assert_eq!(status(), Status { head: head.clone(), ..Status::default() });

        scene.write("ignored", "").git(&["init", "-q", "nested"]);
        assert!(status().is_clean());
        scene.write("name\nwith a line", "");
        let untracked = ["name\nwith a line", "nested/"].map(PathBuf::from).to_vec();
        assert_eq!(status(), Status { head: head.clone(), untracked, ..Status::default() });
        assert!(!status().is_clean());

        // Whatever a person likes to see.
        scene.git(&["config", "status.showUntrackedFiles", "no"]);
        assert!(!status().is_clean());
        scene.git(&["add", "name\nwith a line"]);
        assert!(!status().is_clean() && status().changed);
        scene.git(&["rm", "-q", "--cached", "name\nwith a line"]);
        scene.write("file", "two\n");
        assert!(status().changed && !status().unmerged);
    }

    #[test]
    fn any_name_can_be_left_out() {
        let scene = Scene::new();
        let git = Git::new(&scene.top, &scene.world);
        let odd = ["state", "ign*", "we[i]rd", "back\\slash", "!not", "plain"];
        scene.write(".gitignore", "state/\nign\\*\n");
        let except = odd.map(Path::new);
        for dir in except {
            scene.write(dir.join("file"), "x");
        }
        scene.write("weird/file", "x").write("ignored/file", "x");
        Status::of(&git, &except).unwrap().add_all(&git, &except).unwrap();
        let staged = scene.git(&["diff", "--cached", "--name-only"]);
        assert_eq!(staged, ".gitignore\nignored/file\nweird/file");
    }
}
