//! Other runs that work while a reviewer does.
//!
//! Their changes cannot be distinguished from those of the reviewer, so nothing is restored then.

#![expect(
    clippy::disallowed_methods,
    reason = "lists the real run directories, which an agent can replace by links"
)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use autoloop_core::coordinator::Kind;

use crate::layout::RunDir;
use crate::runs;
use crate::sandbox::{Enforcement, Scope};
use crate::world::World;

/// The runs of a project when a review began.
pub(crate) struct ConcurrentRuns {
    state_dir: PathBuf,
    runs: BTreeSet<RunDir>,
    were_driven: bool,
}

impl ConcurrentRuns {
    pub(crate) fn before(state_dir: &Path, world: &World) -> ConcurrentRuns {
        let runs = runs_in(state_dir);
        let were_driven = runs.iter().any(|run| is_driven(run, world));
        ConcurrentRuns { state_dir: state_dir.to_owned(), runs, were_driven }
    }

    /// Whether another process drove a run then.
    pub(crate) fn were_driven(&self) -> bool {
        self.were_driven
    }

    /// Whether another process drove a run when the review began, or does now, or a run began meanwhile.
    ///
    /// A reviewer that the kernel does not confine could create what looks like a new run, to have its
    /// changes attributed to that run; there a new one counts only while it is driven.
    pub(crate) fn were_at_work(&self, own: &str, enforcement: Enforcement, world: &World) -> bool {
        let counts_new = enforcement != Enforcement::Snapshot;
        let is_own = |run: &RunDir| run.file_name().is_some_and(|name| name == own);
        let is_new = |run: &RunDir| counts_new && !is_own(run) && !self.runs.contains(run);
        self.were_driven
            || runs_in(&self.state_dir).iter().any(|run| is_new(run) || is_driven(run, world))
    }
}

/// The directories of runs that no other harness drives.
pub(crate) fn abandoned(state_dir: &Path, world: &World) -> Vec<RunDir> {
    runs_in(state_dir).into_iter().filter(|run| !is_driven(run, world)).collect()
}

/// Whether a run is driven in another worktree of the project, if its state directory has the same name.
pub(crate) fn work_in(tree: &Path, scope: &Scope, world: &World) -> bool {
    let state_dir = tree.join(&scope.state_dir);
    runs_in(&state_dir).iter().any(|run| is_driven(run, world))
}

/// Whether another process drives a run. A link to our own lock does not count.
fn is_driven(run: &RunDir, world: &World) -> bool {
    let lock = run.lock();
    let is_plain =
        fs::symlink_metadata(&lock).is_ok_and(|lock| lock.is_file() && lock.nlink() == 1);
    let holder = || runs::holder(run, &*world.disk).process();
    is_plain && holder().is_some_and(|holder| holder != std::process::id())
}

fn runs_in(state_dir: &Path) -> BTreeSet<RunDir> {
    // A chain does nothing but start loops.
    let places = [Kind::Loop, Kind::Slots, Kind::Exchange, Kind::Squad]
        .map(|kind| state_dir.join(kind.dir()));
    let entries =
        places.into_iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let runs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    runs.map(|entry| RunDir::at(entry.path())).collect()
}
