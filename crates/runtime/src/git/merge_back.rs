//! Bringing work back into the tree of the project.
//!
//! What is brought back is one tree object and the commit that it began from: what was reviewed, and not whatever a
//! branch, a history or a checkout says by now. It becomes one commit on top of that commit, which is merged.
//! The merge is made among the objects, where no file is touched: a conflict is known before anything
//! has happened, and no merge is ever left half done in the tree. Only a merge that is complete is
//! checked out, by a fast-forward, which git refuses as a whole if a file with changes that are not
//! committed would be overwritten.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::command::{Git, Said};
use super::detach::moved_to;
use super::gitdir::noted;
use super::tree::{commit_tree, identified};
use super::{GitError, Repository, repo_lock, under_way};
use crate::files::{self, Links, Unreadable};
use crate::world::RealDisk;

/// How often a merge is made anew because the branch that is checked out has moved.
const ATTEMPTS: usize = 8;

/// A branch on which work is kept.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'o> {
    /// Its name.
    pub branch: &'o str,
    /// Where it began.
    pub base: &'o str,
    /// What is said in the commit of what was left.
    pub message: &'o str,
}

/// Work that is to be brought back.
#[derive(Clone, Copy, Debug)]
pub struct Change<'c> {
    /// The commit that it began from.
    pub base: &'c str,
    /// The tree object that it made of it.
    pub tree: &'c str,
    /// What is said in its commit.
    pub message: &'c str,
    /// What is said in a merge commit, where one is needed.
    pub merge: &'c str,
}

/// What came of it. Unless it was merged or there was nothing to merge, nothing has changed: neither
/// the tree, nor the index, nor a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Brought {
    /// It changes nothing.
    Nothing,
    /// All of it is reachable from this commit, which is checked out or was.
    Merged(String),
    /// These files were changed differently on both sides.
    Conflict(Vec<PathBuf>),
    /// It changes these files, and they have changes that are not committed.
    InTheWay(Vec<PathBuf>),
    /// Somebody has begun this in the tree, and not ended it.
    UnderWay(&'static str),
}

/// How the checked-out tree took a commit.
enum Advance {
    Done,
    InTheWay(Vec<PathBuf>),
    /// Another commit is checked out by now.
    Moved,
}

impl Repository {
    /// Merges work into what is checked out: one caller at a time, across processes. Asked again after a crash, it
    /// finishes what was begun.
    ///
    /// # Errors
    ///
    /// When git cannot do it for another reason than those that are outcomes.
    pub fn bring_back(&self, change: &Change<'_>) -> Result<Brought, GitError> {
        let lock = repo_lock::lock(&self.common.join("autoloop.lock"), self.git.world())?;
        let git = self.git.holding(lock);
        if let Some(what) = under_way(&self.git_dir) {
            return Ok(Brought::UnderWay(what));
        }
        let git = git.with("GIT_DIR", &self.git_dir).with("GIT_WORK_TREE", &self.top);
        let git = self.pinned.without_new_filters(&git)?;
        let note = Note(self.git_dir.join("autoloop-bringing"));
        self.finish_interrupted(&git, &note)?;
        self.catch_up(&git, &self.git_dir)?;
        let from = self.tree_of(change.base)?;
        if from == change.tree {
            return Ok(Brought::Nothing);
        }
        let private = self.pinned.open(&self.git)?;
        private.check_objects([&from, change.tree])?;
        let committer = identified(&git)?;
        let tip = commit_tree(&committer, change.tree, &[change.base], change.message)?;
        for _ in 0..ATTEMPTS {
            let head = self.base()?;
            if !self.contains(&head, change.base)? {
                let (top, base) = (self.top().to_owned(), change.base.to_owned());
                return Err(GitError::Rewritten { top, base });
            }
            let merge = match merge(&private.with_attributes(change.base), &head, &tip)? {
                Merge::FastForward => tip.clone(),
                Merge::Tree(tree) if tree == self.tree_of(&head)? => {
                    return Ok(Brought::Merged(head));
                }
                Merge::Tree(tree) => commit_tree(&committer, &tree, &[&head, &tip], change.merge)?,
                Merge::Conflict(files) => return Ok(Brought::Conflict(files)),
            };
            note.leave(&head, &merge)?;
            let advance = advance(&git, &head, &merge, Trust::Equal)?;
            note.remove()?;
            match advance {
                Advance::Done => return Ok(Brought::Merged(merge)),
                Advance::InTheWay(files) => return Ok(Brought::InTheWay(files)),
                Advance::Moved => {}
            }
        }
        Err(GitError::Restless(self.top().to_owned()))
    }

    /// Has the files follow a branch that was moved from elsewhere, as by somebody who commits on it in
    /// another working tree: otherwise they seem to undo that. Where a person's changes are in the way,
    /// they stay as they are.
    fn catch_up(&self, git: &Git, git_dir: &Path) -> Result<(), GitError> {
        let head = self.base()?;
        if let Some(logged) = moved_to(git, git_dir)
            && logged != head
            && self.commit(&logged)?.is_some()
            && self.contains(&head, &logged)?
        {
            git.ask(["read-tree", "-m", "-u", &logged, &head])?;
        }
        Ok(())
    }

    /// Goes on with a merge that was being checked out when everything was killed, git as well.
    fn finish_interrupted(&self, git: &Git, note: &Note) -> Result<(), GitError> {
        if let Some((from, to)) = note.read()
            && self.base()? == from
            && self.commit(&to)?.is_some()
        {
            // Whatever comes of it, what the tree is like is looked at again.
            let _ = advance(git, &from, &to, Trust::Beginning)?;
        }
        note.remove()
    }
}

/// How two commits go together.
pub(super) enum Merge {
    /// The second follows from the first.
    FastForward,
    /// They make this tree.
    Tree(String),
    /// These files were changed differently.
    Conflict(Vec<PathBuf>),
}

/// Merges two commits, as far as it is done among objects.
pub(super) fn merge(git: &Git, head: &str, tip: &str) -> Result<Merge, GitError> {
    if super::contains(git, tip, head)? {
        return Ok(Merge::FastForward);
    }
    let words = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", head, tip];
    let said = git.ask(words)?;
    let mut answer = said.names();
    match (said.code, answer.is_empty()) {
        (0, false) => Ok(Merge::Tree(answer.swap_remove(0).to_string_lossy().into_owned())),
        (1, false) => Ok(Merge::Conflict(answer.split_off(1))),
        _ => Err(said.failure()),
    }
}

/// Which files with uncommitted changes hold nothing that would be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// Those that are what the commit makes of them.
    Equal,
    /// Also those that are the beginning of it: a git that was killed was writing them.
    Beginning,
}

/// Has the tree and the branch that is checked out go on to a later commit.
fn advance(git: &Git, from: &str, to: &str, trust: Trust) -> Result<Advance, GitError> {
    let said = fast_forward(git, to)?;
    if said.code == 0 {
        return Ok(Advance::Done);
    }
    if git.run(["rev-parse", "HEAD"])?.line() != from {
        return Ok(Advance::Moved);
    }
    let files = files_in_the_way(&said.err);
    if files.is_empty() {
        return Err(said.failure());
    }
    let mut harmless =
        files.iter().map(|file| Ok((file, holds_nothing_else(git, to, file, trust)?)));
    let harmless = harmless.try_fold(Vec::new(), |mut found, next: Result<_, GitError>| {
        let (file, is_harmless) = next?;
        found.extend(is_harmless.then_some(file));
        Ok::<_, GitError>(found)
    })?;
    if harmless.len() < files.len() {
        return Ok(Advance::InTheWay(files));
    }
    for file in harmless {
        let path = git.dir().join(file);
        fs::remove_file(&path).map_err(GitError::io("remove", path))?;
    }
    let again = fast_forward(git, to)?;
    match (again.code, files_in_the_way(&again.err)) {
        (0, _) => Ok(Advance::Done),
        (_, files) if files.is_empty() => Err(again.failure()),
        (_, files) => Ok(Advance::InTheWay(files)),
    }
}

fn fast_forward(git: &Git, to: &str) -> Result<Said, GitError> {
    let plainly = ["--ff-only", "--quiet", "--commit", "--no-squash", "--no-overwrite-ignore"];
    git.ask(["merge"].into_iter().chain(plainly).chain([to]))
}

/// The files that git names when it refuses to overwrite something. They stand in lines of their own
/// that begin with a tab.
fn files_in_the_way(said: &str) -> Vec<PathBuf> {
    said.lines().filter_map(|line| line.strip_prefix('\t')).map(PathBuf::from).collect()
}

/// Whether a file holds nothing that is not in a commit, too.
fn holds_nothing_else(
    git: &Git,
    commit: &str,
    file: &Path,
    trust: Trust,
) -> Result<bool, GitError> {
    let path = git.dir().join(file);
    if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
        return Ok(false);
    }
    let object = [commit.as_bytes(), b":", file.as_os_str().as_encoded_bytes()].concat();
    let object: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(&object);
    let said = git.ask(["cat-file".as_ref(), "--filters".as_ref(), object])?;
    if said.code != 0 || said.out.left_out() > 0 {
        return Ok(false);
    }
    let wanted = [&said.out.head[..], &said.out.tail].concat();
    let found = match files::read(&RealDisk, &path, Links::Refuse, wanted.len() as u64) {
        Ok(Some(found)) => found,
        Ok(None) | Err(Unreadable::NotAFile | Unreadable::TooLong { .. }) => return Ok(false),
        Err(why) => return Err(GitError::io("read", path)(why.into())),
    };
    Ok(match trust {
        Trust::Equal => wanted == found,
        Trust::Beginning => wanted.starts_with(&found),
    })
}

/// A file that says which commit is being checked out in place of which.
struct Note(PathBuf);

impl Note {
    fn leave(&self, from: &str, to: &str) -> Result<(), GitError> {
        // A new file each time: what is there may be a link that somebody else made.
        self.remove()?;
        let file = File::create_new(&self.0);
        file.and_then(|mut file| writeln!(file, "{from} {to}"))
            .map_err(GitError::io("write", &self.0))
    }

    fn read(&self) -> Option<(String, String)> {
        let text = String::from_utf8(noted(&self.0)?).ok()?;
        let (from, to) = text.trim_end().split_once(' ')?;
        Some((from.to_owned(), to.to_owned()))
    }

    fn remove(&self) -> Result<(), GitError> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(GitError::io("remove", &self.0)(error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
