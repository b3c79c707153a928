//! The files of a checkout as a tree object: what is reviewed, what is merged, and what tells whether anything
//! changed at all.
//!
//! Nothing that an agent can set up decides what is in it: the index is our own and empty at first, so that every
//! file is read; the attributes are those of the commit that the work began from; settings, hooks and filters are
//! those of [`private`](super::private). From the index of the checkout only the names are taken, so that a file
//! that somebody added although it is ignored counts, and what a sparse checkout leaves out is not missing.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::command::{Git, Said};
use super::private::{Pinned, Private};
use super::{GitError, Tree};

/// A listing of more than this is that of no repository that anybody has.
const LISTED: usize = 1024 * 1024 * 1024;

/// The files of a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The tree object that holds all of them, but for what is ignored or excepted.
    pub tree: String,
    /// Whether a merge is not resolved.
    pub(super) unmerged: bool,
}

/// A private index that holds the files of a checkout.
pub(super) struct Staged<'p> {
    pub(super) private: &'p Private,
    /// Git with this index, on these files.
    pub(super) git: Git,
    pub(super) captured: Captured,
}

/// One entry of the index of a checkout.
struct Entry<'l> {
    /// Mode, object and stage, as git takes them.
    about: &'l [u8],
    path: &'l Path,
    /// Whether a sparse checkout leaves it out.
    skipped: bool,
}

impl Tree {
    /// Writes the files of the checkout as a tree object: everything but what is ignored, what is in a repository
    /// of its own, and what is in one of the directories `except`, relative to the top, of which the tree has
    /// what `base` has. Nothing is changed but the objects of the repository.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or git fails.
    pub fn capture(&self, base: &str, except: &[&Path]) -> Result<Captured, GitError> {
        self.with_captured(base, except, |staged| Ok(staged.captured.clone()))
    }

    /// The same, and does something with the index that has all of it.
    pub(super) fn with_captured<T>(
        &self,
        base: &str,
        except: &[&Path],
        done: impl FnOnce(&Staged<'_>) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        let private = self.pinned.open(&self.git)?;
        let git = private.on(self.dir(), base);
        let unmerged = self.name_files(&private, &git, (base, except))?;
        add_all(&git, except)?;
        let captured = Captured { tree: git.run(["write-tree"])?.line(), unmerged };
        done(&Staged { private: &private, git, captured })
    }

    /// Fills the index with the names that the checkout's own has, and says whether one of them is not merged.
    fn name_files(
        &self,
        private: &Private,
        git: &Git,
        (base, except): (&str, &[&Path]),
    ) -> Result<bool, GitError> {
        let words = ["ls-files", "-z", "-t", "--stage", "--full-name"];
        // An agent can have broken its index, or have put a pipe there for which git would wait.
        let listed = match fs::symlink_metadata(self.git_dir.join("index")) {
            Ok(found) if !found.is_file() => None,
            _ => whole(self.git.with("GIT_OPTIONAL_LOCKS", "0").keeping(LISTED).ask(words)?)?,
        };
        let Some(listed) = listed else {
            git.run(["read-tree", base])?;
            return Ok(false);
        };
        let entries: Vec<Entry<'_>> = listed.split(|byte| *byte == 0).filter_map(entry).collect();
        let own = |path: &Path| except.iter().any(|dir| path.starts_with(dir));
        let ours = entries.iter().filter(|entry| !own(entry.path));
        let mut input = Vec::new();
        for entry in ours.clone() {
            input.extend([entry.about, b"\t", entry.path.as_os_str().as_bytes(), b"\0"].concat());
        }
        private.fed(git, &input)?.run(["update-index", "-z", "--index-info"])?;
        let is_missing = |path: &Path| self.dir().join(path).symlink_metadata().is_err();
        let mut missing = Vec::new();
        for entry in ours.filter(|entry| entry.skipped && is_missing(entry.path)) {
            missing.extend([entry.path.as_os_str().as_bytes(), b"\0"].concat());
        }
        if !missing.is_empty() {
            let git = private.fed(git, &missing)?;
            git.run(["update-index", "-z", "--skip-worktree", "--stdin"])?;
        }
        keep_excepted(git, base, except)?;
        Ok(entries.iter().any(|entry| !entry.about.ends_with(b" 0")))
    }
}

impl Pinned {
    /// What differs between a commit and a tree, with a summary first. More than `limit` bytes are told as their
    /// beginning, their end and how much is between. Neither attributes nor settings hide anything.
    pub(super) fn diff(
        &self,
        git: &Git,
        (base, tree): (&str, &str),
        limit: usize,
    ) -> Result<String, GitError> {
        let private = self.open(git)?;
        let plain =
            ["--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/"];
        let words = ["diff", "--patch-with-stat", "--submodule=short"].into_iter();
        let words = words.chain(plain).chain([base, tree, "--"]);
        Ok(private.git().keeping(limit / 2).run(words)?.out.text())
    }
}

impl Private {
    /// Makes sure that the objects that one tree has and another does not are what their names say. Git does not look
    /// when it reads them, and an agent can write other contents into the files of objects.
    pub(super) fn check_objects(&self, [from, to]: [&str; 2]) -> Result<(), GitError> {
        let git = self.fed(self.git(), format!("{to}\n^{from}\n").as_bytes())?;
        let copied = self.path("check");
        let plain = ["--revs", "--quiet", "--no-reuse-object", "--window=0", "--compression=0"];
        let words = ["pack-objects"].into_iter().chain(plain).map(OsStr::new);
        let name = git.run(words.chain([copied.as_os_str()]))?.line();
        let pack = self.path(&format!("check-{name}.pack"));
        let words = ["index-pack", "--verify"].map(OsStr::new).into_iter();
        match git.ask(words.chain([pack.as_os_str()]))?.code {
            0 => Ok(()),
            _ => Err(GitError::Forged(to.to_owned())),
        }
    }
}

/// The whole of a listing; `None` where git could not make one.
fn whole(said: Said) -> Result<Option<Vec<u8>>, GitError> {
    match (said.code, said.out.left_out()) {
        (0, 0) => Ok(Some([&said.out.head[..], &said.out.tail].concat())),
        (0, _) => Err(said.failure()),
        _ => Ok(None),
    }
}

/// Reads `H 100644 0123… 0\tpath`.
fn entry(line: &[u8]) -> Option<Entry<'_>> {
    let (tag, rest) = (line.first()?, line.get(2..)?);
    let tab = rest.iter().position(|byte| *byte == b'\t')?;
    let path = Path::new(OsStr::from_bytes(&rest[tab + 1..]));
    Some(Entry { about: &rest[..tab], path, skipped: *tag == b'S' })
}

/// Has the index hold what a commit has in some directories.
fn keep_excepted(git: &Git, base: &str, except: &[&Path]) -> Result<(), GitError> {
    for path in except {
        let mut prefix = OsString::from("--prefix=");
        prefix.push(path);
        prefix.push("/");
        let object = [base.as_bytes(), b":", path.as_os_str().as_bytes()].concat();
        // It has nothing there where this fails.
        git.ask([OsStr::new("read-tree"), &prefix, OsStr::from_bytes(&object)])?;
    }
    Ok(())
}

/// Stages everything but what is ignored, excepted, or in a repository of its own, of which git would keep
/// nothing but the name of a commit. What a sparse checkout leaves out is staged as well where it was written.
fn add_all(git: &Git, except: &[&Path]) -> Result<(), GitError> {
    let nested = nested(git, except)?;
    let nested = nested.iter().map(|path| literal(":(exclude,top,literal)", path));
    let except = except.iter().map(|path| beneath(path));
    let words = ["add", "--all", "--sparse", "--ignore-errors", "--", ":/"].map(OsString::from);
    git.run(words.into_iter().chain(nested).chain(except)).map(drop)
}

/// The repositories in a checkout that are no part of it.
pub(super) fn nested(git: &Git, except: &[&Path]) -> Result<Vec<PathBuf>, GitError> {
    let words = ["ls-files", "-z", "--others", "--exclude-standard", "--", ":/"];
    let except = except.iter().map(|path| literal(":(exclude,top,literal)", path));
    let words = words.map(OsString::from).into_iter().chain(except);
    let said = git.with("GIT_OPTIONAL_LOCKS", "0").keeping(LISTED).run(words)?;
    Ok(said.names().into_iter().filter(|path| is_repository(path)).collect())
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
mod tests;
