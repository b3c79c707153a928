//! Where a branch of another run is carried out.

use std::time::Duration;

use autoloop_core::prompt::wave::OwnTree;

use super::Drive;
use crate::layout::RunDir;

/// What makes a run a branch.
#[derive(Clone, Debug)]
pub(super) struct Branch {
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
        self.branch.as_ref()?.own_tree.as_ref()
    }
}
