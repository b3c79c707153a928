//! Working trees that stand on a branch which somebody else moves.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::command::Git;
use super::gitdir::noted;
use super::{GitError, Repository, repo_lock};
use crate::file_tail::tail;

/// The branches of ours, which nobody moves but whoever works on them.
const OURS: &str = "refs/heads/autoloop/";
/// What stands in place of a branch where git does not keep it in a file.
const ELSEWHERE: &str = "refs/heads/.invalid";
/// So much is read from the end of a log; a line of it is far shorter.
const LOG_END: u32 = 64 * 1024;

impl Repository {
    /// Takes the working trees below a directory off the branch that is checked out here, before that
    /// branch moves: the next commit of somebody who still works there would undo whatever it moved by.
    /// A tree that stays on it, for whatever reason, is known by its log when its work is gathered.
    ///
    /// # Errors
    ///
    /// When git cannot say which branch that is.
    pub fn take_off_strays(&self, below: &Path) -> Result<(), GitError> {
        let strays = self.strays(below)?;
        if strays.is_empty() {
            return Ok(());
        }
        let here = stands_for(&self.git, "HEAD")?;
        for (own, _) in strays.into_iter().filter(|(_, branch)| here.as_ref() == Some(branch)) {
            // Another process may be gathering what is in it, and takes it off by itself, or has just
            // taken it away.
            let Ok(lock) = repo_lock::lock(&own.join("autoloop.lock"), self.git.world()) else {
                continue;
            };
            let git = self.git.with("GIT_DIR", &own).holding(lock);
            if stands_for(&git, "HEAD")? == here
                && let Some(commit) = files_from(&git, &own)
            {
                let words = ["update-ref", "--no-deref", "-m", "taken off", "HEAD", &commit];
                // Somebody else's tree is in nobody's way.
                let _ = git.ask(words);
            }
        }
        Ok(())
    }

    /// What git keeps about the trees below a directory that are on no branch of ours, and the branch.
    fn strays(&self, below: &Path) -> Result<Vec<(PathBuf, String)>, GitError> {
        let known = fs::read_dir(self.common.join("worktrees")).into_iter().flatten().flatten();
        let mut strays = Vec::new();
        for own in known.map(|entry| entry.path()) {
            let head = noted(&own.join("HEAD")).unwrap_or_default();
            let head = String::from_utf8_lossy(&head);
            let branch = match head.strip_prefix("ref: ").map(str::trim_end) {
                // Git keeps it elsewhere.
                Some(ELSEWHERE) => stands_for(&self.git.with("GIT_DIR", &own), "HEAD")?,
                branch => branch.map(str::to_owned),
            };
            let branch = branch.filter(|branch| !branch.starts_with(OURS));
            strays.extend(branch.filter(|_| is_below(&own, below)).map(|branch| (own, branch)));
        }
        Ok(strays)
    }
}

/// Whether the tree that git keeps something about is below a directory.
fn is_below(own: &Path, below: &Path) -> bool {
    let link = noted(&own.join("gitdir")).unwrap_or_default();
    let dir = own.join(OsStr::from_bytes(link.trim_ascii())).canonicalize();
    dir.is_ok_and(|dir| below.canonicalize().is_ok_and(|below| dir.starts_with(below)))
}

/// The branch that a name is a name for, in the end.
pub(super) fn stands_for(git: &Git, name: &str) -> Result<Option<String>, GitError> {
    let said = git.ask(["symbolic-ref", "--quiet", name])?;
    Ok((said.code == 0).then(|| said.line()))
}

/// The commit that the files of a checkout come from: the last one that git took them to. The branch
/// that is checked out may have been moved from elsewhere since. `None` where git keeps no log.
pub(super) fn files_from(git: &Git, git_dir: &Path) -> Option<String> {
    // Who only has a name stand for something else, and takes no files along, gives no reason.
    moves(git, git_dir).into_iter().find(|(_, why)| !why.is_empty()).map(|(commit, _)| commit)
}

/// The commit that a checkout was moved to last, with or without its files, by a git that worked in it.
pub(super) fn moved_to(git: &Git, git_dir: &Path) -> Option<String> {
    moves(git, git_dir).into_iter().next().map(|(commit, _)| commit)
}

/// The commits that a checkout was moved to, and why; the last first.
fn moves(git: &Git, git_dir: &Path) -> Vec<(String, String)> {
    let log = tail(&git_dir.join("logs/HEAD"), LOG_END, &*git.world().disk);
    let entries: Vec<String> = match log {
        Ok(log) => {
            let after_old = |line: &str| line.split_once(' ').map(|(_, new)| new.to_owned());
            log.text.lines().rev().filter_map(after_old).collect()
        }
        // Git may keep it elsewhere.
        Err(_) => match git.run(["log", "-g", "-n", "100", "--format=%H %x09%gs", "HEAD"]) {
            Ok(said) => said.out.text().lines().map(str::to_owned).collect(),
            Err(_) => Vec::new(),
        },
    };
    let moves = entries.iter().filter_map(|entry| {
        let (entry, why) = entry.split_once('\t').unwrap_or((entry, ""));
        let commit = entry.split(' ').next().filter(|commit| is_commit(commit))?;
        Some((commit.to_owned(), why.to_owned()))
    });
    moves.collect()
}

/// A branch without commits has nothing but zeros.
fn is_commit(word: &str) -> bool {
    let is_hash = word.len() >= 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash && word.bytes().any(|byte| byte != b'0')
}

#[cfg(test)]
mod tests {
    use super::super::scene::Scene;
    use super::*;

    #[test]
    fn a_checkout_knows_where_its_files_come_from() {
        let scene = Scene::new();
        let repository = scene.repository();
        let (dir, base) = (scene.place("tree"), repository.base().unwrap());
        repository.add_worktree(&dir, "autoloop/x", &base).unwrap();
        let own = repository.registration(&dir).unwrap();
        let git = |args: &[&str]| scene.git_in(&dir, args);
        let from = || files_from(&repository.git.at(&dir), &own);
        scene.write("new", "n").commit("of a person");
        let later = repository.base().unwrap();
        git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
        assert_eq!(git(&["rev-parse", "HEAD"]), later);
        assert_eq!(from(), Some(base.clone()));
        git(&["symbolic-ref", "HEAD", "refs/heads/none"]);
        assert_eq!(from(), Some(base.clone()));
        git(&["checkout", "-q", "-f", "--detach", "main"]);
        assert_eq!(from(), Some(later.clone()));
        assert_eq!(moved_to(&repository.git, &scene.top.join(".git")), Some(later));
        fs::write(own.join("logs/HEAD"), "nothing that git would write\n").unwrap();
        assert_eq!(from(), None);
        fs::remove_file(own.join("logs/HEAD")).unwrap();
        assert_eq!(from(), None);
    }

    #[test]
    fn only_trees_of_ours_on_the_branch_that_moves_are_taken_off() {
        let scene = Scene::new();
        let repository = scene.repository();
        let base = repository.base().unwrap();
        for name in ["on", "elsewhere", "own", "later"] {
            let dir = scene.place(name);
            repository.add_worktree(&dir, &format!("autoloop/{name}"), &base).unwrap();
        }
        let git = |name: &str, args: &[&str]| scene.git_in(&scene.place(name), args);
        git("on", &["checkout", "-q", "--ignore-other-worktrees", "main"]);
        git("elsewhere", &["checkout", "-q", "-b", "other"]);
        let persons = scene.top.with_file_name("persons");
        let at = persons.display().to_string();
        scene.git(&["worktree", "add", "-q", "--force", &at, "main"]);
        scene.write("new", "n").commit("of a person");
        git("later", &["checkout", "-q", "--ignore-other-worktrees", "main"]);
        repository.take_off_strays(&scene.place("")).unwrap();
        let stands = |dir: &Path| {
            let branch = scene.git_in(dir, &["branch", "--show-current"]);
            format!("{branch} {}", scene.git_in(dir, &["status", "--porcelain"]))
        };
        let told = ["on", "elsewhere", "own", "later"].map(|name| stands(&scene.place(name)));
        assert_eq!(told, [" ", "other ", "autoloop/own ", " "]);
        assert_eq!(stands(&persons), "main D  new", "it is not ours");
    }
}
