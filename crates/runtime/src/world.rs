//! The four seams between autoloop and everything it cannot control.
//!
//! Whatever the product does to the world goes through a [`Clock`], a [`Spawner`], a [`Disk`] or an
//! [`Entropy`]. Each has one real implementation here and one simulated implementation in the
//! testkit; nothing else is ever faked. The traits are object-safe and know no `async`, so a
//! simulation can drive the same code from one seed on one thread.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use autoloop_core::timestamp::Timestamp;

mod confinement;
mod job;
mod real;
mod secret;

pub use confinement::{Confinement, Overlay, Rules};
pub use job::{
    CRASH_GRACE, Cause, Ending, Exit, Finished, Job, Left, Leftovers, Limits, NeverStarted,
    Obstacle, Output, Reading, Report, Running, Signal, Spool,
};
pub use real::{OsEntropy, RealDisk, SystemClock};
pub use secret::{Key, KeyedDigest, Secret};

/// Everything outside the program, as one value that is passed down from `main`.
#[derive(Clone)]
pub struct World {
    /// What time it is, and how to let it pass.
    pub clock: Arc<dyn Clock>,
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Dice.
    pub entropy: Arc<dyn Entropy>,
    /// Processes.
    pub spawner: Arc<dyn Spawner>,
    /// The key that proves what a harness of this user wrote.
    pub secret: Arc<Secret>,
}

impl World {
    /// The key, where it can be kept.
    pub fn key(&self) -> Option<Key> {
        self.secret.key(&*self.entropy)
    }
}

/// Time, read and spent.
pub trait Clock: Send + Sync {
    /// The wall clock, for the `ts` of records.
    fn now(&self) -> Timestamp;
    /// Time since some fixed moment; never goes backward. Deadlines are made of it.
    fn elapsed(&self) -> Duration;
    /// Lets this much time pass.
    fn sleep(&self, time: Duration);
}

/// Randomness: run ids, tickets, jitter.
pub trait Entropy: Send + Sync {
    /// Fills the whole slice.
    fn fill(&self, bytes: &mut [u8]);

    /// One random number.
    fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// Starts processes.
pub trait Spawner: Send + Sync {
    /// Starts a job and watches over it to its end: deadline, output, leftovers. An error means that
    /// nothing was started; a program that is not there may also be told by the report.
    fn spawn(&self, job: Job) -> io::Result<Running>;

    /// Looks whether the program of a job is there, as far as that can be told without starting it.
    fn look_up(&self, _job: &Job) -> Result<(), NeverStarted> {
        Ok(())
    }

    /// Whether jobs are scripts in place of processes. No kernel confines those, and they are played one
    /// at a time, so that a seed does the same twice.
    fn is_simulated(&self) -> bool {
        false
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read; it must exist.
    Read,
    /// The same, and the name must not be a symbolic link.
    ReadNoFollow,
    /// To read and to add to its end; it is made, for its owner only, when there is none.
    Append,
}

/// A file system, as far as the journal and its sidecars need one.
///
/// Durability follows POSIX: bytes written are durable after [`DiskFile::sync`], a name is durable
/// after [`Disk::sync_dir`] on the directory that holds it.
pub trait Disk: Send + Sync {
    /// Opens a file. To append to it, neither its name nor the directory that holds it may be a
    /// symbolic link; reading through one does no harm.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>>;
    /// Looks at a name without following it.
    fn stat(&self, path: &Path) -> io::Result<FileStat>;
    /// Makes one directory, for its owner only.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Puts a whole file in place of whatever has the name, so that a reader sees the old bytes or
    /// the new ones. Not synced: only things that can be rebuilt are written this way.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Starts to watch a file, which need not exist yet.
    fn watch(&self, path: &Path) -> io::Result<Box<dyn Watch>>;
}

/// One open file.
pub trait DiskFile: Send + Sync {
    /// What the file is now.
    fn stat(&self) -> io::Result<FileStat>;
    /// Takes the exclusive advisory lock; `false` when another open file has it.
    fn try_lock(&self) -> io::Result<bool>;
    /// Gives the lock back. Dropping the file does so too.
    fn unlock(&self) -> io::Result<()>;
    /// The process that holds the lock, where the system can tell and the process has not ended.
    fn lock_holder(&self) -> Option<u32>;
    /// Reads at an offset; 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Adds bytes at the end, possibly fewer than given.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Cuts the file to a length.
    fn cut(&self, len: u64) -> io::Result<()>;
    /// Makes all bytes written so far durable.
    fn sync(&self) -> io::Result<()>;
    /// The first part of the file that was never written, where the file system can tell. It reads as zeros and takes no
    /// room, so it can be longer than anything that can be read.
    fn hole(&self) -> Option<Range<u64>> {
        None
    }
}

/// A watch on one file, begun before its state was looked at, so that no change is missed.
pub trait Watch {
    /// Returns when the file may have changed since the last call, or when the time is up.
    fn changed(&mut self, timeout: Duration) -> io::Result<()>;
}

/// What a name or an open file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// The file system it is on.
    pub device: u64,
    /// Which file it is there.
    pub inode: u64,
    /// Its length in bytes.
    pub len: u64,
    /// How many names it has.
    pub links: u64,
    /// What sort of thing it is.
    pub kind: FileKind,
    /// Another number after every change: on a real disk the nanoseconds of the moment of the last one.
    pub changed: i128,
}

impl FileStat {
    /// Whether both are the same file, whatever it is called.
    pub fn is_same_file(&self, other: &FileStat) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// The sorts of things that a name can stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// An ordinary file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A pipe, a socket or a device.
    Special,
}
