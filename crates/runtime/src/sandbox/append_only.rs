//! Files that may only become longer: the journal and the memory.
//!
//! Before a review the whole file is read once, in blocks of 1 MiB, each with its checksum; the last
//! 256 MiB are kept in the vault, and the file itself stays open. After it every block is read again.
//! What is guaranteed:
//!
//! - any changed, removed or inserted byte before the old end is noticed;
//! - the old bytes come back when the file was deleted, replaced or renamed, whatever its size, because
//!   the open file still has them;
//! - the old bytes come back when they were overwritten or cut off in place, if they are among the
//!   last 256 MiB; older ones are reported as lost;
//! - bytes added behind the old end stay, when the file was not cut.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{Entry, Kind};
use rustix::fs::{AtFlags, Mode, OFlags};

use super::backup_store::{Blob, Vault};
use super::openat;
use super::restore;
use crate::private_files;

const BLOCK: u64 = 1024 * 1024;

/// How many bytes of one file are kept.
const KEPT: u64 = 256 * BLOCK;

/// One stretch of a growing file.
#[derive(Clone, Debug)]
pub(super) struct Block {
    len: usize,
    crc: u32,
    kept: Option<Blob>,
}

/// What a growing file was before.
#[derive(Debug)]
pub(super) struct Growing {
    /// Where it is, as seen from the project.
    pub(super) seen: PathBuf,
    path: PathBuf,
    before: Option<Known>,
}

#[derive(Debug)]
struct Known {
    file: File,
    entry: Entry,
    blocks: Vec<Block>,
}

/// What is wrong with a file that may only become longer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotGrown {
    /// It is gone.
    #[error("deleted")]
    Deleted,
    /// There is something else in its place.
    #[error("replaced by another {0}")]
    Replaced(Kind),
    /// It is shorter than it was.
    #[error("cut from {from} to {to} bytes")]
    Cut {
        /// Its length before.
        from: u64,
        /// Its length now.
        to: u64,
    },
    /// Old bytes are not what they were.
    #[error("old bytes changed behind byte {at}")]
    Altered {
        /// The beginning of the first stretch of 1 MiB that is different.
        at: u64,
    },
    /// Its permission bits are different.
    #[error("mode changed from {from:04o} to {to:04o}")]
    Mode {
        /// What they were.
        from: u32,
        /// What they are.
        to: u32,
    },
    /// It has another name now, through which it could be written.
    #[error("hard link added")]
    Linked,
    /// It was made, but not as an ordinary file.
    #[error("made as a {0}")]
    Made(Kind),
}

impl Growing {
    pub(super) fn take(vault: &mut Vault, seen: PathBuf, path: PathBuf) -> io::Result<Growing> {
        let before = match look(&path)? {
            None => None,
            Some((dir, entry)) if entry.kind == Kind::File => {
                let file = openat::open_file_at(&dir, name(&path))?;
                let cached = vault.grown.remove(&path).unwrap_or_default();
                let blocks = read_blocks(vault, (&file, entry.stamp.len), &cached)?;
                vault.grown.insert(path.clone(), blocks.clone());
                Some(Known { file, entry, blocks })
            }
            Some(_) => {
                let why = format!("{} is not an ordinary file", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
        };
        Ok(Growing { seen, path, before })
    }

    /// How many bytes of it are kept.
    pub(super) fn kept(&self) -> u64 {
        let blocks = self.before.iter().flat_map(|known| &known.blocks);
        blocks.filter_map(|block| block.kept).map(|kept| kept.len).sum()
    }

    /// What is wrong with the file now.
    pub(super) fn check(&self) -> io::Result<Option<NotGrown>> {
        let now = look(&self.path)?;
        let (Some(known), Some((dir, entry))) = (&self.before, &now) else {
            let made = now.filter(|(_, entry)| entry.kind != Kind::File || entry.links > 1);
            return Ok(match (&self.before, made) {
                (None, Some((_, entry))) => Some(NotGrown::Made(entry.kind)),
                (None, None) => None,
                (Some(_), _) => Some(NotGrown::Deleted),
            });
        };
        let id = |entry: &Entry| (entry.stamp.device, entry.stamp.inode);
        if entry.kind != Kind::File || id(entry) != id(&known.entry) {
            return Ok(Some(NotGrown::Replaced(entry.kind.clone())));
        }
        if entry.stamp.len < known.entry.stamp.len {
            return Ok(Some(NotGrown::Cut { from: known.entry.stamp.len, to: entry.stamp.len }));
        }
        let file = openat::open_file_forced(dir, name(&self.path))?;
        if let Some(first) = known.wrong_blocks(&file)?.first() {
            return Ok(Some(NotGrown::Altered { at: *first as u64 * BLOCK }));
        }
        if entry.mode != known.entry.mode {
            return Ok(Some(NotGrown::Mode { from: known.entry.mode, to: entry.mode }));
        }
        Ok((entry.links > known.entry.links).then_some(NotGrown::Linked))
    }

    /// Whether the file has its old bytes and bits, be it another file by now.
    pub(super) fn holds(&self) -> io::Result<bool> {
        let (known, (dir, entry)) = match (&self.before, look(&self.path)?) {
            (Some(known), Some(now)) => (known, now),
            (before, now) => return Ok(before.is_none() && now.is_none()),
        };
        let plain = entry.kind == Kind::File && entry.links <= known.entry.links;
        let same = plain && entry.mode == known.entry.mode;
        Ok(same && known.wrong_blocks(&openat::open_file_at(&dir, name(&self.path))?)?.is_empty())
    }

    /// Puts the old bytes back.
    pub(super) fn restore(&self, vault: &Vault, fault: &NotGrown) -> io::Result<()> {
        let dir = match parent(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                private_files::create_dirs(self.path.parent().unwrap_or(Path::new("/")))?;
                parent(&self.path)?
            }
            result => result?,
        };
        let name = name(&self.path);
        let Some(known) = &self.before else { return restore::remove(&dir, name) };
        match fault {
            NotGrown::Deleted | NotGrown::Replaced(_) | NotGrown::Linked | NotGrown::Made(_) => {
                let wrong = known.wrong_blocks(&known.file)?;
                let mode = Mode::from_raw_mode(known.entry.mode);
                let temporary = restore::temporary(name);
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let fresh = File::from(rustix::fs::openat(&dir, &temporary, flags, mode)?);
                io::copy(&mut restore::From(&known.file, 0), &mut &fresh)?;
                known.write_blocks(vault, &fresh, &wrong)?;
                rustix::fs::fchmod(&fresh, mode)?;
                restore::clear_the_way(&dir, name)?;
                rustix::fs::renameat(&dir, &temporary, &dir, name)?;
            }
            NotGrown::Cut { .. } | NotGrown::Altered { .. } | NotGrown::Mode { .. } => {
                let mode = Mode::from_raw_mode(known.entry.mode);
                rustix::fs::chmodat(&dir, name, mode, AtFlags::empty())?;
                let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = File::from(rustix::fs::openat(&dir, name, flags, Mode::empty())?);
                let wrong = known.wrong_blocks(&file)?;
                known.write_blocks(vault, &file, &wrong)?;
            }
        }
        Ok(())
    }
}

impl Known {
    /// The numbers of the blocks that a file does not have as they were.
    fn wrong_blocks(&self, file: &File) -> io::Result<Vec<usize>> {
        let mut buffer = Vec::new();
        let mut wrong = Vec::new();
        for (number, block) in self.blocks.iter().enumerate() {
            read_block(file, (number as u64 * BLOCK, block.len), &mut buffer)?;
            if buffer.len() != block.len || crc32fast::hash(&buffer) != block.crc {
                wrong.push(number);
            }
        }
        Ok(wrong)
    }

    /// Writes those that are kept; an error tells that one is not.
    fn write_blocks(&self, vault: &Vault, file: &File, numbers: &[usize]) -> io::Result<()> {
        let mut lost = false;
        for &number in numbers {
            match &self.blocks[number].kept {
                Some(kept) => file.write_all_at(&vault.read(kept)?, number as u64 * BLOCK)?,
                None => lost = true,
            }
        }
        if lost { Err(io::Error::other("bytes too old to be kept are lost")) } else { Ok(()) }
    }
}

/// Reads a whole file in blocks, and keeps the last of them. Blocks kept earlier are not kept again.
fn read_blocks(
    vault: &mut Vault,
    (file, len): (&File, u64),
    cached: &[Block],
) -> io::Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < len {
        let want = usize::try_from((len - at).min(BLOCK)).map_err(io::Error::other)?;
        read_block(file, (at, want), &mut buffer)?;
        let crc = crc32fast::hash(&buffer);
        let earlier =
            cached.get(blocks.len()).filter(|old| (old.len, old.crc) == (buffer.len(), crc));
        let kept = match earlier.and_then(|old| old.kept) {
            _ if len - at > KEPT => None,
            Some(kept) => Some(kept),
            None => Some(vault.keep_bytes(&buffer)?),
        };
        blocks.push(Block { len: buffer.len(), crc, kept });
        at += want as u64;
    }
    Ok(blocks)
}

/// Reads up to so many bytes; fewer at the end of the file.
fn read_block(file: &File, (at, want): (u64, usize), buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(want, 0);
    let mut filled = 0;
    while filled < want {
        match file.read_at(&mut buffer[filled..], at + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    buffer.truncate(filled);
    Ok(())
}

fn name(path: &Path) -> &std::ffi::OsStr {
    path.file_name().unwrap_or_default()
}

fn parent(path: &Path) -> io::Result<OwnedFd> {
    openat::open_root(path.parent().unwrap_or(Path::new("/")))
}

fn look(path: &Path) -> io::Result<Option<(OwnedFd, Entry)>> {
    let found = parent(path).and_then(|dir| {
        let stat = openat::stat_at(&dir, name(path))?;
        let entry = openat::entry(&stat, &dir, name(path))?;
        Ok((dir, entry))
    });
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(error),
    }
}
