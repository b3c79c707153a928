//! Files that an agent or a user can place: opened without waiting, and read within a limit.
//!
//! Anything can stand where a file is expected: a pipe that never has a writer, a device without an end, a
//! socket, a sparse file larger than memory. So the kind and the length are those of the open descriptor, and
//! opening never waits. Symbolic links are followed in what users place (settings, presets, prompts), because
//! people keep such files in other directories and link them; in what the harness writes for itself, and in the
//! files of git in a worktree, a link is refused.

#![expect(
    clippy::disallowed_methods,
    reason = "opens files that the Disk does not simulate, in the way every caller should"
)]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::world::{Access, Disk, DiskFile, FileKind};

/// Opens a directory, and refuses a link to one.
pub(crate) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const BLOCK: u64 = 64 * 1024;

/// Whether the last component of a path may be a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    Follow,
    /// A link is not a regular file.
    Refuse,
}

#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// A directory, a pipe, a socket, a device, or a link where none is followed.
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it has {bytes} bytes; the limit is {most}")]
    TooLong { bytes: u64, most: u64 },
    #[error("it is not UTF-8")]
    NotText,
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Unreadable> for io::Error {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Io(error) => error,
            why => io::Error::new(io::ErrorKind::InvalidData, why.to_string()),
        }
    }
}

/// Opens a regular file; `None` if there is no such file.
pub fn open(
    disk: &dyn Disk,
    path: &Path,
    links: Links,
) -> Result<Option<Box<dyn DiskFile>>, Unreadable> {
    let access = match links {
        Links::Follow => Access::Read,
        Links::Refuse => Access::ReadNoFollow,
    };
    let file = match disk.open(path, access) {
        Err(error) if is_missing(&error) => return Ok(None),
        opened => opened.map_err(|error| cannot_open(error, links))?,
    };
    match file.stat()?.kind {
        FileKind::Regular => Ok(Some(file)),
        _ => Err(Unreadable::NotAFile),
    }
}

/// Opens a regular file of at most `most` bytes on the real disk, for callers that copy it.
pub fn open_here(path: &Path, links: Links, most: u64) -> Result<File, Unreadable> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = match links {
        Links::Follow => flags,
        Links::Refuse => flags | OFlags::NOFOLLOW,
    };
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|errno| cannot_open(errno.into(), links))?);
    let found = file.metadata()?;
    match found.len() {
        _ if !found.is_file() => Err(Unreadable::NotAFile),
        bytes if bytes > most => Err(Unreadable::TooLong { bytes, most }),
        _ => Ok(file),
    }
}

/// The bytes of a regular file of at most `most` bytes; `None` if there is no such file.
pub fn read(
    disk: &dyn Disk,
    path: &Path,
    links: Links,
    most: u64,
) -> Result<Option<Vec<u8>>, Unreadable> {
    let Some(file) = open(disk, path, links)? else { return Ok(None) };
    let mut bytes = Vec::new();
    let mut length = file.stat()?.len;
    // The file may grow while it is read, so its length alone is no limit.
    while length <= most {
        let at = bytes.len() as u64;
        let block = file.read_range(at..at + BLOCK)?;
        bytes.extend_from_slice(&block);
        if (block.len() as u64) < BLOCK {
            return Ok(Some(bytes));
        }
        length = length.max(bytes.len() as u64);
    }
    Err(Unreadable::TooLong { bytes: length, most })
}

/// The text of a file that a user placed, of at most `most` bytes; `None` if there is no such file.
pub fn read_text(disk: &dyn Disk, path: &Path, most: u64) -> Result<Option<String>, Unreadable> {
    let bytes = read(disk, path, Links::Follow, most)?;
    bytes.map(String::from_utf8).transpose().map_err(|_| Unreadable::NotText)
}

/// The end of a file that another process may still be writing to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The last lines. Bytes that are not UTF-8 are U+FFFD.
    pub text: String,
    pub length: u64,
    /// How many bytes before the text were left out.
    pub left_out: u64,
}

/// Reads at most so many bytes from the end of a file, from the beginning of a line where there is one.
pub fn tail(path: &Path, most: u32, disk: &dyn Disk) -> io::Result<Tail> {
    let file = open(disk, path, Links::Refuse)?.ok_or(io::ErrorKind::NotFound)?;
    let length = file.stat()?.len;
    let left_out = length.saturating_sub(most.into());
    let bytes = file.read_range(left_out..length)?;
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

/// Removes a file or a link; one that does not exist is no error.
pub fn remove_if_exists(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether an error says that the name does not exist: no file, or no directory for it.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Why a name cannot be opened as a file is.
fn cannot_open(error: io::Error, links: Links) -> Unreadable {
    match Errno::from_io_error(&error) {
        // A socket has no descriptor to open; a link that is not followed is reported as a loop.
        Some(Errno::NXIO) => Unreadable::NotAFile,
        Some(Errno::LOOP) if links == Links::Refuse => Unreadable::NotAFile,
        _ => error.into(),
    }
}

/// Removes whatever has a name in a directory, with everything in it. A missing one is fine.
///
/// Directories inside are first moved up beside it, so that a tree of any depth needs few open files.
pub(crate) fn remove_at(dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    if !is_directory_left(dir, name)? {
        return Ok(());
    }
    let mut directories = vec![name.to_owned()];
    let mut moved = 0;
    while let Some(name) = directories.pop() {
        let inside = rustix::fs::openat(dir, &name, DIRECTORY, Mode::empty())?;
        for found in names_in(&inside)? {
            if is_directory_left(&inside, &found)? {
                moved += 1;
                let lifted = OsString::from(format!(".removing-{}-{moved}", std::process::id()));
                rustix::fs::renameat(&inside, &found, dir, &lifted)?;
                directories.push(lifted);
            }
        }
        rustix::fs::unlinkat(dir, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Removes a name unless it is a directory, which is made accessible instead.
fn is_directory_left(dir: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(false),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(Errno::PERM.into());
    }
    if stat.st_mode & 0o700 != 0o700 {
        rustix::fs::chmodat(dir, name, Mode::RWXU, AtFlags::empty())?;
    }
    Ok(true)
}

/// Removes a directory with everything in it, also where its modes forbid it, or whatever else is at a path. A
/// missing one is fine.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return remove_if_exists(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    let inside = rustix::fs::open(path, DIRECTORY, Mode::empty())?;
    for name in names_in(&inside)? {
        remove_at(&inside, &name)?;
    }
    fs::remove_dir(path)
}

pub(crate) fn names_in(dir: impl AsFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        names.push(OsString::from_vec(entry?.file_name().to_bytes().to_vec()));
    }
    names.retain(|name| name != "." && name != "..");
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::RealDisk;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    #[test]
    fn reads_text_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let told = |read: Result<Option<usize>, Unreadable>| match read {
            Ok(Some(bytes)) => format!("{bytes} bytes"),
            Ok(None) => "none".to_owned(),
            Err(why) => why.to_string(),
        };
        fs::write(path("long"), "é".repeat(10_000)).unwrap();
        fs::write(path("too long"), "é".repeat(10_001)).unwrap();
        fs::File::create(path("sparse")).unwrap().set_len(10 << 30).unwrap();
        fs::write(path("bytes"), b"caf\xe9").unwrap();
        fs::write(path("empty"), "").unwrap();
        fs::create_dir(path("dir")).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        symlink(path("empty"), path("link")).unwrap();
        symlink("/dev/zero", path("zero")).unwrap();
        symlink(path("link2"), path("link2")).unwrap();
        let not = "it is not a regular file";
        for (name, followed, refused) in [
            ("long", "20000 bytes", "20000 bytes"),
            (
                "too long",
                "it has 20002 bytes; the limit is 20000",
                "it has 20002 bytes; the limit is 20000",
            ),
            (
                "sparse",
                "it has 10737418240 bytes; the limit is 20000",
                "it has 10737418240 bytes; the limit is 20000",
            ),
            ("bytes", "it is not UTF-8", "4 bytes"),
            ("empty", "0 bytes", "0 bytes"),
            ("link", "0 bytes", not),
            ("zero", not, not),
            ("dir", not, not),
            ("socket", not, not),
            ("none", "none", "none"),
            ("empty/x", "none", "none"),
        ] {
            let text = read_text(&RealDisk, &path(name), 20_000);
            assert_eq!(told(text.map(|text| text.map(|text| text.len()))), followed, "{name}");
            let bytes = read(&RealDisk, &path(name), Links::Refuse, 20_000);
            assert_eq!(told(bytes.map(|bytes| bytes.map(|bytes| bytes.len()))), refused, "{name}");
        }
        let circle = read_text(&RealDisk, &path("link2"), 20_000).unwrap_err().to_string();
        assert!(circle.contains("os error 40"), "{circle}");
    }

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
