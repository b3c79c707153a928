//! Where the loops of a squad work, what they made, and how that is merged.

#![expect(clippy::disallowed_methods, reason = "worktrees are real directories that git fills")]

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use autoloop_core::coordinator::Kind;
use autoloop_core::prompt::slot::Diff;
use autoloop_core::run_id::RunId;

use crate::drive::worktrees::{WorktreeSpec, Worktrees, is_outcome, top_in};
use crate::git::{
    Advanced, GitError, Prepared, ProposedMerge, Reference, Repository, Sides, Worktree,
    branch_name, short,
};
use crate::layout::RunDir;
use crate::project::{Loaded, Project};
use crate::world::World;

pub(super) use crate::git::Resolution;

/// The directory of the worktree for conflicts, and its branch.
const CONFLICT: &str = "conflict";
/// How often a capture is tried while an agent works.
const CAPTURES: u32 = 3;

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

    pub(super) fn repository(&self) -> &Repository {
        &self.trees.repository
    }

    /// The commit that is checked out in the project.
    pub(super) fn head(&self) -> Result<String, GitError> {
        self.trees.base()
    }

    pub(super) fn place(&self, id: &str) -> Place {
        Place { branch: self.branch(id), dir: self.trees.place(&self.dir.squad_loop(id)) }
    }

    /// Registers the worktree of a loop that has no record yet. A harness may have been killed after it registered it, and
    /// the project may have moved on since.
    pub(super) fn begin(&self, work: &LoopSpec<'_>) -> Result<(), GitError> {
        self.register(work)?;
        match self.repository().tip(&self.branch(work.id))? {
            Some(earlier) if earlier != work.base => {
                let before = LoopSpec { base: &earlier, ..*work };
                self.reopen(&before, &earlier, work.base).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Registers the worktree of a loop, and that for conflicts, with git. To be done for all loops of a group before
    /// an agent works in any of them: git reads the files of all worktrees to add one, and an agent can replace
    /// those of its own by pipes.
    pub(super) fn register(&self, work: &LoopSpec<'_>) -> Result<(), GitError> {
        let own = self.own(work);
        self.reclaim(&own)?;
        self.trees.register(&own.spec())?;
        let conflict = self.conflict(work.base);
        self.clear_way(&conflict)?;
        self.trees.register(&conflict.spec())
    }

    /// Checks the worktree of a loop out, or finds it as it was left. Returns the directory to work in.
    pub(super) fn prepare(&self, work: &LoopSpec<'_>) -> Result<PathBuf, GitError> {
        let own = self.own(work);
        self.reclaim(&own)?;
        self.trees.prepare(&own.spec())
    }

    /// The state of the worktree now, committed or not, also while an agent works there. The same state is the same
    /// commit.
    pub(super) fn capture(&self, work: &LoopSpec<'_>) -> Result<CapturedWork, GitError> {
        let own = self.own(work);
        self.trees.check_way(&own.dir)?;
        if self.repository().is_unfinished(&own.top()) {
            self.prepare(work)?;
        }
        let files = self.repository().files_in_place(&own.top())?;
        let mut capture = 1;
        let captured = loop {
            match files.capture_commit(work.base, work.subject, &self.trees.except()) {
                // A file disappeared while git read it.
                Err(GitError::Failed { .. }) if capture < CAPTURES => capture += 1,
                captured => break captured?,
            }
        };
        self.repository().keep(&[&self.run, work.id], &captured.tip)?;
        Ok(CapturedWork { commit: captured.tip, tree: captured.tree })
    }

    /// What a commit changes, shortened for a prompt.
    pub(super) fn diff(&self, base: &str, commit: &str) -> Diff {
        self.trees.diff(base, commit)
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
        let message = merge_message(work);
        self.repository().prepare_merge(&ProposedMerge { commit, onto, message: &message })
    }

    /// Checks a prepared merge out in the project.
    pub(super) fn advance(&self, head: &str, commit: &str) -> Result<Advanced, GitError> {
        self.repository().detach_worktrees(&self.trees.state_dir)?;
        self.repository().advance_to(head, commit)
    }

    /// Begins a merge of the commit of a loop into a commit, in a worktree for conflicts, with the markers in the
    /// files. What was there before is discarded. Returns the directory to work in.
    pub(super) fn open_conflict(&self, head: &str, commit: &str) -> Result<PathBuf, GitError> {
        let conflict = self.conflict(head);
        let worktree = self.restart(&conflict)?;
        self.repository().begin_merge(&worktree, Sides { head, commit })?;
        let place = self.trees.place(&conflict.dir);
        fs::create_dir_all(&place).map_err(GitError::io("make", &place))?;
        Ok(place)
    }

    /// Judges what an agent left in the worktree for conflicts, commits it, and discards it there. It can be repeated:
    /// a resolution stays checked out.
    pub(super) fn close_conflict(
        &self,
        work: &LoopSpec<'_>,
        head: &str,
        commit: &str,
    ) -> Result<Resolution, GitError> {
        let conflict = self.conflict(head);
        let resolution = match self.judge(work, &conflict, Sides { head, commit }) {
            Err(error) if is_outcome(&error) => Resolution::Refused(error.to_string()),
            judged => judged?,
        };
        let left = match &resolution {
            Resolution::Resolved(resolved) => {
                self.repository().keep(&[&self.run, work.id], resolved)?;
                resolved
            }
            Resolution::Refused(_) => head,
        };
        self.restart(&self.conflict(left))?;
        Ok(resolution)
    }

    fn judge(
        &self,
        work: &LoopSpec<'_>,
        conflict: &LoopTree,
        sides: Sides<'_>,
    ) -> Result<Resolution, GitError> {
        self.trees.check_way(&conflict.dir)?;
        if self.repository().is_unfinished(&conflict.top()) {
            self.trees.prepare(&conflict.spec())?;
        }
        let message = format!("{}\n\nAn agent resolved the conflict.", merge_message(work));
        self.repository().judge_merge(&conflict.top(), sides, &message, &self.trees.except())
    }

    /// Begins a loop again at another commit. Returns the branch with its earlier work, of which `commit` was reviewed
    /// last. To be done before the record of the new base is appended; it can be repeated.
    pub(super) fn reopen(
        &self,
        work: &LoopSpec<'_>,
        commit: &str,
        base: &str,
    ) -> Result<String, GitError> {
        let repository = self.repository();
        let earlier = self.branch(&format!("{}-earlier-{}", work.id, short(commit)));
        let own = self.own(&LoopSpec { base, ..*work });
        let top = own.top();
        let tips = [repository.tip(&earlier)?, repository.tip(&own.branch)?];
        let mut commits: Vec<String> = tips.into_iter().flatten().collect();
        commits.extend(repository.head_in(&top)?);
        if !repository.is_unfinished(&top) {
            match self.capture(work) {
                Ok(now) if now.tree != repository.tree_of(base)? => commits.push(now.commit),
                // Nothing is there that could be kept.
                Ok(_) | Err(GitError::NotATree(_) | GitError::Link(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let mut kept = vec![commit.to_owned()];
        for commit in commits {
            if !repository.contains(base, &commit)? {
                kept.push(commit);
            }
        }
        repository.keep_on_branch(&earlier, &kept, work.subject)?;
        self.restart(&own)?;
        Ok(earlier)
    }

    /// Removes worktrees and branches of a run in which no agent works, if what they hold is reachable from what is
    /// checked out in the project. Nothing is believed but git.
    pub(super) fn clean(&self) -> Result<Cleaned, GitError> {
        let (repository, head) = (self.repository(), self.head()?);
        let mut cleaned = Cleaned::default();
        // Those of worktrees that are kept.
        let mut proofs = BTreeSet::new();
        for dir in self.worktree_dirs()? {
            let (owner, top) = (file_name(&dir), top_in(&dir));
            let captured = repository.kept(&[&self.run, &owner])?;
            let name = top.display().to_string();
            let state = match self.state(&dir, &captured, &head) {
                Err(error) if is_outcome(&error) => State::Unmerged(error.to_string()),
                Err(error @ GitError::NotCommitted { .. }) => State::Unmerged(error.to_string()),
                state => state?,
            };
            if let State::Unmerged(reason) = state {
                cleaned.kept.push(KeptWork { name, reason });
                proofs.extend(captured.into_iter().map(|kept| kept.name));
                continue;
            }
            for earlier in captured.into_iter().filter(|_| state == State::Merged) {
                // By the others it can be proved again, if this is interrupted here.
                if !repository.contains(&head, &earlier.commit)? {
                    repository.delete(&earlier)?;
                }
            }
            repository.remove_worktree(&top)?;
            cleaned.removed.push(name);
        }
        self.clean_references(&head, &proofs, &mut cleaned)?;
        Ok(cleaned)
    }

    fn clean_references(
        &self,
        head: &str,
        proofs: &BTreeSet<String>,
        cleaned: &mut Cleaned,
    ) -> Result<(), GitError> {
        let repository = self.repository();
        for branch in repository.branches_below(&branch_name(&[&self.run]))? {
            let name = branch.name.strip_prefix("refs/heads/").unwrap_or(&branch.name).to_owned();
            if let Some(dir) = &branch.checked_out {
                let reason = format!("it is checked out in {}", dir.display());
                cleaned.kept.push(KeptWork { name, reason });
            } else if repository.contains(head, &branch.commit)? {
                repository.delete(&branch)?;
                cleaned.removed.push(name);
            } else {
                cleaned.kept.push(KeptWork { name, reason: unreachable(&branch.commit) });
            }
        }
        for kept in repository.kept(&[&self.run])? {
            if proofs.contains(&kept.name) {
                continue;
            }
            let base = repository.commit(&format!("{}^", kept.commit))?;
            let base = base.map(|base| repository.tree_of(&base)).transpose()?;
            let is_empty = base == Some(repository.tree_of(&kept.commit)?);
            if is_empty
                || repository.contains(head, &kept.commit)?
                || repository.is_on_branch(&kept.commit)?
            {
                repository.delete(&kept)?;
            } else {
                let reason = unreachable(&kept.commit);
                cleaned.kept.push(KeptWork { name: kept.name, reason });
            }
        }
        Ok(())
    }

    /// Whether what is in a worktree is reachable from a commit.
    fn state(&self, dir: &Path, captured: &[Reference], head: &str) -> Result<State, GitError> {
        let (repository, top) = (self.repository(), top_in(dir));
        self.trees.check_way(dir)?;
        check_not_link(&top)?;
        let checked_out = repository.head_in(&top)?;
        if let Some(commit) = &checked_out
            && !repository.contains(head, commit)?
            && !repository.is_on_branch(commit)?
        {
            return Ok(State::Unmerged(unreachable(commit)));
        }
        if top.symlink_metadata().is_err() || repository.is_unfinished(&top) {
            return Ok(State::Unchanged);
        }
        let (tree, except) = (repository.worktree(&top)?, self.trees.except());
        if let Some(path) = tree.uncommitted(&except)?.into_iter().next() {
            return Err(GitError::NotCommitted { tree: top, path });
        }
        let captured = captured.iter().map(|kept| (&kept.commit, State::Merged));
        let checked_out = checked_out.iter().map(|commit| (commit, State::Unchanged));
        for (commit, state) in captured.chain(checked_out) {
            if !repository.contains(head, commit)? {
                continue;
            }
            // The files are read with the attributes with which they were captured.
            let base = repository.commit(&format!("{commit}^"))?;
            let files = tree.capture(base.as_deref().unwrap_or(commit), &except)?;
            if files.tree == repository.tree_of(commit)? {
                return Ok(state);
            }
        }
        Ok(State::Unmerged("its files are not those of a commit that was merged".to_owned()))
    }

    /// The directories of the loops that have a worktree, and that for conflicts.
    fn worktree_dirs(&self) -> Result<Vec<PathBuf>, GitError> {
        let loops = self.dir.squad_loop("");
        let found = match fs::read_dir(&loops) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(GitError::io("read", &*loops)(error));
            }
            found => found.into_iter().flatten().flatten(),
        };
        let mut dirs: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
        dirs.sort();
        dirs.push(self.conflict_dir());
        dirs.retain(|dir| {
            let top = top_in(dir);
            top.symlink_metadata().is_ok() || self.repository().is_registered(&top)
        });
        Ok(dirs)
    }

    /// Makes sure that the worktree of a loop can be used as it was left. An agent can have removed the file that
    /// links it with the repository; anything else that it put in its place is not removed.
    fn reclaim(&self, own: &LoopTree) -> Result<(), GitError> {
        self.trees.check_way(&own.dir)?;
        check_not_link(&own.top())?;
        self.repository().relink_worktree(&own.top())?;
        self.trees.check_free(&own.spec())
    }

    /// Discards everything in a worktree, whatever an agent put in its place, and checks its base out.
    fn restart(&self, own: &LoopTree) -> Result<Worktree, GitError> {
        self.clear_way(own)?;
        self.repository().restart_worktree(&own.top(), &own.branch, &own.base)
    }

    /// Makes sure that a worktree can be made, also where an agent put a link in place of its directory.
    fn clear_way(&self, own: &LoopTree) -> Result<(), GitError> {
        if check_not_link(&own.dir).is_err() {
            self.trees.check_way(own.dir.parent().unwrap_or(&self.dir))?;
            fs::remove_file(&own.dir).map_err(GitError::io("remove", &own.dir))?;
        }
        self.trees.make_way(&own.dir)
    }

    fn own(&self, work: &LoopSpec<'_>) -> LoopTree {
        LoopTree {
            dir: self.dir.squad_loop(work.id).to_path_buf(),
            branch: self.branch(work.id),
            base: work.base.to_owned(),
        }
    }

    fn conflict(&self, base: &str) -> LoopTree {
        LoopTree { dir: self.conflict_dir(), branch: self.branch(CONFLICT), base: base.to_owned() }
    }

    fn branch(&self, id: &str) -> String {
        branch_name(&[&self.run, id])
    }

    fn conflict_dir(&self) -> PathBuf {
        self.dir.join(CONFLICT)
    }
}

/// What is in a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The files of a captured commit that was merged.
    Merged,
    /// Nothing, or the files of the commit that is checked out. What was captured before need not be merged.
    Unchanged,
    /// Something else, for this reason.
    Unmerged(String),
}

/// A worktree of a run.
struct LoopTree {
    /// Its directory, which contains other files too.
    dir: PathBuf,
    branch: String,
    base: String,
}

impl LoopTree {
    fn spec(&self) -> WorktreeSpec<'_> {
        WorktreeSpec { dir: &self.dir, branch: &self.branch, base: &self.base }
    }

    fn top(&self) -> PathBuf {
        top_in(&self.dir)
    }
}

fn check_not_link(path: &Path) -> Result<(), GitError> {
    match path.is_symlink() {
        true => Err(GitError::Link(path.to_owned())),
        false => Ok(()),
    }
}

fn merge_message(work: &LoopSpec<'_>) -> String {
    format!("Merge {}", work.subject)
}

fn unreachable(commit: &str) -> String {
    format!("its commit {} is not reachable from what is checked out in the project", short(commit))
}

fn file_name(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
