//! What changed in a project, found by listing it before and after, without contents.

use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{AllowList, Change, Kind, Permission, Tree, What, compare};

use super::git::{Repository, ignored};
use super::report::{Violation, ViolationKind};
use super::scope::Scope;
use super::walk::Trees;

/// The files and directories that there were.
#[derive(Debug)]
pub struct Listing {
    trees: Trees,
    before: Tree,
}

impl Listing {
    /// Lists everything that belongs to a project, before its reviewer starts.
    pub fn of_scope(scope: &Scope) -> io::Result<Listing> {
        let project = scope.project_dir.canonicalize()?;
        let repository = Repository::find(&project);
        Listing::take(scope.trees(project, repository.as_ref()))
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

    fn take(trees: Trees) -> io::Result<Listing> {
        let before = trees.walk(None)?;
        Ok(Listing { trees, before })
    }

    /// The changes that an allow list does not permit. They are not undone.
    pub fn violations(&self, allow: &AllowList) -> io::Result<Vec<Violation>> {
        let after = self.trees.walk(None)?;
        let mut changes = compare(&self.before, &after, |_| true);
        changes.retain(|change| {
            allow.permission(&change.path) == Permission::None && !change.is_bookkeeping()
        });
        let violation = |change: Change| {
            Violation::new(change.path, ViolationKind::Changed(change.what), false)
        };
        Ok(changes.into_iter().map(violation).collect())
    }

    /// The files that were added, changed or deleted since, relative to the project, by any process;
    /// without those that git ignores.
    pub fn changed_files(&self) -> io::Result<Vec<PathBuf>> {
        let after = self.trees.walk(None)?;
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
        let mut changes = compare(&self.before, &after, |_| true);
        changes.retain(|change| is_of_file(&change.what) && !is_ignored(&change.path));
        Ok(changes.into_iter().map(|change| change.path).collect())
    }
}
