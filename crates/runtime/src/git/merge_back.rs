//! Merging work back into the checkout of the project.
//!
//! What is merged is one tree object and the commit that it began from: what was reviewed, not whatever a branch, a
//! history or a checkout contains by now. It becomes one commit on top of that commit, which is merged. The merge
//! is computed on objects, without touching a file: a conflict is known before anything has changed, and no merge
//! is left half done in the checkout. Only a complete merge is checked out, by a fast-forward, which git refuses
//! as a whole if it would overwrite a file with uncommitted changes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::command::{Git, GitOutput, Merge};
use super::detach::moved_to;
use super::gitdir::{read_small, replace};
use super::{GitError, Repository, operation_in_progress};
use crate::files::{self, Links, Unreadable};
use crate::world::RealDisk;

/// How often a merge is repeated because the branch that is checked out has moved.
const ATTEMPTS: usize = 8;

#[derive(Clone, Copy, Debug)]
pub struct Change<'c> {
    pub base: &'c str,
    pub tree: &'c str,
    pub message: &'c str,
    pub merge: &'c str,
}

/// The outcome of a merge. Unless it was merged, nothing has changed: neither a file, nor the index, nor a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeBack {
    NoChange,
    /// All of it is reachable from this commit, which was checked out.
    Merged(String),
    /// These files were changed differently on both sides.
    Conflict(Vec<PathBuf>),
    /// These files would be overwritten, and have uncommitted changes.
    Uncommitted(Vec<PathBuf>),
    /// An operation that was started in the checkout and not finished.
    InProgress(&'static str),
}

/// A commit to be merged, on top of the commit that its work began at: its first parent, whose attributes apply.
#[derive(Clone, Copy, Debug)]
pub struct ProposedMerge<'m> {
    pub commit: &'m str,
    /// What is checked out must contain this commit.
    pub onto: &'m str,
    pub message: &'m str,
}

/// A merge that was computed and not checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prepared {
    NoChange,
    /// All of it is reachable from this commit, which is checked out.
    Already(String),
    Merge {
        /// The commit that is checked out.
        head: String,
        /// The merge, or the commit itself where it is a descendant.
        commit: String,
    },
    Conflict {
        head: String,
        files: Vec<PathBuf>,
    },
    InProgress(&'static str),
}

/// How the checkout took a merge. Unless it is done, nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advanced {
    Done,
    /// Another commit is checked out by now: the merge must be prepared again.
    Moved,
    /// These files would be overwritten, and have uncommitted changes.
    Uncommitted(Vec<PathBuf>),
    InProgress(&'static str),
}

impl Repository {
    /// Merges work into what is checked out: one caller at a time, across processes. Repeated after a crash, it
    /// completes what was begun.
    pub fn merge_back(&self, change: &Change<'_>) -> Result<MergeBack, GitError> {
        let git = self.lock_project()?;
        let Change { base, tree, message, merge } = *change;
        let tip = git.with_identity()?.commit_tree(tree, &[base], message)?;
        let proposed = ProposedMerge { commit: &tip, onto: base, message: merge };
        for _ in 0..ATTEMPTS {
            let (head, commit) = match self.prepare(&git, &proposed)? {
                Prepared::NoChange => return Ok(MergeBack::NoChange),
                Prepared::Already(head) => return Ok(MergeBack::Merged(head)),
                Prepared::Conflict { files, .. } => return Ok(MergeBack::Conflict(files)),
                Prepared::InProgress(what) => return Ok(MergeBack::InProgress(what)),
                Prepared::Merge { head, commit } => (head, commit),
            };
            // The same work was merged before, as another commit.
            if self.tree_of(&commit)? == self.tree_of(&head)? {
                return Ok(MergeBack::Merged(head));
            }
            match self.advance(&git, &head, &commit)? {
                Advanced::Done => return Ok(MergeBack::Merged(commit)),
                Advanced::Uncommitted(files) => return Ok(MergeBack::Uncommitted(files)),
                Advanced::InProgress(what) => return Ok(MergeBack::InProgress(what)),
                Advanced::Moved => {}
            }
        }
        Err(GitError::BranchMoved(self.top.clone()))
    }

    /// The first half of [`Repository::merge_back`]: computes the merge of a commit into what is checked out. A
    /// checkout that was cut off is completed; nothing else moves.
    pub fn prepare_merge(&self, merge: &ProposedMerge<'_>) -> Result<Prepared, GitError> {
        self.prepare(&self.lock_project()?, merge)
    }

    /// The second half: checks out a merge that was prepared when `head` was checked out.
    pub fn advance_to(&self, head: &str, commit: &str) -> Result<Advanced, GitError> {
        self.advance(&self.lock_project()?, head, commit)
    }

    fn prepare(&self, git: &Git, merge: &ProposedMerge<'_>) -> Result<Prepared, GitError> {
        if let Some(what) = operation_in_progress(&self.git_dir) {
            return Ok(Prepared::InProgress(what));
        }
        self.complete(git)?;
        self.catch_up(git)?;
        let ProposedMerge { commit, onto, message } = *merge;
        let base = self.git.first_parent(commit)?;
        if self.tree_of(&base)? == self.tree_of(commit)? {
            return Ok(Prepared::NoChange);
        }
        let head = self.base()?;
        if self.git.contains(&head, commit)? {
            return Ok(Prepared::Already(head));
        }
        if !self.git.contains(&head, onto)? {
            return Err(GitError::Rewritten { top: self.top.clone(), base: onto.to_owned() });
        }
        let private = self.pinned.open(&self.git)?;
        private.check_objects(&base, commit)?;
        let commit = match private.with_attributes(&base).merge(&head, commit)? {
            Merge::FastForward => commit.to_owned(),
            Merge::Tree(tree) => {
                git.with_identity()?.commit_tree(&tree, &[&head, commit], message)?
            }
            Merge::Conflict(conflict) => {
                return Ok(Prepared::Conflict { head, files: conflict.files() });
            }
        };
        Ok(Prepared::Merge { head, commit })
    }

    fn advance(&self, git: &Git, head: &str, commit: &str) -> Result<Advanced, GitError> {
        if let Some(what) = operation_in_progress(&self.git_dir) {
            return Ok(Advanced::InProgress(what));
        }
        self.complete(git)?;
        let now = self.base()?;
        if self.git.contains(&now, commit)? {
            return Ok(Advanced::Done);
        }
        if now != head {
            return Ok(Advanced::Moved);
        }
        let pending = self.pending_merge();
        pending.write(head, commit)?;
        let advanced = check_out(git, head, commit, Overwrite::Equal)?;
        pending.remove()?;
        Ok(advanced)
    }

    /// Updates the files after the branch was moved from another worktree: otherwise they seem to undo that. Where
    /// uncommitted changes are in the way, they stay as they are.
    fn catch_up(&self, git: &Git) -> Result<(), GitError> {
        let head = self.base()?;
        if let Some(logged) = moved_to(git, &self.git_dir)
            && logged != head
            && self.git.commit(&logged)?.is_some()
            && self.git.contains(&head, &logged)?
        {
            git.try_run(["read-tree", "-m", "-u", &logged, &head])?;
        }
        Ok(())
    }

    /// Completes a merge that was being checked out when everything was killed, git as well.
    fn complete(&self, git: &Git) -> Result<(), GitError> {
        let pending = self.pending_merge();
        if let Some((from, to)) = pending.read()
            && self.base()? == from
            && self.git.commit(&to)?.is_some()
        {
            // Whatever the outcome, the caller looks at the checkout again.
            let _ = check_out(git, &from, &to, Overwrite::Beginning)?;
        }
        pending.remove()
    }

    fn pending_merge(&self) -> PendingMerge {
        PendingMerge(self.git_dir.join("autoloop-bringing"))
    }
}

/// Which files with uncommitted changes may be overwritten, because nothing would be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overwrite {
    /// Those with the content that the commit gives them.
    Equal,
    /// Also those with the beginning of it: a killed git was writing them.
    Beginning,
}

/// Moves the checkout and its branch to a later commit.
fn check_out(git: &Git, from: &str, to: &str, overwrite: Overwrite) -> Result<Advanced, GitError> {
    let output = fast_forward(git, to)?;
    if output.code == 0 {
        return Ok(Advanced::Done);
    }
    if git.run(["rev-parse", "HEAD"])?.line() != from {
        return Ok(Advanced::Moved);
    }
    let files = refused_files(&output.err);
    if files.is_empty() {
        return Err(output.failure());
    }
    for file in &files {
        if !is_replaceable(git, to, file, overwrite)? {
            return Ok(Advanced::Uncommitted(files));
        }
    }
    for file in &files {
        let path = git.dir().join(file);
        fs::remove_file(&path).map_err(GitError::io("remove", path))?;
    }
    let again = fast_forward(git, to)?;
    match (again.code, refused_files(&again.err)) {
        (0, _) => Ok(Advanced::Done),
        (_, files) if files.is_empty() => Err(again.failure()),
        (_, files) => Ok(Advanced::Uncommitted(files)),
    }
}

fn fast_forward(git: &Git, to: &str) -> Result<GitOutput, GitError> {
    let plain = ["--ff-only", "--quiet", "--commit", "--no-squash", "--no-overwrite-ignore"];
    git.try_run(["merge"].into_iter().chain(plain).chain([to]))
}

/// The files that git refuses to overwrite, each in a line that begins with a tab.
fn refused_files(err: &str) -> Vec<PathBuf> {
    err.lines().filter_map(|line| line.strip_prefix('\t')).map(PathBuf::from).collect()
}

/// Whether a file contains nothing that is not in the commit.
fn is_replaceable(
    git: &Git,
    commit: &str,
    file: &Path,
    overwrite: Overwrite,
) -> Result<bool, GitError> {
    let path = git.dir().join(file);
    let object = [commit.as_bytes(), b":", file.as_os_str().as_bytes()].concat();
    let words = [b"cat-file", &b"--filters"[..], &object].map(OsStr::from_bytes);
    let output = git.try_run(words)?;
    if output.code != 0 || output.out.left_out() > 0 {
        return Ok(false);
    }
    let wanted = output.bytes();
    let found = match files::read(&RealDisk, &path, Links::Refuse, wanted.len() as u64) {
        Ok(Some(found)) => found,
        Ok(None) | Err(Unreadable::NotAFile | Unreadable::TooLong { .. }) => return Ok(false),
        Err(why) => return Err(GitError::io("read", path)(why.into())),
    };
    Ok(match overwrite {
        Overwrite::Equal => wanted == found,
        Overwrite::Beginning => wanted.starts_with(&found),
    })
}

/// A file that names the commit that is being checked out, and the one before.
struct PendingMerge(PathBuf);

impl PendingMerge {
    fn write(&self, from: &str, to: &str) -> Result<(), GitError> {
        replace(&self.0, format!("{from} {to}\n").as_bytes())
    }

    fn read(&self) -> Option<(String, String)> {
        let text = String::from_utf8(read_small(&self.0)?).ok()?;
        let (from, to) = text.trim_end().split_once(' ')?;
        Some((from.to_owned(), to.to_owned()))
    }

    fn remove(&self) -> Result<(), GitError> {
        files::remove_if_exists(&self.0).map_err(GitError::io("remove", &self.0))
    }
}

#[cfg(test)]
mod tests;
