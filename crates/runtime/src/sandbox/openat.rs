//! File operations in a directory that a reviewer may have manipulated.
//!
//! Every step of a path is opened by itself and refuses symbolic links, so no link can redirect a write
//! outside. That is sound only while no other process writes: callers make sure that every process of the
//! reviewer has ended.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use autoloop_core::permissions::{Entry, Kind, Stamp};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::listing::Trees;
use crate::files::{self, DIRECTORY};

/// For a directory on the way to another one: search permission is enough.
#[cfg(target_os = "linux")]
const STEP: OFlags = DIRECTORY.union(OFlags::PATH);
#[cfg(not(target_os = "linux"))]
const STEP: OFlags = DIRECTORY;

/// Opens a directory by its absolute path, which was canonical when it was determined: a link in it now
/// was made since, to redirect us.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let mut names = names(path);
    let last = names.pop().unwrap_or_else(|| ".".into());
    let mut dir = rustix::fs::open("/", STEP, Mode::empty())?;
    for name in names {
        dir = rustix::fs::openat(&dir, &name, STEP, Mode::empty())?;
    }
    open_dir_at(&dir, &last)
}

/// Opens a directory beneath a root and creates what is missing on the way.
pub(super) fn make_dirs(root: &OwnedFd, beneath: &Path) -> io::Result<OwnedFd> {
    let mut dir = root.try_clone()?;
    for name in names(beneath) {
        make_dir(&dir, &name)?;
        dir = open_dir_at(&dir, &name)?;
    }
    Ok(dir)
}

/// Creates a directory; one that exists is fine.
pub(super) fn make_dir(dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::mkdirat(dir, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn open_dir_at(dir: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(dir, name, DIRECTORY, Mode::empty())?)
}

/// Opens a file for reading; never blocks on a pipe.
pub(super) fn open_file_at(dir: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(dir, name, flags, Mode::empty())?))
}

/// Opens a file that a reviewer may have made unreadable; its mode is restored with its other changes.
pub(super) fn open_file_forced(dir: &OwnedFd, name: &OsStr) -> io::Result<File> {
    match open_file_at(dir, name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let stat = stat_at(dir, name)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Err(error);
            }
            let mode = Mode::from_raw_mode(stat.st_mode);
            rustix::fs::chmodat(dir, name, mode | Mode::RUSR, AtFlags::empty())?;
            let opened = open_file_at(dir, name);
            rustix::fs::chmodat(dir, name, mode, AtFlags::empty())?;
            opened
        }
        result => result,
    }
}

pub(super) fn stat_at(dir: &OwnedFd, name: &OsStr) -> io::Result<Stat> {
    Ok(rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    });
    names.collect()
}

/// Opens the directory that holds a path beneath a root, and returns it with the last name. Directories
/// closed to their owner are opened up, and added to `opened_up` with their former modes.
pub(super) fn open_parent(
    root: &OwnedFd,
    beneath: &Path,
    opened_up: &mut Vec<(PathBuf, u32)>,
) -> io::Result<(OwnedFd, OsString)> {
    let mut names = names(beneath);
    let Some(last) = names.pop() else { return Err(Errno::INVAL.into()) };
    let mut dir = root.try_clone()?;
    let mut path = PathBuf::new();
    let mut open_up = |path: &Path, dir: &OwnedFd, name: &OsStr| -> io::Result<()> {
        let stat = stat_at(dir, name)?;
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if is_dir && stat.st_mode & 0o700 != 0o700 {
            opened_up.push((path.to_owned(), mode_bits(&stat)));
            let mode = Mode::from_raw_mode(stat.st_mode) | Mode::RWXU;
            rustix::fs::chmodat(dir, name, mode, AtFlags::empty())?;
        }
        Ok(())
    };
    open_up(&path, &dir, OsStr::new("."))?;
    for name in names {
        path.push(&name);
        open_up(&path, &dir, &name)?;
        dir = open_dir_at(&dir, &name)?;
    }
    Ok((dir, last))
}

pub(super) fn mode_bits(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

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
        mode: mode_bits(stat),
        owner: (stat.st_uid, stat.st_gid),
        links: stat.st_nlink,
        stamp: stamp(stat),
    })
}

pub(super) fn stamp(stat: &Stat) -> Stamp {
    Stamp {
        device: stat.st_dev,
        inode: stat.st_ino,
        len: u64::try_from(stat.st_size).unwrap_or_default(),
        written: nanos(stat.st_mtime, stat.st_mtime_nsec),
        changed: nanos(stat.st_ctime, stat.st_ctime_nsec),
    }
}

/// What is at a path, with the directory that holds it.
pub(super) fn look(path: &Path) -> io::Result<Option<(OwnedFd, Entry)>> {
    use io::ErrorKind::{NotADirectory, NotFound};

    let name = path.file_name().unwrap_or_default();
    let found = open_root(path.parent().unwrap_or(Path::new("/"))).and_then(|dir| {
        let entry = entry(&stat_at(&dir, name)?, &dir, name)?;
        Ok(Some((dir, entry)))
    });
    match found {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        found => found,
    }
}

pub(super) fn nanos(seconds: i64, nanos: impl Into<i128>) -> i128 {
    i128::from(seconds) * 1_000_000_000 + nanos.into()
}

/// Replaces whatever has a name by a new file.
pub(super) fn replace(
    dir: &OwnedFd,
    name: &OsStr,
    fill: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    // Short, so that the longest names have room for it. Only one process restores at a time.
    let temporary = format!(".putting-back-{}", crc32fast::hash(name.as_bytes()));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let _ = rustix::fs::unlinkat(dir, &temporary, AtFlags::empty());
    let fresh = rustix::fs::openat(dir, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
    let done = fill(&File::from(fresh))
        .and_then(|()| match stat_at(dir, name) {
            // A file cannot be renamed over a directory.
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                files::remove_at(dir, name)
            }
            _ => Ok(()),
        })
        .and_then(|()| Ok(rustix::fs::renameat(dir, &temporary, dir, name)?));
    if done.is_err() {
        let _ = rustix::fs::unlinkat(dir, &temporary, AtFlags::empty());
    }
    done
}

/// Opens files one after another and keeps the directory of the last one open.
pub(super) struct DirCache<'t> {
    trees: &'t Trees,
    last: Option<(PathBuf, OwnedFd)>,
}

impl<'t> DirCache<'t> {
    pub(super) fn new(trees: &'t Trees) -> Self {
        DirCache { trees, last: None }
    }

    /// Opens a file, unless its mode forbids it: that is the user's choice.
    pub(super) fn open(&mut self, path: &Path) -> io::Result<File> {
        let (dir, name) = self.parent(path)?;
        open_file_at(dir, name)
    }

    /// Opens a file although its mode may forbid it: a reviewer may have set that.
    pub(super) fn open_forced(&mut self, path: &Path) -> io::Result<File> {
        let (dir, name) = self.parent(path)?;
        open_file_forced(dir, name)
    }

    fn parent<'p>(&mut self, path: &'p Path) -> io::Result<(&OwnedFd, &'p OsStr)> {
        let (parent, name) = path.parent().zip(path.file_name()).ok_or(Errno::NOENT)?;
        let dir = match self.last.take() {
            Some((last, dir)) if last == parent => dir,
            _ => {
                let (root, beneath) = self.trees.locate(path).ok_or(Errno::NOENT)?;
                let mut names = names(&beneath);
                names.pop();
                names.iter().try_fold(open_root(root)?, |dir, name| open_dir_at(&dir, name))?
            }
        };
        Ok((&self.last.insert((parent.to_owned(), dir)).1, name))
    }
}
