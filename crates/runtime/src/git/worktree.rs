//! One checkout: what was left uncommitted in it, and what changed in it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::capture::{check_lists, nested_repositories};
use super::command::Git;
use super::detach::files_from;
use super::private::Pinned;
use super::{GitError, Repository, gitdir, operation_in_progress, reference};
use crate::files;

/// A checkout, by its top directory.
#[derive(Clone)]
pub struct Worktree {
    pub(super) git: Git,
    pub(super) git_dir: PathBuf,
    pub(super) pinned: Pinned,
}

#[derive(Clone, Copy, Debug)]
pub struct WorkBranch<'b> {
    pub name: &'b str,
    pub base: &'b str,
    pub message: &'b str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadState {
    branch: Option<String>,
    commit: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedWork {
    pub tip: String,
    pub tree: String,
    /// An operation that was not finished, such as a merge, or commits that are not on the branch.
    pub unfinished: Option<String>,
}

impl Worktree {
    /// The worktree at `dir`, which must have this git directory.
    pub(super) fn at(repository: &Repository, dir: &Path, own: &Path) -> Result<Self, GitError> {
        if !gitdir::belongs(dir, own, &repository.common) {
            return Err(GitError::NotATree(dir.to_owned()));
        }
        Ok(Worktree::of_files(repository, dir, own))
    }

    /// The same, whatever the files claim to be.
    pub(super) fn of_files(repository: &Repository, dir: &Path, own: &Path) -> Self {
        let Repository { git, pinned, .. } = repository;
        // Both are given to git, which otherwise looks for them: without its link it would take the repository
        // around it, and a setting can name another.
        let git = git.at(dir).with("GIT_DIR", own).with("GIT_WORK_TREE", dir);
        Worktree { git, git_dir: own.to_owned(), pinned: pinned.clone() }
    }

    pub fn dir(&self) -> &Path {
        self.git.dir()
    }

    pub fn head(&self) -> Result<String, GitError> {
        Ok(self.git.run(["rev-parse", "--verify", "HEAD^{commit}"])?.line())
    }

    pub fn head_state(&self) -> Result<HeadState, GitError> {
        Ok(HeadState { branch: self.git.symbolic_ref("HEAD")?, commit: self.head()? })
    }

    /// Restores HEAD and its branch. No file is touched, and the index becomes that of the commit.
    pub fn restore_head(&self, state: &HeadState) -> Result<(), GitError> {
        if let Some(branch) = &state.branch {
            self.git.run(["symbolic-ref", "HEAD", branch])?;
        }
        let name = state.branch.as_deref().unwrap_or("HEAD");
        self.git.update_ref(name, &state.commit, "restored")?;
        self.git.run(["reset", "--quiet", "--mixed"]).map(drop)
    }

    /// Commits what is left in a worktree that no agent works in any more, and moves its branch to it, whatever is
    /// checked out there. Commits that diverge from the branch are kept on another branch, and are reported as
    /// unfinished. Locks of a killed git are removed. No other branch moves, and none that moved meanwhile is
    /// moved back. After an error everything is still in the worktree.
    pub fn commit_all(
        &self,
        branch: &WorkBranch<'_>,
        except: &[&Path],
    ) -> Result<CommittedWork, GitError> {
        let WorkBranch { name, base, message } = *branch;
        let worktree = self.exclusive()?;
        let git = &worktree.git;
        let captured = worktree.capture(base, except)?;
        let is_unmerged = !captured.unmerged.is_empty();
        let unfinished =
            operation_in_progress(&worktree.git_dir).or(is_unmerged.then_some("a merge"));
        let head = git.commit("HEAD")?;
        let head = worktree.detach(branch, head.as_deref())?.or(head);
        let tip = worktree.branch_tip(name, head.as_deref())?;
        let head = worktree.commit_files(head.as_deref(), &captured.tree, message)?;
        let move_branch = |name: &str| git.update_ref(&reference(name), &head, "committed");
        let work = |tip: &str, unfinished: Option<String>| {
            Ok(CommittedWork { tip: tip.to_owned(), tree: captured.tree.clone(), unfinished })
        };
        let unfinished = unfinished.map(str::to_owned);
        match tip {
            Some(tip) if tip == head => work(&tip, unfinished),
            Some(tip) if git.contains(&tip, &head)? => {
                work(&tip, Some("work on its branch that its files do not have".to_owned()))
            }
            Some(tip) if !git.contains(&head, &tip)? => {
                let diverged = diverged(name);
                move_branch(&diverged)?;
                work(&tip, Some(format!("work beside its branch (kept on {diverged})")))
            }
            _ => {
                move_branch(name)?;
                work(&head, unfinished)
            }
        }
    }

    /// Commits files that differ from HEAD, and moves HEAD. The index stays as it is: the worktree is removed, or
    /// a person looks at what is in it.
    fn commit_files(
        &self,
        head: Option<&str>,
        tree: &str,
        message: &str,
    ) -> Result<String, GitError> {
        if let Some(head) = head
            && self.git.tree_of(head)? == tree
        {
            return Ok(head.to_owned());
        }
        let commit = self.git.with_identity()?.commit_tree(tree, head.as_slice(), message)?;
        self.git.update_ref("HEAD", &commit, "committed")?;
        Ok(commit)
    }

    /// What is neither committed nor ignored even after [`Worktree::commit_all`]: nested repositories, and
    /// submodules, whose history git keeps with the worktree.
    pub fn uncommitted(&self, except: &[&Path]) -> Result<Vec<PathBuf>, GitError> {
        check_lists(self.dir())?;
        let mut left = nested_repositories(&self.git, except)?;
        left.extend(self.submodules()?);
        Ok(left)
    }

    fn submodules(&self) -> Result<Vec<PathBuf>, GitError> {
        let kept = fs::read_dir(self.git_dir.join("modules"));
        let kept = kept.into_iter().flatten().flatten().map(|entry| entry.file_name().into());
        let listed = self.git.run(["ls-files", "-z", "--stage"])?.names();
        let linked = listed.iter().filter_map(|entry| {
            let rest = entry.as_os_str().as_bytes().strip_prefix(b"160000 ")?;
            let start = rest.iter().position(|byte| *byte == b'\t')? + 1;
            Some(PathBuf::from(OsStr::from_bytes(&rest[start..])))
        });
        let mut found: Vec<PathBuf> =
            linked.filter(|path| self.dir().join(path).join(".git").exists()).chain(kept).collect();
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Detaches a worktree in which no agent works at the moment from a branch that is not its own, which others
    /// may move.
    pub fn leave_other_branch(&self, branch: &WorkBranch<'_>) -> Result<(), GitError> {
        match self.git.symbolic_ref("HEAD")? {
            Some(checked_out) if checked_out != reference(branch.name) => {
                let worktree = self.exclusive()?;
                let head = || worktree.git.commit("HEAD");
                worktree.detach(branch, head()?.as_deref())?;
                worktree.branch_tip(branch.name, head()?.as_deref()).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The worktree with our lock held: a git that was started before the harness was killed may still be running.
    /// Locks that a killed git left are removed.
    fn exclusive(&self) -> Result<Worktree, GitError> {
        let git = self.git.locked(&self.git_dir.join("autoloop.lock"))?;
        for name in ["index.lock", "HEAD.lock"] {
            let path = self.git_dir.join(name);
            files::remove_if_exists(&path).map_err(GitError::io("remove", path))?;
        }
        Ok(Worktree { git, ..self.clone() })
    }

    /// Detaches HEAD. A branch that is not its own may have been moved from elsewhere, as that of the project is by
    /// every merge: then the files are those of an earlier commit, and seem to undo what came since. A branch
    /// without commits stays. Returns the commit that is checked out now, if HEAD was on a branch.
    fn detach(
        &self,
        branch: &WorkBranch<'_>,
        head: Option<&str>,
    ) -> Result<Option<String>, GitError> {
        if head.is_some_and(|head| gitdir::is_detached(&self.git_dir, head)) {
            return Ok(None);
        }
        let Some(checked_out) = self.git.symbolic_ref("HEAD")? else { return Ok(None) };
        let commit = match (checked_out == reference(branch.name), head) {
            (true, Some(head)) => head.to_owned(),
            (false, None) => return Ok(None),
            _ => self.files_from(branch.base),
        };
        self.git.update_ref("HEAD", &commit, "detached")?;
        Ok(Some(commit))
    }

    /// The tip of the worktree's own branch. If an agent made it a symbolic name for another branch, it is pointed
    /// at what is checked out.
    fn branch_tip(&self, branch: &str, head: Option<&str>) -> Result<Option<String>, GitError> {
        let name = reference(branch);
        let format = "--format=%(refname)%00%(objectname)%00%(symref)";
        let listed = self.git.run(["for-each-ref", format, &name])?.line();
        let mut found = listed.lines().map(|line| line.split('\0').collect::<Vec<_>>());
        let Some([_, tip, symbolic]) =
            found.find_map(|line| <[&str; 3]>::try_from(line).ok().filter(|it| it[0] == name))
        else {
            return Ok(None);
        };
        let Some(head) = head.filter(|_| !symbolic.is_empty()) else {
            return Ok(Some(tip.to_owned()));
        };
        self.git.update_ref(&name, head, "committed")?;
        Ok(Some(head.to_owned()))
    }

    /// The commit that its files come from; where git does not say, the one that its branch began from.
    fn files_from(&self, base: &str) -> String {
        let known = files_from(&self.git, &self.git_dir);
        let exists = |commit: &String| self.git.contains(commit, commit).unwrap_or(false);
        known.filter(exists).unwrap_or_else(|| base.to_owned())
    }
}

/// The branch for commits that diverged from a branch.
pub(super) fn diverged(branch: &str) -> String {
    format!("{branch}-beside")
}

#[cfg(test)]
mod tests;
