//! The working trees of the branches of a wave.

use std::path::Path;

use autoloop_core::merge::{Merge, MergeOutcome};
use autoloop_core::prompt::wave::OwnTree;
use autoloop_core::record::WaveBranchStart;
use autoloop_core::text::first_line;
use autoloop_core::wave::{BranchOrder, MergeOrder, Wave};
use autoloop_core::wire_enum::Word;

use crate::drive::worktrees::{Plot, Trees, Work};
use crate::git::{GitError, branch_name};
use crate::layout::RunDir;

/// So many characters of an objective stand in the subject of a commit.
const SUBJECT: usize = 60;

/// Has git know of the tree of a branch, before anybody works in one.
pub(super) fn register(trees: &Trees, order: &BranchOrder, dir: &Path) -> Result<(), GitError> {
    let Some(base) = &order.base else { return Ok(()) };
    trees.register(&Plot { dir, branch: &git_branch(&order.start), base })
}

/// Gives the tree of a branch its files, or finds it as it was left, and says where the branch works.
pub(super) fn prepare(
    trees: &Trees,
    (order, base): (&BranchOrder, &str),
    dir: &Path,
) -> Result<OwnTree, GitError> {
    let branch = git_branch(&order.start);
    let place = trees.prepare(&Plot { dir, branch: &branch, base })?;
    Ok(OwnTree { dir: place.display().to_string(), branch })
}

/// What a branch left, as a tree object.
pub(super) fn left(
    trees: &Trees,
    (order, base): (&BranchOrder, &str),
    dir: &Path,
) -> Result<String, GitError> {
    let tree = trees.tree(&Plot { dir, branch: &git_branch(&order.start), base })?;
    trees.capture(&tree, base)
}

/// Commits what a branch left and brings it back, if the branch ended well.
pub(super) fn bring_back(trees: &Trees, order: &MergeOrder, dir: &Path) -> Result<Merge, GitError> {
    let MergeOrder { wave_id, branch_id, objective, base, tree, failure } = order;
    trees.bring_back(&Work {
        plot: Plot { dir, branch: &branch_name(&[wave_id, branch_id]), base },
        left: &format!("{branch_id} of {wave_id}: {}", first_line(objective, SUBJECT)),
        merge: &format!("Merge {branch_id} of {wave_id}\n\n{objective}\n"),
        tree: Some(&**tree).filter(|tree| !tree.is_empty()),
        failure: failure.as_ref().map(Word::as_str),
    })
}

/// Takes away what a wave needs no more: the trees, unless something in one is not committed, and the
/// branches whose commits are elsewhere. Returns what stays, and why: that is no reason to stop a run.
pub(super) fn clear(trees: &Trees, wave: &Wave, dir: impl Fn(&str) -> RunDir) -> Vec<GitError> {
    let branches = wave.branches.iter().enumerate();
    let merges = branches.filter_map(|(place, branch)| Some((place, branch.merge.as_ref()?)));
    let gathered = merges.filter(|(_, merge)| merge.outcome != MergeOutcome::Failed);
    let cleared = gathered.map(|(place, merge)| {
        let dir = dir(&format!("branch-{}", place + 1));
        trees.clear(&Plot { dir: &dir, branch: &merge.branch, base: &wave.base })?;
        match merge.outcome.is_settled() {
            true => {
                let tree = Some(&*merge.tree).filter(|tree| !tree.is_empty());
                trees.drop_branch(&merge.branch, &[&merge.commit], tree)
            }
            false => Ok(()),
        }
    });
    cleared.filter_map(Result::err).collect()
}

fn git_branch(start: &WaveBranchStart) -> String {
    branch_name(&[&start.wave_id, &start.branch_id])
}
