//! Working trees beside the project, in each of which somebody works alone, and the way back from them.
//!
//! Whoever worked in a tree may have done anything to it, so nothing in it is believed: neither that it
//! is where it was made, nor that it is on its own branch. Work comes back in two steps, which branches
//! of waves and slots share: what is left in the tree becomes commits on its branch, where it is kept; and its
//! files, as one tree object, become a commit that is merged into the project. Only the tree object that was
//! reviewed is merged, or that an agent left when it ended. What is in the tree alone keeps the tree from being
//! taken away.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use autoloop_core::merge::{Merge, MergeOutcome, named_files};

use crate::git::{Change, CommittedWork, GitError, MergeBack, Repository, WorkBranch, Worktree};
use crate::layout;
use crate::world::World;

/// Where the trees of a project come from, and where the work in them goes.
#[derive(Clone)]
pub(super) struct Trees {
    repository: Repository,
    /// The state directory, which they are in.
    state_dir: PathBuf,
    /// Where it is below the top, if it is. What is in it is never committed.
    state: Option<PathBuf>,
}

/// A tree, as it is on record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot<'p> {
    /// The directory of whoever works there: the tree is in it, and other files are beside that.
    pub(super) dir: &'p Path,
    /// Its branch.
    pub(super) branch: &'p str,
    /// The commit that the branch began at.
    pub(super) base: &'p str,
}

/// Work that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work<'w> {
    /// Where it was done.
    pub(super) plot: Plot<'w>,
    /// What is said in the commit of what was not committed.
    pub(super) left: &'w str,
    /// What is said in the commit that merges it.
    pub(super) merge: &'w str,
    /// The only tree object that may be merged; `None` where any may.
    pub(super) tree: Option<&'w str>,
    /// Why it is only kept and not wanted, if that is so.
    pub(super) failure: Option<&'w str>,
}

impl Plot<'_> {
    /// The top of the tree.
    fn tree(&self) -> PathBuf {
        tree_dir(self.dir)
    }
}

impl Trees {
    /// Finds the repository of a project.
    pub(super) fn find(project: &Path, state_dir: &Path, world: &World) -> Result<Trees, GitError> {
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
        Ok(Trees { repository, state_dir: state_dir.to_owned(), state })
    }

    /// The same with the settings of git that held when others were found.
    pub(super) fn with_settings_of(self, earlier: &Trees) -> Trees {
        Trees { repository: self.repository.with_settings_of(&earlier.repository), ..self }
    }

    pub(super) fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The commit that work begins at.
    pub(super) fn base(&self) -> Result<String, GitError> {
        self.repository.base()
    }

    /// The tree of the project itself.
    pub(super) fn project(&self) -> Result<Worktree, GitError> {
        self.repository.worktree(self.repository.top())
    }

    /// What is in a tree and no part of the work.
    pub(super) fn except(&self) -> Vec<&Path> {
        self.state.as_deref().into_iter().collect()
    }

    /// Where somebody works who has a tree in a directory.
    pub(super) fn place(&self, dir: &Path) -> PathBuf {
        tree_dir(dir).join(self.repository.prefix()).components().collect()
    }

    /// Has git know of a tree, before anybody works in one.
    pub(super) fn register(&self, plot: &Plot<'_>) -> Result<(), GitError> {
        self.make_way(plot.dir)?;
        self.repository.register_worktree(&plot.tree(), plot.branch, plot.base)
    }

    /// Gives a tree its files, or finds it as it was left, and says where to work in it.
    pub(super) fn prepare(&self, plot: &Plot<'_>) -> Result<PathBuf, GitError> {
        self.make_way(plot.dir)?;
        self.repository.add_worktree(&plot.tree(), plot.branch, plot.base)?;
        let place = self.place(plot.dir);
        // The directory of the project may hold nothing that is committed.
        fs::create_dir_all(&place).map_err(GitError::io("make", &place))?;
        Ok(place)
    }

    /// A tree, if it is where we made it.
    pub(super) fn tree(&self, plot: &Plot<'_>) -> Result<Worktree, GitError> {
        self.check_way(plot.dir)?;
        self.repository.worktree(&plot.tree())
    }

    /// Makes sure that no tree is made anew in the place of one that is none any more and has somebody's
    /// files. One that git was kept from making has none yet.
    pub(super) fn check_free(&self, plot: &Plot<'_>) -> Result<(), GitError> {
        let is_file = |entry: DirEntry| entry.file_name() != ".git";
        match self.tree(plot) {
            Err(GitError::NotATree(tree))
                if fs::read_dir(&tree).is_ok_and(|found| found.flatten().any(is_file)) =>
            {
                Err(GitError::NotATree(tree))
            }
            _ => Ok(()),
        }
    }

    /// Makes sure that a worktree can be made in a directory, and that `git add -A` in the project does not add
    /// it, even where an agent removed the list that keeps the whole state directory out.
    fn make_way(&self, dir: &Path) -> Result<(), GitError> {
        self.check_way(dir)?;
        let top = self.repository.top();
        layout::prepare(&self.state_dir, top).map_err(GitError::io("make", &self.state_dir))
    }

    /// Makes sure that a directory is where we made it. Behind a link we would commit and clear away
    /// what is not ours.
    fn check_way(&self, dir: &Path) -> Result<(), GitError> {
        let ours = dir.ancestors().take_while(|above| *above != self.state_dir);
        let is_link = |path: &&Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let link = ours.into_iter().find(is_link);
        link.map_or(Ok(()), |link| Err(GitError::Link(link.to_owned())))
    }

    /// Commits what somebody left and brings it back, if it is wanted. What git cannot do is an outcome
    /// too, unless it is a matter of another moment.
    pub(super) fn bring_back(&self, work: &Work<'_>) -> Result<Merge, GitError> {
        let brought = self.gather(work).and_then(|gathered| self.offer(work, &gathered));
        match brought {
            Err(error) if is_outcome(&error) => self.failed(work, &error),
            brought => brought,
        }
    }

    /// That work could not be brought back, and why.
    fn failed(&self, work: &Work<'_>, error: &GitError) -> Result<Merge, GitError> {
        let branch = work.plot.branch;
        let commit = self.repository.tip(branch)?.unwrap_or_default();
        let failed = Merge::new(MergeOutcome::Failed, branch, &commit);
        Ok(Merge { detail: error.to_string(), ..failed })
    }

    /// The files of a tree as a tree object.
    pub(super) fn capture(&self, tree: &Worktree, base: &str) -> Result<String, GitError> {
        Ok(tree.capture(base, &self.except())?.tree)
    }

    /// The work in the tree of the project itself as a tree object.
    pub(super) fn capture_project(&self, checkpoint: &str) -> Result<String, GitError> {
        self.repository.work(checkpoint, &self.except())
    }

    /// Commits what is left in a tree, if that is still there, so that it can be taken away. Work that was merged
    /// as this tree object is not kept a second time.
    pub(super) fn keep(&self, work: &Work<'_>, merged: Option<&str>) -> Result<(), GitError> {
        let tree = work.plot.tree();
        if !tree.exists() || self.repository.is_unfinished(&tree) {
            return Ok(());
        }
        if let Some(merged) = merged
            && self.capture(&self.tree(&work.plot)?, work.plot.base)? == merged
        {
            return Ok(());
        }
        self.gather(work).map(drop)
    }

    fn gather(&self, work: &Work<'_>) -> Result<CommittedWork, GitError> {
        let Plot { branch, base, .. } = work.plot;
        let branch = WorkBranch { name: branch, base, message: work.left };
        self.tree(&work.plot)?.commit_all(&branch, &self.except())
    }

    fn offer(&self, work: &Work<'_>, gathered: &CommittedWork) -> Result<Merge, GitError> {
        let Plot { branch, base, .. } = work.plot;
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

    /// What is said in the commit of work, with what its agent said in commits of its own.
    fn message(&self, work: &Work<'_>, tip: &str) -> Result<String, GitError> {
        let mut subjects = self.repository.subjects(work.plot.base, tip)?;
        subjects.retain(|subject| !work.left.starts_with(&**subject));
        let listed: String = subjects.iter().map(|subject| format!("* {subject}\n")).collect();
        Ok(match listed.as_str() {
            "" => work.left.to_owned(),
            listed => format!("{}\n\n{listed}", work.left.trim_end()),
        })
    }

    /// Takes a tree away whose work is committed, unless something in it would be lost.
    pub(super) fn clear(&self, plot: &Plot<'_>) -> Result<(), GitError> {
        match self.tree(plot) {
            // It was being removed.
            Err(GitError::NotATree(_)) if !plot.tree().exists() => {}
            tree => self.check_committed(&tree?)?,
        }
        self.repository.remove_worktree(&plot.tree())
    }

    fn check_committed(&self, tree: &Worktree) -> Result<(), GitError> {
        match tree.uncommitted(&self.except())?.into_iter().next() {
            Some(path) => Err(GitError::NotCommitted { tree: tree.dir().to_owned(), path }),
            None => Ok(()),
        }
    }

    /// Deletes the branch of a tree that was taken away, if all of it is reachable from one of these
    /// commits, or its files are those of the tree object that was merged.
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

/// Whether an error is about a tree or what was made in it, and is told as what became of that.
pub(super) fn is_outcome(error: &GitError) -> bool {
    use GitError::{Failed, Forged, Link, NotATree, Rewritten};
    matches!(error, Failed { .. } | Forged(_) | NotATree(_) | Link(_) | Rewritten { .. })
}

fn tree_dir(dir: &Path) -> PathBuf {
    dir.join("tree")
}
