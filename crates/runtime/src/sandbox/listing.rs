//! A listing of the trees around a review, without contents: the proof that nothing changed.

use std::io;

use autoloop_core::permissions::{AllowList, Permission, Tree, compare};

use super::git::Repository;
use super::report::{Offence, Violation};
use super::scope::{Watched, ground};
use super::walk::{Closed, Ground, walk};

/// What there was before a review.
#[derive(Debug)]
pub struct Listing {
    ground: Ground,
    before: Tree,
}

impl Listing {
    /// Lists everything, before the reviewer is started.
    ///
    /// # Errors
    ///
    /// When a tree cannot be walked.
    pub fn take(watched: &Watched) -> io::Result<Listing> {
        let project = watched.project_dir.canonicalize()?;
        let repository = Repository::find(&project);
        let ground = ground(watched, project, repository.as_ref());
        let before = walk(&ground, Closed::Respect)?;
        Ok(Listing { ground, before })
    }

    /// What is different now where an allow list permits nothing. It stays as it is.
    ///
    /// # Errors
    ///
    /// When a tree cannot be walked.
    pub fn changes(&self, allow: &AllowList) -> io::Result<Vec<Violation>> {
        let after = walk(&self.ground, Closed::Respect)?;
        let changes = compare(&self.before, &after, |_| true).into_iter();
        let counts = |permission| permission == Permission::None;
        let changes = changes
            .filter(|change| counts(allow.permission(&change.path)) && !change.is_bookkeeping());
        let violations = changes.map(|change| {
            let what = Offence::Changed(change.what);
            Violation { path: change.path, what, beneath: 0, restored: false }
        });
        Ok(violations.collect())
    }
}
