//! The file that an output of a job is written to.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{files, private_files};

/// A file that is written until its limit. After that nothing is stored, so that it holds the exact beginning. It is
/// created with the first byte: most agents print nothing on standard error.
#[derive(Debug, Default)]
pub(crate) struct Spooling {
    place: Place,
    room: u64,
    pub(crate) spooled: u64,
    hasher: blake3::Hasher,
}

#[derive(Debug, Default)]
enum Place {
    #[default]
    Nowhere,
    /// Not created yet.
    At(PathBuf),
    Open(File),
}

impl Spooling {
    pub(crate) fn nowhere() -> Self {
        Spooling::default()
    }

    /// Stores up to `room` bytes in a file. What an earlier job left there is removed.
    pub(crate) fn at(path: &Path, room: u64) -> io::Result<Self> {
        // The working directory may change before the first byte.
        let path = std::path::absolute(path)?;
        files::remove_if_exists(&path)?;
        // A missing directory is reported before the job starts.
        path.parent().map(fs::metadata).transpose()?;
        Ok(Spooling { place: Place::At(path), room, ..Spooling::nowhere() })
    }

    pub(crate) fn take(&mut self, piece: &[u8]) {
        let mut rest = &piece[..piece.len().min(usize::try_from(self.room).unwrap_or(usize::MAX))];
        let complete = rest.len() == piece.len();
        while let (false, Some(file)) = (rest.is_empty(), self.file()) {
            match file.write(rest) {
                Ok(count @ 1..) => {
                    let (stored, more) = rest.split_at(count);
                    self.hasher.update(stored);
                    rest = more;
                    self.spooled += count as u64;
                    self.room -= count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A full disk does not stop the job; the report says how much is stored.
                Ok(0) | Err(_) => break,
            }
        }
        if !(complete && rest.is_empty()) {
            self.place = Place::Nowhere;
        }
    }

    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        (self.spooled > 0).then(|| *self.hasher.finalize().as_bytes())
    }

    /// The file, created when it is needed. Where that fails, nothing is stored.
    fn file(&mut self) -> Option<&mut File> {
        if let Place::At(path) = &self.place {
            // Whatever the job put in its place is neither followed nor waited for.
            let created = private_files::create_file(path, private_files::Use::Data);
            self.place = created.map_or(Place::Nowhere, Place::Open);
        }
        match &mut self.place {
            Place::Open(file) => Some(file),
            Place::Nowhere | Place::At(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_file_comes_with_the_first_byte_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spool");
        fs::write(&path, "of an earlier job").unwrap();
        let mut spooling = Spooling::at(&path, 100).unwrap();
        assert!(!path.exists());
        spooling.take(b"one ");
        spooling.take(b"two");
        assert_eq!(fs::read(&path).unwrap(), b"one two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(spooling.spooled, 7);
    }

    #[test]
    fn what_was_put_in_its_place_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("spool"), dir.path().join("other"));
        let mut spooling = Spooling::at(&path, 100).unwrap();
        symlink(&other, &path).unwrap();
        spooling.take(b"one");
        assert!(!other.exists());
        assert_eq!(spooling.spooled, 0);
    }

    #[test]
    fn a_place_that_cannot_be_is_told_at_once() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Spooling::at(&dir.path().join("missing/spool"), 100).is_err());
        assert!(Spooling::at(dir.path(), 100).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_stops_the_storing_and_nothing_else() {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut spooling = Spooling { place: Place::Open(full), room: 100, ..Spooling::nowhere() };
        spooling.take(b"one ");
        spooling.take(b"two");
        assert_eq!(spooling.spooled, 0);
        assert!(matches!(spooling.place, Place::Nowhere));
    }
}
