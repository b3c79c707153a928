//! The journal in a file that any number of processes append to.
//!
//! # The protocol of an append
//!
//! 1. Open the file: no links, closed in child processes, created for its owner only.
//! 2. Take the exclusive lock, and check that the path still names this file: an editor may have replaced
//!    it.
//! 3. If the file is empty, sync its directory *before* the first byte is written. So a journal that has
//!    any content has a durable name, whichever of its writers died when or requested no durability.
//! 4. Read the last byte. Anything but a newline was left by a writer that died in the middle of a
//!    record: end its line, and append a `journal.repaired` record. No other writer's bytes are ever cut.
//! 5. Write complete lines, those of several callers in one write. If that fails, cut back what was
//!    written of an incomplete line.
//! 6. Unlock, then sync. Other processes write meanwhile, and their syncs are merged.
//! 7. Only now acknowledge. A failed sync is final for this journal: after it the system may have
//!    dropped the bytes and report success, so a retry would prove nothing.
//!
//! A reader takes no lock. It shows complete lines only.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::append::{Entry, Outcome, Tail, ending};
use super::commit::Commit;
use super::reader::{line_start, read_lines};
use super::{
    Append, AppendError, Durability, Journal, NewRecord, Position, ReadError, Unsuitable, Visit,
};
use crate::world::{Access, Disk, DiskFile, FileKind, FileStat, World};

/// How often the file may be replaced while it is being opened for writing.
const MOST_ATTEMPTS: usize = 100;
/// How long a wait relies on notifications. Not all file systems report changes by another machine.
const LONGEST_TRUST: Duration = Duration::from_secs(1);
/// How often the lock is tried before the first pause. It is held for some tens of microseconds, unless a
/// giant record is written, and a pause takes longer than requested.
const YIELDS: usize = 8;
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

pub struct FileJournal {
    path: PathBuf,
    pub(super) world: World,
    settings: FileSettings,
    commit: Commit<Entry, Outcome>,
    /// Set when a sync has failed.
    broken: OnceLock<AppendError>,
}

/// A file and its length when it was opened.
type Opened = (Box<dyn DiskFile>, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// How long to wait for the lock of another writer.
    pub lock_timeout: Duration,
}

impl Default for FileSettings {
    fn default() -> Self {
        FileSettings { lock_timeout: Duration::from_secs(30) }
    }
}

/// Bytes behind the last complete line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    pub offset: u64,
    pub bytes: u64,
    pub kind: FragmentKind,
}

/// Why a journal does not end with a complete line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentKind {
    /// Its writer died. The next one repairs it.
    Torn,
    /// Another process holds the lock and may be writing it.
    BeingWritten,
}

impl FileJournal {
    pub fn new(path: impl Into<PathBuf>, world: &World, settings: FileSettings) -> Self {
        FileJournal {
            path: path.into(),
            world: world.clone(),
            settings,
            commit: Commit::default(),
            broken: OnceLock::new(),
        }
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        self.world.disk.as_ref()
    }

    /// What is behind the last complete line.
    pub fn fragment(&self) -> Result<Option<Fragment>, ReadError> {
        let Some((file, _)) = self.open_to_read()? else { return Ok(None) };
        let failed = |error| ReadError::io(&self.path, error);
        let is_torn = file.try_lock().map_err(failed)?;
        let len = file.stat().map_err(failed)?.len;
        let offset = line_start(file.as_ref(), 0..len).map_err(failed)?;
        let kind = if is_torn { FragmentKind::Torn } else { FragmentKind::BeingWritten };
        Ok((len > offset).then_some(Fragment { offset, bytes: len - offset, kind }))
    }

    pub fn copy(
        &self,
        range: std::ops::Range<u64>,
        out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), ReadError> {
        /// How much is copied at once.
        const BLOCK: u64 = 256 * 1024;

        let failed = |error| ReadError::io(&self.path, error);
        let Some((file, _)) = self.open_to_read()? else { return Ok(()) };
        let mut at = range.start;
        while at < range.end {
            let bytes = file.read_range(at..range.end.min(at + BLOCK)).map_err(failed)?;
            if bytes.is_empty() {
                break;
            }
            out(&bytes).map_err(failed)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    pub(super) fn open_to_read(&self) -> Result<Option<Opened>, ReadError> {
        let failed = |error| ReadError::io(&self.path, error);
        let file = match self.world.disk.open(&self.path, Access::Read) {
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

    /// Checks that the line before a position is still the same.
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

    fn commit(&self, entries: &[Entry]) -> Vec<Outcome> {
        // These callers waited while a sync failed.
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

    /// Writes under the lock; returns the file, and the outcome of each entry.
    fn write(&self, entries: &[Entry]) -> Result<(Box<dyn DiskFile>, Vec<Outcome>), AppendError> {
        let (file, stat) = self.open_locked()?;
        // Also before a cached append: the synced one that follows finds a file that is not empty.
        if stat.len == 0 {
            self.sync_name()?;
        }
        let tail = Tail { file: file.as_ref(), path: &self.path, now: self.world.clock.now() };
        let outcomes = tail.append(entries);
        // If this fails, closing the file unlocks it, before any outcome is reported.
        let _ = file.unlock();
        Ok((file, outcomes))
    }

    pub(crate) fn open_locked(&self) -> Result<(Box<dyn DiskFile>, FileStat), AppendError> {
        let failed = |doing| move |error| AppendError::io(&self.path, doing, error);
        for _ in 0..MOST_ATTEMPTS {
            let file = match self.world.disk.open(&self.path, Access::Append) {
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
            self.lock(file.as_ref())?;
            let stat = file.stat().map_err(failed("look at"))?;
            match self.world.disk.stat(&self.path) {
                Ok(named) if named.is_same_file(&stat) => {}
                // Replaced or deleted meanwhile: start over.
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
        let error = io::Error::other("the file was replaced repeatedly while it was being opened");
        Err(AppendError::io(&self.path, "open", error))
    }

    /// Names the obstacle where the message of the system is obscure.
    fn cannot_open(&self, error: io::Error) -> AppendError {
        let kind = |path: &Path| self.world.disk.stat(path).ok().map(|stat| stat.kind);
        let in_link = self.path.parent().and_then(kind) == Some(FileKind::Symlink);
        let why = kind(&self.path).and_then(Unsuitable::kind);
        match why.or(in_link.then_some(Unsuitable::Symlink)) {
            Some(why) => AppendError::Unsuitable { path: self.path.clone(), why },
            None => AppendError::io(&self.path, "open", error),
        }
    }

    fn create_directories(&self) -> Result<(), AppendError> {
        let missing: Vec<&Path> = directories(&self.path)
            .take_while(|dir| {
                self.world
                    .disk
                    .stat(dir)
                    .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            })
            .collect();
        for dir in missing.into_iter().rev() {
            match self.world.disk.create_dir(dir) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(AppendError::io(dir, "create the directory", error)),
            }
        }
        Ok(())
    }

    /// Makes the name of the file durable, and the names of the directories above it, which another process
    /// may have created just before it died.
    pub(crate) fn sync_name(&self) -> Result<(), AppendError> {
        use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};

        for (distance, dir) in directories(&self.path).enumerate() {
            let Err(error) = self.world.disk.sync_dir(dir) else { continue };
            match error.kind() {
                // Some file systems cannot sync a directory, and keep its names without it.
                InvalidInput | ReadOnlyFilesystem | Unsupported => break,
                // A directory that we may not even open was not created by us.
                PermissionDenied if distance > 0 => break,
                _ => return Err(AppendError::io(dir, "make durable", error)),
            }
        }
        Ok(())
    }

    /// Takes the lock. A blocking call would wait forever for a holder that was stopped; this one names
    /// it after the timeout.
    fn lock(&self, file: &dyn DiskFile) -> Result<(), AppendError> {
        let (clock, timeout) = (&self.world.clock, self.settings.lock_timeout);
        let begin = clock.elapsed();
        let mut pause = FIRST_PAUSE;
        let mut yields = YIELDS;
        loop {
            if file.try_lock().map_err(|error| AppendError::io(&self.path, "lock", error))? {
                return Ok(());
            }
            let waited = clock.elapsed().saturating_sub(begin);
            if waited >= timeout {
                let (path, holder) = (self.path.clone(), file.lock_holder());
                return Err(AppendError::Locked { path, waited, holder });
            }
            if yields > 0 {
                yields -= 1;
                std::thread::yield_now();
                continue;
            }
            clock.sleep(pause.min(timeout - waited));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// The head, which does not lie before `after`: what was read is not searched again while a giant
    /// record is being written.
    fn head_behind(&self, after: Position) -> Result<Position, ReadError> {
        let Some((file, len)) = self.open_to_read()? else { return Ok(Position::START) };
        // A file that was cut has another head.
        let begin = if len < after.at { 0 } else { after.at };
        let end = line_start(file.as_ref(), begin..len)
            .map_err(|error| ReadError::io(&self.path, error))?;
        self.position(file.as_ref(), end)
    }

    pub(crate) fn not_durable(&self, error: io::Error) -> AppendError {
        AppendError::NotDurable { path: self.path.clone(), source: Arc::new(error) }
    }
}

/// The directories above a file, the nearest first. The current directory is `.`.
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
        Arc::new(FileJournal::new(&self.path, &self.world, self.settings))
    }

    fn file(&self) -> Option<&FileJournal> {
        Some(self)
    }

    fn append(&self, records: &[NewRecord], how: Append) -> Result<Position, AppendError> {
        if let Some(error) = self.broken.get() {
            return Err(error.clone());
        }
        let commit = |entry| self.commit.run(entry, |entries| self.commit(&entries));
        if records.is_empty() {
            // What is torn may be a complete record that lacks only its newline.
            if self.fragment()?.is_some_and(|fragment| fragment.kind == FragmentKind::Torn) {
                commit(Entry::new(&[], Append::default())?)?;
            }
            let head = self.head()?;
            return match how.expect {
                Some(expected) if expected != head => Err(AppendError::Conflict { head }),
                _ => Ok(head),
            };
        }
        commit(Entry::new(records, how)?)
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
        self.head_behind(Position::START)
    }

    fn wait(&self, after: Position, timeout: Duration) -> Result<Position, ReadError> {
        let failed = |error| ReadError::io(&self.path, error);
        let begin = self.world.clock.elapsed();
        loop {
            // Started before the check, so that no change is missed between the two.
            let mut watch = self.world.disk.watch(&self.path).map_err(failed)?;
            let head = self.head_behind(after)?;
            let left = timeout.saturating_sub(self.world.clock.elapsed().saturating_sub(begin));
            if head != after || left.is_zero() {
                return Ok(head);
            }
            watch.changed(left.min(LONGEST_TRUST)).map_err(failed)?;
        }
    }
}
