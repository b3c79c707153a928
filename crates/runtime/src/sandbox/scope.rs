//! What a snapshot covers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use autoloop_core::config::Layer;
use autoloop_core::permissions::{AllowList, Place, Shape};

use super::git::Repository;
use super::walk::Ground;
use crate::layout::StateDir;

/// What is to be remembered.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The project.
    pub project_dir: PathBuf,
    /// Its state directory, as seen from the project.
    pub state_dir: PathBuf,
    /// How far it reaches.
    pub scope: Scope,
    /// What may change. Its growing files, the journal among them, have their own check.
    pub allow: AllowList,
    /// What the harness itself writes during the review: its socket, its locks, the spool of the
    /// reviewer's output. Not looked at, with everything inside. As seen from the project.
    pub ours: Vec<PathBuf>,
    /// Sibling working trees in which somebody else works meanwhile. They are not looked at, nor are
    /// the branches and objects of the repository, which others then change as well.
    pub busy_worktrees: Vec<PathBuf>,
    /// Settings to hold new ones against, by name, when the files of the loop were not readable
    /// before the review: the last good ones.
    pub last_good: BTreeMap<PathBuf, String>,
    /// The layers of settings beneath `autoloops.toml`: they say what holds where that file says nothing.
    pub beneath: Vec<Layer>,
    /// Where things go that a reviewer put where they do not belong, as seen from the project; `None`
    /// to delete them. What stands there may be somebody's work that was moved or edited meanwhile.
    pub put_aside: Option<PathBuf>,
    /// How much is copied.
    pub limits: Limits,
    /// The longest diff of one file.
    pub longest_diff: usize,
}

impl Watched {
    /// A project and its state directory, with everything else as it usually is.
    pub fn new(project_dir: &Path, state_dir: &Path, allow: AllowList) -> Watched {
        Watched {
            project_dir: project_dir.to_owned(),
            state_dir: state_dir.to_owned(),
            scope: Scope::Everything,
            allow,
            ours: Vec::new(),
            busy_worktrees: Vec::new(),
            last_good: BTreeMap::new(),
            beneath: Vec::new(),
            put_aside: Some(StateDir::new(state_dir).put_aside()),
            limits: Limits::default(),
            longest_diff: 64 * 1024,
        }
    }
}

/// How far a snapshot reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The project and all that belongs to it: its state directory, its repository and the sibling
    /// working trees.
    Everything,
    /// The working tree that the project is in, and nothing else.
    Tree,
}

/// Where changes are taken for those of the reviewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Everywhere: nobody else was at work.
    Everywhere,
    /// In what the allow list names, and in the files that may only grow: somebody else was at work
    /// in the project, whose changes cannot be told from those of the reviewer.
    LoopFiles,
}

/// How much is copied. What is more can be watched, but not put back, unless git has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in all.
    pub bytes: u64,
    /// Files.
    pub files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { bytes: 1024 * 1024 * 1024, files: 200_000 }
    }
}

pub(super) fn growing_paths(watched: &Watched) -> impl Iterator<Item = PathBuf> {
    let growing = |place: &&Place| place.shape == Shape::Growing;
    watched.allow.places().iter().filter(growing).map(|place| place.path.clone())
}

/// The trees to look at: the project, its working tree, its repository, the sibling working trees, the
/// state directory and wherever else something may be edited, without those that are inside another.
pub(super) fn ground(
    watched: &Watched,
    project: PathBuf,
    repository: Option<&Repository>,
) -> Ground {
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let busy: Vec<PathBuf> = watched.busy_worktrees.iter().map(|path| canonical(path)).collect();
    let mut all = vec![project.clone()];
    if watched.scope == Scope::Tree {
        all.extend(repository.map(|repository| repository.top.clone()));
        return grounded(watched, project, all);
    }
    all.push(canonical(&project.join(&watched.state_dir)));
    // The loop may be anywhere, and what is edited there is looked into as well.
    let edited = watched.allow.places().iter().filter(|place| place.shape != Shape::Growing);
    all.extend(edited.filter_map(|place| Some(canonical(project.join(&place.path).parent()?))));
    if let Some(repository) = repository {
        all.extend([repository.top.clone(), repository.common.clone()]);
        all.extend(repository.siblings.iter().filter(|tree| !busy.contains(tree)).cloned());
    }
    let mut ground = grounded(watched, project, all);
    if let Some(repository) = repository.filter(|_| !busy.is_empty()) {
        for shared in ["objects", "refs", "logs", "packed-refs", "worktrees", "ORIG_HEAD"] {
            ground.skipped.push(ground.seen(&repository.common.join(shared)));
        }
    }
    ground.skipped.extend(busy.iter().map(|tree| ground.seen(tree)).collect::<Vec<_>>());
    ground
}

/// Trees to look at, without those that are inside another, and without what is not looked at.
fn grounded(watched: &Watched, project: PathBuf, mut all: Vec<PathBuf>) -> Ground {
    all.sort();
    all.dedup();
    let mut roots: Vec<PathBuf> = Vec::new();
    for path in all {
        if !roots.iter().any(|root| path.starts_with(root)) {
            roots.push(path);
        }
    }
    let mut ground = Ground { project, roots, skipped: Vec::new() };
    ground.skipped = growing_paths(watched)
        .chain(watched.ours.iter().cloned())
        .chain(watched.put_aside.clone())
        .map(|path| ground.seen(&ground.project.join(path)))
        .collect();
    ground
}
