//! Lock files of git, and stale ones that no process holds any more.
//!
//! A killed git leaves its lock behind, and every other waits for it in vain. A lock does not name its holder. But
//! it was a git that was running on this repository when the lock was first seen; once all of those have ended and
//! the same file is still there, it is stale. A git counts unless its working directory, arguments and environment
//! can be read and all lead elsewhere: a pager that shows the log of another repository holds no lock of this one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;

use super::{GitError, gitdir};
use crate::files;
use crate::procfs::{self, Identity};

#[derive(Debug)]
pub(super) struct Lockfile {
    path: PathBuf,
    /// The file when it was first seen; `None` if it was gone by then.
    file: Option<FileId>,
    /// The gits that were running on the repository then; `None` where the system does not say.
    gits: Option<GitProcesses>,
    since: Duration,
}

/// The gits that may have made a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GitProcesses {
    running: BTreeSet<Identity>,
    visibility: Visibility,
}

/// Which processes can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visibility {
    /// All of this machine.
    All,
    /// Not those outside of the container, or those of other users.
    Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    number: u64,
    written: (i64, i64),
}

impl Lockfile {
    pub(super) fn seen(path: PathBuf, now: Duration) -> Lockfile {
        // The file first: the git that made it was running before, and still is unless it has ended.
        let file = FileId::of(&path);
        let gits = GitProcesses::on(&path);
        Lockfile { path, file, gits, since: now }
    }

    pub(super) fn waited(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }

    pub(super) fn is(&self, path: &Path) -> bool {
        self.path == path && self.file == FileId::of(path)
    }

    /// Removes it if no process holds it; whether it did.
    pub(super) fn remove_if_stale(&self) -> Result<bool, GitError> {
        let is_stale = self.is_stale(GitProcesses::on(&self.path).as_ref()) && self.is(&self.path);
        if is_stale {
            files::remove_if_exists(&self.path).map_err(GitError::io("remove", &self.path))?;
        }
        Ok(is_stale)
    }

    /// Whether all gits that may have made it have ended, by those that run now.
    fn is_stale(&self, now: Option<&GitProcesses>) -> bool {
        let (Some(_), Some(then), Some(now)) = (self.file, &self.gits, now) else { return false };
        // A git holds this one while a user writes the message of a commit, and may not be visible.
        let may_be_a_users =
            self.path.ends_with("index.lock") && now.visibility == Visibility::Part;
        !may_be_a_users && then.running.is_disjoint(&now.running)
    }

    pub(super) fn into_path(self) -> PathBuf {
        self.path
    }
}

impl FileId {
    /// `None` for what is no file or not named like a lock of git: the message of git may come from a program
    /// that it started, and a stale lock is removed.
    fn of(path: &Path) -> Option<FileId> {
        path.extension().filter(|ending| *ending == "lock")?;
        let found = fs::symlink_metadata(path).ok().filter(Metadata::is_file)?;
        let written = (found.mtime(), found.mtime_nsec());
        Some(FileId { device: found.dev(), number: found.ino(), written })
    }
}

impl GitProcesses {
    fn on(lock: &Path) -> Option<GitProcesses> {
        let visibility = if procfs::are_all_seen() { Visibility::All } else { Visibility::Part };
        let gits = procfs::named("git")?.filter(|git| may_have_made(git.pid, lock));
        Some(GitProcesses { running: gits.map(|git| git.identity()).collect(), visibility })
    }
}

/// Whether a git may write at a path: unless everything that it was given is elsewhere.
fn may_have_made(git: Pid, lock: &Path) -> bool {
    // A git changes to its repository before it makes a lock there.
    let (Some(dir), Some(words)) = (procfs::working_dir(git), procfs::words(git)) else {
        return true;
    };
    let Some(parent) = lock.parent().and_then(|parent| parent.canonicalize().ok()) else {
        return true;
    };
    // What the lock is for: an index may be named itself.
    let locked = parent.join(lock.file_stem().unwrap_or_default());
    let named = words.iter().map(|word| dir.join(path_in(word)));
    let places = gitdir::found_from(&dir).into_iter().chain([dir.clone()]);
    let mut places = places.chain(named.flat_map(gitdir::with_common));
    places.any(|place| place.canonicalize().is_ok_and(|place| locked.starts_with(place)))
}

/// The path that an argument or a variable of a git may stand for: `PATH`, `--git-dir=PATH` or `GIT_DIR=PATH`.
fn path_in(word: &OsStr) -> &Path {
    const VARIABLES: [&str; 4] =
        ["GIT_DIR=", "GIT_COMMON_DIR=", "GIT_INDEX_FILE=", "GIT_OBJECT_DIRECTORY="];
    let word = word.as_bytes();
    let has_name = word.starts_with(b"-")
        || VARIABLES.iter().any(|variable| word.starts_with(variable.as_bytes()));
    let value = memchr::memchr(b'=', word).filter(|_| has_name).map_or(word, |at| &word[at + 1..]);
    Path::new(OsStr::from_bytes(value))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::{Read, Write};
    use std::process::{Child, Command, Stdio};

    use tempfile::TempDir;

    use super::*;

    fn gits(ids: &[Identity], visibility: Visibility) -> GitProcesses {
        GitProcesses { running: ids.iter().copied().collect(), visibility }
    }

    #[test]
    fn a_lock_is_stale_when_all_who_were_there_have_ended() {
        let dir = tempfile::tempdir().unwrap();
        let lock = |name: &str, then: Option<GitProcesses>| {
            let path = dir.path().join(name);
            fs::write(&path, "").unwrap();
            Lockfile { gits: then, ..seen(&path) }
        };
        let cases: [(&[Identity], &[Identity], bool); 5] = [
            (&[], &[], true),
            (&[(7, 1)], &[], true),
            (&[(7, 1)], &[(8, 2)], true),
            // The same number, and another process.
            (&[(7, 1)], &[(7, 2)], true),
            (&[(7, 1), (8, 1)], &[(8, 1), (9, 3)], false),
        ];
        for (then, now, expected) in cases {
            for (name, visibility) in [
                ("index.lock", Visibility::All),
                ("packed-refs.lock", Visibility::All),
                ("packed-refs.lock", Visibility::Part),
            ] {
                let is_stale =
                    lock(name, Some(gits(then, visibility))).is_stale(Some(&gits(now, visibility)));
                assert_eq!(is_stale, expected, "{name} {visibility:?} {then:?} {now:?}");
            }
            let unseen = gits(now, Visibility::Part);
            assert!(
                !lock("index.lock", Some(gits(then, Visibility::Part))).is_stale(Some(&unseen))
            );
        }
        let none = gits(&[], Visibility::All);
        assert!(!lock("HEAD.lock", None).is_stale(Some(&none)));
        assert!(!lock("HEAD.lock", Some(none)).is_stale(None));
    }

    fn seen(path: &Path) -> Lockfile {
        Lockfile::seen(path.to_owned(), Duration::ZERO)
    }

    /// One that was first seen when no git was at work.
    fn nones(path: &Path) -> Lockfile {
        Lockfile { gits: Some(gits(&[], Visibility::All)), ..seen(path) }
    }

    #[test]
    fn only_the_same_file_is_the_same_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("packed-refs.lock");
        let gone = nones(&path);
        fs::write(&path, "").unwrap();
        assert!(!gone.is(&path) && !gone.remove_if_stale().unwrap());
        let lock = nones(&path);
        assert!(lock.is(&path) && !lock.is(&dir.path().join("HEAD.lock")));
        // Another file, also where the clock of the disk is coarse.
        let other = dir.path().join("other");
        fs::write(&other, "of another").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(!lock.is(&path) && !lock.remove_if_stale().unwrap());
        assert!(path.exists());
        assert!(nones(&path).remove_if_stale().unwrap() && !path.exists());
        fs::create_dir(&path).unwrap();
        assert!(!nones(&path).remove_if_stale().unwrap(), "a directory is no lock");
        let other = dir.path().join("index");
        fs::write(&other, "").unwrap();
        assert!(!nones(&other).remove_if_stale().unwrap() && other.exists());
    }

    /// A git that is at work until it is dropped.
    struct AtWork(Child);

    impl AtWork {
        fn on(args: &[&OsStr], variable: Option<(&str, &Path)>) -> AtWork {
            let mut git = Command::new("git");
            git.args(args).args(["cat-file", "--batch"]).envs(variable);
            let git = git.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut git = git.spawn().unwrap();
            // It answers once it has changed to its repository.
            git.stdin.as_mut().unwrap().write_all(b"nothing\n").unwrap();
            git.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
            AtWork(git)
        }

        fn is_among(&self, gits: &GitProcesses) -> bool {
            let id = i32::try_from(self.0.id()).unwrap();
            gits.running.iter().any(|(pid, _)| *pid == id)
        }
    }

    impl Drop for AtWork {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    /// Two repositories; the first has a second working tree in the other.
    fn repositories() -> (TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
        let git = |dir: &Path, args: &[&str]| {
            let identity = ["-c", "user.name=x", "-c", "user.email=x@x"];
            let mut git = Command::new("git");
            git.arg("-C").arg(dir).args(identity).args(args).stderr(Stdio::null());
            assert!(git.status().unwrap().success(), "git {args:?}");
        };
        for repository in [&one, &other] {
            fs::create_dir_all(repository.join("src")).unwrap();
            git(repository, &["init", "-q"]);
        }
        git(&one, &["commit", "-q", "--allow-empty", "-m", "first"]);
        git(&one, &["worktree", "add", "-q", "../other/tree"]);
        (dir, one, other)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_git_counts_where_it_may_have_made_the_lock() {
        let (_dir, one, other) = repositories();
        let lock = one.join(".git/index.lock");
        let (dash_c, own) = (OsStr::new("-C"), one.join(".git"));
        let (src, tree, index) = (one.join("src"), other.join("tree"), own.join("index"));
        let git_dir = OsString::from(format!("--git-dir={}", own.display()));
        let private = OsString::from(format!("--git-dir={}/worktrees/tree", own.display()));
        let counts = |args: &[&OsStr], variable: Option<(&str, &Path)>| {
            AtWork::on(args, variable).is_among(&GitProcesses::on(&lock).unwrap())
        };
        for dir in [&one, &src, &own, &tree] {
            assert!(counts(&[dash_c, dir.as_ref()], None), "{dir:?}");
        }
        let elsewhere = [dash_c, other.as_ref()];
        for git_dir in [&git_dir, &private] {
            assert!(counts(&[dash_c, other.as_ref(), git_dir], None), "{git_dir:?}");
        }
        assert!(counts(&elsewhere, Some(("GIT_DIR", Path::new("../one/.git")))));
        assert!(counts(&elsewhere, Some(("GIT_INDEX_FILE", &index))));
        assert!(!counts(&elsewhere, None));
        assert!(!counts(&elsewhere, Some(("GIT_CEILING_DIRECTORIES", &one))));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_lock_stays_as_long_as_a_git_lives_that_may_have_made_it() {
        let (_dir, one, other) = repositories();
        let path = one.join(".git/index.lock");
        fs::write(&path, "").unwrap();
        let mut git = AtWork::on(&[OsStr::new("-C"), one.as_ref()], None);
        let _elsewhere = AtWork::on(&[OsStr::new("-C"), other.as_ref()], None);
        let lock = seen(&path);
        assert!(!lock.remove_if_stale().unwrap());
        git.0.kill().unwrap();
        // It is dead, and not waited for.
        while git.is_among(&GitProcesses::on(&path).unwrap()) {
            std::thread::yield_now();
        }
        assert_eq!(lock.remove_if_stale().unwrap(), procfs::are_all_seen());
    }
}
