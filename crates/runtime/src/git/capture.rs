//! The files of a checkout as a tree object: what is reviewed, what is merged, and what shows whether anything
//! changed.
//!
//! Nothing that an agent can configure decides what is in it: the index is our own and empty at first, so that
//! every file is read; the attributes are those of the commit that the work began from; settings, hooks and
//! filters are those of [`private`](super::private). From the index of the checkout only the names are taken, so
//! that an ignored file counts if it was added, and what a sparse checkout leaves out is not missing.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::command::Git;
use super::private::Private;
use super::{CommittedWork, GitError, Worktree};

/// The listing of any real repository is shorter.
const LISTED: usize = 1024 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The tree object that holds all of them, but for what is ignored or excepted.
    pub tree: String,
    /// The files that the index of the checkout has as not merged.
    pub(super) unmerged: Vec<PathBuf>,
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

impl Worktree {
    /// Writes the files of the checkout as a tree object: everything but ignored files and nested repositories.
    /// For the directories `except`, relative to the top, the tree has what `base` has. Nothing is changed but
    /// the objects of the repository.
    pub fn capture(&self, base: &str, except: &[&Path]) -> Result<Captured, GitError> {
        self.with_captured(base, except, |staged| Ok(staged.captured.clone()))
    }

    /// The same as a commit on top of `base`; of the same files always the same commit. Other processes may be
    /// changing the files meanwhile.
    pub fn capture_commit(
        &self,
        base: &str,
        message: &str,
        except: &[&Path],
    ) -> Result<CommittedWork, GitError> {
        check_lists(self.dir())?;
        self.with_captured(base, except, |staged| {
            let tree = staged.captured.tree.clone();
            let git = staged.private.git().with_identity()?.with_dates_of(base)?;
            let tip = git.commit_tree(&tree, &[base], message)?;
            let is_unmerged = !staged.captured.unmerged.is_empty();
            Ok(CommittedWork { tip, tree, unfinished: is_unmerged.then(|| "a merge".to_owned()) })
        })
    }

    /// The same, passing the index that holds the files to `then`.
    pub(super) fn with_captured<T>(
        &self,
        base: &str,
        except: &[&Path],
        then: impl FnOnce(&Staged<'_>) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        let private = self.pinned.open(&self.git)?;
        let git = private.on(self.dir(), base);
        let unmerged = self.fill_index(&private, &git, base, except)?;
        add_all(&git, except)?;
        let captured = Captured { tree: git.run(["write-tree"])?.line(), unmerged };
        then(&Staged { private: &private, git, captured })
    }

    /// Fills the private index with the entries of the checkout's own. Returns the files that are not merged.
    fn fill_index(
        &self,
        private: &Private,
        git: &Git,
        base: &str,
        except: &[&Path],
    ) -> Result<Vec<PathBuf>, GitError> {
        let Some(listed) = self.list_index()? else {
            git.run(["read-tree", base])?;
            return Ok(Vec::new());
        };
        let entries: Vec<Entry<'_>> = listed.split(|byte| *byte == 0).filter_map(entry).collect();
        let is_excepted = |path: &Path| except.iter().any(|dir| path.starts_with(dir));
        // Git adds no pipes, and fails on one in place of a file.
        let is_pipe = |path: &Path| is_special(&self.dir().join(path));
        let is_ours = |entry: &&Entry<'_>| !is_excepted(entry.path) && !is_pipe(entry.path);
        let ours = entries.iter().filter(is_ours);
        let mut input = Vec::new();
        for entry in ours.clone() {
            input.extend([entry.about, b"\t", entry.path.as_os_str().as_bytes(), b"\0"].concat());
        }
        private.with_input(git, &input)?.run(["update-index", "-z", "--index-info"])?;
        let is_missing = |path: &Path| self.dir().join(path).symlink_metadata().is_err();
        let missing = ours.filter(|entry| entry.skipped && is_missing(entry.path));
        let missing = nul_terminated(missing.map(|entry| entry.path));
        if !missing.is_empty() {
            let git = private.with_input(git, &missing)?;
            git.run(["update-index", "-z", "--skip-worktree", "--stdin"])?;
        }
        keep_excepted(git, base, except)?;
        let unmerged = entries.iter().filter(|entry| !entry.about.ends_with(b" 0"));
        let mut unmerged: Vec<PathBuf> = unmerged.map(|entry| entry.path.to_owned()).collect();
        unmerged.dedup();
        Ok(unmerged)
    }

    /// The entries of the checkout's index; `None` where git cannot read it. An agent can have broken it, or put a
    /// pipe there for which git would wait.
    fn list_index(&self) -> Result<Option<Vec<u8>>, GitError> {
        if fs::symlink_metadata(self.git_dir.join("index")).is_ok_and(|found| !found.is_file()) {
            return Ok(None);
        }
        let git = self.git.with("GIT_OPTIONAL_LOCKS", "0").keeping(LISTED);
        let output = git.try_run(["ls-files", "-z", "-t", "--stage", "--full-name"])?;
        match (output.code, output.out.left_out()) {
            (0, 0) => Ok(Some(output.bytes())),
            (0, _) => Err(output.failure()),
            _ => Ok(None),
        }
    }
}

/// Makes sure that no pipe is in place of a list of ignored files: git would wait for it.
pub(super) fn check_lists(top: &Path) -> Result<(), GitError> {
    let mut dirs = vec![top.to_owned()];
    while let Some(dir) = dirs.pop() {
        // What cannot be read, git reports.
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir && entry.file_name() != ".git" {
                dirs.push(entry.path());
            } else if entry.file_name() == ".gitignore" && is_special(&entry.path()) {
                return Err(GitError::Pipe(entry.path()));
            }
        }
    }
    Ok(())
}

/// Whether a path is a pipe, a socket or a device.
fn is_special(path: &Path) -> bool {
    let found = path.symlink_metadata().map(|found| found.file_type());
    found.is_ok_and(|kind| !(kind.is_file() || kind.is_dir() || kind.is_symlink()))
}

/// Reads `H 100644 0123… 0\tpath`.
fn entry(line: &[u8]) -> Option<Entry<'_>> {
    let (tag, rest) = (line.first()?, line.get(2..)?);
    let tab = rest.iter().position(|byte| *byte == b'\t')?;
    let path = Path::new(OsStr::from_bytes(&rest[tab + 1..]));
    Some(Entry { about: &rest[..tab], path, skipped: *tag == b'S' })
}

/// Paths as git reads them with `-z`.
pub(super) fn nul_terminated<'p>(paths: impl Iterator<Item = &'p Path>) -> Vec<u8> {
    paths.flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect()
}

/// Reads what a commit has in some directories into the index.
fn keep_excepted(git: &Git, base: &str, except: &[&Path]) -> Result<(), GitError> {
    for path in except {
        let prefix = [b"--prefix=", path.as_os_str().as_bytes(), b"/"].concat();
        let object = [base.as_bytes(), b":", path.as_os_str().as_bytes()].concat();
        // It fails where the commit has nothing there.
        git.try_run([b"read-tree", &prefix[..], &object].map(OsStr::from_bytes))?;
    }
    Ok(())
}

/// Stages everything but ignored and excepted files and nested repositories, of which git would record nothing
/// but the name of a commit. What a sparse checkout leaves out is staged as well if it was written.
fn add_all(git: &Git, except: &[&Path]) -> Result<(), GitError> {
    let nested = nested_repositories(git, except)?;
    let words = ["add", "--all", "--sparse", "--ignore-errors", "--", ":/"].map(OsString::from);
    let except = except.iter().map(|path| exclude_beneath(path));
    git.run(words.into_iter().chain(nested.iter().map(exclude)).chain(except)).map(drop)
}

/// Repositories in a checkout that are not part of it.
pub(super) fn nested_repositories(git: &Git, except: &[&Path]) -> Result<Vec<PathBuf>, GitError> {
    let words = ["ls-files", "-z", "--others", "--exclude-standard", "--", ":/"];
    let words = words.map(OsString::from).into_iter().chain(except.iter().map(exclude));
    let output = git.with("GIT_OPTIONAL_LOCKS", "0").keeping(LISTED).run(words)?;
    // Git lists a repository with a slash at its end.
    let is_repository = |path: &PathBuf| path.as_os_str().as_bytes().ends_with(b"/");
    Ok(output.names().into_iter().filter(is_repository).collect())
}

pub(super) fn exclude(path: impl AsRef<Path>) -> OsString {
    let mut spec = OsString::from(":(exclude,top,literal)");
    spec.push(path.as_ref());
    spec
}

/// The pathspec that leaves out what is in a directory. `git add` refuses the plain name of an ignored directory,
/// so it is a pattern in which every special character is escaped.
fn exclude_beneath(path: &Path) -> OsString {
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
