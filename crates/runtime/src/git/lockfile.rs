//! Files by which one git keeps out the others, and those that nobody holds any more.
//!
//! A git that is killed leaves its lock behind, and every other waits for it in vain. Who made a lock
//! is written nowhere. But it was a git that was at work when the lock was first seen; once all of
//! those have ended and the same file is still there, it is nobody's.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::GitError;
use crate::process::proc::{self, Identity};

/// A lock that is waited for.
#[derive(Debug)]
pub(super) struct Lockfile {
    path: PathBuf,
    /// Which file it was when it was first seen; `None` if it was gone by then.
    file: Option<FileId>,
    /// The gits that were at work then; `None` where nobody can say.
    gits: Option<Gits>,
    since: Duration,
}

/// The gits that are at work, as far as they can be seen.
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
        Lockfile { path, file, gits: Gits::look(), since: now }
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
        let is_left = self.was_left(Gits::look().as_ref()) && self.is(&self.path);
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
    /// Those on this machine, wherever: one can lock a repository from anywhere.
    fn look() -> Option<Gits> {
        let sight = if proc::are_all_seen() { Sight::All } else { Sight::Part };
        Some(Gits { at_work: proc::named("git")?, sight })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

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

    #[cfg(target_os = "linux")]
    #[test]
    fn a_lock_stays_as_long_as_a_git_lives_that_may_have_made_it() {
        let dir = tempfile::tempdir().unwrap();
        Command::new("git").args(["init", "-q"]).arg(dir.path()).status().unwrap();
        let mut git = Command::new("git");
        git.arg("-C").arg(dir.path()).args(["cat-file", "--batch"]);
        let mut git = git.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let path = dir.path().join(".git/index.lock");
        fs::write(&path, "").unwrap();
        let lock = seen(&path);
        assert!(!lock.remove_if_left().unwrap());
        let id = i32::try_from(git.id()).unwrap();
        let is_it = |(pid, _): &&Identity| *pid == id;
        assert_eq!(lock.gits.as_ref().unwrap().at_work.iter().filter(is_it).count(), 1);
        git.kill().unwrap();
        // It is dead, and not waited for.
        while Gits::look().unwrap().at_work.iter().any(|git| is_it(&git)) {
            std::thread::yield_now();
        }
        git.wait().unwrap();
    }
}
