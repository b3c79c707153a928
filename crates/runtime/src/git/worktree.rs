//! Working trees on branches of their own: made, taken away, made again after a crash.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::gitdir::noted;
use super::{GitError, Repository, Tree, reference, repo_lock};
use crate::private_files;

/// The reason for which a working tree is locked until it has all of its files.
const UNFINISHED: &str = "initializing";

impl Repository {
    /// Makes a working tree on a branch that begins at a commit, and returns it. One that is there
    /// already stays as it is, with everything in it; one that was made in part is completed or made
    /// anew; and a branch that is there without a tree is checked out as it is.
    ///
    /// # Errors
    ///
    /// When git cannot make it.
    pub fn add_worktree(&self, dir: &Path, branch: &str, base: &str) -> Result<Tree, GitError> {
        self.register_worktree(dir, branch, base)?;
        if let Some(mark) = self.unfinished(dir) {
            self.git.at(dir).run(["reset", "--hard", "--quiet"])?;
            fs::remove_file(&mark).map_err(GitError::io("remove", mark))?;
        }
        self.tree(dir)
    }

    /// The first half of [`Repository::add_worktree`]: git knows of the tree, and it has no files yet.
    /// A git that looks at all working trees stumbles over one that is just being made, so whoever
    /// makes several does this for all of them before anybody works in one.
    ///
    /// # Errors
    ///
    /// When git cannot make it.
    pub fn register_worktree(&self, dir: &Path, branch: &str, base: &str) -> Result<(), GitError> {
        let git = self.git.holding(self.lock_worktrees()?);
        match self.tree(dir) {
            Err(GitError::NotATree(_)) => self.forget(dir)?,
            tree => return tree.map(drop),
        }
        if let Some(parent) = dir.parent() {
            private_files::create_dirs(parent).map_err(GitError::io("make", parent))?;
        }
        if self.tip(branch)?.is_none() {
            // With an old value of nothing, so that a branch that somebody else makes is not moved.
            git.run(["update-ref", &reference(branch), base, ""])?;
        }
        let words = ["worktree", "add", "--quiet", "--no-guess-remote", "--no-checkout"];
        let marked = ["--lock", "--reason", UNFINISHED];
        let words = words.iter().chain(&marked).map(AsRef::as_ref);
        git.run(words.chain([dir.as_os_str(), branch.as_ref()]))?;
        Ok(())
    }

    /// Whether a working tree was made in part only: nobody removed the files that it lacks.
    pub fn is_unfinished(&self, dir: &Path) -> bool {
        self.unfinished(dir).is_some()
    }

    /// The mark of a working tree that has not all of its files yet. Git itself marks one like this.
    fn unfinished(&self, dir: &Path) -> Option<PathBuf> {
        let mark = self.registration(dir)?.join("locked");
        let why = noted(&mark)?;
        (why.trim_ascii_end() == UNFINISHED.as_bytes()).then_some(mark)
    }

    /// Takes a working tree away, with whatever is in it. One that is gone, wholly or in part, is
    /// forgotten.
    ///
    /// # Errors
    ///
    /// When something in it cannot be removed.
    pub fn remove_worktree(&self, dir: &Path) -> Result<(), GitError> {
        let _lock = self.lock_worktrees()?;
        self.forget(dir)
    }

    fn forget(&self, dir: &Path) -> Result<(), GitError> {
        let registered = self.registration(dir);
        // The files first: as long as git knows of the tree, it can be found and removed again. All of
        // them at once: the half of a tree would be taken for the work of somebody who removed the rest.
        let doomed = dir.with_extension("removed");
        remove_all(&doomed).map_err(GitError::io("remove", &doomed))?;
        match fs::rename(dir, &doomed) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(GitError::io("remove", dir)(error));
            }
            _ => {}
        }
        remove_all(&doomed).map_err(GitError::io("remove", &doomed))?;
        if let Some(registered) = registered {
            // At once, so that no git finds half of it.
            let aside = self.common.join("autoloop-removed");
            remove_all(&aside).map_err(GitError::io("remove", &aside))?;
            match fs::rename(&registered, &aside) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(GitError::io("remove", registered)(error));
                }
                _ => {}
            }
            remove_all(&aside).map_err(GitError::io("remove", &aside))?;
        }
        Ok(())
    }

    /// Only one process at a time makes or removes working trees.
    fn lock_worktrees(&self) -> Result<Arc<File>, GitError> {
        repo_lock::lock(&self.common.join("autoloop-worktrees.lock"), self.git.world())
    }

    /// Deletes a branch if all of it is reachable from a commit, and says whether it is gone.
    ///
    /// # Errors
    ///
    /// When git cannot say or do it.
    pub fn delete_branch(&self, branch: &str, reachable_from: &str) -> Result<bool, GitError> {
        let Some(tip) = self.tip(branch)? else { return Ok(true) };
        if !self.contains(reachable_from, &tip)? {
            return Ok(false);
        }
        // Only as long as it stands where we looked; and if it is a name for another branch, only the name.
        self.git.run(["update-ref", "--no-deref", "-d", &reference(branch), &tip])?;
        Ok(true)
    }

    /// Deletes a branch whose files are those of a tree object, which was brought back: nothing else is on it but the
    /// way that they were made.
    ///
    /// # Errors
    ///
    /// When git cannot say or do it.
    pub fn delete_merged(&self, branch: &str, tree: &str) -> Result<(), GitError> {
        if let Some(tip) = self.tip(branch)?
            && self.tree_of(&tip)? == tree
        {
            self.git.run(["update-ref", "--no-deref", "-d", &reference(branch), &tip])?;
        }
        Ok(())
    }

    /// Where git keeps what it knows about a working tree.
    pub(super) fn registration(&self, dir: &Path) -> Option<PathBuf> {
        // The tree may be gone, and the directory that it was in too.
        let real = dir.parent().and_then(|parent| parent.canonicalize().ok());
        let real = real.zip(dir.file_name()).map(|(parent, name)| parent.join(name));
        let real = real.as_deref().unwrap_or(dir).join(".git");
        let known = fs::read_dir(self.common.join("worktrees")).ok()?.flatten();
        let known: Vec<(PathBuf, PathBuf)> = known
            .filter_map(|entry| {
                let own = entry.path();
                let text = noted(&own.join("gitdir"))?;
                let link = own.join(std::ffi::OsStr::from_bytes(text.trim_ascii()));
                Some((own, link))
            })
            .collect();
        let is_there = |link: &Path| link.canonicalize().is_ok_and(|link| link == real);
        // By its name first: where another tree is a link to this one, both seem to be here.
        let by_name = known.iter().find(|(_, link)| *link == real);
        let found = by_name.or_else(|| known.iter().find(|(_, link)| is_there(link)));
        found.map(|(own, _)| own.clone())
    }
}

/// Removes a directory with all that is in it, also where somebody forbade writing.
fn remove_all(dir: &Path) -> io::Result<()> {
    let removed = match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => fs::remove_file(dir),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_up(dir)?;
            fs::remove_dir_all(dir)
        }
        removed => removed,
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn open_up(dir: &Path) -> io::Result<()> {
    // What a link leads to is not ours.
    if fs::symlink_metadata(dir)?.is_symlink() {
        return Ok(());
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::scene::Scene;
    use super::*;

    #[test]
    fn a_tree_is_made_once_and_stays_as_it_is() {
        let scene = Scene::new();
        let repository = scene.repository();
        let (dir, base) = (scene.place("one/tree"), repository.base().unwrap());
        repository.add_worktree(&dir, "autoloop/x/one", &base).unwrap();
        fs::write(dir.join("file"), "changed").unwrap();
        repository.add_worktree(&dir, "autoloop/x/one", &base).unwrap();
        assert_eq!(scene.read("state/one/tree/file"), "changed");
        assert_eq!(scene.git_in(&dir, &["branch", "--show-current"]), "autoloop/x/one");
        assert_eq!(scene.git(&["status", "--porcelain"]), "");

        fs::create_dir(dir.join("shut")).unwrap();
        fs::write(dir.join("shut/file"), "").unwrap();
        fs::set_permissions(dir.join("shut"), fs::Permissions::from_mode(0o500)).unwrap();
        repository.remove_worktree(&dir).unwrap();
        repository.remove_worktree(&dir).unwrap();
        assert_eq!(scene.git(&["worktree", "list"]).lines().count(), 1);
        assert!(repository.delete_branch("autoloop/x/one", &base).unwrap());
        assert!(repository.delete_branch("autoloop/x/one", &base).unwrap());
        assert_eq!(scene.git(&["branch", "--list"]), "* main");
    }

    #[test]
    fn a_tree_that_was_made_in_part_is_made_anew() {
        let scene = Scene::new();
        let repository = scene.repository();
        let (dir, base) = (scene.place("tree"), repository.base().unwrap());
        let make = || repository.add_worktree(&dir, "autoloop/x", &base).unwrap();
        let own = || fs::read_dir(scene.top.join(".git/worktrees")).unwrap().flatten().next();
        make();
        fs::write(own().unwrap().path().join("locked"), "initializing").unwrap();
        fs::remove_file(dir.join("file")).unwrap();
        assert!(repository.is_unfinished(&dir));
        make();
        assert!(!repository.is_unfinished(&dir));
        assert!(dir.join("file").exists());
        // Its directory is gone, and git still knows of it.
        fs::remove_dir_all(&dir).unwrap();
        make();
        assert!(dir.join("file").exists());
        // It is there, and git knows nothing of it.
        fs::remove_dir_all(own().unwrap().path()).unwrap();
        make();
        assert_eq!(scene.git_in(&dir, &["status", "--porcelain"]), "");
        assert_eq!(scene.git(&["worktree", "list"]).lines().count(), 2);
    }

    #[test]
    fn a_tree_is_never_seen_to_be_removed_in_part() {
        let scene = Scene::new();
        let repository = scene.repository();
        let (dir, base) = (scene.place("tree"), repository.base().unwrap());
        repository.add_worktree(&dir, "autoloop/x", &base).unwrap();
        (0..500).for_each(|n| fs::write(dir.join(n.to_string()), "").unwrap());
        let entries = || fs::read_dir(&dir).map(Iterator::count);
        let all = entries().unwrap();
        // What a crash left, or somebody put there.
        fs::write(dir.with_extension("removed"), "in the way").unwrap();
        std::thread::scope(|scope| {
            let removal = scope.spawn(|| repository.remove_worktree(&dir).unwrap());
            while !removal.is_finished() {
                let seen = entries().unwrap_or(0);
                assert!(seen == all || !dir.join(".git").exists(), "{seen} of {all}");
            }
        });
        assert!(!dir.exists() && !dir.with_extension("removed").exists());
        assert_eq!(scene.git(&["worktree", "list"]).lines().count(), 1);
    }

    #[test]
    fn commits_of_a_branch_without_a_tree_are_kept() {
        let scene = Scene::new();
        let repository = scene.repository();
        let (dir, base) = (scene.place("tree"), repository.base().unwrap());
        repository.add_worktree(&dir, "autoloop/x", &base).unwrap();
        fs::write(dir.join("new"), "work").unwrap();
        scene.git_in(&dir, &["add", "new"]);
        scene.git_in(&dir, &["commit", "-q", "-m", "work"]);
        repository.remove_worktree(&dir).unwrap();
        assert!(!repository.delete_branch("autoloop/x", &base).unwrap());
        repository.add_worktree(&dir, "autoloop/x", &base).unwrap();
        assert!(dir.join("new").exists());
    }

    #[test]
    fn what_a_link_leads_to_is_left_alone() {
        let scene = Scene::new();
        let repository = scene.repository();
        let (dir, base) = (scene.place("one/tree"), repository.base().unwrap());
        let make = || repository.add_worktree(&dir, "autoloop/x", &base);
        make().unwrap();
        scene.write("other/file", "mine");
        let other = scene.top.join("other");
        fs::set_permissions(&other, fs::Permissions::from_mode(0o500)).unwrap();
        fs::rename(&dir, scene.place("aside")).unwrap();
        std::os::unix::fs::symlink(&other, &dir).unwrap();
        open_up(&dir).unwrap();
        make().unwrap();
        assert!(dir.join("file").exists() && !dir.is_symlink());
        assert_eq!(scene.read("other/file"), "mine");
        assert_eq!(fs::metadata(&other).unwrap().permissions().mode() & 0o777, 0o500);
        // Nor where a lock is to be.
        let lock = scene.top.join(".git/autoloop-worktrees.lock");
        fs::remove_file(&lock).unwrap();
        std::os::unix::fs::symlink(scene.top.join("astray"), &lock).unwrap();
        assert!(make().is_err() && !scene.top.join("astray").exists());
    }

    #[test]
    fn a_tree_is_not_taken_for_another_that_leads_to_it() {
        let scene = Scene::new();
        let repository = scene.repository();
        let base = repository.base().unwrap();
        let names = ["1", "2", "3", "4", "5"];
        for name in names {
            let dir = scene.place(&format!("{name}/tree"));
            repository.add_worktree(&dir, &format!("autoloop/{name}"), &base).unwrap();
        }
        let known =
            names.map(|name| repository.registration(&scene.place(&format!("{name}/tree"))));
        for name in &names[1..] {
            let dir = scene.place(&format!("{name}/tree"));
            fs::remove_dir_all(&dir).unwrap();
            std::os::unix::fs::symlink("../1/tree", dir).unwrap();
        }
        assert_eq!(repository.registration(&scene.place("1/tree")), known[0]);
        assert!(repository.tree(&scene.place("1/tree")).is_ok());
    }

    #[test]
    fn many_at_once() {
        let scene = Scene::new();
        let repository = scene.repository();
        let base = repository.base().unwrap();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (repository, base, scene) = (&repository, &base, &scene);
                scope.spawn(move || {
                    let dir = scene.place(&format!("{number}/tree"));
                    repository.add_worktree(&dir, &format!("autoloop/{number}"), base).unwrap();
                });
            }
        });
        assert_eq!(scene.git(&["worktree", "list"]).lines().count(), 9);
    }

    #[test]
    fn a_branch_in_the_way_is_told() {
        let scene = Scene::new();
        scene.git(&["branch", "autoloop"]);
        let repository = scene.repository();
        let base = repository.base().unwrap();
        let error = repository.add_worktree(&scene.place("t"), "autoloop/x", &base).err().unwrap();
        assert!(error.to_string().contains("'refs/heads/autoloop' exists"), "{error}");
    }
}
