//! Real files, opened so that no link can lead a writer astray.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags};

use crate::private_files;
use crate::procfs;
use crate::world::{Access, Disk, DiskFile, FileKind, FileStat, Watch};

/// How often a file is looked at where the kernel cannot report changes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        // Non-blocking, so that a pipe put where a file should be is refused and not waited for.
        let shared = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = match access {
            Access::Read => rustix::fs::open(path, shared | OFlags::RDONLY, Mode::empty())?,
            Access::ReadNoFollow => {
                let flags = shared | OFlags::RDONLY | OFlags::NOFOLLOW;
                rustix::fs::open(path, flags, Mode::empty())?
            }
            Access::Append => {
                let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW;
                open_or_create(path, shared | flags)?
            }
        };
        Ok(Box::new(RealFile(File::from(fd))))
    }

    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        fs::symlink_metadata(path).map(|metadata| file_stat(&metadata))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        private_files::create_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // Non-blocking for the same reason as above.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        File::from(rustix::fs::open(path, flags, Mode::empty())?).sync_all()
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let beside = unused_name(path);
        let written = private_files::create_file(&beside, private_files::Use::Data)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            // The half-written file is useless; failing to remove it changes nothing.
            let _ = fs::remove_file(&beside);
        }
        written
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(dir, flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(dir)? {
            names.push(OsString::from_vec(entry?.file_name().to_bytes().to_vec()));
        }
        names.retain(|name| name != "." && name != "..");
        Ok(names)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{RenameFlags, renameat_with};
            use rustix::io::Errno;

            match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
                // The file system does not know the flag.
                Err(Errno::INVAL | Errno::NOSYS) => {}
                renamed => return Ok(renamed?),
            }
        }
        // A link never replaces a file. A crash in between leaves both names.
        fs::hard_link(from, to)?;
        fs::remove_file(from)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    #[cfg_attr(not(target_os = "linux"), expect(unused_variables))]
    fn watch(&self, path: &Path) -> io::Result<Box<dyn Watch>> {
        #[cfg(target_os = "linux")]
        if let Ok(watch) = super::inotify::DirectoryWatch::new(path) {
            return Ok(Box::new(watch));
        }
        // The directory does not exist yet, or the user's inotify watches are used up.
        Ok(Box::new(Sleeping))
    }
}

/// Watches by waiting a little and letting the caller look.
struct Sleeping;

impl Watch for Sleeping {
    fn changed(&mut self, timeout: Duration) -> io::Result<()> {
        std::thread::sleep(timeout.min(POLL_INTERVAL));
        Ok(())
    }
}

/// A name in the same directory that no other writer of this or another process uses.
fn unused_name(path: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{count}.tmp", std::process::id()));
    path.with_file_name(name)
}

/// Opens a file to append to it, and creates it first where it is missing.
fn open_or_create(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    match open_without_links(path, flags) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match open_without_links(path, flags | OFlags::CREATE | OFlags::EXCL) {
        // Another process created it first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            open_without_links(path, flags)
        }
        created => {
            let file = File::from(created?);
            private_files::set_file_bits(&file, private_files::Use::Data)?;
            Ok(file.into())
        }
    }
}

/// Opens `…/state/journal.jsonl` so that neither of its last two parts is a symbolic link. What
/// comes before them is the user's own choice of a place and may well be one.
#[cfg(target_os = "linux")]
fn open_without_links(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    use rustix::io::Errno;

    let (base, beneath) = split_base(path);
    // The call refuses bits for a file that it does not create.
    let is_new = flags.contains(OFlags::CREATE);
    let mode = if is_new { Mode::RUSR | Mode::WUSR } else { Mode::empty() };
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = if base.as_os_str().is_empty() {
        openat2(CWD, &beneath, flags, mode, resolve)
    } else {
        let dir = rustix::fs::open(
            &base,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        openat2(&dir, &beneath, flags, mode, resolve)
    };
    match opened {
        // Kernels before 5.6 do not have the call; some container filters forbid it.
        Err(Errno::NOSYS | Errno::PERM) => open_after_looking(path, flags),
        result => Ok(result?),
    }
}

#[cfg(not(target_os = "linux"))]
use open_after_looking as open_without_links;

/// The same where the kernel cannot check a whole path at once.
fn open_after_looking(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let dir = split_dir(path);
    if !dir.as_os_str().is_empty() && fs::symlink_metadata(dir)?.file_type().is_symlink() {
        return Err(rustix::io::Errno::LOOP.into());
    }
    Ok(rustix::fs::openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?)
}

fn split_dir(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// `a/b/c.jsonl` → (`a`, `b/c.jsonl`): the part that may hold links, and the part that may not.
#[cfg(target_os = "linux")]
fn split_base(path: &Path) -> (PathBuf, PathBuf) {
    let name = Path::new(path.file_name().unwrap_or(path.as_os_str()));
    let dir = split_dir(path);
    match dir.file_name() {
        Some(dir_name) => (split_dir(dir).to_owned(), Path::new(dir_name).join(name)),
        // `/c.jsonl`, `c.jsonl` and `../c.jsonl` have no directory that could be looked at.
        None => (dir.to_owned(), name.to_owned()),
    }
}

struct RealFile(File);

/// A file that was opened in another way.
impl From<File> for Box<dyn DiskFile> {
    fn from(file: File) -> Self {
        Box::new(RealFile(file))
    }
}

impl DiskFile for RealFile {
    fn stat(&self) -> io::Result<FileStat> {
        self.0.metadata().map(|metadata| file_stat(&metadata))
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }

    fn lock_holder(&self) -> Option<u32> {
        let stat = self.0.metadata().ok()?;
        for _ in 0..MAX_SCANS {
            let locks = fs::read_to_string("/proc/locks").ok()?;
            let held = holder(&locks, &stat);
            if held.is_some() || locks.len() < IN_ONE_PIECE {
                return held;
            }
        }
        None
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    #[cfg(target_os = "linux")]
    fn hole(&self) -> Option<Range<u64>> {
        use rustix::fs::{SeekFrom, seek};

        let len = self.0.metadata().ok()?.len();
        // Every file is said to have a hole at its end.
        let begin = seek(&self.0, SeekFrom::Hole(0)).ok().filter(|begin| *begin < len)?;
        // Without data behind it the hole reaches to the end.
        Some(begin..seek(&self.0, SeekFrom::Data(begin)).unwrap_or(len))
    }
}

/// The kernel tells a list of locks that is longer than this a page at a time. Where a lock goes away
/// meanwhile, it passes over another.
const IN_ONE_PIECE: usize = 3_500;
/// How often a long list is searched before a lock counts as free.
const MAX_SCANS: u32 = 5;

/// Who holds the lock of a file, by the list of all locks.
fn holder(locks: &str, stat: &fs::Metadata) -> Option<u32> {
    let device =
        format!("{:02x}:{:02x}", rustix::fs::major(stat.dev()), rustix::fs::minor(stat.dev()));
    let held = locks.lines().filter_map(Flock::parse).filter(|held| held.inode == stat.ino());
    // Some file systems (btrfs, overlays) tell programs another device than the one in the list.
    let held = held.filter(|held| held.device == device || has_open(held.pid, stat));
    // A lock may outlive the process that took it: a child that is being started has a copy, until it
    // becomes another program.
    held.map(|held| held.pid).find(|held| procfs::pid(*held).is_some_and(procfs::is_alive))
}

#[derive(Debug, PartialEq, Eq)]
struct Flock<'l> {
    pid: u32,
    device: &'l str,
    inode: u64,
}

impl Flock<'_> {
    /// Reads `1: FLOCK  ADVISORY  WRITE 7121 fe:00:131 0 EOF`; waiters have a `->` after the number
    /// and are passed over.
    fn parse(line: &str) -> Option<Flock<'_>> {
        let mut words = line.split_whitespace().skip(1);
        (words.next()? == "FLOCK").then_some(())?;
        let pid = words.nth(2)?.parse().ok()?;
        let (device, inode) = words.next()?.rsplit_once(':')?;
        Some(Flock { pid, device, inode: inode.parse().ok()? })
    }
}

/// Whether a process has a file open, as far as we may know.
fn has_open(pid: u32, file: &fs::Metadata) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let is_it = |other: fs::Metadata| (other.dev(), other.ino()) == (file.dev(), file.ino());
    open.flatten().any(|entry| fs::metadata(entry.path()).is_ok_and(is_it))
}

fn file_stat(metadata: &fs::Metadata) -> FileStat {
    let kind = metadata.file_type();
    FileStat {
        device: metadata.dev(),
        inode: metadata.ino(),
        len: metadata.len(),
        links: metadata.nlink(),
        changed: i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec()),
        kind: if kind.is_file() {
            FileKind::Regular
        } else if kind.is_dir() {
            FileKind::Directory
        } else if kind.is_symlink() {
            FileKind::Symlink
        } else {
            FileKind::Special
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_holder_is_told_from_a_waiter() {
        let holder = "1: FLOCK  ADVISORY  WRITE 7121 fe:00:131 0 EOF";
        let waiter = "1: -> FLOCK  ADVISORY  WRITE 7122 fe:00:131 0 EOF";
        let other = "2: POSIX  ADVISORY  WRITE 7123 fe:00:131 0 EOF";
        let held = Flock { pid: 7121, device: "fe:00", inode: 131 };
        assert_eq!(Flock::parse(holder), Some(held));
        assert_eq!(Flock::parse(waiter), None);
        assert_eq!(Flock::parse(other), None);
        assert_eq!(Flock::parse(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_holder_of_a_lock_is_found_without_taking_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let ours = RealDisk.open(&path, Access::Append).unwrap();
        let looking = RealDisk.open(&path, Access::Read).unwrap();
        assert_eq!(looking.lock_holder(), None);
        assert!(ours.try_lock().unwrap());
        assert_eq!(looking.lock_holder(), Some(std::process::id()));
        let stat = fs::metadata(&path).unwrap();
        assert!(has_open(std::process::id(), &stat));
        assert!(!has_open(std::process::id(), &fs::metadata(dir.path()).unwrap()));
        ours.unlock().unwrap();
        assert_eq!(looking.lock_holder(), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_last_two_parts_of_a_path_are_held_to_be_real() {
        let split = |path: &str| {
            let (base, beneath) = split_base(Path::new(path));
            (base.display().to_string(), beneath.display().to_string())
        };
        let pair = |base: &str, beneath: &str| (base.to_owned(), beneath.to_owned());
        assert_eq!(split("/a/b/c.jsonl"), pair("/a", "b/c.jsonl"));
        assert_eq!(split(".autoloop/c.jsonl"), pair("", ".autoloop/c.jsonl"));
        assert_eq!(split("c.jsonl"), pair("", "c.jsonl"));
        assert_eq!(split("/c.jsonl"), pair("/", "c.jsonl"));
        assert_eq!(split("../c.jsonl"), pair("..", "c.jsonl"));
    }
}
