//! The journal in a file that any number of processes append to.
//!
//! # The protocol of an append
//!
//! 1. Open the file: no links, closed in child processes, made for its owner only when there is none.
//! 2. Take the exclusive lock, and see that the path still names this file: an editor may have put
//!    another one there.
//! 3. If the file is empty, sync its directory *before* the first byte is written. So a journal that
//!    we began has a durable name once anything is in it, no matter which of its writers died when, or
//!    did not ask for durability.
//! 4. Look at the last byte. Anything but a newline was left by a writer that died in the middle of a
//!    record: end its line, and say so in a `journal.repaired` record. Nobody's bytes are ever cut.
//! 5. Write whole lines, those of several callers in one write. If that fails, cut back what was
//!    written of an unfinished line.
//! 6. Give the lock back, then sync. Others write while the disk works, and their syncs are merged.
//! 7. Only now acknowledge. A failed sync is final for this journal: after it the system may have
//!    dropped the bytes and forgotten about it, so trying again would prove nothing.
//!
//! A reader takes no lock. It shows whole lines only, so a record that is being written is not seen
//! until it is there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::append::{Entry, Tail, ending};
use super::commit::Commit;
use super::lock::lock;
use super::reader::{line_start, line_start_from, read_at, read_lines};
use super::{
    Append, AppendError, Durability, Journal, NewRecord, Position, ReadError, Unsuitable, Visit,
};
use crate::world::{Access, Clock, Disk, DiskFile, Entropy, FileStat, Key, Secret, World};

/// How often the file may be taken away while we are about to write to it before we give up.
const MOST_ATTEMPTS: usize = 100;
/// How long a wait trusts that it is told of changes. Not all file systems tell of those that another
/// machine makes.
const LONGEST_TRUST: Duration = Duration::from_secs(1);

/// A journal in a file.
pub struct FileJournal {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    secret: Arc<Secret>,
    entropy: Arc<dyn Entropy>,
    settings: FileSettings,
    commit: Commit<Entry, Result<Position, AppendError>>,
    /// Set once, when a sync has failed.
    broken: OnceLock<AppendError>,
}

/// A file to read, and how long it was when it was opened.
type Opened = (Box<dyn DiskFile>, u64);
/// A file that was written to, and what came of each entry.
type Written = (Box<dyn DiskFile>, Vec<Result<Position, AppendError>>);

/// What can be chosen about a journal file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// How long to wait for another writer that does not let go.
    pub lock_timeout: Duration,
}

impl Default for FileSettings {
    fn default() -> Self {
        FileSettings { lock_timeout: Duration::from_secs(30) }
    }
}

/// Bytes behind the last whole line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where it begins.
    pub offset: u64,
    /// How many bytes there are.
    pub bytes: u64,
    /// What it is.
    pub kind: FragmentKind,
}

/// Why a journal does not end with a whole line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentKind {
    /// Its writer died. The next one repairs it.
    Torn,
    /// Somebody holds the lock and may be at it.
    BeingWritten,
}

impl FileJournal {
    /// The journal at a path. Nothing is opened or made yet.
    pub fn new(path: impl Into<PathBuf>, world: &World, settings: FileSettings) -> Self {
        FileJournal {
            path: path.into(),
            disk: Arc::clone(&world.disk),
            clock: Arc::clone(&world.clock),
            secret: Arc::clone(&world.secret),
            entropy: Arc::clone(&world.entropy),
            settings,
            commit: Commit::default(),
            broken: OnceLock::new(),
        }
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    /// The key that seals what is kept beside the journal.
    pub(super) fn key(&self) -> Option<Key> {
        self.secret.key(self.entropy.as_ref())
    }

    /// What stands behind the last whole line, if anything does.
    pub fn fragment(&self) -> Result<Option<Fragment>, ReadError> {
        let Some((file, _)) = self.open_to_read()? else { return Ok(None) };
        let failed = |error| ReadError::io(&self.path, error);
        let is_torn = file.try_lock().map_err(failed)?;
        let len = file.stat().map_err(failed)?.len;
        let offset = line_start(file.as_ref(), len).map_err(failed)?;
        let kind = if is_torn { FragmentKind::Torn } else { FragmentKind::BeingWritten };
        Ok((len > offset).then_some(Fragment { offset, bytes: len - offset, kind }))
    }

    /// Ends a line that its writer did not live to end, if that is how the journal ends. It may be a
    /// whole record that lacks nothing but its newline: whoever goes by what is on record repairs first.
    fn repair(&self) -> Result<(), AppendError> {
        let fragment = self.fragment()?;
        if fragment.is_some_and(|fragment| fragment.kind == FragmentKind::Torn) {
            let nothing = Entry::new(&[], Append::default())?;
            self.commit.run(nothing, |entries| self.commit(&entries))?;
        }
        Ok(())
    }

    /// Copies bytes of the file as they stand.
    pub fn copy(
        &self,
        range: std::ops::Range<u64>,
        out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), ReadError> {
        let failed = |error| ReadError::io(&self.path, error);
        let Some((file, _)) = self.open_to_read()? else { return Ok(()) };
        let mut block = vec![0; 256 * 1024];
        let mut at = range.start;
        while at < range.end {
            let wanted =
                usize::try_from(range.end - at).map_or(block.len(), |left| left.min(block.len()));
            let count = read_at(file.as_ref(), &mut block[..wanted], at).map_err(failed)?;
            if count == 0 {
                break;
            }
            out(&block[..count]).map_err(failed)?;
            at += count as u64;
        }
        Ok(())
    }

    /// The file and its length; `None` when there is no journal yet.
    pub(super) fn open_to_read(&self) -> Result<Option<Opened>, ReadError> {
        let failed = |error| ReadError::io(&self.path, error);
        let file = match self.disk.open(&self.path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let stat = file.stat().map_err(failed)?;
        match Unsuitable::file(&*file, &stat) {
            None => Ok(Some((file, stat.len))),
            Some(why) => Err(ReadError::Unsuitable { path: self.path.clone(), why }),
        }
    }

    /// Whether the line before a position is still the one that was there.
    pub(super) fn check(&self, file: &dyn DiskFile, position: Position) -> Result<(), ReadError> {
        match self.position(file, position.at)? {
            found if found == position => Ok(()),
            _ => Err(ReadError::Changed { path: self.path.clone() }),
        }
    }

    pub(super) fn position(&self, file: &dyn DiskFile, at: u64) -> Result<Position, ReadError> {
        let ending = ending(file, at).map_err(|error| ReadError::io(&self.path, error))?;
        Ok(Position::behind(at, &ending))
    }

    /// Commits what several callers want to have appended.
    fn commit(&self, entries: &[Entry]) -> Vec<Result<Position, AppendError>> {
        // Those who were waiting while a sync failed.
        if let Some(error) = self.broken.get() {
            return entries.iter().map(|_| Err(error.clone())).collect();
        }
        match self.write(entries) {
            Ok((file, mut outcomes)) => {
                let is_synced = |entry: &Entry| entry.how.durability == Durability::Synced;
                let mut stored =
                    entries.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
                if stored.any(|(entry, _)| is_synced(entry))
                    && let Err(error) = file.sync()
                {
                    let error = self.broken.get_or_init(|| self.not_durable(error));
                    for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_ok()) {
                        *outcome = Err(error.clone());
                    }
                }
                outcomes
            }
            Err(error) => entries.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// The part that happens under the lock.
    fn write(&self, entries: &[Entry]) -> Result<Written, AppendError> {
        let (file, stat) = self.open_locked()?;
        // Also before a cached append: the synced one that follows finds a file that is not empty.
        if stat.len == 0 {
            self.sync_name()?;
        }
        let tail = Tail { file: file.as_ref(), path: &self.path, now: self.clock.now() };
        let outcomes = tail.append(entries);
        // An unlock that fails is made good by closing the file, which happens before anybody is told
        // anything.
        let _ = file.unlock();
        Ok((file, outcomes))
    }

    pub(crate) fn open_locked(&self) -> Result<(Box<dyn DiskFile>, FileStat), AppendError> {
        let failed = |doing| move |error| AppendError::io(&self.path, doing, error);
        for _ in 0..MOST_ATTEMPTS {
            let file = match self.disk.open(&self.path, Access::Append) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.create_directories()?;
                    continue;
                }
                Err(error) => return Err(self.cannot_open(error)),
            };
            let stat = file.stat().map_err(failed("look at"))?;
            if let Some(why) = Unsuitable::file(&*file, &stat) {
                return Err(AppendError::Unsuitable { path: self.path.clone(), why });
            }
            lock(file.as_ref(), &self.path, self.clock.as_ref(), self.settings.lock_timeout)?;
            let stat = file.stat().map_err(failed("look at"))?;
            match self.disk.stat(&self.path) {
                Ok(named) if named.is_same_file(&stat) => {}
                // Replaced or taken away while we waited: begin again with what is there now.
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed("look at")(error)),
            }
            if stat.links > 1 {
                let why = Unsuitable::HardLinks(stat.links);
                return Err(AppendError::Unsuitable { path: self.path.clone(), why });
            }
            return Ok((file, stat));
        }
        let error = io::Error::other("it is taken away again and again");
        Err(AppendError::io(&self.path, "open", error))
    }

    /// What stands in the way, when the system's own words would puzzle.
    fn cannot_open(&self, error: io::Error) -> AppendError {
        let is_link = |path: &Path| {
            self.disk.stat(path).is_ok_and(|stat| stat.kind == crate::world::FileKind::Symlink)
        };
        let why = match self.disk.stat(&self.path) {
            Ok(stat) => Unsuitable::kind(stat.kind),
            Err(_) => None,
        };
        let why = why
            .or_else(|| self.path.parent().filter(|dir| is_link(dir)).map(|_| Unsuitable::Symlink));
        match why {
            Some(why) => AppendError::Unsuitable { path: self.path.clone(), why },
            None => AppendError::io(&self.path, "open", error),
        }
    }

    /// Makes the directories on the way to the journal.
    fn create_directories(&self) -> Result<(), AppendError> {
        let missing: Vec<&Path> = directories(&self.path)
            .take_while(|dir| {
                self.disk.stat(dir).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            })
            .collect();
        for dir in missing.into_iter().rev() {
            match self.disk.create_dir(dir) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(AppendError::io(dir, "make the directory", error)),
            }
        }
        Ok(())
    }

    pub(crate) fn sync_name(&self) -> Result<(), AppendError> {
        sync_name(&self.path, self.disk.as_ref())
            .map_err(|(dir, error)| AppendError::io(&dir, "make durable", error))
    }

    /// The head, given that it does not lie before a position: what has been read need not be searched
    /// again while a giant record is being written.
    fn head_behind(&self, after: Position) -> Result<Position, ReadError> {
        let Some((file, len)) = self.open_to_read()? else { return Ok(Position::START) };
        let failed = |error| ReadError::io(&self.path, error);
        if len < after.at {
            return self.head();
        }
        let end = line_start_from(file.as_ref(), after.at..len).map_err(failed)?;
        self.position(file.as_ref(), end)
    }

    pub(crate) fn not_durable(&self, error: io::Error) -> AppendError {
        AppendError::NotDurable { path: self.path.clone(), source: Arc::new(error) }
    }
}

/// Makes the name of a file durable, and the names of the directories on the way to it, which another process
/// may have made just before it died.
pub(crate) fn sync_name(path: &Path, disk: &dyn Disk) -> Result<(), (PathBuf, io::Error)> {
    for (distance, dir) in directories(path).enumerate() {
        match disk.sync_dir(dir) {
            Ok(()) => {}
            // Some file systems cannot sync a directory, and keep its names without it.
            Err(error) if is_not_for_directories(&error) => break,
            // A directory that we may not even open was not made by us.
            Err(error) if distance > 0 && error.kind() == io::ErrorKind::PermissionDenied => break,
            Err(error) => return Err((dir.to_owned(), error)),
        }
    }
    Ok(())
}

/// Whether a sync failed because directories cannot be synced there, and not because it went wrong.
fn is_not_for_directories(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, ReadOnlyFilesystem, Unsupported};

    matches!(error.kind(), InvalidInput | ReadOnlyFilesystem | Unsupported)
}

/// The directories on the way to a file, the nearest first. The current directory is `.`.
fn directories(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors()
        .skip(1)
        .map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir })
}

impl Journal for FileJournal {
    fn path(&self) -> &Path {
        &self.path
    }

    fn handle(&self) -> Arc<dyn Journal> {
        Arc::new(FileJournal {
            path: self.path.clone(),
            disk: Arc::clone(&self.disk),
            clock: Arc::clone(&self.clock),
            secret: Arc::clone(&self.secret),
            entropy: Arc::clone(&self.entropy),
            settings: self.settings,
            commit: Commit::default(),
            broken: OnceLock::new(),
        })
    }

    fn file(&self) -> Option<&FileJournal> {
        Some(self)
    }

    fn append(&self, records: &[NewRecord], how: Append) -> Result<Position, AppendError> {
        if let Some(error) = self.broken.get() {
            return Err(error.clone());
        }
        if records.is_empty() {
            self.repair()?;
            let head = self.head()?;
            return match how.expect {
                Some(expected) if expected != head => Err(AppendError::Conflict { head }),
                _ => Ok(head),
            };
        }
        self.commit.run(Entry::new(records, how)?, |entries| self.commit(&entries))
    }

    fn read(&self, from: Position, visit: &mut Visit<'_>) -> Result<Position, ReadError> {
        let Some((file, len)) = self.open_to_read()? else {
            return match from {
                Position::START => Ok(Position::START),
                _ => Err(ReadError::Changed { path: self.path.clone() }),
            };
        };
        self.check(file.as_ref(), from)?;
        let end = read_lines(file.as_ref(), from.at..len.max(from.at), visit)
            .map_err(|error| ReadError::io(&self.path, error))?;
        self.position(file.as_ref(), end)
    }

    fn head(&self) -> Result<Position, ReadError> {
        let Some((file, len)) = self.open_to_read()? else { return Ok(Position::START) };
        let end =
            line_start(file.as_ref(), len).map_err(|error| ReadError::io(&self.path, error))?;
        self.position(file.as_ref(), end)
    }

    fn wait(&self, after: Position, timeout: Duration) -> Result<Position, ReadError> {
        let failed = |error| ReadError::io(&self.path, error);
        let begin = self.clock.elapsed();
        loop {
            // The watch begins before the look, so nothing can slip in between.
            let mut watch = self.disk.watch(&self.path).map_err(failed)?;
            let head = self.head_behind(after)?;
            let left = timeout.saturating_sub(self.clock.elapsed().saturating_sub(begin));
            if head != after || left.is_zero() {
                return Ok(head);
            }
            watch.changed(left.min(LONGEST_TRUST)).map_err(failed)?;
        }
    }
}
