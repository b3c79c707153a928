//! What became of the work of a branch that had a working tree of its own, on record.

use crate::merge::{Merge, MergeOutcome};
use crate::record::{Glance, WaveBranchMerge};

impl Merge {
    /// What a record says; an outcome that nobody knows is taken for a failure, so that everything is
    /// kept.
    pub(super) fn on_record(record: &Glance<'_>) -> Merge {
        let text = |name: &str| record.field(name).unwrap_or_default().into_owned();
        Merge {
            outcome: MergeOutcome::from_word(&text("outcome")).unwrap_or(MergeOutcome::Failed),
            branch: text("branch"),
            commit: text("commit"),
            tree: text("tree"),
            files: text("files"),
            detail: text("detail"),
        }
    }

    /// The record that says so.
    pub fn record_of(self, wave_id: &str, branch_id: &str) -> WaveBranchMerge {
        WaveBranchMerge {
            wave_id: wave_id.to_owned(),
            branch_id: branch_id.to_owned(),
            outcome: self.outcome.to_string(),
            branch: self.branch,
            commit: self.commit,
            tree: Some(self.tree).filter(|tree| !tree.is_empty()),
            files: self.files,
            detail: Some(self.detail).filter(|detail| !detail.is_empty()),
        }
    }
}
