//! Where slots work, what they changed there, and how that is merged back.

use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::config::Isolation;
use autoloop_core::merge::{Merge, MergeOutcome, named_files};
use autoloop_core::prompt::slot::{Diff, Ground, UnderReview};
use autoloop_core::record::SlotMerge;
use autoloop_core::slot::{Commit, Review, Slot};
use autoloop_core::text::first_line;

use crate::drive::DriveError;
use crate::drive::review_turn::Checkout;
use crate::drive::worktrees::{Work, WorktreeSpec, Worktrees, is_outcome};
use crate::git::{GitError, HeadState, MergeBack, WorkBranch, Worktree, branch_name};
use crate::project::{Loaded, Project};
use crate::review::Violations;
use crate::world::World;

pub(super) struct SlotWorktrees {
    trees: Result<Worktrees, String>,
    /// Why slots share the project although they should have worktrees, if that is so.
    no_trees: Option<String>,
    pub(super) isolation: Isolation,
    project: PathBuf,
    parallel: bool,
    outside: bool,
}

impl SlotWorktrees {
    /// Finds out where slots can work. Fails if the settings require worktrees and there cannot be any.
    pub(super) fn find(
        project: &Project,
        loaded: &Loaded,
        world: &World,
    ) -> Result<SlotWorktrees, DriveError> {
        let plan = &loaded.plan.slots;
        let dir = std::path::absolute(&project.dir).unwrap_or_else(|_| project.dir.clone());
        let found = Worktrees::find(&dir, &loaded.files.state_dir, world);
        let found = found.and_then(|trees| trees.base().map(|_| trees));
        let outside = matches!(found, Err(GitError::Outside(_)));
        let trees = found.map_err(|error| match error {
            GitError::Outside(dir) => format!("{} is not in a git repository", dir.display()),
            error => error.to_string(),
        });
        let wanted = plan.isolation.unwrap_or(plan.usual_isolation());
        let (isolation, no_trees) = match (wanted, &trees) {
            (Isolation::Worktree, Err(why)) if plan.isolation.is_some() => {
                return Err(DriveError::NoWorktrees(why.clone()));
            }
            (Isolation::Worktree, Err(why)) => (Isolation::Shared, Some(why.clone())),
            (isolation, _) => (isolation, None),
        };
        Ok(SlotWorktrees {
            trees,
            no_trees,
            isolation,
            project: dir,
            parallel: plan.rules.parallel_agents > 1,
            outside,
        })
    }

    /// The same with the git settings that were found first: an agent may have changed them since.
    pub(super) fn with_settings_of(self, first: &SlotWorktrees) -> SlotWorktrees {
        let trees = match (self.trees, &first.trees) {
            (Ok(trees), Ok(first)) => Ok(trees.with_settings_of(first)),
            (trees, _) => trees,
        };
        SlotWorktrees { trees, ..self }
    }

    pub(super) fn notes(&self, review: Review) -> Vec<String> {
        let shared = self.no_trees.as_ref().map(|why| {
            format!("all slots work in the project, and see each other's changes: {why}")
        });
        let blind = self.trees.as_ref().err().filter(|_| review == Review::On);
        let blind = blind.map(|why| format!("reviewers see no diff: {why}"));
        let kept = match (&self.trees, self.isolation, self.parallel) {
            (Err(why), ..) if !self.outside => Some(format!("passed work is not committed: {why}")),
            (Ok(_), Isolation::Shared, true) => Some(
                "the slots share the project: passed work is not committed, and rejected work stays there"
                    .to_owned(),
            ),
            _ => None,
        };
        shared.into_iter().chain(blind).chain(kept).collect()
    }

    /// The checkout that the project is in, or the project itself.
    pub(super) fn checkout(&self) -> Vec<PathBuf> {
        let top = self.trees.as_ref().map_or(&*self.project, |trees| trees.repository.top());
        top.canonicalize().into_iter().collect()
    }

    /// The directory of git that all worktrees share.
    pub(super) fn git_dir(&self) -> Option<PathBuf> {
        self.trees.as_ref().ok()?.repository.common().canonicalize().ok()
    }

    /// The commit that changes are compared with; empty where there is none. In the project itself it has everything
    /// that is there already, committed or not.
    pub(super) fn base(&self, run: &str) -> Result<String, DriveError> {
        let Ok(trees) = &self.trees else { return Ok(String::new()) };
        Ok(match self.isolation {
            Isolation::Worktree => trees.base()?,
            Isolation::Shared => trees.repository.checkpoint(run, &trees.except())?,
        })
    }

    pub(super) fn forget(&self, run: &str) -> Result<(), GitError> {
        match &self.trees {
            Ok(trees) if self.isolation == Isolation::Shared => {
                trees.repository.forget_checkpoint(run)
            }
            _ => Ok(()),
        }
    }

    /// Whether passed work in the project itself is committed. Where several slots work there at once, their
    /// changes cannot be distinguished.
    pub(super) fn commits(&self, wanted: Commit) -> Commit {
        let is_mixed = self.parallel && self.isolation == Isolation::Shared;
        if self.trees.is_err() || is_mixed { Commit::Off } else { wanted }
    }

    /// The branch of a slot that is to begin, and the directory that its agents are started in. In the project itself
    /// it has no branch.
    pub(super) fn place(&self, slot_dir: &Path, run: &str) -> (String, PathBuf) {
        match (&self.trees, self.isolation) {
            (Ok(trees), Isolation::Worktree) => (own_branch(slot_dir, run), trees.place(slot_dir)),
            _ => (String::new(), self.project.clone()),
        }
    }

    pub(super) fn ground(&self, slot: &Slot) -> Ground {
        match (slot.start.branch.is_empty(), self.parallel) {
            (false, _) => Ground::Worktree,
            (true, true) => Ground::Shared,
            (true, false) => Ground::Alone,
        }
    }

    pub(super) fn is_empty(&self, work: &UnderReview) -> bool {
        let tree_of = |trees: &Worktrees| trees.repository.tree_of(&work.base).ok();
        self.trees.as_ref().ok().and_then(tree_of).is_some_and(|tree| tree == work.tree)
    }

    pub(super) fn diff(&self, work: &Result<UnderReview, String>) -> Diff {
        match (&self.trees, work) {
            (Ok(trees), Ok(work)) => trees.diff(&work.base, &work.tree),
            (Err(why), _) | (_, Err(why)) => Diff::Unknown(why.clone()),
        }
    }

    pub(super) fn of<'s>(&'s self, slot: &'s Slot, dir: &'s Path, run: &str) -> SlotTree<'s> {
        let title = first_line(&slot.start.title, 60);
        SlotTree {
            trees: self.trees.as_ref().map_err(String::as_str),
            slot,
            worktree: WorktreeSpec { dir, branch: &slot.start.branch, base: &slot.start.base },
            own_branch: own_branch(dir, run),
            message: format!("{}: {title}", slot.start.item_id),
        }
    }
}

/// The work of one slot: in its worktree, or in the project itself.
pub(super) struct SlotTree<'s> {
    /// The repository, or why there is none: a resumed run may have lost it.
    trees: Result<&'s Worktrees, &'s str>,
    slot: &'s Slot,
    worktree: WorktreeSpec<'s>,
    /// The branch of a slot in the project itself, for work that does not stay there.
    own_branch: String,
    message: String,
}

impl SlotTree<'_> {
    fn is_in_project(&self) -> bool {
        self.worktree.branch.is_empty()
    }

    /// The worktrees, for a slot that has its own.
    fn own(&self) -> Result<Option<&Worktrees>, DriveError> {
        match (self.is_in_project(), self.trees) {
            (true, _) => Ok(None),
            (false, Ok(trees)) => Ok(Some(trees)),
            (false, Err(why)) => Err(DriveError::NoWorktrees(why.to_owned())),
        }
    }

    fn open(&self, trees: &Worktrees) -> Result<Worktree, GitError> {
        match self.is_in_project() {
            true => trees.project(),
            false => trees.tree(&self.worktree),
        }
    }

    /// Registers the worktree of a slot that has one with git, unless it exists.
    pub(super) fn register(&self) -> Result<(), DriveError> {
        if let Some(trees) = self.own()? {
            trees.check_free(&self.worktree)?;
            trees.register(&self.worktree)?;
        }
        Ok(())
    }

    /// Makes the worktree of a slot that has one, unless it exists.
    pub(super) fn prepare(&self) -> Result<(), DriveError> {
        if let Some(trees) = self.own()? {
            trees.check_free(&self.worktree)?;
            trees.prepare(&self.worktree)?;
        }
        Ok(())
    }

    /// Checks out what was checked out before. Returns whether something else was.
    fn restore(&self, head: &HeadState) -> Result<bool, GitError> {
        let Ok(trees) = self.trees else { return Ok(false) };
        let tree = self.open(trees)?;
        let has_moved = tree.head_state().ok().as_ref() != Some(head);
        if has_moved {
            tree.restore_head(head)?;
        }
        Ok(has_moved)
    }

    /// The work as it is now: the tree object that is reviewed, and that alone may be merged then. The error is the
    /// reason why there is none.
    pub(super) fn work(&self) -> Result<UnderReview, String> {
        let (trees, base) = (self.trees?, self.worktree.base);
        let tree = match self.is_in_project() {
            true => trees.capture_project(base),
            false => self.open(trees).and_then(|tree| trees.capture(&tree, base)),
        };
        let tree = tree.map_err(|error| error.to_string())?;
        Ok(UnderReview { base: base.to_owned(), tree })
    }

    fn finished_work(&self) -> Work<'_> {
        let tree = self.slot.reviews.last().map(|review| &*review.tree);
        let (left, merge) = (&*self.message, &*self.message);
        Work { worktree: self.worktree, left, merge, tree, failure: None }
    }

    /// Commits what the slot left and merges it into the project. Fails where git cannot do so at the moment: it would
    /// fail for the next slot as well.
    pub(super) fn merge_back(&self) -> Result<SlotMerge, GitError> {
        let merge = match self.own() {
            Ok(Some(trees)) => trees.merge_back(&self.finished_work())?,
            Ok(None) => self.commit_in_place()?,
            Err(why) => {
                let failed = Merge::new(MergeOutcome::Failed, self.worktree.branch, "");
                Merge { detail: why.to_string(), ..failed }
            }
        };
        Ok(on_record(self.slot, merge))
    }

    /// Commits what the slot made in the project itself, without the changes of the user. Where that is not possible,
    /// it stays as it is.
    fn commit_in_place(&self) -> Result<Merge, GitError> {
        let merge = |outcome, commit: &str| Merge::new(outcome, "", commit);
        let (Ok(trees), base) = (self.trees, self.worktree.base) else {
            return Ok(in_place(&[], "there is no repository"));
        };
        let committed = trees.capture_project(base).and_then(|tree| {
            let is_reviewed = self.slot.reviews.last().is_none_or(|review| review.tree == tree);
            let outcome = match is_reviewed {
                true => trees.repository.commit_work(base, &tree, &self.message)?,
                false => return Ok(Merge { tree, ..merge(MergeOutcome::Changed, "") }),
            };
            let merge = match outcome {
                MergeBack::NoChange => merge(MergeOutcome::Nothing, ""),
                MergeBack::Merged(commit) => merge(MergeOutcome::Merged, &commit),
                MergeBack::Conflict(files) | MergeBack::Uncommitted(files) => {
                    in_place(&files, "they had uncommitted changes")
                }
                MergeBack::InProgress(what) => in_place(&[], &format!("{what} is in progress")),
            };
            Ok(Merge { tree, ..merge })
        });
        match committed {
            Err(error @ GitError::NoCheckpoint(_)) => Ok(in_place(&[], &error.to_string())),
            Err(error) if is_outcome(&error) => {
                Ok(Merge { detail: error.to_string(), ..merge(MergeOutcome::Failed, "") })
            }
            committed => committed,
        }
    }

    /// The files in which work in the project itself undid uncommitted changes of the user, and the branch on which
    /// these changes are kept.
    pub(super) fn keep_discarded(&self) -> Result<Option<String>, GitError> {
        let merge = self.slot.merge.as_ref();
        let merge = merge.filter(|merge| merge.outcome != MergeOutcome::Nothing);
        let tree = merge.and_then(|merge| merge.tree.as_deref());
        let (Ok(trees), Some(tree)) = (self.trees, tree) else { return Ok(None) };
        let branch = format!("{}-before", self.own_branch);
        let files = trees.repository.keep_discarded(self.worktree.base, tree, &branch)?;
        let files = named_files(&files);
        Ok((!files.is_empty()).then(|| format!("{files}; they are on branch {branch}")))
    }

    /// Moves what the slot left in the project itself to a branch, and restores the project. Returns the branches
    /// that have it.
    pub(super) fn set_aside(&self) -> Result<Vec<String>, DriveError> {
        let (Ok(trees), base) = (self.trees, self.worktree.base) else { return Ok(Vec::new()) };
        if base.is_empty() {
            return Ok(Vec::new());
        }
        let branch = WorkBranch { name: &self.own_branch, base, message: &self.message };
        Ok(trees.repository.set_aside(&branch, &trees.except())?)
    }

    /// Removes the worktree of the slot, and its branch if nothing is lost with it. Returns the branches that have
    /// its work.
    pub(super) fn clear(&self) -> Result<Vec<String>, DriveError> {
        let Some(trees) = self.own()? else { return Ok(Vec::new()) };
        let WorktreeSpec { branch, base, .. } = self.worktree;
        let merge = self.slot.merge.as_ref();
        let is_settled =
            |merge: &&SlotMerge| merge.outcome.known().is_some_and(MergeOutcome::is_settled);
        let merged = merge.filter(is_settled).and_then(|merge| merge.tree.as_deref());
        trees.keep(&self.finished_work(), merged)?;
        trees.clear(&self.worktree)?;
        trees.drop_branch(branch, &[base, &trees.base()?], merged)?;
        Ok(trees.repository.work_branches(branch)?)
    }
}

impl Checkout for SlotTree<'_> {
    fn head(&self) -> Option<HeadState> {
        let tree = self.open(self.trees.ok()?).ok()?;
        if !self.is_in_project() {
            let WorktreeSpec { branch, base, .. } = self.worktree;
            tree.leave_other_branch(&WorkBranch { name: branch, base, message: "" }).ok()?;
        }
        tree.head_state().ok()
    }

    fn rewind(&self, head: &HeadState, violations: &mut Violations) {
        match self.restore(head) {
            Ok(true) => violations.add_moved(),
            Ok(false) => {}
            Err(error) => {
                violations.fail("its commits cannot be undone", &io::Error::other(error));
            }
        }
    }
}

fn own_branch(slot_dir: &Path, run: &str) -> String {
    let name = slot_dir.file_name().unwrap_or_default().to_string_lossy();
    branch_name(&["slots", run, &name])
}

/// The outcome of passed work that stays in the project, uncommitted.
pub(super) fn in_place(files: &[PathBuf], why: &str) -> Merge {
    let merge = Merge::new(MergeOutcome::InPlace, "", "");
    Merge { files: named_files(files), detail: why.to_owned(), ..merge }
}

pub(super) fn on_record(slot: &Slot, merge: Merge) -> SlotMerge {
    SlotMerge {
        slot: slot.start.slot,
        item_id: slot.start.item_id.clone(),
        outcome: merge.outcome.into(),
        commit: merge.commit,
        tree: Some(merge.tree).filter(|tree| !tree.is_empty()),
        files: merge.files,
        detail: Some(merge.detail).filter(|detail| !detail.is_empty()),
    }
}
