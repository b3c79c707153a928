//! A private place for one review, outside of the project.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::overlay::Overlay;

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
        let scratch = Scratch { dir: std::env::temp_dir().join(format!("{PREFIX}{name}")) };
        let mut private = fs::DirBuilder::new();
        private.mode(0o700);
        private.create(&scratch.dir)?;
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
        if is_named && is_ours && dir.parent() == Some(&std::env::temp_dir()) {
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

/// Removes a directory, also where it holds some that are closed, as the kernel leaves one in the
/// working directory of an overlay.
fn remove(dir: &Path) {
    if fs::remove_dir_all(dir).is_ok() {
        return;
    }
    open_up(dir);
    // Nobody can be helped by an error here, and the system clears its temporary files.
    let _ = fs::remove_dir_all(dir);
}

fn open_up(dir: &Path) {
    let _ = fs::set_permissions(dir, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_goes_with_everything_in_it() {
        let scratch = Scratch::new(&format!("test-{}", std::process::id())).unwrap();
        let closed = scratch.work().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::write(closed.join("file"), "x").unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        let dir = scratch.dir().to_owned();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
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
