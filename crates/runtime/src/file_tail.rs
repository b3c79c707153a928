//! The end of a file that somebody may still be writing to.

use std::io;
use std::path::Path;

use crate::files::{self, Links};
use crate::world::Disk;

/// What stands at the end of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The last lines. Bytes that are not UTF-8 are U+FFFD.
    pub text: String,
    /// How long the whole file is, in bytes.
    pub length: u64,
    /// How many bytes before the text were left out.
    pub left_out: u64,
}

/// Reads at most so many bytes from the end of a file, from the beginning of a line where there is one.
pub fn tail(path: &Path, most: u32, disk: &dyn Disk) -> io::Result<Tail> {
    let file = files::open(disk, path, Links::Refuse)?.ok_or(io::ErrorKind::NotFound)?;
    let length = file.stat()?.len;
    let left_out = length.saturating_sub(most.into());
    let mut bytes = vec![0; usize::try_from(length - left_out).unwrap_or_default()];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], left_out + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    let begin = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) if left_out > 0 && end + 1 < bytes.len() => end + 1,
        _ => 0,
    };
    Ok(Tail {
        text: String::from_utf8_lossy(&bytes[begin..]).into_owned(),
        length,
        left_out: left_out + begin as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::RealDisk;

    fn of(bytes: &[u8], most: u32) -> (String, u64) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        std::fs::write(&path, bytes).unwrap();
        let tail = tail(&path, most, &RealDisk).unwrap();
        assert_eq!(tail.length, bytes.len() as u64);
        (tail.text, tail.left_out)
    }

    #[test]
    fn whole_lines_are_read_from_the_end() {
        assert_eq!(of(b"one\ntwo\nthree", 100), ("one\ntwo\nthree".into(), 0));
        assert_eq!(of(b"one\ntwo\nthree", 11), ("two\nthree".into(), 4));
        assert_eq!(of(b"one\ntwo\nthree", 3), ("ree".into(), 10));
        assert_eq!(of(b"0123456789\n", 4), ("789\n".into(), 7));
        assert_eq!(of(b"", 4), (String::new(), 0));
        assert_eq!(of(b"a\xffb", 4), ("a\u{fffd}b".into(), 0));
    }

    #[test]
    fn what_is_no_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        for path in [dir.path(), &link, &dir.path().join("missing")] {
            assert!(tail(path, 10, &RealDisk).is_err(), "{}", path.display());
        }
    }
}
