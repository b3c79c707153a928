//! Reaching into a directory whose inside is not to be trusted.
//!
//! Every step of a path is opened by itself and refuses symbolic links, so nothing a reviewer put
//! there can lead a write outside. That is sound only while nobody else writes: callers make sure
//! that every process of the reviewer is dead.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use autoloop_core::permissions::{Entry, Kind, Stamp};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// How every directory is opened.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A step on the way to a directory: the right to pass is enough.
#[cfg(target_os = "linux")]
const STEP: OFlags = DIRECTORY.union(OFlags::PATH);
#[cfg(not(target_os = "linux"))]
const STEP: OFlags = DIRECTORY;

/// Opens a directory by its whole path, which had no links in it when it was found out: if there is
/// one now, somebody put it there to lead us elsewhere.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let mut names = names(path);
    let last = names.pop().unwrap_or_else(|| ".".into());
    let mut dir = rustix::fs::open("/", STEP, Mode::empty())?;
    for name in names {
        dir = rustix::fs::openat(&dir, &name, STEP, Mode::empty())?;
    }
    open_dir_at(&dir, &last)
}

/// Opens a directory beneath a root, and makes what is missing on the way.
pub(super) fn make_dirs(root: &OwnedFd, beneath: &Path) -> io::Result<OwnedFd> {
    let mut dir = root.try_clone()?;
    for name in names(beneath) {
        match rustix::fs::mkdirat(&dir, &name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        dir = open_dir_at(&dir, &name)?;
    }
    Ok(dir)
}

/// Opens a directory in another one; never a link.
pub(super) fn open_dir_at(dir: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(dir, name, DIRECTORY, Mode::empty())?)
}

/// Opens a file to be read; never a link, and never waits for a pipe.
pub(super) fn open_file_at(dir: &OwnedFd, name: &OsStr) -> io::Result<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(std::fs::File::from(rustix::fs::openat(dir, name, flags, Mode::empty())?))
}

/// Opens a file although its bits may forbid it, as its owner can. The bits are put back with the
/// rest of what a reviewer changed.
pub(super) fn open_file_forced(dir: &OwnedFd, name: &OsStr) -> io::Result<std::fs::File> {
    match open_file_at(dir, name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let stat = stat_at(dir, name)?;
            if !is(&stat, FileType::RegularFile) {
                return Err(error);
            }
            let bits = Mode::from_raw_mode(stat.st_mode) | Mode::RUSR;
            rustix::fs::chmodat(dir, name, bits, AtFlags::empty())?;
            let opened = open_file_at(dir, name);
            rustix::fs::chmodat(dir, name, Mode::from_raw_mode(stat.st_mode), AtFlags::empty())?;
            opened
        }
        result => result,
    }
}

/// Looks at a name without following it.
pub(super) fn stat_at(dir: &OwnedFd, name: &OsStr) -> io::Result<Stat> {
    Ok(rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

/// The parts of a path beneath a root: names only.
pub(super) fn names(beneath: &Path) -> Vec<OsString> {
    beneath
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            _ => None,
        })
        .collect()
}

/// Opens the directory that holds a path beneath a root, and gives the last name. A directory that
/// is closed to its owner is opened to him, and `opened_up` is told its path and former bits.
pub(super) fn open_parent(
    root: &OwnedFd,
    beneath: &Path,
    opened_up: &mut Vec<(PathBuf, u32)>,
) -> io::Result<(OwnedFd, OsString)> {
    let mut names = names(beneath);
    let Some(last) = names.pop() else { return Err(Errno::INVAL.into()) };
    let mut dir = root.try_clone()?;
    let mut path = PathBuf::new();
    open_up(&dir, &path, opened_up)?;
    for name in names {
        path.push(&name);
        dir = match open_dir_at(&dir, &name) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let stat = stat_at(&dir, &name)?;
                opened_up.push((path.clone(), bits(&stat)));
                let mode = Mode::from_raw_mode(stat.st_mode) | Mode::RWXU;
                rustix::fs::chmodat(&dir, &name, mode, AtFlags::empty())?;
                open_dir_at(&dir, &name)?
            }
            result => result?,
        };
        open_up(&dir, &path, opened_up)?;
    }
    Ok((dir, last))
}

/// Makes sure that the owner can put names into a directory.
fn open_up(dir: &OwnedFd, path: &Path, opened_up: &mut Vec<(PathBuf, u32)>) -> io::Result<()> {
    let stat = rustix::fs::fstat(dir)?;
    if stat.st_mode & 0o700 != 0o700 {
        opened_up.push((path.to_owned(), bits(&stat)));
        rustix::fs::fchmod(dir, Mode::from_raw_mode(stat.st_mode) | Mode::RWXU)?;
    }
    Ok(())
}

fn bits(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

/// What a name stands for, in the words of the decisions.
pub(super) fn entry(stat: &Stat, dir: &OwnedFd, name: &OsStr) -> io::Result<Entry> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
            Kind::Symlink(OsString::from_vec(target.into_bytes()).into())
        }
        FileType::Fifo => Kind::Pipe,
        FileType::Socket => Kind::Socket,
        _ => Kind::Device(stat.st_rdev),
    };
    Ok(Entry {
        kind,
        mode: bits(stat),
        owner: (stat.st_uid, stat.st_gid),
        links: stat.st_nlink,
        stamp: stamp(stat),
    })
}

/// The stamp of a file.
pub(super) fn stamp(stat: &Stat) -> Stamp {
    let nanos = |seconds: i64, nanos: u64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    Stamp {
        device: stat.st_dev,
        inode: stat.st_ino,
        len: u64::try_from(stat.st_size).unwrap_or_default(),
        written: nanos(stat.st_mtime, stat.st_mtime_nsec),
        changed: nanos(stat.st_ctime, stat.st_ctime_nsec),
    }
}
