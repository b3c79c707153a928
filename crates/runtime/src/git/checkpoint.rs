//! Work in the checkout of the project itself, beside uncommitted changes of the user.
//!
//! Before the work begins, a checkpoint records everything in one commit on no branch: the files, committed or not,
//! the index, the branch and the list of ignored files. Work that passed is committed without what was there
//! before. Work that did not is moved to a branch, and everything is restored. Ignored files are neither committed
//! nor removed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::capture::{Staged, exclude, nul_terminated};
use super::command::{Git, Merge};
use super::merge_back::MergeBack;
use super::worktree::WorkBranch;
use super::{GitError, Repository, Worktree, operation_in_progress, ref_component, reference};

/// The first line of the message of a checkpoint.
const TITLE: &str = "Checkpoint of autoloop";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Checkpoint {
    commit: String,
    tree: String,
    head: String,
    /// The index, as a tree; empty where it was not merged.
    index: String,
    branch: Option<String>,
    /// The object with the list of ignored files and directories; empty where there were none.
    ignored: String,
}

impl Repository {
    /// Records the checkout of the project in a commit, which a reference with this name keeps.
    pub fn checkpoint(&self, name: &str, except: &[&Path]) -> Result<String, GitError> {
        let worktree = self.worktree(&self.top)?;
        let head = worktree.head()?;
        let commit = worktree
            .with_captured(&head, except, |staged| record(&worktree, &head, staged, except))?;
        self.git.update_ref(&checkpoint_ref(name), &commit, "checkpoint")?;
        Ok(commit)
    }

    pub fn forget_checkpoint(&self, name: &str) -> Result<(), GitError> {
        self.git.try_run(["update-ref", "--no-deref", "-d", &checkpoint_ref(name)]).map(drop)
    }

    /// The files of the checkout of the project as a tree object, without those that were ignored at the checkpoint:
    /// an agent that changes the list of ignored files makes no file of the user a part of its work.
    pub fn work(&self, checkpoint: &str, except: &[&Path]) -> Result<String, GitError> {
        let worktree = self.worktree(&self.top)?;
        worktree.with_captured(checkpoint, except, |staged| {
            match Checkpoint::read(&self.git, checkpoint) {
                Ok(before) => without_ignored(staged, &before),
                // Of a run of an earlier version.
                Err(GitError::NoCheckpoint(_)) => Ok(staged.captured.tree.clone()),
                Err(error) => Err(error),
            }
        })
    }

    /// Commits work in the checkout of the project: the difference between a checkpoint and a tree object, and
    /// nothing that was there before. The files stay as they are.
    pub fn commit_work(
        &self,
        checkpoint: &str,
        tree: &str,
        message: &str,
    ) -> Result<MergeBack, GitError> {
        let git = self.lock_project()?;
        let before = Checkpoint::read(&git, checkpoint)?;
        if let Some(what) = operation_in_progress(&self.git_dir) {
            return Ok(MergeBack::InProgress(what));
        }
        let head = self.base()?;
        if tree == before.tree && head == before.head {
            return Ok(MergeBack::NoChange);
        }
        if before.index.is_empty() {
            return Ok(MergeBack::InProgress("a merge"));
        }
        if !git.contains(&head, &before.head)? {
            return Err(GitError::Rewritten { top: self.top.clone(), base: before.head });
        }
        let private = self.pinned.open(&self.git)?;
        private.check_objects(&before.tree, tree)?;
        let merging = private.with_attributes(&before.commit);
        let head_tree = git.tree_of(&before.head)?;
        let files = match apply_difference(&merging, &before.tree, tree, &head_tree)? {
            Ok(files) => files,
            Err(conflict) => return Ok(MergeBack::Conflict(conflict)),
        };
        let staged = match apply_difference(&merging, &head_tree, &files, &before.index)? {
            Ok(staged) => staged,
            Err(conflict) => return Ok(MergeBack::Conflict(conflict)),
        };
        let commit = match files == git.tree_of(&head)? {
            true => head,
            false => {
                let commit = git.with_identity()?.commit_tree(&files, &[&head], message)?;
                git.run(["update-ref", "-m", message, "HEAD", &commit, &head])?;
                commit
            }
        };
        reset_index(&git, &staged)?;
        Ok(MergeBack::Merged(commit))
    }

    /// Keeps a checkpoint on a branch if work undid uncommitted changes of the user. Returns the files with these
    /// changes.
    pub fn keep_discarded(
        &self,
        checkpoint: &str,
        tree: &str,
        branch: &str,
    ) -> Result<Vec<PathBuf>, GitError> {
        let before = Checkpoint::read(&self.git, checkpoint)?;
        let head_tree = self.tree_of(&before.head)?;
        if head_tree == before.tree {
            return Ok(Vec::new());
        }
        let changed = |to: &str| {
            let words = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", &head_tree, to];
            Ok::<_, GitError>(self.git.run(words)?.names())
        };
        let left: BTreeSet<PathBuf> = changed(tree)?.into_iter().collect();
        let mut discarded = changed(&before.tree)?;
        discarded.retain(|path| !left.contains(path));
        if !discarded.is_empty() {
            self.git.update_ref(&reference(branch), checkpoint, "kept")?;
        }
        Ok(discarded)
    }

    /// Moves work in the checkout of the project to a branch, and restores everything from the checkpoint that the
    /// branch began from. Returns the branches that hold the work: none where nothing was done. After an error, what
    /// was not restored is still there.
    pub fn set_aside(
        &self,
        branch: &WorkBranch<'_>,
        except: &[&Path],
    ) -> Result<Vec<String>, GitError> {
        let git = self.lock_project()?;
        let before = Checkpoint::read(&git, branch.base)?;
        if let Some(what) = operation_in_progress(&self.git_dir) {
            return Err(GitError::InProgress { what, top: self.top.clone() });
        }
        let (checked_out, head) = (git.symbolic_ref("HEAD")?, self.base()?);
        let is_unmoved = checked_out == before.branch && head == before.head;
        let worktree = self.worktree(&self.top)?;
        worktree.with_captured(&before.commit, except, |staged| {
            let files = without_ignored(staged, &before)?;
            if files == before.tree && is_unmoved {
                return Ok(());
            }
            self.keep_work(&git, branch, staged, &before, &files, &head)?;
            // Git refuses as a whole if a file is no longer what was just read.
            staged.git.run(["read-tree", "-m", "-u", &files, &before.tree]).map(drop)
        })?;
        if !is_unmoved {
            restore_head(&git, &before, &head)?;
        }
        if !before.index.is_empty() {
            reset_index(&git, &before.index)?;
        }
        self.work_branches(branch.name)
    }

    /// Commits work to a branch, without what was there before where the two can be separated. The commits of the
    /// work itself stay reachable. An agent can have made the branch, and one that was made before a crash need not
    /// have what was done since.
    fn keep_work(
        &self,
        git: &Git,
        branch: &WorkBranch<'_>,
        staged: &Staged<'_>,
        before: &Checkpoint,
        files: &str,
        head: &str,
    ) -> Result<(), GitError> {
        let merging = staged.private.with_attributes(&before.commit);
        let head_tree = git.tree_of(&before.head)?;
        let (tree, base) = match apply_difference(&merging, &before.tree, files, &head_tree)? {
            Ok(tree) => (tree, &before.head),
            Err(_) => (files.to_owned(), &before.commit),
        };
        let mut parents = match git.contains(head, base)? {
            true => vec![head],
            false => vec![base, head],
        };
        let tip = self.tip(branch.name)?;
        if let Some(tip) = &tip {
            if git.tree_of(tip)? == tree {
                return Ok(());
            }
            // Git ignores a parent that is named twice.
            parents.insert(0, tip);
        }
        let commit = git.with_identity()?.commit_tree(&tree, &parents, branch.message)?;
        let tip = tip.as_deref().unwrap_or_default();
        git.run(["update-ref", "--no-deref", &reference(branch.name), &commit, tip]).map(drop)
    }
}

impl Checkpoint {
    fn read(git: &Git, commit: &str) -> Result<Checkpoint, GitError> {
        let text = git.run(["cat-file", "commit", commit])?.out.text();
        let (headers, message) = text.split_once("\n\n").unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.map(str::to_owned)
        };
        if !message.starts_with(TITLE) {
            return Err(GitError::NoCheckpoint(commit.to_owned()));
        }
        Ok(Checkpoint {
            commit: commit.to_owned(),
            tree: field(headers, "tree").unwrap_or_default(),
            head: field(headers, "parent").unwrap_or_default(),
            index: field(message, "index").unwrap_or_default(),
            branch: field(message, "branch"),
            ignored: field(message, "ignored").unwrap_or_default(),
        })
    }
}

fn record(
    worktree: &Worktree,
    head: &str,
    staged: &Staged<'_>,
    except: &[&Path],
) -> Result<String, GitError> {
    let git = &worktree.git.as_autoloop();
    let words = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
    let words = words.into_iter().chain(["--", ":/"]).map(OsString::from);
    let ignored = staged.git.run(words.chain(except.iter().map(exclude)))?.bytes();
    let mut message = format!("{TITLE}\n\n");
    if !ignored.is_empty() {
        let fed = staged.private.with_input(&staged.git, &ignored)?;
        let list = fed.run(["hash-object", "-w", "--no-filters", "--stdin"])?.line();
        message += &format!("ignored {list}\n");
    }
    if let Some(branch) = git.symbolic_ref("HEAD")? {
        message += &format!("branch {branch}\n");
    }
    let mut parents = vec![head.to_owned()];
    let index = git.try_run(["write-tree"])?;
    if index.code == 0 {
        let index = index.line();
        message += &format!("index {index}\n");
        if index != staged.captured.tree {
            parents.push(git.commit_tree(&index, &[head], "index")?);
        }
    }
    let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
    git.commit_tree(&staged.captured.tree, &parents, &message)
}

/// The difference between two trees, applied to a third; otherwise the files that conflict.
fn apply_difference(
    git: &Git,
    from: &str,
    to: &str,
    onto: &str,
) -> Result<Result<String, Vec<PathBuf>>, GitError> {
    if from == onto || onto == to {
        return Ok(Ok(to.to_owned()));
    }
    if from == to {
        return Ok(Ok(onto.to_owned()));
    }
    let git = &git.as_autoloop();
    let from = git.commit_tree(from, &[], "from")?;
    let onto = git.commit_tree(onto, &[&from], "onto")?;
    let changed = git.commit_tree(to, &[&from], "to")?;
    Ok(match git.merge(&onto, &changed)? {
        Merge::FastForward => Ok(to.to_owned()),
        Merge::Tree(tree) => Ok(tree),
        Merge::Conflict(conflict) => Err(conflict.files()),
    })
}

/// The tree of all files but those that were ignored before, which an agent can have made seem new.
fn without_ignored(staged: &Staged<'_>, before: &Checkpoint) -> Result<String, GitError> {
    let files = staged.captured.tree.clone();
    if before.ignored.is_empty() || files == before.tree {
        return Ok(files);
    }
    let words = ["diff-tree", "-r", "-z", "--name-only", "--diff-filter=A", "--no-renames"];
    let words = words.into_iter().chain([&*before.tree, &*files]);
    let ignored = staged.git.run(["cat-file", "blob", &before.ignored])?.names();
    let ignored: BTreeSet<PathBuf> = ignored.into_iter().collect();
    let was_ignored = |path: &&Path| path.ancestors().any(|above| ignored.contains(above));
    let added = staged.git.run(words)?.names();
    let removed = nul_terminated(added.iter().map(PathBuf::as_path).filter(was_ignored));
    if removed.is_empty() {
        return Ok(files);
    }
    let fed = staged.private.with_input(&staged.git, &removed)?;
    fed.run(["update-index", "-z", "--force-remove", "--stdin"])?;
    Ok(staged.git.run(["write-tree"])?.line())
}

/// Checks out the branch and the commit of a checkpoint, without touching a file.
fn restore_head(git: &Git, before: &Checkpoint, head: &str) -> Result<(), GitError> {
    const WHY: &str = "moved to a branch";
    let Some(branch) = &before.branch else {
        return git.update_ref("HEAD", &before.head, WHY);
    };
    git.run(["symbolic-ref", "-m", WHY, "HEAD", branch])?;
    let now = git.try_run(["rev-parse", "--verify", "--quiet", branch])?.line();
    // Only commits that are kept on the branch of the work are taken from it.
    if now != before.head && (now.is_empty() || now == head) {
        let words = ["update-ref", "--no-deref", "-m", WHY, branch, &before.head, &now];
        git.run(words)?;
    }
    Ok(())
}

fn reset_index(git: &Git, tree: &str) -> Result<(), GitError> {
    git.run(["reset", "--quiet", tree, "--", ":/"]).map(drop)
}

fn checkpoint_ref(name: &str) -> String {
    format!("refs/autoloop/checkpoint/{}", ref_component(name))
}

#[cfg(test)]
mod tests;
