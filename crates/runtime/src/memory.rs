//! A memory file that any number of processes add to.
//!
//! It follows the [protocol](crate::journal::file) of the journal: opened without links, locked, a torn last line
//! ended, one line in one write, cut back when that fails, synced before it is acknowledged. Whether an entry still exists
//! and which number is free is decided under the lock, so two writers never choose the same id.

mod tiers;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_core::memory::{Entry, Memory, Said, print};

use crate::files::{self, Links, Unreadable};
use crate::journal::{AppendError, FileJournal, FileSettings, Journal, Position, ReadError};
use crate::world::{Clock, DiskFile, World};

pub use tiers::{Change, Reach, Tier, Tiers};

/// Maximum size in bytes: ten thousand entries of the maximum length.
const LARGEST: u64 = 256 * 1024 * 1024;

pub struct MemoryFile {
    file: FileJournal,
    clock: Arc<dyn Clock>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    /// A run and an iteration; empty for a user.
    pub source: String,
    /// Smaller numbers belong to the other tier.
    pub first_number: u64,
}

impl MemoryFile {
    /// The memory at a path. Nothing is opened or created yet.
    pub fn new(path: impl Into<PathBuf>, world: &World, settings: FileSettings) -> Self {
        let file = FileJournal::new(path, world, settings);
        MemoryFile { file, clock: Arc::clone(&world.clock) }
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub fn read(&self) -> Result<Memory, ReadError> {
        self.check_length()?;
        let mut memory = Memory::default();
        self.file.read(Position::START, &mut |line| {
            memory.apply(line.bytes());
            ControlFlow::Continue(())
        })?;
        Ok(memory)
    }

    /// Refuses a file that is too large: agents can write any, and all of it would be read.
    fn check_length(&self) -> Result<(), ReadError> {
        let path = self.path();
        // Any other problem is reported by the reader.
        let Ok(Some(file)) = files::open(self.file.disk(), path, Links::Follow) else {
            return Ok(());
        };
        let failed = |source| ReadError::Io { path: path.to_owned(), source };
        match file.stat().map_err(failed)?.len {
            bytes if bytes > LARGEST => {
                Err(failed(Unreadable::TooLong { bytes, most: LARGEST }.into()))
            }
            _ => Ok(()),
        }
    }

    /// Adds what `decide` returns for the current entries, if anything, and returns the new entry. No other writer
    /// comes in between.
    pub fn add(
        &self,
        author: &Author,
        decide: &mut dyn FnMut(&Memory) -> Option<Said>,
    ) -> Result<Option<Entry>, AppendError> {
        let (file, stat) = self.file.open_locked()?;
        if stat.len == 0 {
            self.file.sync_name()?;
        }
        let mut memory = self.read()?;
        let torn = self.torn()?;
        // Its writer died, or a user edited the file: once its line is ended, it counts.
        memory.apply(&torn);

        let entry = decide(&memory).map(|said| Entry {
            id: said.id(memory.next_number().max(author.first_number)),
            created: self.clock.now().to_string(),
            source: author.source.clone(),
            said,
        });
        // Also where nothing is added: that was decided from what is there.
        let mut bytes = if torn.is_empty() { Vec::new() } else { vec![b'\n'] };
        if let Some(entry) = &entry {
            print(entry, &mut bytes);
        }
        self.write(file.as_ref(), stat.len, &bytes)?;
        // An unlock that fails is made good by closing the file.
        let _ = file.unlock();
        file.sync().map_err(|error| self.file.not_durable(error))?;
        Ok(entry)
    }

    fn torn(&self) -> Result<Vec<u8>, ReadError> {
        let mut torn = Vec::new();
        if let Some(fragment) = self.file.fragment()? {
            let range = fragment.offset..fragment.offset + fragment.bytes;
            self.file.copy(range, &mut |bytes| {
                torn.extend_from_slice(bytes);
                Ok(())
            })?;
        }
        Ok(torn)
    }

    /// Appends to the locked file, or leaves it as it was.
    fn write(&self, file: &dyn DiskFile, len: u64, bytes: &[u8]) -> Result<(), AppendError> {
        let mut done = 0;
        while done < bytes.len() {
            let error = match file.append(&bytes[done..]) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    done += count;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            let is_ours = file.stat().is_ok_and(|stat| stat.len == len + done as u64);
            if is_ours {
                // If this fails too, the line stays torn, and the next writer ends it.
                let _ = file.cut(len);
            }
            return Err(AppendError::write(self.path(), error));
        }
        Ok(())
    }
}
