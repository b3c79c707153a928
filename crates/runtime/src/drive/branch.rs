//! Where a branch of another run is carried out.

use std::time::Duration;

use autoloop_core::prompt::wave::OwnTree;

use super::Drive;
use crate::layout::RunDir;
use crate::project::{LoadError, Loaded, Project};
use crate::world::World;

/// What makes a run a branch.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    /// The run that it is a branch of.
    pub(super) parent: String,
    /// Where its files are.
    pub(super) dir: RunDir,
    /// The event that routes it at first.
    pub(super) opening_event: String,
    /// How long it may take.
    pub(super) timeout: Duration,
    /// Where it works, if that is not the tree of the project.
    pub(super) own_tree: Option<OwnTree>,
}

impl Drive<'_> {
    /// Where a branch works, if that is not the tree of the project.
    pub(super) fn own_tree(&self) -> Option<&OwnTree> {
        self.seat.as_ref()?.own_tree.as_ref()
    }
}

/// Reads the files of the loop, as they hold for a run or a branch.
pub(super) fn load(
    project: &Project,
    seat: Option<&Seat>,
    world: &World,
) -> Result<Loaded, LoadError> {
    let mut loaded = project.load(&*world.disk)?;
    if let Some(seat) = seat {
        loaded.plan = loaded.plan.for_branch(seat.timeout);
    }
    Ok(loaded)
}
