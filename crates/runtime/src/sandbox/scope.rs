//! What is listed or copied before a review.

use std::path::{Path, PathBuf};

use autoloop_core::config::Layer;
use autoloop_core::permissions::{AllowList, Place, Shape};

use super::git::Repository;
use super::listing::Trees;
use crate::layout::StateDir;

#[derive(Clone, Debug)]
pub struct Scope {
    pub project_dir: PathBuf,
    /// Relative to the project, or absolute; as are all other paths here.
    pub state_dir: PathBuf,
    pub extent: Extent,
    /// What may change. Append-only files, the journal among them, have their own check.
    pub allow: AllowList,
    /// What the harness itself writes during the review: its socket, its locks, the spool of the
    /// reviewer's output. Left out, with everything inside.
    pub ours: Vec<PathBuf>,
    /// Sibling worktrees that another run works in. They are left out, and with them the branches and
    /// objects of the repository, which that run changes as well.
    pub busy_worktrees: Vec<PathBuf>,
    /// The layers of settings below `autoloops.toml`.
    pub beneath: Vec<Layer>,
    /// Where misplaced files are moved instead of being deleted: they may be the user's, moved or edited
    /// meanwhile.
    pub put_aside: Option<PathBuf>,
    pub limits: Limits,
}

/// How far changes are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Project,
    Worktree,
}

/// How much is copied. A change of anything beyond is only reported, unless git has the old content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub bytes: u64,
    pub files: usize,
}

impl Scope {
    pub fn new(project_dir: &Path, state_dir: &Path, allow: AllowList) -> Scope {
        Scope {
            project_dir: project_dir.to_owned(),
            state_dir: state_dir.to_owned(),
            extent: Extent::Project,
            allow,
            ours: Vec::new(),
            busy_worktrees: Vec::new(),
            beneath: Vec::new(),
            put_aside: Some(StateDir::new(state_dir).put_aside()),
            limits: Limits { bytes: 1024 * 1024 * 1024, files: 200_000 },
        }
    }

    pub(super) fn append_only_paths(&self) -> impl Iterator<Item = PathBuf> {
        let is_append_only = |place: &&Place| place.shape == Shape::Growing;
        self.allow.places().iter().filter(is_append_only).map(|place| place.path.clone())
    }

    /// The project, its worktree, its repository, the sibling worktrees, the state directory and every
    /// other directory in which something may be edited.
    pub(super) fn trees(&self, project: PathBuf, repository: Option<&Repository>) -> Trees {
        let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_whole = self.extent == Extent::Project;
        let busy = self.busy_worktrees.iter().filter(|_| is_whole);
        let busy: Vec<PathBuf> = busy.map(|path| canonical(path)).collect();
        let mut all = vec![project.clone()];
        all.extend(repository.map(|repository| repository.top.clone()));
        if is_whole {
            all.push(canonical(&project.join(&self.state_dir)));
            let edited = self.allow.places().iter().filter(|place| place.shape != Shape::Growing);
            let dirs =
                edited.filter_map(|place| Some(canonical(project.join(&place.path).parent()?)));
            all.extend(dirs);
            if let Some(repository) = repository {
                all.push(repository.common.clone());
                all.extend(repository.siblings.iter().filter(|tree| !busy.contains(tree)).cloned());
            }
        }
        all.sort();
        // A directory sorts before everything inside it.
        all.dedup_by(|path, root| path.starts_with(root));
        let mut trees = Trees { project, roots: all, skipped: Vec::new() };
        let own = self.append_only_paths().chain(self.ours.iter().cloned());
        let own = own.chain(self.put_aside.clone()).map(|path| trees.project.join(path));
        let shared = ["objects", "refs", "logs", "packed-refs", "worktrees", "ORIG_HEAD"];
        let shared = repository
            .filter(|_| !busy.is_empty())
            .into_iter()
            .flat_map(|repository| shared.map(|name| repository.common.join(name)));
        let skipped = own.chain(shared).chain(busy.iter().cloned());
        trees.skipped = skipped.map(|path| trees.relative(&path)).collect();
        trees
    }
}
