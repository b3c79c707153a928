//! What changed in a project, found by listing it before and after. Bytes are hashed only where the status of a
//! file proves nothing.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{Change, Kind, Tree, What, compare};

use super::git::{Repository, ignored};
use super::openat::DirCache;
use super::scope::Scope;
use super::walk::{self, Trees};

/// The files and directories that there were.
#[derive(Debug)]
pub struct Listing {
    trees: Trees,
    before: Tree,
    /// The hashes of files whose stamps prove nothing.
    hashes: Vec<(PathBuf, Option<blake3::Hash>)>,
}

impl Listing {
    /// Lists everything that belongs to a project, before its reviewer starts, but for what a
    /// [`Proof`](super::Proof) asks git for.
    pub(super) fn of_scope(scope: &Scope) -> io::Result<Listing> {
        let project = scope.project_dir.canonicalize()?;
        let repository = Repository::find(&project);
        let mut trees = scope.trees(project, repository.as_ref());
        let asked = ["HEAD", "config", "config.worktree", "packed-refs", "refs"];
        let asked = repository.iter().flat_map(|found| asked.map(|name| found.common.join(name)));
        let asked: Vec<PathBuf> = asked.map(|path| trees.relative(&path)).collect();
        trees.skipped.extend(asked);
        Listing::take(trees)
    }

    /// Lists a project without its repository and its state.
    pub fn of_files(project: &Path, state_dir: &Path) -> io::Result<Listing> {
        let project = project.canonicalize()?;
        let mut trees = Trees { roots: vec![project.clone()], project, skipped: Vec::new() };
        let state_dir = trees.project.join(state_dir);
        let state_dir = state_dir.canonicalize().unwrap_or(state_dir);
        trees.skipped = vec![trees.relative(&state_dir), PathBuf::from(".git")];
        Listing::take(trees)
    }

    pub(super) fn take(trees: Trees) -> io::Result<Listing> {
        let before = trees.walk(None)?;
        let racy = walk::racy(&before);
        let hashes = racy.into_iter().map(|path| (path.clone(), hash(&trees, &path))).collect();
        Ok(Listing { trees, before, hashes })
    }

    /// What is different now.
    pub(super) fn changes(&self) -> io::Result<Vec<Change>> {
        let after = self.trees.walk(None)?;
        let mut changes = compare(&self.before, &after, |_| true);
        for (path, old) in &self.hashes {
            if self.before.get(path) == after.get(path) && *old != hash(&self.trees, path) {
                changes.push(Change { path: path.clone(), what: What::Modified });
            }
        }
        Ok(changes)
    }

    /// The files that were added, changed or deleted since, relative to the project, by any process;
    /// without those that git ignores.
    pub fn changed_files(&self) -> io::Result<Vec<PathBuf>> {
        let project = &self.trees.project;
        let ignored = Repository::find(project).map(|it| (ignored(&it.top), it.top));
        let is_ignored = |path: &Path| {
            ignored.as_ref().is_some_and(|(ignored, top)| {
                let path = project.join(path);
                let path = path.strip_prefix(top).unwrap_or(&path);
                path.ancestors().any(|above| ignored.contains(above))
            })
        };
        let is_of_file = |what: &What| match what {
            What::Added(kind) | What::Deleted(kind) => *kind != Kind::Directory,
            What::Modified | What::Became { .. } => true,
            What::Mode { .. } | What::Owner | What::Linked => false,
        };
        let mut changes = self.changes()?;
        changes.retain(|change| is_of_file(&change.what) && !is_ignored(&change.path));
        Ok(changes.into_iter().map(|change| change.path).collect())
    }
}

/// The hash of a file; `None` where it cannot be read.
fn hash(trees: &Trees, path: &Path) -> Option<blake3::Hash> {
    let mut file = DirCache::new(trees).open(path).ok()?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(hasher.finalize()),
            read => hasher.update(&buffer[..read]),
        };
    }
}
