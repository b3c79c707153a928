//! The four seams between autoloop and everything it cannot control.
//!
//! Time, processes, files and randomness go through a [`Clock`], a [`Spawner`], a [`Disk`] and an
//! [`Entropy`]. Each has one real implementation and a simulated one in the testkit; nothing else is simulated.
//! The traits are object-safe and not `async`, so a simulation can run the same code from one seed on one thread.

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use autoloop_core::timestamp::Timestamp;
use jiff::Zoned;
use jiff::tz::TimeZone;

mod job;
mod real;
mod secret;

pub use job::{
    CRASH_GRACE, Cause, Confinement, Ending, Exit, Finished, Job, Limits, NeverStarted, Obstacle,
    Orphans, Output, Overlay, Reading, Rules, Running, Signal, Spool,
};
pub use real::{OsEntropy, RealDisk, SystemClock};
pub use secret::{Key, KeyedDigest, Secret};

/// Everything outside the program, as one value that is passed down from `main`.
#[derive(Clone)]
pub struct World {
    pub clock: Arc<dyn Clock>,
    pub disk: Arc<dyn Disk>,
    pub entropy: Arc<dyn Entropy>,
    pub spawner: Arc<dyn Spawner>,
    /// The key that proves what a harness of this user wrote.
    pub secret: Arc<Secret>,
}

impl World {
    /// The key; `None` where it cannot be stored.
    pub fn key(&self) -> Option<Key> {
        self.secret.key(&*self.entropy)
    }
}

pub trait Clock: Send + Sync {
    /// The wall clock, for the `ts` of records.
    fn now(&self) -> Timestamp;
    /// The same moment in a time zone: the named one, or that of the user.
    fn local(&self, _zone: Option<&str>) -> Zoned {
        self.now().in_zone(TimeZone::UTC)
    }
    /// Time since some fixed moment; never goes backward. Deadlines are made of it.
    fn elapsed(&self) -> Duration;
    fn sleep(&self, time: Duration);
}

/// Randomness: run ids, tickets, jitter.
pub trait Entropy: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);

    fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

pub trait Spawner: Send + Sync {
    /// Starts a job and supervises it to its end: deadline, output, orphans. An error means that nothing was
    /// started; a missing program may also be reported by [`Finished`].
    fn spawn(&self, job: Job) -> io::Result<Running>;

    /// Checks that the program of a job exists and may be executed, as far as possible without starting it.
    fn look_up(&self, _job: &Job) -> Result<(), NeverStarted> {
        Ok(())
    }

    /// Whether jobs are scripts instead of processes. No kernel confines those, and they run one at a time, so that
    /// a seed does the same twice.
    fn is_simulated(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read; it must exist.
    Read,
    /// The same, and the name must not be a symbolic link.
    ReadNoFollow,
    /// To read and to append; it is created, for its owner only, if it does not exist.
    Append,
}

/// A file system, as far as the journal and its sidecars need one.
///
/// Durability follows POSIX: bytes written are durable after [`DiskFile::sync`], a name is durable
/// after [`Disk::sync_dir`] on the directory that holds it.
pub trait Disk: Send + Sync {
    /// Opens a file. To append, neither its name nor the directory that holds it may be a symbolic link; reading
    /// through one does no harm.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>>;
    /// The status of a name, which is not followed.
    fn stat(&self, path: &Path) -> io::Result<FileStat>;
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Replaces a file atomically: a reader sees the old bytes or the new ones. Not synced: only what can be rebuilt
    /// is written this way.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// The names in a directory, which must not be a symbolic link.
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>>;
    /// Moves a file to a name that must not exist yet, on the same file system. Of several callers that move the
    /// same file, one succeeds.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file or a symbolic link.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Starts to watch a file, which need not exist yet, or all names in a directory.
    fn watch(&self, path: &Path) -> io::Result<Box<dyn Watch>>;
}

pub trait DiskFile: Send + Sync {
    fn stat(&self) -> io::Result<FileStat>;
    /// Takes the exclusive advisory lock; `false` when another open file has it.
    fn try_lock(&self) -> io::Result<bool>;
    fn unlock(&self) -> io::Result<()>;
    /// The live process that holds the lock, where the system can tell.
    fn lock_holder(&self) -> Option<u32>;
    /// Reads at an offset; 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Reads until the buffer is full or the file ends.
    fn read_full(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
    /// The bytes in a range; fewer where the file ends before.
    fn read_range(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        let count = self.read_full(&mut bytes, range.start)?;
        bytes.truncate(count);
        Ok(bytes)
    }
    /// Appends bytes, possibly fewer than given.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
    fn cut(&self, len: u64) -> io::Result<()>;
    /// Makes all bytes written so far durable.
    fn sync(&self) -> io::Result<()>;
    /// The first part of the file that was never written, where the file system can tell. It reads as zeros and
    /// takes no space, so it can be longer than anything that can be read.
    fn hole(&self) -> Option<Range<u64>> {
        None
    }
}

/// A watch on one file, started before the file is read, so that no change is missed.
pub trait Watch {
    /// Returns when the file may have changed since the last call, or after the timeout.
    fn changed(&mut self, timeout: Duration) -> io::Result<()>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    pub device: u64,
    pub inode: u64,
    pub len: u64,
    /// The number of its names.
    pub links: u64,
    pub kind: FileKind,
    /// Differs after every change: on a real disk the time of the last one, in nanoseconds.
    pub changed: i128,
}

impl FileStat {
    pub fn is_same_file(&self, other: &FileStat) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Regular,
    Directory,
    Symlink,
    /// A pipe, a socket or a device.
    Special,
}
