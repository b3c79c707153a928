//! References below a name: branches of ours, and references that keep commits which are on no branch.

use std::path::PathBuf;

use super::{GitError, Repository, ref_component};

/// Below it are references to commits that are kept, in a directory per owner.
const KEPT: &str = "refs/autoloop/kept";

/// A reference to a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub name: String,
    pub commit: String,
    /// The worktree in which it is checked out.
    pub checked_out: Option<PathBuf>,
}

impl Repository {
    /// Keeps a commit for an owner, until it is forgotten.
    pub fn keep(&self, owner: &[&str], commit: &str) -> Result<(), GitError> {
        let name = format!("{}/{commit}", kept_by(owner));
        self.git.update_ref(&name, commit, "kept")
    }

    /// The commits that are kept for an owner and for those below it.
    pub fn kept(&self, owner: &[&str]) -> Result<Vec<Reference>, GitError> {
        self.references(&kept_by(owner))
    }

    /// The branches below a name.
    pub fn branches_below(&self, name: &str) -> Result<Vec<Reference>, GitError> {
        self.references(&super::reference(name))
    }

    pub fn delete(&self, reference: &Reference) -> Result<(), GitError> {
        self.git.delete_ref(&reference.name, &reference.commit)
    }

    /// Points a branch at a commit from which all of these are reachable, with the files of the first.
    pub fn keep_on_branch(
        &self,
        branch: &str,
        commits: &[String],
        message: &str,
    ) -> Result<(), GitError> {
        let [first, ..] = commits else { return Ok(()) };
        let words = ["merge-base", "--independent"].map(str::to_owned);
        let found = self.git.run(words.iter().chain(commits))?.line();
        let tip = match found.lines().collect::<Vec<_>>()[..] {
            [tip] => tip.to_owned(),
            ref tips => {
                self.git.with_identity()?.commit_tree(&self.tree_of(first)?, tips, message)?
            }
        };
        self.git.update_ref(&super::reference(branch), &tip, "kept")
    }

    /// Whether a commit is reachable from a branch or tag.
    pub fn is_on_branch(&self, commit: &str) -> Result<bool, GitError> {
        let words = ["for-each-ref", "--count=1", "--contains", commit, "refs/heads", "refs/tags"];
        Ok(!self.git.run(words)?.line().is_empty())
    }

    fn references(&self, below: &str) -> Result<Vec<Reference>, GitError> {
        let format = "--format=%(refname)%00%(objectname)%00%(objecttype)%00%(worktreepath)";
        let listed = self.git.run(["for-each-ref", format, &format!("{below}/")])?.line();
        let references = listed.lines().filter_map(|line| {
            let [name, commit, kind, worktree] = line.split('\0').collect::<Vec<_>>()[..] else {
                return None;
            };
            let checked_out = Some(worktree).filter(|path| !path.is_empty()).map(PathBuf::from);
            let (name, commit) = (name.to_owned(), commit.to_owned());
            (kind == "commit").then_some(Reference { name, commit, checked_out })
        });
        Ok(references.collect())
    }
}

fn kept_by(owner: &[&str]) -> String {
    let owner = owner.iter().map(|part| ref_component(part));
    [KEPT.to_owned()].into_iter().chain(owner).collect::<Vec<_>>().join("/")
}
