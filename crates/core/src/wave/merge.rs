//! What became of the work of a branch that had a working tree of its own, on record.

use crate::merge::{Merge, MergeOutcome};
use crate::record::WaveBranchMerge;

impl Merge {
    /// What a record says; an outcome that nobody knows is taken for a failure, so that everything is
    /// kept.
    pub(super) fn on_record(merge: &WaveBranchMerge) -> Merge {
        Merge {
            outcome: merge.outcome.known().unwrap_or(MergeOutcome::Failed),
            branch: merge.branch.clone(),
            commit: merge.commit.clone(),
            tree: merge.tree.clone().unwrap_or_default(),
            files: merge.files.clone(),
            detail: merge.detail.clone().unwrap_or_default(),
        }
    }

    /// The record that says so.
    pub fn record_of(self, wave_id: &str, branch_id: &str) -> WaveBranchMerge {
        WaveBranchMerge {
            wave_id: wave_id.to_owned(),
            branch_id: branch_id.to_owned(),
            outcome: self.outcome.into(),
            branch: self.branch,
            commit: self.commit,
            tree: Some(self.tree).filter(|tree| !tree.is_empty()),
            files: self.files,
            detail: Some(self.detail).filter(|detail| !detail.is_empty()),
        }
    }
}
