//! Errors of a journal.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use autoloop_core::duration;

use super::{Position, Spooled};
use crate::world::{DiskFile, FileKind, FileStat};

/// Why records were not stored.
///
/// Clonable, because several writers may share one failed write.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    /// The journal ends at `head`, not at the expected position.
    #[error("the journal has grown past the expected position")]
    Conflict { head: Position },
    /// The holder is known where the system can tell.
    #[error("{} has been locked for {}{}", path.display(), shown(*waited), by(*holder))]
    Locked { path: PathBuf, waited: Duration, holder: Option<u32> },
    #[error("{} {why}", path.display())]
    Unsuitable { path: PathBuf, why: Unsuitable },
    /// No room: the disk, a quota or a limit on the size of files. `stored` records of this append are in
    /// the journal.
    #[error("no space left for {} ({source}); {} stored", path.display(), of(*stored))]
    Full { path: PathBuf, stored: usize, source: Arc<io::Error> },
    /// The records are written, but not known to be on the disk. Never retried: after a failed sync the
    /// system may have dropped the bytes and report success.
    #[error("cannot sync {} ({source}): the latest records may be lost", path.display())]
    NotDurable { path: PathBuf, source: Arc<io::Error> },
    /// The text to be added to a record could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Spool { path: PathBuf, source: Arc<io::Error> },
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { path: PathBuf, doing: &'static str, source: Arc<io::Error> },
}

impl From<ReadError> for AppendError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unsuitable { path, why } => AppendError::Unsuitable { path, why },
            ReadError::Io { path, source } => AppendError::io(&path, "read", source),
            ReadError::Changed { path } => {
                AppendError::io(&path, "read", io::Error::other("it was replaced"))
            }
        }
    }
}

impl AppendError {
    pub(crate) fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        AppendError::Io { path: path.to_owned(), doing, source: Arc::new(source) }
    }

    /// A failed write. The caller knows how many records were stored before it.
    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};

        match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => {
                AppendError::Full { path: path.to_owned(), stored: 0, source: Arc::new(source) }
            }
            _ => AppendError::io(path, "write to", source),
        }
    }

    pub(super) fn spool(spooled: &Spooled, source: io::Error) -> Self {
        AppendError::Spool { path: spooled.path.clone(), source: Arc::new(source) }
    }
}

fn shown(time: Duration) -> String {
    duration::print(Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
}

fn by(holder: Option<u32>) -> String {
    holder.map(|pid| format!(" by process {pid}")).unwrap_or_default()
}

fn of(stored: usize) -> String {
    match stored {
        0 => "nothing was".to_owned(),
        1 => "only the first record was".to_owned(),
        more => format!("only the first {more} records were"),
    }
}

/// A power cut can leave a part of a file unwritten, which is read as a damaged line. It is never this long:
/// an agent extended the file, and reading all of it would take too long.
const LONGEST_HOLE: u64 = 1024 * 1024 * 1024;

/// Why a path cannot be a journal, or another file that is appended to in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsuitable {
    Directory,
    /// Appending would change the file that it points to.
    Symlink,
    Special,
    /// Appending would change the file under its other names, too.
    HardLinks(u64),
    /// A long part of the file was never written.
    Hole {
        at: u64,
        bytes: u64,
    },
}

impl std::fmt::Display for Unsuitable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message("journal"))
    }
}

impl Unsuitable {
    /// The message for a `wanted`: a journal, a memory file.
    pub fn message(self, wanted: &str) -> String {
        match self {
            Unsuitable::Directory => format!("is a directory, not a {wanted}"),
            Unsuitable::Symlink => {
                format!("is or is below a symbolic link; a {wanted} is not written through links")
            }
            Unsuitable::Special => format!("is a pipe, a socket or a device, not a {wanted}"),
            Unsuitable::HardLinks(names) => {
                format!("has {names} hard links; a {wanted} must have one")
            }
            Unsuitable::Hole { at, bytes } => format!(
                "has {bytes} bytes from byte {at} on that were never written; it is no longer a {wanted}"
            ),
        }
    }

    pub(super) fn file(file: &dyn DiskFile, stat: &FileStat) -> Option<Unsuitable> {
        Unsuitable::kind(stat.kind).or_else(|| {
            let hole = file.hole()?;
            let (at, bytes) = (hole.start, hole.end - hole.start);
            (bytes > LONGEST_HOLE).then_some(Unsuitable::Hole { at, bytes })
        })
    }

    pub(super) fn kind(kind: FileKind) -> Option<Unsuitable> {
        match kind {
            FileKind::Regular => None,
            FileKind::Directory => Some(Unsuitable::Directory),
            FileKind::Symlink => Some(Unsuitable::Symlink),
            FileKind::Special => Some(Unsuitable::Special),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The line before the position is another one: what was read so far is obsolete, and reading starts
    /// over.
    #[error("{} was cut, replaced or edited since it was last read", path.display())]
    Changed { path: PathBuf },
    #[error("{} {why}", path.display())]
    Unsuitable { path: PathBuf, why: Unsuitable },
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl ReadError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        ReadError::Io { path: path.to_owned(), source }
    }
}
