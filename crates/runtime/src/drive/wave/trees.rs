//! Working trees for the branches of a wave, and the way back from them.

use std::path::{Path, PathBuf};

use autoloop_core::merge::{MergeOutcome, named_files};
use autoloop_core::prompt::wave::OwnTree;
use autoloop_core::wave::{BranchOrder, Merge, MergeOrder, Wave};

use crate::git::{Brought, Gathered, GitError, Offer, Repository, Tree, branch_name};
use crate::world::World;

/// Where the trees of branches come from, and where their work goes.
#[derive(Clone)]
pub(in crate::drive) struct Ground {
    repository: Repository,
    /// The state directory.
    state_dir: PathBuf,
    /// Where it is below the top, if it is. What is in it is never committed.
    state: Option<PathBuf>,
}

impl Ground {
    /// Finds the repository of a project.
    pub(in crate::drive) fn find(
        project: &Path,
        state_dir: &Path,
        world: &World,
    ) -> Result<Ground, GitError> {
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
        Ok(Ground { repository, state_dir: state_dir.to_owned(), state })
    }

    /// The commit that branches begin at.
    pub(in crate::drive) fn base(&self) -> Result<String, GitError> {
        self.repository.base()
    }

    /// Has git know of the tree of a branch, before anybody works in one.
    pub(super) fn register(&self, order: &BranchOrder, dir: &Path) -> Result<(), GitError> {
        let Some(base) = &order.base else { return Ok(()) };
        self.check_way(dir)?;
        let branch = branch_name(&[&order.start.wave_id, &order.start.branch_id]);
        self.repository.register_worktree(&tree_dir(dir), &branch, base)
    }

    /// Gives the tree of a branch its files, or finds it as it was left, and says where the branch works.
    pub(super) fn prepare(
        &self,
        order: &BranchOrder,
        base: &str,
        dir: &Path,
    ) -> Result<OwnTree, GitError> {
        let branch = branch_name(&[&order.start.wave_id, &order.start.branch_id]);
        let tree = self.repository.add_worktree(&tree_dir(dir), &branch, base)?;
        let place: PathBuf = tree.dir().join(self.repository.prefix()).components().collect();
        // The directory of the project may hold nothing that is committed.
        std::fs::create_dir_all(&place).map_err(GitError::io("make", &place))?;
        Ok(OwnTree { dir: place.display().to_string(), branch })
    }

    /// Makes sure, before the first work is brought back, that no tree is on the branch of the project,
    /// which moves then. A tree that cannot be used is told when its turn comes.
    pub(super) fn detach(
        &self,
        wave: &Wave,
        dir: impl Fn(&str) -> PathBuf,
    ) -> Result<(), GitError> {
        if wave.branches.iter().any(|branch| branch.merge.is_some()) {
            return Ok(());
        }
        for place in 0..wave.branches.len() {
            let branch_id = format!("branch-{}", place + 1);
            let branch = branch_name(&[&wave.id, &branch_id]);
            let tree = self.tree(&dir(&branch_id));
            match tree.and_then(|tree| tree.detach(&branch)) {
                Err(error) if !is_outcome(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The tree of a branch, if it is where we made it.
    fn tree(&self, dir: &Path) -> Result<Tree, GitError> {
        self.check_way(dir)?;
        self.repository.tree(&tree_dir(dir))
    }

    /// Commits what a branch left and brings it back, if the branch ended well. What git cannot do is an
    /// outcome too, unless it is a matter of another moment.
    pub(super) fn bring_back(&self, order: &MergeOrder, dir: &Path) -> Result<Merge, GitError> {
        let branch = branch_name(&[&order.wave_id, &order.branch_id]);
        let gathered = self.gather(order, &branch, dir);
        match gathered.and_then(|gathered| self.offer(order, &branch, &gathered)) {
            Err(error) if is_outcome(&error) => {
                let commit = self.repository.tip(&branch)?.unwrap_or_default();
                let failed = Merge::new(MergeOutcome::Failed, &branch, &commit);
                Ok(Merge { detail: error.to_string(), ..failed })
            }
            merge => merge,
        }
    }

    /// Makes sure that the directory of a branch is where we made it. Behind a link we would commit and
    /// clear away what is not ours.
    fn check_way(&self, dir: &Path) -> Result<(), GitError> {
        let ours = dir.ancestors().take_while(|above| *above != self.state_dir);
        let is_link = |path: &&Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let link = ours.into_iter().find(is_link);
        link.map_or(Ok(()), |link| Err(GitError::Link(link.to_owned())))
    }

    /// Makes sure that nothing is lost with a tree. One that is no tree any more was being removed.
    fn check_committed(&self, dir: &Path) -> Result<(), GitError> {
        let tree = match self.repository.tree(dir) {
            Err(GitError::NotATree(_)) => return Ok(()),
            tree => tree?,
        };
        match tree.left_over(&self.except())?.into_iter().next() {
            Some(path) => Err(GitError::NotCommitted { tree: dir.to_owned(), path }),
            None => Ok(()),
        }
    }

    fn except(&self) -> Vec<&Path> {
        self.state.as_deref().into_iter().collect()
    }

    fn gather(&self, order: &MergeOrder, branch: &str, dir: &Path) -> Result<Gathered, GitError> {
        let message = format!("Keep what {} of {} left", order.branch_id, order.wave_id);
        self.tree(dir)?.gather(branch, &message, &self.except())
    }

    fn offer(
        &self,
        order: &MergeOrder,
        branch: &str,
        Gathered { tip, unfinished }: &Gathered,
    ) -> Result<Merge, GitError> {
        let MergeOrder { wave_id, branch_id, objective, base, failure } = order;
        let merge = |outcome| Merge::new(outcome, branch, tip);
        let of_files =
            |outcome, files: Vec<PathBuf>| Merge { files: named_files(&files), ..merge(outcome) };
        let of_detail = |outcome, detail: &str| Merge { detail: detail.into(), ..merge(outcome) };
        if let Some(what) = unfinished {
            return Ok(of_detail(MergeOutcome::Unfinished, what));
        }
        if tip == base {
            return Ok(merge(MergeOutcome::Nothing));
        }
        if let Some(stop_reason) = failure {
            return Ok(of_detail(MergeOutcome::NotTried, stop_reason));
        }
        let message = format!("Merge {branch_id} of {wave_id}\n\n{objective}\n");
        Ok(match self.repository.bring_back(&Offer { branch, base, message: &message })? {
            Brought::Nothing => merge(MergeOutcome::Nothing),
            Brought::Merged(commit) => Merge::new(MergeOutcome::Merged, branch, &commit),
            Brought::Conflict(files) => of_files(MergeOutcome::Conflict, files),
            Brought::InTheWay(files) => of_files(MergeOutcome::Uncommitted, files),
            Brought::UnderWay(what) => of_detail(MergeOutcome::Busy, what),
        })
    }

    /// Takes away what a wave needs no more: the trees, unless something in one is not committed, and
    /// the branches whose commits are elsewhere. Returns what stays, and why: that is no reason to stop
    /// a run.
    pub(super) fn clear(&self, wave: &Wave, dir: impl Fn(&str) -> PathBuf) -> Vec<GitError> {
        let branches = wave.branches.iter().enumerate();
        let merges = branches.filter_map(|(place, branch)| Some((place, branch.merge.as_ref()?)));
        let cleared = merges.map(|(place, merge)| {
            let branch_id = format!("branch-{}", place + 1);
            if merge.outcome == MergeOutcome::Failed {
                return Ok(());
            }
            let dir = dir(&branch_id);
            self.check_way(&dir)?;
            let tree = tree_dir(&dir);
            self.check_committed(&tree)?;
            self.repository.remove_worktree(&tree)?;
            if merge.outcome.is_settled() {
                self.repository.delete_branch(&merge.branch, &merge.commit)?;
            }
            Ok(())
        });
        cleared.filter_map(Result::err).collect()
    }
}

/// Whether an error is about a tree, and is told as what became of its branch.
fn is_outcome(error: &GitError) -> bool {
    matches!(error, GitError::Failed { .. } | GitError::NotATree(_) | GitError::Link(_))
}

/// Where the tree of a branch is.
fn tree_dir(branch_dir: &Path) -> PathBuf {
    branch_dir.join("tree")
}
