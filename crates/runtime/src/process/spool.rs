//! The file that an output of a job is stored in.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::private_files;

/// A file that takes bytes until it is full. After that nothing is stored, so that what is there is
/// the exact beginning. It is made with the first byte: most agents leave standard error alone, and
/// a file costs more than anything else that is done for a job that prints nothing.
#[derive(Debug)]
pub(crate) struct Spooling {
    place: Place,
    room: u64,
    pub(crate) spooled: u64,
    hasher: blake3::Hasher,
}

#[derive(Debug)]
enum Place {
    Nowhere,
    /// Where the file will be.
    At(PathBuf),
    Open(File),
}

impl Spooling {
    /// Stores nothing.
    pub(crate) fn nowhere() -> Self {
        Spooling { place: Place::Nowhere, room: 0, spooled: 0, hasher: blake3::Hasher::new() }
    }

    /// Stores so many bytes in a file, which must not be there yet when they come: what an earlier job
    /// left is removed.
    pub(crate) fn at(path: &Path, room: u64) -> io::Result<Self> {
        // By then we may be in another directory.
        let path = std::path::absolute(path)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // A directory that is not there should be told before the job begins.
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
                // A full disk is no reason to stop the job; the report says how much is stored.
                Ok(0) | Err(_) => break,
            }
        }
        if !(complete && rest.is_empty()) {
            self.place = Place::Nowhere;
        }
    }

    /// The digest of what is stored.
    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        (self.spooled > 0).then(|| *self.hasher.finalize().as_bytes())
    }

    /// The file, made when it is needed. Where that fails, nothing is stored.
    fn file(&mut self) -> Option<&mut File> {
        if let Place::At(path) = &self.place {
            self.place = create(path).map_or(Place::Nowhere, Place::Open);
        }
        match &mut self.place {
            Place::Open(file) => Some(file),
            Place::Nowhere | Place::At(_) => None,
        }
    }
}

/// Makes the file, for its owner only. Whatever the job put in its place is neither followed nor waited for.
fn create(path: &Path) -> io::Result<File> {
    private_files::create_file(path, private_files::Use::Data)
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
