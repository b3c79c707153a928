//! Where the loops of a squad work, what they made, and how that is merged.

use std::path::PathBuf;

use autoloop_core::coordinator::Kind;
use autoloop_core::prompt::slot::Diff;
use autoloop_core::run_id::RunId;

use crate::drive::worktrees::Worktrees;
use crate::git::{Advanced, GitError, Prepared, Repository, branch_name};
use crate::layout::RunDir;
use crate::project::{Loaded, Project};
use crate::world::World;

pub(super) struct SquadWorktrees {
    trees: Worktrees,
    run: String,
    dir: RunDir,
}

/// A loop, as its records describe it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopSpec<'l> {
    pub(super) id: &'l str,
    /// The commit that its work begins at.
    pub(super) base: &'l str,
    /// The subject of the commits of its work.
    pub(super) subject: &'l str,
}

/// Where a loop works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) branch: String,
    /// The directory that its agents are started in.
    pub(super) dir: PathBuf,
}

/// The exact state of the worktree of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CapturedWork {
    /// Its only parent is the base of the loop. A clean checkout can be made of it until the run is cleaned.
    pub(super) commit: String,
    pub(super) tree: String,
}

/// What the worktree with a conflict amounts to after its agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    /// A commit with both sides as its parents, to be merged in place of the commit of the loop.
    Resolved(String),
    /// Nothing of it is used, for this reason.
    Refused(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// The names of branches and the directories of worktrees.
    pub removed: Vec<String>,
    pub kept: Vec<KeptWork>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWork {
    pub name: String,
    pub reason: String,
}

impl SquadWorktrees {
    /// Fails outside of a repository, and in one without a commit. A detached HEAD is fine: it is what moves.
    pub(super) fn find(
        project: &Project,
        loaded: &Loaded,
        world: &World,
        run: &RunId,
    ) -> Result<SquadWorktrees, GitError> {
        let project = std::path::absolute(&project.dir).unwrap_or_else(|_| project.dir.clone());
        let state_dir = &loaded.files.state_dir;
        let trees = Worktrees::find(&project, state_dir, world)?;
        trees.base()?;
        Ok(SquadWorktrees { trees, run: run.to_string(), dir: state_dir.run(Kind::Squad, run) })
    }

    /// The same with the git settings that were found first: an agent may have changed them since.
    pub(super) fn with_settings_of(self, first: &SquadWorktrees) -> SquadWorktrees {
        SquadWorktrees { trees: self.trees.with_settings_of(&first.trees), ..self }
    }

    pub(super) fn repository(&self) -> &Repository {
        &self.trees.repository
    }

    /// The commit that is checked out in the project.
    pub(super) fn head(&self) -> Result<String, GitError> {
        self.trees.base()
    }

    pub(super) fn place(&self, id: &str) -> Place {
        Place { branch: self.branch(id), dir: self.trees.place(&self.loop_dir(id)) }
    }

    /// Registers the worktree of a loop, and that for conflicts, with git. To be done for all loops of a group before
    /// an agent works in any of them: git reads the files of all worktrees to add one, and an agent can replace
    /// those of its own by pipes.
    pub(super) fn register(&self, work: &LoopSpec<'_>) -> Result<(), GitError> {
        let _ = work;
        Err(GitError::Missing)
    }

    /// Checks the worktree of a loop out, or finds it as it was left. Returns the directory to work in.
    pub(super) fn prepare(&self, work: &LoopSpec<'_>) -> Result<PathBuf, GitError> {
        let _ = work;
        Err(GitError::Missing)
    }

    /// The state of the worktree now, committed or not, also while an agent works there. The same state is the same
    /// commit.
    pub(super) fn capture(&self, work: &LoopSpec<'_>) -> Result<CapturedWork, GitError> {
        let _ = work;
        Err(GitError::Missing)
    }

    /// What a commit changes, shortened for a prompt.
    pub(super) fn diff(&self, base: &str, commit: &str) -> Diff {
        let _ = (base, commit);
        Diff::Empty
    }

    /// Computes the merge of a captured commit, or of the resolution of a conflict, into what is checked out in the
    /// project, which must contain `onto`: where the run merged before, or began. Nothing moves, but a checkout of
    /// an earlier merge that was cut off is completed.
    pub(super) fn merge(
        &self,
        work: &LoopSpec<'_>,
        commit: &str,
        onto: &str,
    ) -> Result<Prepared, GitError> {
        let _ = (work, commit, onto);
        Err(GitError::Missing)
    }

    /// Checks a prepared merge out in the project.
    pub(super) fn advance(&self, head: &str, commit: &str) -> Result<Advanced, GitError> {
        let _ = (head, commit);
        Err(GitError::Missing)
    }

    /// Begins a merge of the commit of a loop into a commit, in a worktree for conflicts, with the markers in the
    /// files. What was there before is discarded. Returns the directory to work in.
    pub(super) fn open_conflict(&self, head: &str, commit: &str) -> Result<PathBuf, GitError> {
        let _ = (head, commit);
        Err(GitError::Missing)
    }

    /// Judges what an agent left in the worktree for conflicts, commits it, and discards it there.
    pub(super) fn close_conflict(
        &self,
        work: &LoopSpec<'_>,
        head: &str,
        commit: &str,
    ) -> Result<Resolution, GitError> {
        let _ = (work, head, commit);
        Err(GitError::Missing)
    }

    /// Begins a loop again at another commit. Returns the branch with its earlier work, of which `commit` was reviewed
    /// last. To be done before the record of the new base is appended; it can be repeated.
    pub(super) fn reopen(
        &self,
        work: &LoopSpec<'_>,
        commit: &str,
        base: &str,
    ) -> Result<String, GitError> {
        let _ = (work, commit, base);
        Err(GitError::Missing)
    }

    /// Removes worktrees and branches of a run in which no agent works, if what they hold is reachable from what is
    /// checked out in the project. Nothing is believed but git.
    pub(super) fn clean(&self) -> Result<Cleaned, GitError> {
        Err(GitError::Missing)
    }

    fn branch(&self, id: &str) -> String {
        branch_name(&[&self.run, id])
    }

    fn loop_dir(&self, id: &str) -> PathBuf {
        self.dir.squad_loop(id).to_path_buf()
    }

    fn conflict_dir(&self) -> PathBuf {
        self.dir.join("conflict")
    }
}
