//! Git, for work that is done beside the tree of the project and brought back into it.
//!
//! A [`Repository`] makes working trees on branches of their own, takes them away again, and
//! [brings back](Repository::bring_back) what was committed on them. A [`Tree`] is one checkout: what
//! is left lying there becomes a commit, and what changed since some commit can be shown.
//!
//! Everything can be asked for again after a crash: what is done already is not done twice, what was
//! done in part is done anew, and a commit goes away only when it is reachable from elsewhere.

mod capture;
mod checkpoint;
mod command;
mod detach;
mod error;
mod gitdir;
mod lockfile;
mod merge_back;
mod name;
mod private;
mod repo_lock;
#[cfg(test)]
mod scene;
mod tree;
mod worktree;

use std::path::{Path, PathBuf};

pub use capture::Captured;
pub use command::LOCATING_VARIABLES;
pub(crate) use command::without_variables;
pub use error::GitError;
pub(crate) use gitdir::noted;
pub use merge_back::{Brought, Change, Offer};
pub use name::branch_name;
pub use tree::{Gathered, Stand, Tree};

use crate::world::World;
use command::Git;
use private::Pinned;

/// The first version that merges without touching files.
const OLDEST: (u32, u32) = (2, 38);

/// A repository, seen from one of its working trees.
#[derive(Clone)]
pub struct Repository {
    git: Git,
    top: PathBuf,
    common: PathBuf,
    prefix: PathBuf,
    /// The directory of git that belongs to this working tree.
    git_dir: PathBuf,
    /// How contents are stored, whatever is configured later.
    pinned: Pinned,
}

impl Repository {
    /// Finds the repository that a directory is in; `None` when it is in none.
    ///
    /// # Errors
    ///
    /// When there is no git, an old one, or one that refuses to work there, and when the repository
    /// has no files.
    pub fn find(dir: &Path, world: &World) -> Result<Option<Repository>, GitError> {
        let git = Git::new(dir, world);
        let version = git.run(["version"])?.line();
        let version = version.trim_start_matches("git version ");
        if !is_new_enough(version) {
            return Err(GitError::TooOld(version.to_owned()));
        }
        let questions = ["--path-format=absolute", "--git-common-dir", "--show-toplevel"];
        let about_here = ["--show-prefix", "--absolute-git-dir"];
        let said = git.ask(["rev-parse"].iter().chain(&questions).chain(&about_here))?;
        let answers = said.out.text();
        let mut answers = answers.split('\n').map(PathBuf::from);
        let mut next = || answers.next().unwrap_or_default();
        if said.code != 0 {
            let is = |told| said.err.contains(told);
            return match () {
                () if is("not a git repository") => Ok(None),
                () if is("must be run in a work tree") => Err(GitError::Bare(next())),
                () if is("dubious ownership") => Err(GitError::Untrusted(dir.to_owned())),
                () => Err(said.failure()),
            };
        }
        let (common, top, prefix, git_dir) = (next(), next(), next(), next());
        // A setting can name another working tree, which is not to be touched for this one.
        if !dir.canonicalize().is_ok_and(|dir| dir.starts_with(&top)) {
            return Err(GitError::Elsewhere { dir: dir.to_owned(), top });
        }
        let pinned = Pinned::read(&git, &common)?;
        Ok(Some(Repository { git: git.at(&top), top, common, prefix, git_dir, pinned }))
    }

    /// The same with the settings that held when another was found, whatever was configured since.
    #[must_use]
    pub fn with_settings_of(self, earlier: &Repository) -> Repository {
        match self.common == earlier.common {
            true => Repository { pinned: earlier.pinned.clone(), ..self },
            false => self,
        }
    }

    /// The top of the working tree that the directory is in.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Where what all its working trees share is kept.
    pub fn common(&self) -> &Path {
        &self.common
    }

    /// Where the directory is below the top; empty for the top itself.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The commit that is checked out: where work begins.
    ///
    /// # Errors
    ///
    /// When there is none yet.
    pub fn base(&self) -> Result<String, GitError> {
        self.commit("HEAD")?.ok_or_else(|| GitError::Unborn(self.top.clone()))
    }

    /// The commit that a branch of ours stands at, if it is there.
    ///
    /// # Errors
    ///
    /// When git cannot say.
    pub fn tip(&self, branch: &str) -> Result<Option<String>, GitError> {
        self.commit(&reference(branch))
    }

    /// The branches on which work is: the one that was made for it, and the one of what somebody did
    /// that does not follow from it.
    ///
    /// # Errors
    ///
    /// When git cannot say.
    pub fn kept_on(&self, branch: &str) -> Result<Vec<String>, GitError> {
        let names = [branch.to_owned(), tree::beside(branch)];
        let words = ["for-each-ref", "--format=%(refname)"].map(str::to_owned);
        let references = names.iter().map(|name| reference(name));
        let said = self.git.run(words.into_iter().chain(references))?.line();
        let is_there = |name: &String| said.lines().any(|line| line == reference(name));
        Ok(names.into_iter().filter(is_there).collect())
    }

    /// A working tree of this repository.
    ///
    /// # Errors
    ///
    /// When there is none with its top at `dir`. A checkout of another repository is none, nor one
    /// that says to be another working tree of this one: whoever worked in it can have written so.
    pub fn tree(&self, dir: &Path) -> Result<Tree, GitError> {
        let known = match dir == self.top {
            true => self.git_dir.clone(),
            false => self.registration(dir).ok_or_else(|| GitError::NotATree(dir.to_owned()))?,
        };
        Tree::at(self, dir, &known)
    }

    /// The subjects of the commits that lead from one commit to another, the first first, as far as anybody reads
    /// them.
    ///
    /// # Errors
    ///
    /// When git cannot say.
    pub fn subjects(&self, base: &str, tip: &str) -> Result<Vec<String>, GitError> {
        const MOST: &str = "--max-count=50";
        let words = ["log", "--reverse", "--no-merges", "--format=%s", MOST];
        let said = self.git.run(words.into_iter().chain([&*format!("{base}..{tip}"), "--"]))?;
        Ok(said.line().lines().map(str::to_owned).collect())
    }

    /// The tree object of a commit.
    ///
    /// # Errors
    ///
    /// When there is no such commit.
    pub fn tree_of(&self, commit: &str) -> Result<String, GitError> {
        tree_of(&self.git, commit)
    }

    /// What differs between a commit and a tree object, with a summary first. More than `limit` bytes are told as
    /// their beginning, their end and how much is between. Neither attributes nor settings hide anything.
    ///
    /// # Errors
    ///
    /// When git cannot say.
    pub fn diff(&self, base: &str, tree: &str, limit: usize) -> Result<String, GitError> {
        self.pinned.diff(&self.git, (base, tree), limit)
    }

    /// The commit that a name stands for.
    fn commit(&self, name: &str) -> Result<Option<String>, GitError> {
        let said =
            self.git.ask(["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")])?;
        Ok((said.code == 0).then(|| said.line()))
    }

    /// Whether all that is in one commit's history is in that of another.
    fn contains(&self, later: &str, earlier: &str) -> Result<bool, GitError> {
        contains(&self.git, later, earlier)
    }
}

fn tree_of(git: &Git, commit: &str) -> Result<String, GitError> {
    Ok(git.run(["rev-parse", "--verify", &format!("{commit}^{{tree}}")])?.line())
}

fn contains(git: &Git, later: &str, earlier: &str) -> Result<bool, GitError> {
    if later == earlier {
        return Ok(true);
    }
    let said = git.ask(["merge-base", "--is-ancestor", earlier, later])?;
    match said.code {
        0 => Ok(true),
        1 => Ok(false),
        _ => Err(said.failure()),
    }
}

/// The whole name of a branch, which no tag or file of the same name can be taken for.
fn reference(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// Whether a version is one that we can use; in doubt it is.
fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split(['.', ' ', '-']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= OLDEST,
        _ => true,
    }
}

/// What somebody has begun in a working tree and not ended: its files are not to be touched.
fn under_way(git_dir: &Path) -> Option<&'static str> {
    let signs = [
        ("MERGE_HEAD", "a merge"),
        ("rebase-merge", "a rebase"),
        ("rebase-apply", "a rebase"),
        ("CHERRY_PICK_HEAD", "a cherry-pick"),
        ("REVERT_HEAD", "a revert"),
        ("sequencer", "a cherry-pick"),
    ];
    signs.into_iter().find(|(name, _)| git_dir.join(name).exists()).map(|(_, what)| what)
}

#[cfg(test)]
mod tests {
    use super::scene::Scene;
    use super::*;

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
