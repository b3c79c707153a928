//! The change under review, as git describes it.

use std::path::{Path, PathBuf};

use super::DriveError;
use crate::git::{ChangeSummary, GitError, Repository};
use crate::world::World;

/// How many names are listed.
const NAMED: usize = 50;

/// What an author asks a reviewer to judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub branch: String,
    pub commit: String,
    /// The commit that it is compared with.
    pub base: String,
    pub summary: ChangeSummary,
    /// Files with changes that are not committed, and so not reviewed.
    pub uncommitted: Vec<PathBuf>,
}

pub(super) fn repository(dir: &Path, world: &World) -> Result<Repository, DriveError> {
    Repository::find(dir, world)?.ok_or_else(|| GitError::Outside(dir.to_owned()).into())
}

impl Change {
    /// The branch that is checked out, compared with a revision or with the main branch.
    pub fn of_checkout(
        dir: &Path,
        base: Option<&str>,
        world: &World,
    ) -> Result<Change, DriveError> {
        let repository = repository(dir, world)?;
        let commit = repository.base()?;
        let branch = repository.branch()?.ok_or(DriveError::NoBranch)?;
        let found = match base {
            Some(base) => repository.commit(base)?,
            None => repository.fork_point(&branch, &commit)?,
        };
        let missing =
            || DriveError::NoBase { branch: branch.clone(), base: base.map(str::to_owned) };
        let base = found.ok_or_else(missing)?;
        let summary = repository.changes(&base, &commit)?;
        let uncommitted = repository.uncommitted_files()?;
        Ok(Change { branch, commit, base, summary, uncommitted })
    }
}

impl Change {
    /// The branch that is checked out.
    pub fn branch_of(dir: &Path, world: &World) -> Result<String, DriveError> {
        repository(dir, world)?.branch()?.ok_or(DriveError::NoBranch)
    }

    pub fn uncommitted(dir: &Path, world: &World) -> Result<Vec<PathBuf>, DriveError> {
        Ok(repository(dir, world)?.uncommitted_files()?)
    }

    /// The last commit of a branch, if it exists.
    pub fn tip(dir: &Path, branch: &str, world: &World) -> Result<Option<String>, DriveError> {
        Ok(repository(dir, world)?.tip(branch)?)
    }

    /// What was committed after a reviewed commit, up to `tip` or the commit that is checked out.
    pub fn since(
        dir: &Path,
        reviewed: &str,
        tip: Option<&str>,
        world: &World,
    ) -> Result<Change, DriveError> {
        let repository = repository(dir, world)?;
        let found = repository.commit(tip.unwrap_or("HEAD"))?;
        let commit = found.ok_or_else(|| DriveError::NoCommit(tip.unwrap_or("HEAD").to_owned()))?;
        if commit == reviewed || !repository.contains(&commit, reviewed)? {
            return Err(DriveError::NotDescendant { commit, reviewed: reviewed.to_owned() });
        }
        let summary = repository.changes(reviewed, &commit)?;
        let (branch, base, uncommitted) = (String::new(), reviewed.to_owned(), Vec::new());
        Ok(Change { branch, commit, base, summary, uncommitted })
    }
}

/// The summary of a change for a message.
pub fn describe(changes: &ChangeSummary) -> String {
    let list = |items: &[String]| {
        let named = items.iter().take(NAMED).map(|item| format!("- {item}\n")).collect::<String>();
        let more = items.len().saturating_sub(NAMED);
        if more == 0 { named } else { format!("{named}- and {more} more\n") }
    };
    let counts = if changes.counts.is_empty() { "no changes" } else { &changes.counts };
    format!("{counts}\n\nCommits:\n{}\nFiles:\n{}", list(&changes.subjects), list(&changes.files))
}

/// Commits what an author's agent left in the checkout. `Ok(Err)` is why its work cannot be reviewed.
pub(super) fn commit(
    repository: &Repository,
    branch: &str,
    reviewed: &str,
    message: &str,
) -> Result<Result<String, String>, DriveError> {
    match repository.branch()? {
        Some(now) if now == branch => {}
        now => {
            let now = now.unwrap_or_else(|| "a detached commit".to_owned());
            return Ok(Err(format!("the author checked out {now} instead of {branch}")));
        }
    }
    repository.commit_checkout(message)?;
    let tip = repository.base()?;
    Ok(match repository.contains(&tip, reviewed)? {
        true if tip == reviewed => Err("the author changed nothing".to_owned()),
        true => Ok(tip),
        false => Err(format!("the author rewrote the history of {branch}")),
    })
}
