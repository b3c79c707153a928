//! Worktrees on branches of their own: added, removed, and repaired after a crash.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::command::Git;
use super::gitdir::{git_dir_at, is_sound, linked_dot_git, links_to, read_small, replace};
use super::{GitError, OPERATION_SIGNS, Repository, Worktree, reference};
use crate::{files, private_files};

/// The reason with which a worktree is locked until it has all of its files.
const UNFINISHED: &str = "initializing";

impl Repository {
    /// Adds a worktree on a branch that begins at a commit. An existing one stays as it is, with everything in it;
    /// a half-made one is completed or made again; an existing branch is checked out as it is.
    pub fn add_worktree(&self, dir: &Path, branch: &str, base: &str) -> Result<Worktree, GitError> {
        self.register_worktree(dir, branch, base)?;
        if let Some(mark) = self.unfinished_mark(dir) {
            let git = self.pinned.as_configured(&self.git.at(dir))?;
            git.run(["reset", "--hard", "--quiet"])?;
            fs::remove_file(&mark).map_err(GitError::io("remove", mark))?;
        }
        self.worktree(dir)
    }

    /// The first half of [`Repository::add_worktree`]: git knows the worktree, which has no files yet. A git that
    /// lists all worktrees fails on one that is just being added, so a caller that adds several registers all of
    /// them before an agent works in one.
    pub fn register_worktree(&self, dir: &Path, branch: &str, base: &str) -> Result<(), GitError> {
        let git = self.lock_worktrees()?;
        match self.worktree(dir) {
            Err(GitError::NotATree(_)) => self.remove_files(dir)?,
            worktree => return worktree.map(drop),
        }
        if let Some(parent) = dir.parent() {
            private_files::create_dirs(parent).map_err(GitError::io("make", parent))?;
        }
        if self.tip(branch)?.is_none() {
            // With an empty old value, so that a branch that another process makes is not moved.
            git.run(["update-ref", &reference(branch), base, ""])?;
        }
        let words = ["worktree", "add", "--quiet", "--no-guess-remote", "--no-checkout"];
        let words = words.iter().chain(&["--lock", "--reason", UNFINISHED]).map(AsRef::as_ref);
        git.run(words.chain([dir.as_os_str(), branch.as_ref()])).map(drop)
    }

    /// Gives a worktree back the file that links it with its git directory, which an agent removed or changed. A
    /// directory in its place stays: it may be a repository.
    pub fn relink_worktree(&self, dir: &Path) -> Result<(), GitError> {
        let is_dir = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        match self.registration(dir) {
            Some(own) if is_dir(dir) && !is_dir(&dir.join(".git")) && !links_to(dir, &own) => {
                write_link(dir, &own)
            }
            _ => Ok(()),
        }
    }

    /// Discards everything in a worktree, whatever an agent left there, and checks a commit out on its branch, which
    /// moves there. Cut off, it can be repeated, or completed by [`Repository::add_worktree`].
    pub fn restart_worktree(
        &self,
        dir: &Path,
        branch: &str,
        commit: &str,
    ) -> Result<Worktree, GitError> {
        let name = reference(branch);
        let move_branch = || self.git.update_ref(&name, commit, "restarted");
        match self.registration(dir).filter(|own| is_sound(own, &self.common)) {
            None => {
                self.remove_worktree(dir)?;
                move_branch()?;
            }
            Some(own) => {
                let remove = |name: &str| {
                    let path = own.join(name);
                    files::remove_tree(&path).map_err(GitError::io("remove", path))
                };
                let git = self.git.with("GIT_DIR", &own).locked(&own.join("autoloop.lock"))?;
                replace(&own.join("locked"), UNFINISHED.as_bytes())?;
                ["index.lock", "HEAD.lock"].into_iter().try_for_each(remove)?;
                move_branch()?;
                git.run(["symbolic-ref", "HEAD", &name])?;
                remove_at_once(dir, &dir.with_extension("removed"))?;
                private_files::create_dirs(dir).map_err(GitError::io("make", dir))?;
                write_link(dir, &own)?;
                let signs = OPERATION_SIGNS.map(|(sign, _)| sign);
                signs.into_iter().chain(["index"]).try_for_each(remove)?;
            }
        }
        self.add_worktree(dir, branch, commit)
    }

    /// Whether a worktree was added in part only: the files that it lacks were never there.
    pub fn is_unfinished(&self, dir: &Path) -> bool {
        self.unfinished_mark(dir).is_some()
    }

    /// The mark of a worktree that has not all of its files yet. Git itself marks one like this.
    fn unfinished_mark(&self, dir: &Path) -> Option<PathBuf> {
        let mark = self.registration(dir)?.join("locked");
        let why = read_small(&mark)?;
        (why.trim_ascii_end() == UNFINISHED.as_bytes()).then_some(mark)
    }

    /// Removes a worktree with everything in it, also what is left of a half-removed one.
    pub fn remove_worktree(&self, dir: &Path) -> Result<(), GitError> {
        let _locked = self.lock_worktrees()?;
        self.remove_files(dir)
    }

    /// The files first: as long as git knows the worktree, it can be found and removed again.
    fn remove_files(&self, dir: &Path) -> Result<(), GitError> {
        let registered = self.registration(dir);
        remove_at_once(dir, &dir.with_extension("removed"))?;
        registered.map_or(Ok(()), |own| remove_at_once(&own, &self.common.join("autoloop-removed")))
    }

    /// Only one process at a time adds or removes worktrees.
    fn lock_worktrees(&self) -> Result<Git, GitError> {
        self.git.locked(&self.common.join("autoloop-worktrees.lock"))
    }

    /// Deletes a branch if all of it is reachable from a commit, and returns whether it is gone.
    pub fn delete_branch(&self, branch: &str, reachable_from: &str) -> Result<bool, GitError> {
        let Some(tip) = self.tip(branch)? else { return Ok(true) };
        let is_reachable = self.git.contains(reachable_from, &tip)?;
        if is_reachable {
            self.git.delete_ref(&reference(branch), &tip)?;
        }
        Ok(is_reachable)
    }

    /// Deletes a branch whose files are those of a tree object that was merged: only its history is lost.
    pub fn delete_merged(&self, branch: &str, tree: &str) -> Result<(), GitError> {
        match self.tip(branch)? {
            Some(tip) if self.tree_of(&tip)? == tree => {
                self.git.delete_ref(&reference(branch), &tip)
            }
            _ => Ok(()),
        }
    }

    /// Whether git knows a worktree, which may be gone.
    pub fn is_registered(&self, dir: &Path) -> bool {
        self.registration(dir).is_some()
    }

    /// The git directory of a worktree.
    pub(super) fn registration(&self, dir: &Path) -> Option<PathBuf> {
        // The worktree may be gone, and its parent too.
        let real = dir.parent().and_then(|parent| parent.canonicalize().ok());
        let real = real.zip(dir.file_name()).map(|(parent, name)| parent.join(name));
        let real = real.as_deref().unwrap_or(dir).join(".git");
        let all = self.common.join("worktrees");
        // Usually the worktree names it, and a squad has hundreds of them.
        let is_it = |own: &PathBuf| {
            own.parent() == Some(&*all) && linked_dot_git(own).as_ref() == Some(&real)
        };
        if let Some(own) = git_dir_at(&real).filter(is_it) {
            return Some(own);
        }
        let known = fs::read_dir(&all).ok()?.flatten();
        let known: Vec<(PathBuf, PathBuf)> = known
            .filter_map(|entry| Some((entry.path(), linked_dot_git(&entry.path())?)))
            .collect();
        let leads_here = |link: &Path| link.canonicalize().is_ok_and(|link| link == real);
        // By its name first: where another worktree is a link to this one, both seem to be here.
        let by_name = known.iter().find(|(_, link)| *link == real);
        let found = by_name.or_else(|| known.iter().find(|(_, link)| leads_here(link)));
        found.map(|(own, _)| own.clone())
    }
}

/// Writes the file by which a worktree names its git directory.
fn write_link(dir: &Path, own: &Path) -> Result<(), GitError> {
    let line = [b"gitdir: ", own.as_os_str().as_bytes(), b"\n"].concat();
    replace(&dir.join(".git"), &line)
}

/// Removes a directory under another name, so that no process sees half of it: files that are missing would be
/// taken for deletions by an agent.
fn remove_at_once(dir: &Path, aside: &Path) -> Result<(), GitError> {
    files::remove_tree(aside).map_err(GitError::io("remove", aside))?;
    match fs::rename(dir, aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(GitError::io("remove", dir)(error));
        }
        _ => {}
    }
    files::remove_tree(aside).map_err(GitError::io("remove", aside))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
        // What a crash left, or another program created.
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
        assert!(repository.worktree(&scene.place("1/tree")).is_ok());
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
