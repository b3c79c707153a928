//! Where slots work, what they changed there, and how it is brought back.

use std::path::{Path, PathBuf};

use autoloop_core::config::Isolation;
use autoloop_core::merge::{MergeOutcome, named_files};
use autoloop_core::prompt::slot::{Diff, Ground};
use autoloop_core::record::SlotMerge;
use autoloop_core::slot::{Review, Slot};

use crate::drive::DriveError;
use crate::git::{Brought, GitError, Offer, Repository, Stand, Tree, branch_name};
use crate::project::{Loaded, Project};
use crate::world::World;

/// So many bytes of a diff are asked for. A reviewer is shown fewer characters, and a character has up
/// to four bytes.
const DIFF_BYTES: usize = 400_000;

/// Where the slots of a run work.
pub(super) struct Grounds {
    repository: Option<Repository>,
    /// Why there is no diff, where there is none.
    no_diff: Option<String>,
    /// Why slots share the project although they were to have trees of their own, if that is so.
    no_trees: Option<String>,
    pub(super) isolation: Isolation,
    project: PathBuf,
    /// What is in the tree and no part of the work: the state directory, as seen from the top.
    except: Vec<PathBuf>,
    parallel: bool,
}

/// Where a slot works.
pub(super) struct Place {
    /// The branch; empty in the project itself.
    pub(super) branch: String,
    /// The directory that the agent is started in.
    pub(super) tree: PathBuf,
}

impl Grounds {
    /// Finds out where slots can work.
    ///
    /// # Errors
    ///
    /// When somebody asked for working trees and there cannot be any.
    pub(super) fn find(
        project: &Project,
        loaded: &Loaded,
        world: &World,
    ) -> Result<Grounds, DriveError> {
        let plan = &loaded.plan.slots;
        let dir = std::path::absolute(&project.dir).unwrap_or_else(|_| project.dir.clone());
        let found = Repository::find(&dir, world);
        let (repository, no_diff) = match found {
            Ok(Some(repository)) => match repository.base() {
                Ok(_) => (Some(repository), None),
                Err(error) => (None, Some(error)),
            },
            Ok(None) => (None, None),
            Err(error) => (None, Some(error)),
        };
        let no_diff = match (&repository, no_diff) {
            (Some(_), _) => None,
            (None, Some(error)) => Some(error.to_string()),
            (None, None) => Some(format!("{} is in no git repository", dir.display())),
        };
        let wanted = plan.isolation.unwrap_or(plan.usual_isolation());
        let (isolation, no_trees) = match (wanted, &no_diff) {
            (Isolation::Worktree, Some(why)) if plan.isolation.is_some() => {
                return Err(DriveError::NoWorktrees(why.clone()));
            }
            (Isolation::Worktree, Some(why)) => (Isolation::Shared, Some(why.clone())),
            (isolation, _) => (isolation, None),
        };
        let except = repository.as_ref().and_then(|repository| {
            let state_dir = loaded.files.state_dir.canonicalize().ok();
            let state_dir = state_dir.unwrap_or_else(|| loaded.files.state_dir.clone());
            let top = repository.top().canonicalize().ok()?;
            Some(state_dir.strip_prefix(&top).ok()?.to_owned())
        });
        Ok(Grounds {
            repository,
            no_diff,
            no_trees,
            isolation,
            project: dir,
            except: except.into_iter().collect(),
            parallel: plan.rules.parallel_agents > 1,
        })
    }

    /// What a person should know about them.
    pub(super) fn notes(&self, review: Review) -> Vec<String> {
        let shared = self.no_trees.as_ref().map(|why| {
            format!("{why}, so all slots work in the project, and see each other's changes")
        });
        let blind = self.no_diff.as_ref().filter(|_| review == Review::On);
        let blind = blind.map(|why| format!("{why}, so reviewers see no diff"));
        shared.into_iter().chain(blind).collect()
    }

    /// The checkout that the project is in, or the project itself.
    pub(super) fn checkout(&self) -> Vec<PathBuf> {
        let top = self.repository.as_ref().map_or(&*self.project, |repository| repository.top());
        top.canonicalize().into_iter().collect()
    }

    /// Where git keeps what is no part of any tree.
    pub(super) fn git_dir(&self) -> Option<PathBuf> {
        self.repository.as_ref()?.common().canonicalize().ok()
    }

    /// The commit that changes are told from; empty where there is none. In the project itself what
    /// is there already, committed or not, is nobody's work.
    pub(super) fn base(&self) -> Result<String, DriveError> {
        let Some(repository) = &self.repository else { return Ok(String::new()) };
        Ok(match self.isolation {
            Isolation::Worktree => repository.base()?,
            Isolation::Shared => {
                let tree = repository.tree(repository.top())?;
                tree.anchor("before a slot began", &self.except())?
            }
        })
    }

    /// Where a slot is to work.
    pub(super) fn place(&self, slot_dir: &Path, run: &str) -> Place {
        let name = slot_dir.file_name().unwrap_or_default().to_string_lossy();
        match (&self.repository, self.isolation) {
            (Some(repository), Isolation::Worktree) => Place {
                branch: branch_name(&["slots", run, &name]),
                tree: top(slot_dir).join(repository.prefix()),
            },
            _ => Place { branch: String::new(), tree: self.project.clone() },
        }
    }

    /// Makes the working tree of a slot, where it has one and that is not there.
    pub(super) fn prepare(&self, slot: &Slot, slot_dir: &Path) -> Result<(), GitError> {
        match self.own(slot) {
            Some(repository) => {
                let (branch, base) = (&slot.start.branch, &slot.start.base);
                repository.add_worktree(&top(slot_dir), branch, base).map(drop)
            }
            None => Ok(()),
        }
    }

    /// What agents are told about where they are.
    pub(super) fn told(&self, slot: &Slot) -> Ground {
        match (slot.start.branch.is_empty(), self.parallel) {
            (false, _) => Ground::Worktree,
            (true, true) => Ground::Shared,
            (true, false) => Ground::Alone,
        }
    }

    /// Where the checkout of a slot stands; `None` where git does not say.
    pub(super) fn stand(&self, slot: &Slot, slot_dir: &Path) -> Option<Stand> {
        self.tree(self.repository.as_ref()?, slot, slot_dir).ok()?.stand().ok()
    }

    /// Has it stand where it stood before, and says whether it stood elsewhere.
    pub(super) fn stand_at(
        &self,
        stand: &Stand,
        (slot, slot_dir): (&Slot, &Path),
    ) -> Result<bool, GitError> {
        let Some(repository) = &self.repository else { return Ok(false) };
        let tree = self.tree(repository, slot, slot_dir)?;
        let has_moved = tree.stand().ok().as_ref() != Some(stand);
        if has_moved {
            tree.stand_at(stand)?;
        }
        Ok(has_moved)
    }

    /// What a slot changed since it began.
    pub(super) fn diff(&self, slot: &Slot, slot_dir: &Path) -> Diff {
        let Some(repository) = &self.repository else {
            return Diff::Unknown(self.no_diff.clone().unwrap_or_default());
        };
        let tree = self.tree(repository, slot, slot_dir);
        let diff = tree.and_then(|tree| tree.diff(&slot.start.base, DIFF_BYTES, &self.except()));
        match diff {
            Ok(text) if text.trim().is_empty() => Diff::Empty,
            Ok(text) => Diff::Text(text),
            Err(error) => Diff::Unknown(error.to_string()),
        }
    }

    /// Commits what a slot left and brings it back into the project, one slot at a time.
    pub(super) fn bring_back(
        &self,
        slot: &Slot,
        slot_dir: &Path,
    ) -> Result<(SlotMerge, Option<String>), GitError> {
        let merge = |outcome: MergeOutcome, commit: String, files: &[PathBuf]| SlotMerge {
            slot: slot.start.slot,
            item_id: slot.start.item_id.clone(),
            outcome: outcome.into(),
            commit,
            files: named_files(files),
        };
        let Some(repository) = self.own(slot) else {
            return Ok((merge(MergeOutcome::Nothing, String::new(), &[]), None));
        };
        let (branch, message) = (&slot.start.branch, message(slot));
        let gathered =
            self.tree(repository, slot, slot_dir)?.gather(branch, &message, &self.except())?;
        if let Some(what) = gathered.unfinished {
            let why = format!("{what} was begun in its tree and not ended");
            return Ok((merge(MergeOutcome::Unfinished, gathered.tip, &[]), Some(why)));
        }
        let offer = Offer { branch, base: &slot.start.base, message: &message };
        Ok(match repository.bring_back(&offer)? {
            Brought::Nothing => (merge(MergeOutcome::Nothing, String::new(), &[]), None),
            Brought::Merged(_) => (merge(MergeOutcome::Merged, gathered.tip, &[]), None),
            Brought::Conflict(files) => (merge(MergeOutcome::Conflict, gathered.tip, &files), None),
            Brought::InTheWay(files) => {
                (merge(MergeOutcome::Uncommitted, gathered.tip, &files), None)
            }
            Brought::UnderWay(what) => {
                let why = format!("{what} is under way in the project");
                (merge(MergeOutcome::Busy, gathered.tip, &[]), Some(why))
            }
        })
    }

    /// Takes the tree of a slot away, and its branch if nothing is lost with it. Says which branch is
    /// kept.
    pub(super) fn clear(&self, slot: &Slot, slot_dir: &Path) -> Result<Option<String>, GitError> {
        let Some(repository) = self.own(slot) else { return Ok(None) };
        let (branch, base) = (&slot.start.branch, &slot.start.base);
        if top(slot_dir).exists() {
            let tree = self.tree(repository, slot, slot_dir)?;
            tree.gather(branch, &message(slot), &self.except())?;
        }
        repository.remove_worktree(&top(slot_dir))?;
        let is_gone = repository.delete_branch(branch, base)?
            || repository.delete_branch(branch, &repository.base()?)?;
        Ok((!is_gone).then(|| branch.clone()))
    }

    /// The repository, for a slot that has a tree of its own.
    fn own(&self, slot: &Slot) -> Option<&Repository> {
        self.repository.as_ref().filter(|_| !slot.start.branch.is_empty())
    }

    fn tree(
        &self,
        repository: &Repository,
        slot: &Slot,
        slot_dir: &Path,
    ) -> Result<Tree, GitError> {
        match slot.start.branch.is_empty() {
            true => repository.tree(repository.top()),
            false => repository.tree(&top(slot_dir)),
        }
    }

    fn except(&self) -> Vec<&Path> {
        self.except.iter().map(PathBuf::as_path).collect()
    }
}

/// The top of the working tree of a slot.
fn top(slot_dir: &Path) -> PathBuf {
    slot_dir.join("tree")
}

/// What is said in a commit of ours.
fn message(slot: &Slot) -> String {
    let title = autoloop_core::excerpt::first_line(&slot.start.title, 60);
    format!("{}: {title}", slot.start.item_id)
}
