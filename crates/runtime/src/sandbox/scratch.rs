//! A private directory for one review, outside of the project.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::openat;
use crate::files::{self, Links};
use crate::world::{Overlay, RealDisk};

const PREFIX: &str = "autoloop-review-";

/// The length of the longest note.
const LONGEST_NOTE: u64 = 4096;

/// A directory that only its owner can enter; removed when it is dropped.
///
/// It has what must not be in the project: temporary files of the reviewer, the upper layer of its
/// overlay, and its socket to the harness, which could not be reached through that overlay.
///
/// A note has its path, for a later harness to [remove](Scratch::sweep) what a killed one left. The note
/// exists as long as the directory: it is written before and removed after.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
    note: PathBuf,
}

impl Scratch {
    pub fn new(name: &str, note: &Path) -> io::Result<Scratch> {
        let dir = temporary_files()?.join(format!("{PREFIX}{name}"));
        write_note(note, dir.as_os_str().as_bytes())?;
        let mut private = fs::DirBuilder::new();
        private.mode(0o700);
        private.create(&dir).map_err(|error| about(&dir, &error))?;
        let scratch = Scratch { dir, note: note.to_owned() };
        for inside in ["tmp", "upper", "work"] {
            private.create(scratch.dir.join(inside))?;
        }
        Ok(scratch)
    }

    /// Removes what a killed harness noted, then the note. Only such a directory of this user is touched:
    /// any process of the user can write a note.
    pub fn sweep(note: &Path) {
        let Some(dir) = read_note(note) else { return };
        let dir = Path::new(OsStr::from_bytes(&dir));
        let is_named = dir
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
        let is_ours = || {
            fs::symlink_metadata(dir).is_ok_and(|found| {
                found.is_dir() && found.uid() == rustix::process::geteuid().as_raw()
            })
        };
        let is_there = || temporary_files().is_ok_and(|files| dir.parent() == Some(&files));
        if is_named && is_ours() && is_there() {
            let _ = files::remove_tree(dir);
        }
        // A directory in another TMPDIR is left to a harness with that TMPDIR.
        if !is_named || !is_ours() {
            let _ = fs::remove_file(note);
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn temporary(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.join("socket")
    }

    pub fn overlay(&self, project: &Path) -> Overlay {
        let (upper, work) = (self.dir.join("upper"), self.dir.join("work"));
        Overlay { project: project.to_owned(), upper, work }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The system cleans its temporary files.
        let _ = files::remove_tree(&self.dir);
        if fs::symlink_metadata(&self.dir).is_err() {
            let _ = fs::remove_file(&self.note);
        }
    }
}

pub(super) fn write_note(note: &Path, bytes: &[u8]) -> io::Result<()> {
    let (dir, name) = note.parent().zip(note.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
    let dir = openat::open_root(&dir.canonicalize()?)?;
    openat::replace(&dir, name, |file| file.write_all_at(bytes, 0))
}

/// Reads a note, if it is an ordinary file and not too long.
pub(super) fn read_note(note: &Path) -> Option<Vec<u8>> {
    files::read(&RealDisk, note, Links::Refuse, LONGEST_NOTE).ok().flatten()
}

/// The directory for temporary files. Canonical: the reviewer works in another directory, and whether this
/// one is inside the project is compared.
fn temporary_files() -> io::Result<PathBuf> {
    let dir = std::env::temp_dir();
    dir.canonicalize().map_err(|error| about(&dir, &error))
}

fn about(dir: &Path, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("{}: {error}; set TMPDIR to a directory that can be written to", dir.display()),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_scratch_goes_with_everything_in_it() {
        let base = tempfile::tempdir().unwrap();
        let note = base.path().join("note");
        let scratch = Scratch::new(&format!("test-{}", std::process::id()), &note).unwrap();
        assert_eq!(fs::metadata(scratch.dir()).unwrap().mode() & 0o777, 0o700);
        assert!(note.exists());
        let closed = scratch.dir().join("work").join("closed");
        fs::create_dir(&closed).unwrap();
        fs::write(closed.join("file"), "x").unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(scratch.dir(), fs::Permissions::from_mode(0o000)).unwrap();
        let dir = scratch.dir().to_owned();
        drop(scratch);
        assert!(!dir.exists());
        assert!(!note.exists());
    }

    #[test]
    fn only_a_scratch_is_swept() {
        let base = tempfile::tempdir().unwrap();
        let note = base.path().join("note");
        let decoy = base.path().join("autoloop-review-x");
        fs::create_dir(&decoy).unwrap();
        let sweep = |dir: &Path| {
            fs::write(&note, dir.as_os_str().as_bytes()).unwrap();
            Scratch::sweep(&note);
        };
        sweep(&decoy);
        assert!(decoy.exists(), "it is not where such places are made");
        assert!(note.exists(), "a harness with another TMPDIR removes it");
        sweep(base.path());
        assert!(base.path().exists());
        assert!(!note.exists(), "no note names this");
        let left = Scratch::new(&format!("left-{}", std::process::id()), &note).unwrap();
        Scratch::sweep(&note);
        assert!(!left.dir().exists());
        assert!(!note.exists());
    }

    #[test]
    fn a_note_that_is_no_ordinary_file_is_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let note = base.path().join("note");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &note,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        Scratch::sweep(&note);
        fs::remove_file(&note).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &note).unwrap();
        Scratch::sweep(&note);
        drop(Scratch::new(&format!("note-{}", std::process::id()), &note).unwrap());
        assert!(Path::new("/dev/zero").exists());
    }
}
