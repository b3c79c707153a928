//! What can go wrong with a journal, told to a person.

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
    /// Something came behind the expected position.
    #[error("the journal has grown behind the expected position")]
    Conflict {
        /// Where it ends now.
        head: Position,
    },
    /// Another writer holds the lock and does not give it back.
    #[error("{} has been locked for {}{}", path.display(), shown(*waited), by(*holder))]
    Locked {
        /// The journal.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
        /// The process that holds it, where the system can tell.
        holder: Option<u32>,
    },
    /// There is something at the path that a journal cannot be written to.
    #[error("{} {why}", path.display())]
    Unsuitable {
        /// The journal.
        path: PathBuf,
        /// What it is.
        why: Unsuitable,
    },
    /// No room: the disk, a quota or a limit on the size of files.
    #[error("no room left for {} ({source}); {} stored", path.display(), of(*stored))]
    Full {
        /// The journal.
        path: PathBuf,
        /// How many of the records of this append were stored whole.
        stored: usize,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The records are written, but the disk would not say that they are safe. Never retried: after a
    /// failed sync the system may have dropped the bytes and forgotten about it.
    #[error("{} could not be made durable ({source}): what was just written may be lost", path.display())]
    NotDurable {
        /// The journal.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The text to be added to a record could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Spool {
        /// The spool file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Anything else.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The journal, or a directory on the way to it.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: Arc<io::Error>,
    },
}

/// Whoever appends has to read too.
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

    /// The record has no text that the spooled one could be added to.
    pub(super) fn no_place(spooled: &Spooled) -> Self {
        let source = io::Error::new(
            io::ErrorKind::InvalidInput,
            "the record has no text that it could be added to",
        );
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

/// A power cut can leave a part of a file unwritten, and that is read as a damaged line. It is never this long: an agent made
/// the file longer, and reading all of it would take for ever.
const LONGEST_HOLE: u64 = 1024 * 1024 * 1024;

/// What is in the way of a journal, or of another file that is appended to with its care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsuitable {
    /// A directory.
    Directory,
    /// A link to some other file, which appending would change.
    Symlink,
    /// A pipe, a socket or a device.
    Special,
    /// A file that is known by other names too, which appending would change.
    HardLinks(u64),
    /// A file with a long part that was never written.
    Hole {
        /// Where it begins.
        at: u64,
        /// How many bytes it has.
        bytes: u64,
    },
}

impl std::fmt::Display for Unsuitable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.told_of("journal"))
    }
}

impl Unsuitable {
    /// What is wrong with something that was to be a `wanted`: a journal, a memory file.
    pub fn told_of(self, wanted: &str) -> String {
        match self {
            Unsuitable::Directory => format!("is a directory, not a {wanted}"),
            Unsuitable::Symlink => format!(
                "is a symbolic link, or lies in a directory that is one; a {wanted} is never \
                 written through a link"
            ),
            Unsuitable::Special => format!("is a pipe, a socket or a device, not a {wanted}"),
            Unsuitable::HardLinks(names) => {
                format!("has {names} names (hard links); a {wanted} has one")
            }
            Unsuitable::Hole { at, bytes } => format!(
                "has {bytes} bytes from byte {at} on that were never written; it is not a {wanted} any more"
            ),
        }
    }

    /// What keeps an open file from being a journal, if anything does.
    pub(super) fn file(file: &dyn DiskFile, stat: &FileStat) -> Option<Unsuitable> {
        Unsuitable::kind(stat.kind).or_else(|| {
            let hole = file.hole()?;
            let (at, bytes) = (hole.start, hole.end - hole.start);
            (bytes > LONGEST_HOLE).then_some(Unsuitable::Hole { at, bytes })
        })
    }

    /// What keeps a thing of this kind from being a journal, if anything does.
    pub(super) fn kind(kind: FileKind) -> Option<Unsuitable> {
        match kind {
            FileKind::Regular => None,
            FileKind::Directory => Some(Unsuitable::Directory),
            FileKind::Symlink => Some(Unsuitable::Symlink),
            FileKind::Special => Some(Unsuitable::Special),
        }
    }
}

/// Why a journal could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The line before the position is not the one that was there: what was read so far no longer
    /// holds, and reading begins again at the start.
    #[error("{} was cut, replaced or edited since it was last read", path.display())]
    Changed {
        /// The journal.
        path: PathBuf,
    },
    /// There is something at the path that is not a journal.
    #[error("{} {why}", path.display())]
    Unsuitable {
        /// The journal.
        path: PathBuf,
        /// What it is.
        why: Unsuitable,
    },
    /// Anything else.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The journal.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ReadError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        ReadError::Io { path: path.to_owned(), source }
    }
}
