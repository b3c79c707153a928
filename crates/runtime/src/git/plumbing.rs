//! The plumbing commands that the other modules share: commits, trees and references.

use std::path::PathBuf;

use super::GitError;
use super::command::Git;

/// Name and address of the committer where git knows none.
const FALLBACK_IDENTITY: (&str, &str) = ("autoloop", "autoloop@localhost");

/// How two commits merge.
pub(super) enum Merge {
    /// The second is a descendant of the first.
    FastForward,
    /// The merged tree object.
    Tree(String),
    /// The files that were changed differently.
    Conflict(Vec<PathBuf>),
}

impl Git {
    /// The commit that a name resolves to.
    pub(super) fn commit(&self, name: &str) -> Result<Option<String>, GitError> {
        let name = format!("{name}^{{commit}}");
        let output = self.try_run(["rev-parse", "--verify", "--quiet", &name])?;
        Ok((output.code == 0).then(|| output.line()))
    }

    pub(super) fn tree_of(&self, commit: &str) -> Result<String, GitError> {
        Ok(self.run(["rev-parse", "--verify", &format!("{commit}^{{tree}}")])?.line())
    }

    /// Whether `earlier` is `later` or one of its ancestors.
    pub(super) fn contains(&self, later: &str, earlier: &str) -> Result<bool, GitError> {
        if later == earlier {
            return Ok(true);
        }
        let output = self.try_run(["merge-base", "--is-ancestor", earlier, later])?;
        match output.code {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(output.failure()),
        }
    }

    /// The branch that a symbolic reference leads to; `None` if it is not symbolic.
    pub(super) fn symbolic_ref(&self, name: &str) -> Result<Option<String>, GitError> {
        let output = self.try_run(["symbolic-ref", "--quiet", name])?;
        Ok((output.code == 0).then(|| output.line()))
    }

    /// Points a reference at a commit: the name itself, not a branch that an agent made it a symbolic name for.
    /// The reason goes to the log of the reference.
    pub(super) fn update_ref(&self, name: &str, commit: &str, why: &str) -> Result<(), GitError> {
        self.run(["update-ref", "--no-deref", "-m", why, name, commit]).map(drop)
    }

    /// Deletes a reference if it still has this value.
    pub(super) fn delete_ref(&self, name: &str, value: &str) -> Result<(), GitError> {
        self.run(["update-ref", "--no-deref", "-d", name, value]).map(drop)
    }

    /// Makes a commit of a tree object.
    pub(super) fn commit_tree(
        &self,
        tree: &str,
        parents: &[&str],
        message: &str,
    ) -> Result<String, GitError> {
        let parents = parents.iter().flat_map(|parent| ["-p", *parent]);
        let words = ["commit-tree", tree].into_iter().chain(parents).chain(["-m", message]);
        Ok(self.run(words)?.line())
    }

    /// Merges two commits without touching a file.
    pub(super) fn merge(&self, head: &str, tip: &str) -> Result<Merge, GitError> {
        if self.contains(tip, head)? {
            return Ok(Merge::FastForward);
        }
        let words = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", head, tip];
        let output = self.try_run(words)?;
        let mut answer = output.names();
        match (output.code, answer.is_empty()) {
            (0, false) => Ok(Merge::Tree(answer.swap_remove(0).to_string_lossy().into_owned())),
            (1, false) => Ok(Merge::Conflict(answer.split_off(1))),
            _ => Err(output.failure()),
        }
    }

    /// The same with a committer: the user, or autoloop where git does not know the user.
    pub(super) fn with_identity(&self) -> Result<Git, GitError> {
        let known =
            self.try_run(["-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"])?;
        Ok(if known.code == 0 { self.clone() } else { self.as_autoloop() })
    }

    pub(super) fn as_autoloop(&self) -> Git {
        let (name, email) = FALLBACK_IDENTITY;
        let author = self.with("GIT_AUTHOR_NAME", name).with("GIT_AUTHOR_EMAIL", email);
        author.with("GIT_COMMITTER_NAME", name).with("GIT_COMMITTER_EMAIL", email)
    }
}

/// The full name of a branch, which cannot be confused with a tag or file of the same name.
pub(super) fn reference(branch: &str) -> String {
    format!("refs/heads/{branch}")
}
