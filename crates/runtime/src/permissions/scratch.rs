//! A private place for one review, outside of the project.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::beneath;
use super::overlay::Overlay;
use super::restore;

/// What the names of all such places begin with.
const PREFIX: &str = "autoloop-review-";

/// A directory that only its owner can enter; gone when it is dropped.
///
/// It holds what must not lie in the project: temporary files of the reviewer, the layer that its
/// writes go to, and the socket by which it speaks to the harness, which could not be reached through
/// that layer.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    /// Makes one among the temporary files.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or there is something of that name.
    pub fn new(name: &str) -> io::Result<Scratch> {
        let scratch = Scratch { dir: temporary_files()?.join(format!("{PREFIX}{name}")) };
        let mut private = fs::DirBuilder::new();
        private.mode(0o700);
        private.create(&scratch.dir).map_err(|error| about(&scratch.dir, &error))?;
        for inside in [scratch.temporary(), scratch.upper(), scratch.work()] {
            private.create(inside)?;
        }
        Ok(scratch)
    }

    /// Takes away what a harness left that was killed. Only what is plainly such a place, and ours,
    /// is touched: the path may have been written by anybody.
    pub fn sweep(dir: &Path) {
        let is_named = dir
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
        let is_ours = fs::symlink_metadata(dir).is_ok_and(|found| {
            found.is_dir() && found.uid() == rustix::process::geteuid().as_raw()
        });
        let is_there = temporary_files().is_ok_and(|files| dir.parent() == Some(&files));
        if is_named && is_ours && is_there {
            remove(dir);
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
    pub fn door(&self) -> PathBuf {
        self.dir.join("door")
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
    }
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
        let inside = beneath::open_root(dir)?;
        for entry in fs::read_dir(dir)? {
            restore::remove(&inside, &entry?.file_name())?;
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
        let scratch = Scratch::new(&format!("test-{}", std::process::id())).unwrap();
        assert_eq!(fs::metadata(scratch.dir()).unwrap().mode() & 0o777, 0o700);
        let closed = scratch.work().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::write(closed.join("file"), "x").unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(scratch.dir(), fs::Permissions::from_mode(0o000)).unwrap();
        let dir = scratch.dir().to_owned();
        drop(scratch);
        assert!(!dir.exists());
    }

    #[test]
    fn only_a_scratch_is_swept() {
        let base = tempfile::tempdir().unwrap();
        let decoy = base.path().join("autoloop-review-x");
        fs::create_dir(&decoy).unwrap();
        Scratch::sweep(&decoy);
        Scratch::sweep(base.path());
        assert!(decoy.exists(), "it is not where such places are made");
        let left = Scratch::new(&format!("left-{}", std::process::id())).unwrap();
        Scratch::sweep(left.dir());
        assert!(!left.dir().exists());
    }
}
