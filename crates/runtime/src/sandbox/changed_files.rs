//! What changed in a project while something was at work there. It is for telling others, not for judging:
//! whoever else works there leaves traces as well.

use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{Kind, Tree, What, compare};

use super::git::{Repository, ignored};
use super::walk::{Closed, Ground, walk};

/// A project as it was.
#[derive(Debug)]
pub struct Traces {
    ground: Ground,
    before: Tree,
}

impl Traces {
    /// Looks at a project, without its repository and its state.
    ///
    /// # Errors
    ///
    /// When the system does not let us.
    pub fn begin(project: &Path, state_dir: &Path) -> io::Result<Traces> {
        let project = project.canonicalize()?;
        let mut ground = Ground { roots: vec![project.clone()], project, skipped: Vec::new() };
        let state_dir = ground.project.join(state_dir);
        let state_dir = state_dir.canonicalize().unwrap_or(state_dir);
        ground.skipped = vec![ground.seen(&state_dir), PathBuf::from(".git")];
        let before = walk(&ground, Closed::Respect)?;
        Ok(Traces { ground, before })
    }

    /// The files that were made, changed or deleted since, as seen from the project; not those that git
    /// ignores.
    ///
    /// # Errors
    ///
    /// When the system does not let us look.
    pub fn files(&self) -> io::Result<Vec<PathBuf>> {
        let after = walk(&self.ground, Closed::Respect)?;
        let project = &self.ground.project;
        let repository = Repository::find(project);
        let ignored =
            repository.as_ref().map(|it| (it, ignored(&it.top))).filter(|it| !it.1.is_empty());
        let is_ignored = |path: &Path| {
            ignored.as_ref().is_some_and(|(repository, ignored)| {
                let path = project.join(path);
                let path = path.strip_prefix(&repository.top).unwrap_or(&path);
                path.ancestors().any(|above| ignored.contains(above))
            })
        };
        let changes = compare(&self.before, &after, |_| true).into_iter();
        let is_told = |what: &What| match what {
            What::Added(kind) | What::Deleted(kind) => *kind != Kind::Directory,
            What::Modified | What::Became { .. } => true,
            What::Mode { .. } | What::Owner | What::Linked => false,
        };
        let told = changes.filter(|change| is_told(&change.what) && !is_ignored(&change.path));
        Ok(told.map(|change| change.path).collect())
    }
}
