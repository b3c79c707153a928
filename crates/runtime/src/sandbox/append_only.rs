//! Append-only files: the journal and the memory.
//!
//! Before a review the whole file is read once, in blocks of 1 MiB, each with its checksum; the last
//! 256 MiB are copied, and the file itself stays open. Afterwards every block is read again:
//!
//! - any changed, removed or inserted byte before the old end is noticed;
//! - the old bytes are restored when the file was deleted, replaced or renamed, whatever its size, because
//!   the open file still has them;
//! - the old bytes are restored when they were overwritten or cut off in place, if they are among the
//!   last 256 MiB; older ones are reported as lost;
//! - bytes appended after the old end stay, when the file was not cut.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{Entry, Kind};
use rustix::fs::{AtFlags, Mode, OFlags};

use super::backup_store::{Backup, BackupStore};
use super::openat;
use crate::{files, private_files};

const BLOCK: u64 = 1024 * 1024;
/// How many bytes of one file are copied.
const KEPT: u64 = 256 * BLOCK;

#[derive(Clone, Debug)]
pub(super) struct Block {
    len: usize,
    crc: u32,
    kept: Option<Backup>,
}

#[derive(Debug)]
pub(super) struct AppendOnlyFile {
    /// Relative to the project.
    pub(super) relative: PathBuf,
    path: PathBuf,
    /// `None` where there was none.
    before: Option<Before>,
}

#[derive(Debug)]
struct Before {
    file: File,
    entry: Entry,
    blocks: Vec<Block>,
}

/// How an append-only file was changed other than by appending.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendOnlyViolation {
    #[error("deleted")]
    Deleted,
    #[error("replaced by another {0}")]
    Replaced(Kind),
    #[error("cut from {from} to {to} bytes")]
    Cut { from: u64, to: u64 },
    /// `at` is the offset of the first block that is different.
    #[error("old bytes changed behind byte {at}")]
    Altered { at: u64 },
    #[error("mode changed from {from:04o} to {to:04o}")]
    Mode { from: u32, to: u32 },
    /// It could be written through its other name later.
    #[error("hard link added")]
    Linked,
    /// It did not exist, and was not created as an ordinary file.
    #[error("created as a {0}")]
    Made(Kind),
}

impl AppendOnlyFile {
    pub(super) fn take(
        store: &mut BackupStore,
        relative: PathBuf,
        path: PathBuf,
    ) -> io::Result<AppendOnlyFile> {
        let before = match openat::look(&path)? {
            None => None,
            Some((dir, entry)) if entry.kind == Kind::File => {
                let file = openat::open_file_at(&dir, name(&path))?;
                let cached = store.append_only.remove(&path).unwrap_or_default();
                let blocks = read_blocks(store, &file, entry.stamp.len, &cached)?;
                store.append_only.insert(path.clone(), blocks.clone());
                Some(Before { file, entry, blocks })
            }
            Some(_) => {
                let why = format!("{} is not an ordinary file", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
        };
        Ok(AppendOnlyFile { relative, path, before })
    }

    /// How many bytes of it are copied.
    pub(super) fn kept(&self) -> u64 {
        let blocks = self.before.iter().flat_map(|before| &before.blocks);
        blocks.filter_map(|block| block.kept).map(|kept| kept.len).sum()
    }

    pub(super) fn check(&self) -> io::Result<Option<AppendOnlyViolation>> {
        let now = openat::look(&self.path)?;
        let (before, (dir, entry)) = match (&self.before, now) {
            (Some(before), Some(now)) => (before, now),
            (Some(_), None) => return Ok(Some(AppendOnlyViolation::Deleted)),
            (None, Some((_, entry))) if entry.kind != Kind::File || entry.links > 1 => {
                return Ok(Some(AppendOnlyViolation::Made(entry.kind)));
            }
            (None, _) => return Ok(None),
        };
        let old = &before.entry;
        let id = |entry: &Entry| (entry.stamp.device, entry.stamp.inode);
        if entry.kind != Kind::File || id(&entry) != id(old) {
            return Ok(Some(AppendOnlyViolation::Replaced(entry.kind)));
        }
        let (from, to) = (old.stamp.len, entry.stamp.len);
        if to < from {
            return Ok(Some(AppendOnlyViolation::Cut { from, to }));
        }
        let file = openat::open_file_forced(&dir, name(&self.path))?;
        if let Some(first) = before.wrong_blocks(&file)?.first() {
            return Ok(Some(AppendOnlyViolation::Altered { at: *first as u64 * BLOCK }));
        }
        if entry.mode != old.mode {
            return Ok(Some(AppendOnlyViolation::Mode { from: old.mode, to: entry.mode }));
        }
        Ok((entry.links > old.links).then_some(AppendOnlyViolation::Linked))
    }

    pub(super) fn restore(
        &self,
        store: &BackupStore,
        fault: &AppendOnlyViolation,
    ) -> io::Result<bool> {
        Ok(self.try_restore(store, fault).is_ok() && self.is_restored()?)
    }

    /// The file may be another one with the old bytes and mode.
    fn is_restored(&self) -> io::Result<bool> {
        let (before, (dir, entry)) = match (&self.before, openat::look(&self.path)?) {
            (Some(before), Some(now)) => (before, now),
            (before, now) => return Ok(before.is_none() && now.is_none()),
        };
        let is_plain = entry.kind == Kind::File && entry.links <= before.entry.links;
        let is_same = is_plain && entry.mode == before.entry.mode;
        let open = || openat::open_file_at(&dir, name(&self.path));
        Ok(is_same && before.wrong_blocks(&open()?)?.is_empty())
    }

    fn try_restore(&self, store: &BackupStore, fault: &AppendOnlyViolation) -> io::Result<()> {
        use AppendOnlyViolation::{Altered, Cut, Mode as OtherMode};

        let dir = match parent(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                private_files::create_dirs(self.path.parent().unwrap_or(Path::new("/")))?;
                parent(&self.path)?
            }
            result => result?,
        };
        let name = name(&self.path);
        let Some(before) = &self.before else { return files::remove_at(&dir, name) };
        let mode = Mode::from_raw_mode(before.entry.mode);
        if let Cut { .. } | Altered { .. } | OtherMode { .. } = fault {
            rustix::fs::chmodat(&dir, name, mode, AtFlags::empty())?;
            let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::openat(&dir, name, flags, Mode::empty())?);
            return before.write_blocks(store, &file, &before.wrong_blocks(&file)?);
        }
        let wrong = before.wrong_blocks(&before.file)?;
        openat::replace(&dir, name, |mut fresh| {
            let mut old = &before.file;
            old.rewind()?;
            io::copy(&mut old, &mut fresh)?;
            before.write_blocks(store, fresh, &wrong)?;
            Ok(rustix::fs::fchmod(fresh, mode)?)
        })
    }
}

impl Before {
    /// The numbers of the blocks that are different in a file.
    fn wrong_blocks(&self, file: &File) -> io::Result<Vec<usize>> {
        let mut buffer = Vec::new();
        let mut wrong = Vec::new();
        let mut file = file;
        file.rewind()?;
        for (number, block) in self.blocks.iter().enumerate() {
            read_block(file, block.len, &mut buffer)?;
            if buffer.len() != block.len || crc32fast::hash(&buffer) != block.crc {
                wrong.push(number);
            }
        }
        Ok(wrong)
    }

    /// Writes blocks that were copied. Fails if one was not, after it wrote the others.
    fn write_blocks(&self, store: &BackupStore, file: &File, numbers: &[usize]) -> io::Result<()> {
        let mut lost = false;
        for &number in numbers {
            match &self.blocks[number].kept {
                Some(kept) => file.write_all_at(&store.read(kept)?, number as u64 * BLOCK)?,
                None => lost = true,
            }
        }
        if lost {
            Err(io::Error::other("older bytes are lost: no copy of them exists"))
        } else {
            Ok(())
        }
    }
}

/// Reads a whole file in blocks and copies the last of them, unless they were copied earlier.
fn read_blocks(
    store: &mut BackupStore,
    file: &File,
    len: u64,
    cached: &[Block],
) -> io::Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < len {
        let want = usize::try_from((len - at).min(BLOCK)).map_err(io::Error::other)?;
        read_block(file, want, &mut buffer)?;
        let crc = crc32fast::hash(&buffer);
        let earlier =
            cached.get(blocks.len()).filter(|old| (old.len, old.crc) == (buffer.len(), crc));
        let kept = match earlier.and_then(|old| old.kept) {
            _ if len - at > KEPT => None,
            Some(kept) => Some(kept),
            None => Some(store.keep_bytes(&buffer)?),
        };
        blocks.push(Block { len: buffer.len(), crc, kept });
        at += want as u64;
    }
    Ok(blocks)
}

/// Reads the next bytes; fewer at the end of the file.
fn read_block(file: &File, want: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    file.take(want as u64).read_to_end(buffer).map(drop)
}

fn name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

fn parent(path: &Path) -> io::Result<OwnedFd> {
    openat::open_root(path.parent().unwrap_or(Path::new("/")))
}
