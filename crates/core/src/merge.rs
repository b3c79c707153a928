//! Bringing work back that was done in a working tree of its own, as it stands on record.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::wire_enum::words;

/// How many files are named on record; more are counted.
const FILES_NAMED: usize = 20;

words! {
    /// What became of work that was to be brought back, in one word.
    MergeOutcome {
        /// There was none.
        Nothing = "nothing",
        /// It is part of what is checked out in the project.
        Merged = "merged",
        /// Files were changed differently there meanwhile.
        Conflict = "conflict",
        /// Files have changes there that are not committed.
        Uncommitted = "uncommitted_changes",
        /// Somebody has begun a merge or the like there.
        Busy = "project_busy",
        /// A merge or the like was left unfinished in the tree that it was done in.
        Unfinished = "unfinished",
        /// It is not what was reviewed, or what its agent left: its files changed since.
        Changed = "changed",
        /// It is in the files of the project, and could not be committed apart from other changes there.
        InPlace = "in_place",
        /// Whoever did it failed or took too long, so it was not tried.
        NotTried = "not_tried",
        /// Git could not do it.
        Failed = "failed",
    }
}

impl MergeOutcome {
    /// Whether nothing is left to be kept.
    pub fn is_settled(self) -> bool {
        matches!(self, MergeOutcome::Nothing | MergeOutcome::Merged | MergeOutcome::InPlace)
    }
}

/// What became of work that was done in a working tree of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge {
    /// In one word.
    pub outcome: MergeOutcome,
    /// The git branch that has its commits; gone when they were merged or there are none.
    pub branch: String,
    /// The commit from which they are reachable, or the last of them.
    pub commit: String,
    /// The tree object that was brought back, or that is on the branch; empty where there is none.
    pub tree: String,
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
            tree: String::new(),
            files: String::new(),
            detail: String::new(),
        }
    }
}

/// The names of files as they stand on record.
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
