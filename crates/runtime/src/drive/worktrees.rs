//! Worktrees of branches and slots, and how their work is merged back.
//!
//! An agent may have done anything to its worktree, so nothing in it is believed: neither that it is where it was
//! made, nor that it is on its own branch. Work is merged back in two steps: what is left in the worktree becomes
//! commits on its branch, where it is kept; and its files, as one tree object, become a commit that is merged into the
//! project. Only the tree object that was reviewed is merged, or that an agent left when it ended. A worktree with
//! files that are not committed is not removed.

#![expect(clippy::disallowed_methods, reason = "worktrees are real directories that git fills")]

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use autoloop_core::merge::{Merge, MergeOutcome, named_files};
use autoloop_core::prompt::slot::Diff;

use crate::git::{Change, CommittedWork, GitError, MergeBack, Repository, WorkBranch, Worktree};
use crate::layout;
use crate::world::World;

/// Maximum size of a diff, in bytes. A reviewer is shown fewer characters, and a character has up to four bytes.
const DIFF_BYTES: usize = 400_000;

#[derive(Clone)]
pub(super) struct Worktrees {
    pub(super) repository: Repository,
    pub(super) state_dir: PathBuf,
    /// The same as seen from the top of the repository, if it is below. Its files are never committed.
    state: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct WorktreeSpec<'p> {
    /// The directory of its branch or slot, which contains the worktree and other files.
    pub(super) dir: &'p Path,
    pub(super) branch: &'p str,
    /// The commit that the branch began at.
    pub(super) base: &'p str,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Work<'w> {
    pub(super) worktree: WorktreeSpec<'w>,
    /// The message of the commit of what was not committed.
    pub(super) left: &'w str,
    pub(super) merge: &'w str,
    /// The only tree object that may be merged; `None` where any may.
    pub(super) tree: Option<&'w str>,
    /// Why it is only kept and not merged, if that is so.
    pub(super) failure: Option<&'w str>,
}

impl WorktreeSpec<'_> {
    fn top(&self) -> PathBuf {
        top_in(self.dir)
    }
}

impl Worktrees {
    pub(super) fn find(
        project: &Path,
        state_dir: &Path,
        world: &World,
    ) -> Result<Worktrees, GitError> {
        let found = Repository::find(project, world)?;
        let repository = found.ok_or_else(|| GitError::Outside(project.to_owned()))?;
        // The state directory may not be there yet, but the one that holds it is.
        let real = state_dir.ancestors().find_map(|above| {
            let rest = state_dir.strip_prefix(above).ok()?;
            Some(above.canonicalize().ok()?.join(rest))
        });
        let below =
            real.and_then(|dir| dir.strip_prefix(repository.top()).ok().map(Path::to_owned));
        let state = below.filter(|dir| !dir.as_os_str().is_empty());
        Ok(Worktrees { repository, state_dir: state_dir.to_owned(), state })
    }

    pub(super) fn with_settings_of(self, earlier: &Worktrees) -> Worktrees {
        Worktrees { repository: self.repository.with_settings_of(&earlier.repository), ..self }
    }

    pub(super) fn base(&self) -> Result<String, GitError> {
        self.repository.base()
    }

    pub(super) fn project(&self) -> Result<Worktree, GitError> {
        self.repository.worktree(self.repository.top())
    }

    /// Files in a worktree that are not part of the work.
    pub(super) fn except(&self) -> Vec<&Path> {
        self.state.as_deref().into_iter().collect()
    }

    /// The directory of the project in the worktree of a branch or slot.
    pub(super) fn place(&self, dir: &Path) -> PathBuf {
        top_in(dir).join(self.repository.prefix()).components().collect()
    }

    /// Registers a worktree with git before an agent works in any of them.
    pub(super) fn register(&self, worktree: &WorktreeSpec<'_>) -> Result<(), GitError> {
        self.make_way(worktree.dir)?;
        self.repository.register_worktree(&worktree.top(), worktree.branch, worktree.base)
    }

    /// Checks a worktree out, or finds it as it was left. Returns the directory to work in.
    pub(super) fn prepare(&self, worktree: &WorktreeSpec<'_>) -> Result<PathBuf, GitError> {
        self.make_way(worktree.dir)?;
        self.repository.add_worktree(&worktree.top(), worktree.branch, worktree.base)?;
        let place = self.place(worktree.dir);
        // Where nothing in it is committed, git does not create it.
        fs::create_dir_all(&place).map_err(GitError::io("make", &place))?;
        Ok(place)
    }

    /// Opens a worktree, if it is where it was made.
    pub(super) fn tree(&self, worktree: &WorktreeSpec<'_>) -> Result<Worktree, GitError> {
        self.check_way(worktree.dir)?;
        self.repository.worktree(&worktree.top())
    }

    /// Fails if a directory with files is in the place of a worktree. One that git could not finish making has none
    /// yet.
    pub(super) fn check_free(&self, worktree: &WorktreeSpec<'_>) -> Result<(), GitError> {
        let is_file = |entry: DirEntry| entry.file_name() != ".git";
        match self.tree(worktree) {
            Err(GitError::NotATree(tree))
                if fs::read_dir(&tree).is_ok_and(|found| found.flatten().any(is_file)) =>
            {
                Err(GitError::NotATree(tree))
            }
            _ => Ok(()),
        }
    }

    /// Makes sure that a worktree can be made in a directory, and that `git add -A` in the project does not add
    /// it, even where an agent removed the `.gitignore` of the state directory.
    pub(super) fn make_way(&self, dir: &Path) -> Result<(), GitError> {
        self.check_way(dir)?;
        let top = self.repository.top();
        layout::prepare(&self.state_dir, top).map_err(GitError::io("make", &self.state_dir))
    }

    /// Makes sure that no link leads to a directory: other files would be committed and removed behind it.
    pub(super) fn check_way(&self, dir: &Path) -> Result<(), GitError> {
        let ours = dir.ancestors().take_while(|above| *above != self.state_dir);
        let is_link = |path: &&Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let link = ours.into_iter().find(is_link);
        link.map_or(Ok(()), |link| Err(GitError::Link(link.to_owned())))
    }

    /// Commits what was left and merges it back, unless the work failed. A permanent failure of git is an outcome.
    pub(super) fn merge_back(&self, work: &Work<'_>) -> Result<Merge, GitError> {
        match self.gather(work).and_then(|gathered| self.offer(work, &gathered)) {
            Err(error) if is_outcome(&error) => {
                let branch = work.worktree.branch;
                let commit = self.repository.tip(branch)?.unwrap_or_default();
                let failed = Merge::new(MergeOutcome::Failed, branch, &commit);
                Ok(Merge { detail: error.to_string(), ..failed })
            }
            merged => merged,
        }
    }

    pub(super) fn capture(&self, tree: &Worktree, base: &str) -> Result<String, GitError> {
        Ok(tree.capture(base, &self.except())?.tree)
    }

    /// What was changed since a commit, shortened for a prompt.
    pub(super) fn diff(&self, base: &str, tree: &str) -> Diff {
        match self.repository.diff(base, tree, DIFF_BYTES) {
            Ok(text) if text.trim().is_empty() => Diff::Empty,
            Ok(text) => Diff::Text(text),
            Err(error) => Diff::Unknown(error.to_string()),
        }
    }

    pub(super) fn capture_project(&self, checkpoint: &str) -> Result<String, GitError> {
        self.repository.work(checkpoint, &self.except())
    }

    /// Commits what is left in a worktree, if that still exists, so that it can be removed. Work that was merged as
    /// this tree object is not kept a second time.
    pub(super) fn keep(&self, work: &Work<'_>, merged: Option<&str>) -> Result<(), GitError> {
        let tree = work.worktree.top();
        if !tree.exists() || self.repository.is_unfinished(&tree) {
            return Ok(());
        }
        if let Some(merged) = merged
            && self.capture(&self.tree(&work.worktree)?, work.worktree.base)? == merged
        {
            return Ok(());
        }
        self.gather(work).map(drop)
    }

    fn gather(&self, work: &Work<'_>) -> Result<CommittedWork, GitError> {
        let WorktreeSpec { branch, base, .. } = work.worktree;
        let branch = WorkBranch { name: branch, base, message: work.left };
        self.tree(&work.worktree)?.commit_all(&branch, &self.except())
    }

    fn offer(&self, work: &Work<'_>, gathered: &CommittedWork) -> Result<Merge, GitError> {
        let WorktreeSpec { branch, base, .. } = work.worktree;
        let CommittedWork { tip, tree, unfinished } = gathered;
        let merge = |outcome, commit: &str| Merge {
            tree: tree.clone(),
            ..Merge::new(outcome, branch, commit)
        };
        let of_files = |outcome, files: Vec<PathBuf>| Merge {
            files: named_files(&files),
            ..merge(outcome, tip)
        };
        let of_detail =
            |outcome, detail: &str| Merge { detail: detail.into(), ..merge(outcome, tip) };
        if let Some(what) = unfinished {
            return Ok(of_detail(MergeOutcome::Unfinished, what));
        }
        match work.failure {
            Some(why) if tip != base => return Ok(of_detail(MergeOutcome::NotTried, why)),
            None if work.tree.is_some_and(|reviewed| reviewed != tree) => {
                return Ok(merge(MergeOutcome::Changed, tip));
            }
            _ if tip == base => return Ok(merge(MergeOutcome::Nothing, tip)),
            _ => {}
        }
        self.repository.detach_worktrees(&self.state_dir)?;
        let message = self.message(work, tip)?;
        let change = Change { base, tree, message: &message, merge: work.merge };
        match self.repository.merge_back(&change)? {
            MergeBack::NoChange => Ok(merge(MergeOutcome::Nothing, base)),
            MergeBack::Merged(commit) => Ok(merge(MergeOutcome::Merged, &commit)),
            MergeBack::Conflict(files) => Ok(of_files(MergeOutcome::Conflict, files)),
            MergeBack::Uncommitted(files) => Ok(of_files(MergeOutcome::Uncommitted, files)),
            MergeBack::InProgress(what) => Ok(of_detail(MergeOutcome::Busy, what)),
        }
    }

    /// The message of the commit of work, with the subjects of its agent's own commits.
    fn message(&self, work: &Work<'_>, tip: &str) -> Result<String, GitError> {
        let mut subjects = self.repository.subjects(work.worktree.base, tip)?;
        subjects.retain(|subject| !work.left.starts_with(&**subject));
        let listed: String = subjects.iter().map(|subject| format!("* {subject}\n")).collect();
        Ok(match listed.as_str() {
            "" => work.left.to_owned(),
            listed => format!("{}\n\n{listed}", work.left.trim_end()),
        })
    }

    pub(super) fn clear(&self, worktree: &WorktreeSpec<'_>) -> Result<(), GitError> {
        match self.tree(worktree) {
            // It was being removed.
            Err(GitError::NotATree(_)) if !worktree.top().exists() => {}
            tree => {
                let tree = tree?;
                if let Some(path) = tree.uncommitted(&self.except())?.into_iter().next() {
                    return Err(GitError::NotCommitted { tree: tree.dir().to_owned(), path });
                }
            }
        }
        self.repository.remove_worktree(&worktree.top())
    }

    /// Deletes the branch of a removed worktree, if all of it is reachable from one of these commits, or its files
    /// are those of the tree object that was merged.
    pub(super) fn drop_branch(
        &self,
        branch: &str,
        elsewhere: &[&str],
        merged: Option<&str>,
    ) -> Result<(), GitError> {
        for commit in elsewhere {
            if self.repository.delete_branch(branch, commit)? {
                return Ok(());
            }
        }
        merged.map_or(Ok(()), |tree| self.repository.delete_merged(branch, tree))
    }
}

/// Whether an error is about a worktree or the work in it, and is recorded as the outcome of the merge.
pub(super) fn is_outcome(error: &GitError) -> bool {
    use GitError::{Failed, Forged, Link, NotATree, Pipe, Rewritten};
    matches!(error, Failed { .. } | Forged(_) | NotATree(_) | Link(_) | Pipe(_) | Rewritten { .. })
}

pub(super) fn top_in(dir: &Path) -> PathBuf {
    dir.join("tree")
}
