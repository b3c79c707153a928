//! Who else is at work while a reviewer is.
//!
//! What somebody else changes meanwhile cannot be told from what the reviewer changes, so it is not put
//! back where somebody else was.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use crate::permissions::Watched;
use crate::world::{Access, World};

/// The runs of a project when a review began.
pub(super) struct Others {
    runs: BTreeSet<OsString>,
}

impl Others {
    /// Looks which runs there are.
    pub(super) fn before(state_dir: &Path) -> Others {
        Others { runs: runs_in(state_dir) }
    }

    /// Whether another run than this one is driven now, or began meanwhile.
    pub(super) fn were_at_work(&self, state_dir: &Path, own: &str, world: &World) -> bool {
        let is_new = |run: &OsStr| !self.runs.contains(run);
        let others = runs_in(state_dir).into_iter().filter(|run| run != OsStr::new(own));
        others.into_iter().any(|run| is_new(&run) || is_driven(state_dir, &run, world))
    }
}

/// Whether a run is driven in another working tree of the project, if it is set up like this one.
pub(super) fn work_in(tree: &Path, watched: &Watched, world: &World) -> bool {
    let state_dir = tree.join(&watched.state_dir);
    runs_in(&state_dir).iter().any(|run| is_driven(&state_dir, run, world))
}

fn is_driven(state_dir: &Path, run: &OsStr, world: &World) -> bool {
    let lock = state_dir.join("runs").join(run).join("lock");
    world.disk.open(&lock, Access::Read).is_ok_and(|lock| lock.lock_holder().is_some())
}

fn runs_in(state_dir: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(state_dir.join("runs")).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect()
}
