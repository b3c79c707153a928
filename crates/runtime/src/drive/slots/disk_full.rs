//! Whether something failed only because the disk is full.
//!
//! Then the failure says nothing about the work, and the next step fails as well: the whole queue would be
//! released as failed within seconds. So the run stops, and is resumed once there is room.

#![expect(
    clippy::disallowed_methods,
    reason = "writes a file to find out whether the real disk is full"
)]

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::error::{DriveError, says_full};

const LITTLE: usize = 64 * 1024;

/// Fails with [`DriveError::NoRoom`] if an error message says that the disk of a directory is full, or if it is.
pub(super) fn check_room(dir: &Path, said: &str) -> Result<(), DriveError> {
    match says_full(said) || is_full(dir) {
        true => Err(DriveError::NoRoom(dir.to_owned())),
        false => Ok(()),
    }
}

/// Writes a file to find out: what a disk reports as free ignores quotas and blocks reserved for root.
fn is_full(dir: &Path) -> bool {
    let probe = dir.join("room");
    // A link that an agent put there must not be followed.
    let _ = fs::remove_file(&probe);
    let written = File::create_new(&probe).and_then(|mut file| file.write_all(&[0; LITTLE]));
    let _ = fs::remove_file(&probe);
    written.is_err_and(|error| is_lack_of_room(&error))
}

fn is_lack_of_room(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_disk_is_a_lack_of_room() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check_room(dir.path(), "fatal: bad object").is_ok());
        assert!(check_room(&dir.path().join("missing"), "").is_ok());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left of the trial");
        let told =
            check_room("/p".as_ref(), "fatal: sha1 file write error: No space left on device");
        insta::assert_snapshot!(told.unwrap_err(), @"no space left on the disk that contains /p");
        assert!(is_lack_of_room(&rustix::io::Errno::DQUOT.into()));
    }
}
