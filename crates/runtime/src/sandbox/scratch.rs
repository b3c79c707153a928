//! A private place for one review, outside of the project.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::openat;
use crate::world::Overlay;

/// What the names of all such places begin with.
const PREFIX: &str = "autoloop-review-";

/// The longest path that a note may hold.
const LONGEST_NOTE: u64 = 4096;

/// A directory that only its owner can enter; gone when it is dropped.
///
/// It holds what must not lie in the project: temporary files of the reviewer, the layer that its
/// writes go to, and the socket by which it speaks to the harness, which could not be reached through
/// that layer.
///
/// A note says where it is, for a later harness to [remove](Scratch::sweep) what a killed one left. The
/// note is written before the directory is made and removed after it is gone, so there is never a
/// directory without one.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
    note: PathBuf,
}

impl Scratch {
    /// Makes one among the temporary files, and notes it.
    ///
    /// # Errors
    ///
    /// When it cannot be made or noted, or there is something of that name.
    pub fn new(name: &str, note: &Path) -> io::Result<Scratch> {
        let dir = temporary_files()?.join(format!("{PREFIX}{name}"));
        write_note(note, dir.as_os_str().as_bytes())?;
        let mut private = fs::DirBuilder::new();
        private.mode(0o700);
        private.create(&dir).map_err(|error| about(&dir, &error))?;
        let scratch = Scratch { dir, note: note.to_owned() };
        for inside in [scratch.temporary(), scratch.upper(), scratch.work()] {
            private.create(inside)?;
        }
        Ok(scratch)
    }

    /// Removes what a killed harness left by a note, and the note when the directory is gone. Only what
    /// is plainly such a directory, and ours, is touched: any process of the user can write a note.
    pub fn sweep(note: &Path) {
        let Ok(dir) = read_note(note) else { return };
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
            remove(dir);
        }
        // One among the temporary files of another TMPDIR waits for a harness that has it.
        if !is_named || !is_ours() {
            let _ = fs::remove_file(note);
        }
    }

    /// The place itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// For the reviewer's temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    /// For the socket by which the reviewer speaks to the harness.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("socket")
    }

    /// A layer over the project.
    pub fn overlay(&self, project: &Path) -> Overlay {
        Overlay { project: project.to_owned(), upper: self.upper(), work: self.work() }
    }

    fn upper(&self) -> PathBuf {
        self.dir.join("upper")
    }

    fn work(&self) -> PathBuf {
        self.dir.join("work")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.dir);
        if fs::symlink_metadata(&self.dir).is_err() {
            let _ = fs::remove_file(&self.note);
        }
    }
}

/// Writes a note, in the place of whatever has its name.
pub(super) fn write_note(note: &Path, bytes: &[u8]) -> io::Result<()> {
    let (Some(dir), Some(name)) = (note.parent(), note.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let dir = openat::open_root(&dir.canonicalize()?)?;
    openat::replace(&dir, name, |file| file.write_all_at(bytes, 0))
}

/// Reads a note, if it is an ordinary file of a sensible length.
pub(super) fn read_note(note: &Path) -> io::Result<Vec<u8>> {
    let (Some(dir), Some(name)) = (note.parent(), note.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let file = openat::open_file_at(&openat::open_root(&dir.canonicalize()?)?, name)?;
    let found = file.metadata()?;
    if !found.is_file() || found.len() > LONGEST_NOTE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.take(LONGEST_NOTE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Where such places are made. Without links and from the root: the reviewer works in another directory
/// than we do, and whether this is inside the project has to be seen.
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

/// Removes a directory with everything in it, however deep it is and whatever is closed: a reviewer
/// did as it liked there, and the kernel leaves a closed one in the working directory of an overlay.
fn remove(dir: &Path) {
    let emptied = || -> io::Result<()> {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
        let inside = openat::open_root(dir)?;
        for entry in fs::read_dir(dir)? {
            openat::remove(&inside, &entry?.file_name())?;
        }
        fs::remove_dir(dir)
    };
    // Nobody can be helped by an error here, and the system clears its temporary files.
    let _ = emptied();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_goes_with_everything_in_it() {
        let base = tempfile::tempdir().unwrap();
        let note = base.path().join("note");
        let scratch = Scratch::new(&format!("test-{}", std::process::id()), &note).unwrap();
        assert_eq!(fs::metadata(scratch.dir()).unwrap().mode() & 0o777, 0o700);
        assert!(note.exists());
        let closed = scratch.work().join("closed");
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
