//! What became of the work of a branch that had a working tree of its own.

use crate::merge::MergeOutcome;
use crate::record::{Glance, WaveBranchMerge};

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// In one word.
    pub outcome: MergeOutcome,
    /// The git branch that has its commits; gone when they were merged or there are none.
    pub branch: String,
    /// The commit from which they are reachable, or the last of them.
    pub commit: String,
    /// The files that were in the way.
    pub files: String,
    /// More about why not.
    pub detail: String,
}

impl Merge {
    /// What became of a branch, without more to say about it.
    pub fn new(outcome: MergeOutcome, branch: &str, commit: &str) -> Merge {
        Merge {
            outcome,
            branch: branch.to_owned(),
            commit: commit.to_owned(),
            files: String::new(),
            detail: String::new(),
        }
    }

    /// What a record says; an outcome that nobody knows is taken for a failure, so that everything is
    /// kept.
    pub(super) fn on_record(record: &Glance<'_>) -> Merge {
        let text = |name: &str| record.field(name).unwrap_or_default().into_owned();
        Merge {
            outcome: MergeOutcome::from_word(&text("outcome")).unwrap_or(MergeOutcome::Failed),
            branch: text("branch"),
            commit: text("commit"),
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
            files: self.files,
            detail: Some(self.detail).filter(|detail| !detail.is_empty()),
        }
    }
}
