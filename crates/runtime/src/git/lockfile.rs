//! Files by which one git keeps out the others, and those that nobody holds any more.
//!
//! A git that is killed leaves its lock behind, and every other waits for it in vain. Who made a lock
//! is written nowhere. But it was a git that was at work on this repository when the lock was first seen;
//! once all of those have ended and the same file is still there, it has no holder. A git counts unless its
//! working directory, arguments and environment can be read and all lead elsewhere: a pager that shows the
//! log of another repository for hours holds no lock of this one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;

use super::{GitError, gitdir};
use crate::procfs::{self, Identity};

/// A lock that is waited for.
#[derive(Debug)]
pub(super) struct Lockfile {
    path: PathBuf,
    /// Which file it was when it was first seen; `None` if it was gone by then.
    file: Option<FileId>,
    /// The gits that were at work on the repository then; `None` where the system does not say.
    gits: Option<Gits>,
    since: Duration,
}

/// The gits that may have made a lock, as far as they can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gits {
    at_work: BTreeSet<Identity>,
    sight: Sight,
}

/// Whom one can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// Everybody on this machine.
    All,
    /// Not those outside of the container, or those of other people.
    Part,
}

/// One file, and none that was made later in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    number: u64,
    written: (i64, i64),
}

impl Lockfile {
    /// A lock that is seen for the first time.
    pub(super) fn seen(path: PathBuf, now: Duration) -> Lockfile {
        // The file first: whoever made it was there before, and is there now if it has not ended.
        let file = FileId::of(&path);
        let gits = Gits::look(&path);
        Lockfile { path, file, gits, since: now }
    }

    /// How long it has been there.
    pub(super) fn waited(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }

    /// Whether a lock at a path is this one, held by the same git as before.
    pub(super) fn is(&self, path: &Path) -> bool {
        self.path == path && self.file == FileId::of(path)
    }

    /// Removes it if nobody holds it, and says whether it did.
    pub(super) fn remove_if_left(&self) -> Result<bool, GitError> {
        let is_left = self.was_left(Gits::look(&self.path).as_ref()) && self.is(&self.path);
        match is_left.then(|| fs::remove_file(&self.path)) {
            // Somebody else may have found out too.
            Some(Err(error)) if error.kind() != ErrorKind::NotFound => {
                Err(GitError::io("remove", &self.path)(error))
            }
            _ => Ok(is_left),
        }
    }

    /// Whether all who may have made it have ended, by those who are at work now.
    fn was_left(&self, now: Option<&Gits>) -> bool {
        let (Some(_), Some(then), Some(now)) = (self.file, &self.gits, now) else { return false };
        // A git holds this one for as long as a person writes the message of a commit, maybe unseen.
        let may_be_a_persons = self.path.ends_with("index.lock") && now.sight == Sight::Part;
        !may_be_a_persons && then.at_work.is_disjoint(&now.at_work)
    }

    pub(super) fn into_path(self) -> PathBuf {
        self.path
    }
}

impl FileId {
    /// `None` for what is no file, or is not called like a lock of git. What git says may come from a
    /// program that it started, and what is left may be removed.
    fn of(path: &Path) -> Option<FileId> {
        path.extension().filter(|ending| *ending == "lock")?;
        let found = fs::symlink_metadata(path).ok().filter(Metadata::is_file)?;
        let written = (found.mtime(), found.mtime_nsec());
        Some(FileId { device: found.dev(), number: found.ino(), written })
    }
}

impl Gits {
    fn look(lock: &Path) -> Option<Gits> {
        let sight = if procfs::are_all_seen() { Sight::All } else { Sight::Part };
        let gits = procfs::named("git")?.filter(|git| may_have_made(git.pid, lock));
        Some(Gits { at_work: gits.map(|git| git.identity()).collect(), sight })
    }
}

/// Whether a git may write at a path: unless everything that it was given to work on is elsewhere.
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
    let mut places = places.chain(named.flat_map(gitdir::with_shared));
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

    fn gits(ids: &[Identity], sight: Sight) -> Gits {
        Gits { at_work: ids.iter().copied().collect(), sight }
    }

    #[test]
    fn a_lock_was_left_when_all_who_were_there_have_ended() {
        let dir = tempfile::tempdir().unwrap();
        let lock = |name: &str, then: Option<Gits>| {
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
            for (name, sight) in [
                ("index.lock", Sight::All),
                ("packed-refs.lock", Sight::All),
                ("packed-refs.lock", Sight::Part),
            ] {
                let was_left =
                    lock(name, Some(gits(then, sight))).was_left(Some(&gits(now, sight)));
                assert_eq!(was_left, expected, "{name} {sight:?} {then:?} {now:?}");
            }
            let unseen = gits(now, Sight::Part);
            assert!(!lock("index.lock", Some(gits(then, Sight::Part))).was_left(Some(&unseen)));
        }
        let nobody = gits(&[], Sight::All);
        assert!(!lock("HEAD.lock", None).was_left(Some(&nobody)));
        assert!(!lock("HEAD.lock", Some(nobody)).was_left(None));
    }

    fn seen(path: &Path) -> Lockfile {
        Lockfile::seen(path.to_owned(), Duration::ZERO)
    }

    /// One that was first seen when no git was at work.
    fn nobodys(path: &Path) -> Lockfile {
        Lockfile { gits: Some(gits(&[], Sight::All)), ..seen(path) }
    }

    #[test]
    fn only_the_same_file_is_the_same_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("packed-refs.lock");
        let gone = nobodys(&path);
        fs::write(&path, "").unwrap();
        assert!(!gone.is(&path) && !gone.remove_if_left().unwrap());
        let lock = nobodys(&path);
        assert!(lock.is(&path) && !lock.is(&dir.path().join("HEAD.lock")));
        // Another file, also where the clock of the disk is coarse.
        let other = dir.path().join("other");
        fs::write(&other, "of another").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(!lock.is(&path) && !lock.remove_if_left().unwrap());
        assert!(path.exists());
        assert!(nobodys(&path).remove_if_left().unwrap() && !path.exists());
        fs::create_dir(&path).unwrap();
        assert!(!nobodys(&path).remove_if_left().unwrap(), "a directory is no lock");
        let other = dir.path().join("index");
        fs::write(&other, "").unwrap();
        assert!(!nobodys(&other).remove_if_left().unwrap() && other.exists());
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

        fn is_among(&self, gits: &Gits) -> bool {
            let id = i32::try_from(self.0.id()).unwrap();
            gits.at_work.iter().any(|(pid, _)| *pid == id)
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
            AtWork::on(args, variable).is_among(&Gits::look(&lock).unwrap())
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
        assert!(!lock.remove_if_left().unwrap());
        git.0.kill().unwrap();
        // It is dead, and not waited for.
        while git.is_among(&Gits::look(&path).unwrap()) {
            std::thread::yield_now();
        }
        assert_eq!(lock.remove_if_left().unwrap(), procfs::are_all_seen());
    }
}
