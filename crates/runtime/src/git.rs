//! Git: worktrees in which agents work beside the project, and the way back from them.
//!
//! A [`Repository`] adds and removes worktrees on branches of their own and
//! [merges](Repository::merge_back) what was made in them. A [`Worktree`] is one checkout: its files can be
//! committed, captured as a tree object and compared.
//!
//! Every operation can be repeated after a crash: what was completed is not done twice, what was half done is
//! done again, and a commit is deleted only when it is reachable from elsewhere.

#![expect(clippy::disallowed_methods, reason = "git is a real program that works on real files")]

mod capture;
mod checkpoint;
mod command;
mod conflict;
mod detach;
mod error;
mod gitdir;
mod history;
mod lockfile;
mod merge_back;
mod private;
mod references;
#[cfg(test)]
pub(crate) mod scene;
mod worktree;
mod worktrees;

use std::path::{Path, PathBuf};

pub use capture::Captured;
pub use command::LOCATING_VARIABLES;
pub(crate) use command::without_variables;
pub use conflict::{Resolution, Sides};
pub use error::GitError;
pub(crate) use error::short;
pub(crate) use gitdir::{common_dir, git_dir_at, linked_dot_git};
pub use history::ChangeSummary;
pub use merge_back::{Advanced, Change, MergeBack, Prepared, ProposedMerge};
pub use references::Reference;
pub use worktree::{CommittedWork, HeadState, WorkBranch, Worktree};

use crate::world::World;
use command::{Git, reference};
use private::Pinned;

/// The first version that merges without touching files.
const OLDEST: (u32, u32) = (2, 38);

#[derive(Clone)]
pub struct Repository {
    git: Git,
    top: PathBuf,
    common: PathBuf,
    prefix: PathBuf,
    git_dir: PathBuf,
    pinned: Pinned,
}

impl Repository {
    /// Finds the repository that a directory is in; `None` when it is in none.
    pub fn find(dir: &Path, world: &World) -> Result<Option<Repository>, GitError> {
        let git = Git::new(dir, world);
        let version = git.run(["version"])?.line();
        let version = version.trim_start_matches("git version ");
        if !is_new_enough(version) {
            return Err(GitError::TooOld(version.to_owned()));
        }
        let questions = ["--path-format=absolute", "--git-common-dir", "--show-toplevel"];
        let about_here = ["--show-prefix", "--absolute-git-dir"];
        let output = git.try_run(["rev-parse"].iter().chain(&questions).chain(&about_here))?;
        let answers = output.out.text();
        let mut answers = answers.split('\n').map(PathBuf::from);
        let mut next = || answers.next().unwrap_or_default();
        if output.code != 0 {
            let has = |text| output.err.contains(text);
            return match () {
                () if has("not a git repository") => Ok(None),
                () if has("must be run in a work tree") => Err(GitError::Bare(next())),
                () if has("dubious ownership") => Err(GitError::Untrusted(dir.to_owned())),
                () => Err(output.failure()),
            };
        }
        let (common, top, prefix, git_dir) = (next(), next(), next(), next());
        // `core.worktree` can name another directory, which must not be changed in place of this one.
        if !dir.canonicalize().is_ok_and(|dir| dir.starts_with(&top)) {
            return Err(GitError::Elsewhere { dir: dir.to_owned(), top });
        }
        let pinned = Pinned::read(&git, &common)?;
        Ok(Some(Repository { git: git.at(&top), top, common, prefix, git_dir, pinned }))
    }

    /// The same with the settings that were in force when `earlier` was found, whatever was configured since.
    #[must_use]
    pub fn with_settings_of(self, earlier: &Repository) -> Repository {
        match self.common == earlier.common {
            true => Repository { pinned: earlier.pinned.clone(), ..self },
            false => self,
        }
    }

    pub fn top(&self) -> &Path {
        &self.top
    }

    pub fn common(&self) -> &Path {
        &self.common
    }

    /// The path of the directory below the top; empty for the top itself.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    pub fn base(&self) -> Result<String, GitError> {
        self.git.commit("HEAD")?.ok_or_else(|| GitError::Unborn(self.top.clone()))
    }

    pub fn tip(&self, branch: &str) -> Result<Option<String>, GitError> {
        self.git.commit(&reference(branch))
    }

    /// The branches that hold work: the one made for it, and the one for commits that diverged from it.
    pub fn work_branches(&self, branch: &str) -> Result<Vec<String>, GitError> {
        let names = [branch.to_owned(), worktree::diverged(branch)];
        let words = ["for-each-ref", "--format=%(refname)"].map(str::to_owned);
        let references = names.iter().map(|name| reference(name));
        let found = self.git.run(words.into_iter().chain(references))?.line();
        let exists = |name: &String| found.lines().any(|line| line == reference(name));
        Ok(names.into_iter().filter(exists).collect())
    }

    /// A worktree of this repository, by its top directory. A checkout of another repository is refused, and
    /// one whose files claim to be another worktree: an agent that worked in it can have written them.
    pub fn worktree(&self, dir: &Path) -> Result<Worktree, GitError> {
        let git_dir = match dir == self.top {
            true => self.git_dir.clone(),
            false => self.registration(dir).ok_or_else(|| GitError::NotATree(dir.to_owned()))?,
        };
        Worktree::at(self, dir, &git_dir)
    }

    /// The files in the place of a worktree, only to be captured: even if an agent broke what links them with the
    /// repository. A link in this place is not followed.
    pub fn files_in_place(&self, dir: &Path) -> Result<Worktree, GitError> {
        match dir.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(found) if found.is_symlink() => return Err(GitError::Link(dir.to_owned())),
            _ => return Err(GitError::NotATree(dir.to_owned())),
        }
        let own = self.registration(dir).filter(|own| gitdir::is_sound(own, &self.common));
        // Without an index that can be read, the names are those of the base.
        let own = own.unwrap_or_else(|| self.common.join("worktrees"));
        Ok(Worktree::of_files(self, dir, &own))
    }

    /// The commit that is checked out in a worktree, whatever its files claim.
    pub fn head_in(&self, dir: &Path) -> Result<Option<String>, GitError> {
        let own = self.registration(dir).filter(|own| gitdir::is_sound(own, &self.common));
        own.map_or(Ok(None), |own| self.git.with("GIT_DIR", &own).commit("HEAD"))
    }

    /// The subjects of the first 50 commits from one commit to another, the oldest first.
    pub fn subjects(&self, base: &str, tip: &str) -> Result<Vec<String>, GitError> {
        let words = ["log", "--reverse", "--no-merges", "--format=%s", "--max-count=50"];
        let output = self.git.run(words.into_iter().chain([&*format!("{base}..{tip}"), "--"]))?;
        Ok(output.line().lines().map(str::to_owned).collect())
    }

    pub fn tree_of(&self, commit: &str) -> Result<String, GitError> {
        self.git.tree_of(commit)
    }

    /// The difference between a commit and a tree object, with a summary first. Of more than `limit` bytes the
    /// beginning, the end and the number of bytes between are kept. Neither attributes nor settings hide anything.
    pub fn diff(&self, base: &str, tree: &str, limit: usize) -> Result<String, GitError> {
        let private = self.pinned.open(&self.git)?;
        let plain =
            ["--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/"];
        let words = ["diff", "--patch-with-stat", "--submodule=short"].into_iter();
        let words = words.chain(plain).chain([base, tree, "--"]);
        Ok(private.git().keeping(limit / 2).run(words)?.out.text())
    }

    /// Git in the checkout of the project, with its lock held and as it was configured when the repository was found.
    fn lock_project(&self) -> Result<Git, GitError> {
        let git = self.git.locked(&self.common.join("autoloop.lock"))?;
        let git = git.with("GIT_DIR", &self.git_dir).with("GIT_WORK_TREE", &self.top);
        self.pinned.as_configured(&git)
    }
}

/// A branch name made of parts that may be any text: no part becomes several, and git accepts the name. Parts
/// that had to be changed get a checksum.
pub fn branch_name(parts: &[&str]) -> String {
    let parts = parts.iter().map(|part| ref_component(part));
    ["autoloop".to_owned()].into_iter().chain(parts).collect::<Vec<_>>().join("/")
}

fn ref_component(part: &str) -> String {
    const LONGEST: usize = 80;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name: String =
        part.chars().take(LONGEST).map(|c| if is_plain(c) { c } else { '-' }).collect();
    let name = name.trim_start_matches('-');
    if name == part && !name.is_empty() {
        return name.to_owned();
    }
    let dash = if name.is_empty() { "" } else { "-" };
    format!("{name}{dash}{:08x}", crc32fast::hash(part.as_bytes()))
}

/// Whether a version can be used. An unreadable one is tried.
fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split(['.', ' ', '-']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= OLDEST,
        _ => true,
    }
}

/// The files that show that an operation was started in a worktree and not finished.
const OPERATION_SIGNS: [(&str, &str); 6] = [
    ("MERGE_HEAD", "a merge"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("sequencer", "a cherry-pick"),
];

/// The operation that was started in a worktree and not finished. Its files must not be touched.
fn operation_in_progress(git_dir: &Path) -> Option<&'static str> {
    let mut signs = OPERATION_SIGNS.into_iter();
    signs.find(|(name, _)| git_dir.join(name).exists()).map(|(_, what)| what)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::scene::Scene;
    use super::*;

    #[test]
    fn parts_stay_parts() {
        assert_eq!(
            branch_name(&["swift-otter-wave-1", "branch-2"]),
            "autoloop/swift-otter-wave-1/branch-2"
        );
        assert_eq!(branch_name(&["a.lock"]), "autoloop/a-lock-aa50a82b");
        assert_ne!(branch_name(&["a.b"]), branch_name(&["a-b"]));
        assert_ne!(branch_name(&["a.b"]), branch_name(&["a@b"]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn git_takes_every_name(first in ".{0,90}", second in "[-.@{/~^:a]{0,9}") {
            let name = branch_name(&[&first, &second]);
            prop_assert_eq!(name.matches('/').count(), 2);
            let checked = Command::new("git").args(["check-ref-format", "--branch", &name]).output();
            prop_assert!(checked.unwrap().status.success(), "{name}");
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(
            is_new_enough("2.38.0")
                && is_new_enough("2.47.3 (Apple Git-1)")
                && is_new_enough("3.0")
        );
        assert!(!is_new_enough("2.34.1") && !is_new_enough("1.9"));
        assert!(is_new_enough("unheard of"));
    }

    #[test]
    fn a_repository_is_found_from_within() {
        let scene = Scene::new();
        scene.write("sub/dir/file", "x");
        let found = Repository::find(&scene.top.join("sub/dir"), &scene.world).unwrap().unwrap();
        assert_eq!((found.top(), found.prefix()), (&*scene.top, Path::new("sub/dir/")));
        assert_eq!(found.common, scene.top.join(".git"));
        assert_eq!(found.base().unwrap(), scene.git(&["rev-parse", "HEAD"]));
        let outside = tempfile::tempdir().unwrap();
        assert!(Repository::find(outside.path(), &scene.world).unwrap().is_none());
    }

    #[test]
    fn what_cannot_be_worked_in_is_told() {
        let scene = Scene::empty();
        let unborn = Repository::find(&scene.top, &scene.world).unwrap().unwrap();
        assert!(matches!(unborn.base(), Err(GitError::Unborn(_))));
        let bare = scene.top.join("bare.git");
        scene.git(&["init", "-q", "--bare", "bare.git"]);
        assert!(matches!(Repository::find(&bare, &scene.world), Err(GitError::Bare(_))));
        scene.git(&["config", "core.worktree", &bare.display().to_string()]);
        let elsewhere = Repository::find(&scene.top, &scene.world);
        assert!(matches!(elsewhere, Err(GitError::Elsewhere { .. })));
    }
}
