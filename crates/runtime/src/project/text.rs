//! Files of text that somebody wrote: read whole, or refused.

use std::io;
use std::path::Path;

use crate::world::{Access, Disk, FileKind};

/// Why a file cannot be taken as text.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// A directory, a pipe or something else.
    #[error("it is not a file")]
    NotAFile,
    /// Longer than it may be.
    #[error("it has {bytes} bytes; {most} bytes are the most")]
    TooLong {
        /// How many there are.
        bytes: u64,
        /// How many there may be.
        most: u64,
    },
    /// Bytes that are not text.
    #[error("it is not UTF-8")]
    NotText,
    /// The system says no.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The whole text of a file of at most `most` bytes; `None` if there is no such file.
///
/// # Errors
///
/// When there is something by that name which cannot be read as text.
pub fn read_text(disk: &dyn Disk, path: &Path, most: u64) -> Result<Option<String>, Unreadable> {
    let file = match disk.open(path, Access::Read) {
        Ok(file) => file,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = file.stat()?;
    if stat.kind != FileKind::Regular {
        return Err(Unreadable::NotAFile);
    }
    let mut bytes = Vec::new();
    let mut block = [0; 8 * 1024];
    // It may grow while it is read, so the length it had is not enough to go by.
    loop {
        match file.read_at(&mut block, bytes.len() as u64) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&block[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        let length = bytes.len() as u64;
        if length > most {
            return Err(Unreadable::TooLong { bytes: length.max(stat.len), most });
        }
    }
    String::from_utf8(bytes).map(Some).map_err(|_| Unreadable::NotText)
}

/// Whether an error says that there is nothing by that name: no file, or no directory for it.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::RealDisk;
    use std::fs;

    #[test]
    fn reads_text_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str| match read_text(&RealDisk, &dir.path().join(name), 20_000) {
            Ok(Some(text)) => format!("{} bytes", text.len()),
            Ok(None) => "none".to_owned(),
            Err(why) => why.to_string(),
        };
        let path = |name: &str| dir.path().join(name);
        fs::write(path("long"), "é".repeat(10_000)).unwrap();
        fs::write(path("too long"), "é".repeat(10_001)).unwrap();
        fs::write(path("bytes"), b"caf\xe9").unwrap();
        fs::write(path("empty"), "").unwrap();
        fs::create_dir(path("dir")).unwrap();
        std::os::unix::fs::symlink(path("empty"), path("link")).unwrap();
        std::os::unix::fs::symlink(path("link2"), path("link2")).unwrap();
        for (name, expected) in [
            ("long", "20000 bytes"),
            ("too long", "it has 20002 bytes; 20000 bytes are the most"),
            ("bytes", "it is not UTF-8"),
            ("empty", "0 bytes"),
            ("link", "0 bytes"),
            ("dir", "it is not a file"),
            ("none", "none"),
            ("empty/x", "none"),
        ] {
            assert_eq!(read(name), expected, "{name}");
        }
        assert!(read("link2").contains("os error 40"), "{}", read("link2"));
    }
}
