//! Worktrees on a branch that other processes move.

use std::fs;
use std::path::Path;

use super::command::Git;
use super::gitdir::{linked_dot_git, read_small};
use super::{GitError, Repository};
use crate::files::tail;

/// Our own branches, which only the agent that works on one moves.
const OURS: &str = "refs/heads/autoloop/";
/// What `HEAD` contains where git does not keep references in files.
const ELSEWHERE: &str = "refs/heads/.invalid";
/// How much is read from the end of a log; a line of it is far shorter.
const LOG_END: u32 = 64 * 1024;

impl Repository {
    /// Detaches the worktrees below a directory from the branch that is checked out here, before that branch
    /// moves: the next commit of an agent that still works there would undo the move. A worktree that stays on
    /// it, for whatever reason, is recognised by its log when its work is committed.
    pub fn detach_worktrees(&self, below: &Path) -> Result<(), GitError> {
        let mut here = None;
        for own in fs::read_dir(self.common.join("worktrees")).into_iter().flatten().flatten() {
            let own = own.path();
            let git = self.git.with("GIT_DIR", &own);
            let head = read_small(&own.join("HEAD")).unwrap_or_default();
            let branch = match String::from_utf8_lossy(&head).strip_prefix("ref: ") {
                Some(branch) if branch.trim_end() == ELSEWHERE => git.symbolic_ref("HEAD")?,
                branch => branch.map(|branch| branch.trim_end().to_owned()),
            };
            let branch = branch.filter(|branch| !branch.starts_with(OURS));
            let Some(branch) = branch.filter(|_| is_below(&own, below)) else { continue };
            if here.is_none() {
                here = Some(self.git.symbolic_ref("HEAD")?);
            }
            let here = here.as_ref().and_then(Option::as_ref);
            if here != Some(&branch) {
                continue;
            }
            // Another process may be committing its files, and detaches it, or has just removed it.
            let Ok(git) = git.locked(&own.join("autoloop.lock")) else { continue };
            if git.symbolic_ref("HEAD")?.as_ref() == here
                && let Some(commit) = files_from(&git, &own)
            {
                // A worktree that cannot be detached does not keep others from being merged.
                let _ = git.update_ref("HEAD", &commit, "detached");
            }
        }
        Ok(())
    }
}

fn is_below(own: &Path, below: &Path) -> bool {
    let dir = linked_dot_git(own).and_then(|link| link.canonicalize().ok());
    dir.is_some_and(|dir| below.canonicalize().is_ok_and(|below| dir.starts_with(below)))
}

/// The commit that the files of a checkout come from: the last one that git checked out. The branch may have
/// been moved from elsewhere since. `None` where git keeps no log.
pub(super) fn files_from(git: &Git, git_dir: &Path) -> Option<String> {
    // `git symbolic-ref` changes no file and logs no reason.
    moves(git, git_dir).into_iter().find(|(_, why)| !why.is_empty()).map(|(commit, _)| commit)
}

/// The commit that HEAD was moved to last, with or without its files.
pub(super) fn moved_to(git: &Git, git_dir: &Path) -> Option<String> {
    moves(git, git_dir).into_iter().next().map(|(commit, _)| commit)
}

/// The commits that HEAD was moved to, each with the reason; the last first.
fn moves(git: &Git, git_dir: &Path) -> Vec<(String, String)> {
    let log = tail(&git_dir.join("logs/HEAD"), LOG_END, &*git.world().disk);
    let entries: Vec<String> = match log {
        Ok(log) => {
            let after_old = |line: &str| line.split_once(' ').map(|(_, new)| new.to_owned());
            log.text.lines().rev().filter_map(after_old).collect()
        }
        // Git may keep it elsewhere.
        Err(_) => match git.run(["log", "-g", "-n", "100", "--format=%H %x09%gs", "HEAD"]) {
            Ok(output) => output.out.text().lines().map(str::to_owned).collect(),
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

/// Whether a word names a commit; a branch without commits has zeros.
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
        repository.detach_worktrees(&scene.place("")).unwrap();
        let stands = |dir: &Path| {
            let branch = scene.git_in(dir, &["branch", "--show-current"]);
            format!("{branch} {}", scene.git_in(dir, &["status", "--porcelain"]))
        };
        let told = ["on", "elsewhere", "own", "later"].map(|name| stands(&scene.place(name)));
        assert_eq!(told, [" ", "other ", "autoloop/own ", " "]);
        assert_eq!(stands(&persons), "main D  new", "it is not ours");
    }
}
