//! The result of merging back the work of a worktree.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::wire_enum::words;

/// Further files are counted.
const FILES_NAMED: usize = 20;

words! {
    MergeOutcome {
        Nothing = "nothing",
        Merged = "merged",
        /// The same files were changed in the project.
        Conflict = "conflict",
        /// The project has uncommitted changes in the same files.
        Uncommitted = "uncommitted_changes",
        /// A merge, rebase or the like is in progress in the project.
        Busy = "project_busy",
        /// A merge, rebase or the like is unfinished in the worktree.
        Unfinished = "unfinished",
        /// The files changed after the review, or after the agent ended.
        Changed = "changed",
        /// The work is in the files of the project and could not be committed apart from other
        /// changes.
        InPlace = "in_place",
        NotTried = "not_tried",
        Failed = "failed",
    }
}

impl MergeOutcome {
    /// Whether no work remains to be kept.
    pub fn is_settled(self) -> bool {
        matches!(self, MergeOutcome::Nothing | MergeOutcome::Merged | MergeOutcome::InPlace)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge {
    pub outcome: MergeOutcome,
    /// The git branch that has the commits; deleted when they were merged or there are none.
    pub branch: String,
    /// The commit from which they are reachable, or the last of them.
    pub commit: String,
    /// The tree object that was merged, or that is on the branch; empty where there is none.
    pub tree: String,
    pub files: String,
    pub detail: String,
}

impl Merge {
    pub fn new(outcome: MergeOutcome, branch: &str, commit: &str) -> Merge {
        Merge {
            outcome,
            branch: branch.to_owned(),
            commit: commit.to_owned(),
            tree: String::new(),
            files: String::new(),
            detail: String::new(),
        }
    }
}

pub fn named_files(files: &[PathBuf]) -> String {
    let named = files.iter().take(FILES_NAMED).map(|file| file.display().to_string());
    let rest = files.len().saturating_sub(FILES_NAMED);
    let more = (rest > 0).then(|| format!("and {rest} more"));
    named.chain(more).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_are_counted() {
        let files: Vec<PathBuf> = (1..=22).map(|number| format!("f{number}").into()).collect();
        assert_eq!(named_files(&files[..2]), "f1,f2");
        assert!(named_files(&files).ends_with("f20,and 2 more"));
        assert_eq!(named_files(&[]), "");
    }
}
