//! Commits of a repository, and checkouts of them that have nothing to do with its worktrees.

use std::path::{Path, PathBuf};

use super::command::Git;
use super::{GitError, Repository};

/// What changed between two commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSummary {
    /// As `2 files changed, 7 insertions(+)`.
    pub counts: String,
    pub files: Vec<String>,
    /// The subjects of its commits, the oldest first.
    pub subjects: Vec<String>,
}

impl Repository {
    /// The commit that a revision names.
    pub fn commit(&self, revision: &str) -> Result<Option<String>, GitError> {
        match revision.starts_with('-') {
            true => Ok(None),
            false => self.git.commit(revision),
        }
    }

    /// Whether `earlier` is `later` or one of its ancestors.
    pub fn contains(&self, later: &str, earlier: &str) -> Result<bool, GitError> {
        self.git.contains(later, earlier)
    }

    /// The branch that is checked out.
    pub fn branch(&self) -> Result<Option<String>, GitError> {
        let reference = self.git.symbolic_ref("HEAD")?;
        Ok(reference.and_then(|name| name.strip_prefix("refs/heads/").map(str::to_owned)))
    }

    /// Where a branch left the main line: the last commit that it has in common with the default branch of `origin`,
    /// or with `main` or `master`.
    pub fn fork_point(&self, branch: &str, tip: &str) -> Result<Option<String>, GitError> {
        for base in ["refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master"] {
            let is_itself = base.strip_prefix("refs/heads/") == Some(branch);
            if let Some(base) = self.git.commit(base)?.filter(|_| !is_itself) {
                let found = self.git.try_run(["merge-base", &base, tip])?;
                return Ok((found.code == 0).then(|| found.line()));
            }
        }
        Ok(None)
    }

    pub fn changes(&self, base: &str, tip: &str) -> Result<ChangeSummary, GitError> {
        let range = [base, tip, "--"];
        let counts = self.git.run(["diff", "--no-ext-diff", "--shortstat"].iter().chain(&range))?;
        let names =
            self.git.run(["diff", "--no-ext-diff", "--name-only", "-z"].iter().chain(&range))?;
        Ok(ChangeSummary {
            counts: counts.line().trim().to_owned(),
            files: names.names().iter().map(|name| name.display().to_string()).collect(),
            subjects: self.subjects(base, tip)?,
        })
    }

    /// Files of the checkout that differ from its commit, and new files.
    pub fn uncommitted_files(&self) -> Result<Vec<PathBuf>, GitError> {
        let changed = self.git.run(["diff", "--no-ext-diff", "--name-only", "-z", "HEAD"])?;
        let new = self.git.run(["ls-files", "--others", "--exclude-standard", "-z"])?;
        Ok([changed.names(), new.names()].concat())
    }

    /// Commits all files of the checkout on the branch that is checked out, if any of them changed.
    pub fn commit_checkout(&self, message: &str) -> Result<(), GitError> {
        self.git.run(["add", "--all"])?;
        let is_same = self.git.try_run(["diff", "--cached", "--quiet", "HEAD"])?.code == 0;
        if !is_same {
            self.git.with_identity()?.run(["commit", "--quiet", "--no-verify", "-m", message])?;
        }
        Ok(())
    }

    /// Creates a repository in `dir` with the files of a commit. It reads commits from this one, in which nothing
    /// changes, whatever is done there.
    pub fn check_out(&self, commit: &str, dir: &Path) -> Result<(), GitError> {
        let clone = ["clone", "--quiet", "--shared", "--no-checkout", "--"].map(AsRef::as_ref);
        self.git.run(clone.into_iter().chain([self.common.as_os_str(), dir.as_os_str()]))?;
        let git = Git::new(dir, self.git.world());
        git.run(["checkout", "--quiet", "--detach", commit]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scene::Scene;

    #[test]
    fn a_checkout_has_the_files_of_its_commit_and_cannot_change_the_repository() {
        let scene = Scene::new();
        let first = scene.git(&["rev-parse", "HEAD"]);
        scene.git(&["checkout", "-q", "-b", "topic"]);
        scene.write("new file", "new").commit("add a file");
        let repository = scene.repository();
        let tip = repository.base().unwrap();
        let dir = scene.place("a checkout");
        repository.check_out(&first, &dir).unwrap();
        assert!(!dir.join("new file").exists());
        assert_eq!(scene.git_in(&dir, &["rev-parse", "HEAD"]), first);
        scene.git_in(
            &dir,
            &[
                "-c",
                "user.name=x",
                "-c",
                "user.email=x",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "x",
            ],
        );
        scene.git_in(&dir, &["branch", "-f", "topic", "HEAD"]);
        assert_eq!(repository.tip("topic").unwrap(), Some(tip.clone()));
        assert_eq!(repository.branch().unwrap().as_deref(), Some("topic"));
        let changes = repository.changes(&first, &tip).unwrap();
        assert_eq!(changes.counts, "1 file changed, 1 insertion(+)");
        assert_eq!(
            (&changes.files[..], &changes.subjects[..]),
            (&["new file".to_owned()][..], &["add a file".to_owned()][..])
        );
        assert!(
            repository.contains(&tip, &first).unwrap()
                && !repository.contains(&first, &tip).unwrap()
        );
        assert_eq!(repository.commit("--help").unwrap(), None);
    }
}
