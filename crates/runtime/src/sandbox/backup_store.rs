//! Copies of what may have to be restored, in one unnamed file.
//!
//! A reviewer that clears the state directory cannot delete an unnamed file; it needs no cleanup after a
//! crash and costs no directory entry per copy. A store outlives a review: what has not changed since the
//! last one is not copied again.
//!
//! An agent that runs without a sandbox as the same user could still reach the file through the harness's
//! descriptors in `/proc`. A checksum detects that, and nothing is restored from such a copy.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::Stamp;

use super::append_only::Block;
use super::openat;

/// Files up to this length are read and get a checksum; longer ones are copied by the kernel, which shares
/// the bytes where the file system can.
const SHORT: u64 = 1024 * 1024;
/// Long copies begin at a multiple of this, because only whole blocks can be shared.
const ALIGNMENT: u64 = 4096;
/// So many bytes may be useless before the store is discarded.
const SLACK: u64 = 64 * 1024 * 1024;

/// The copies of a snapshot, which returns it for the next one.
#[derive(Debug)]
pub struct BackupStore {
    dir: PathBuf,
    file: File,
    /// Bytes that the last snapshot needed.
    needed: u64,
    end: u64,
    /// Bytes to be written at the end: many small files make one write.
    pending: Vec<u8>,
    kept: HashMap<Stamp, Backup>,
    pub(super) append_only: HashMap<PathBuf, Vec<Block>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backup {
    at: u64,
    pub(super) len: u64,
    crc: Option<u32>,
}

impl BackupStore {
    /// Creates an empty store on the file system of a directory; copies are cheapest on that of the project.
    pub fn new(dir: &Path) -> io::Result<BackupStore> {
        Ok(BackupStore {
            dir: dir.to_owned(),
            file: tempfile::tempfile_in(dir)?,
            needed: 0,
            end: 0,
            pending: Vec::new(),
            kept: HashMap::new(),
            append_only: HashMap::new(),
        })
    }

    /// Starts over when most of what is kept is useless.
    pub(super) fn tidy(&mut self) -> io::Result<()> {
        if self.len() > 2 * self.needed + SLACK {
            *self = BackupStore::new(&self.dir)?;
        }
        Ok(())
    }

    pub(super) fn set_needed(&mut self, bytes: u64) {
        self.needed = bytes;
    }

    /// The bytes that it takes on the disk.
    #[expect(clippy::len_without_is_empty, reason = "it is a size, not a count of elements")]
    pub fn len(&self) -> u64 {
        self.end + self.pending.len() as u64
    }

    /// The copy of a file with this stamp.
    pub(super) fn find(&self, stamp: &Stamp) -> Option<Backup> {
        self.kept.get(stamp).copied()
    }

    /// Copies a file. Returns the stamp of what was copied, which may be newer than the one in a listing.
    pub(super) fn keep(&mut self, source: &File) -> io::Result<(Stamp, Backup)> {
        let mut stamp = openat::stamp(&rustix::fs::fstat(source)?);
        // A file that is written meanwhile is copied again, but not forever.
        for _ in 0..3 {
            let backup = match stamp.len {
                ..=SHORT => self.keep_short(source)?,
                len => self.keep_long(source, len)?,
            };
            let again = openat::stamp(&rustix::fs::fstat(source)?);
            if again == stamp {
                self.kept.insert(stamp, backup);
                return Ok((stamp, backup));
            }
            stamp = again;
        }
        Err(io::Error::other("the file is being written"))
    }

    fn keep_short(&mut self, mut source: &File) -> io::Result<Backup> {
        let from = self.pending.len();
        source.seek(SeekFrom::Start(0))?;
        source.take(2 * SHORT).read_to_end(&mut self.pending)?;
        self.keep_pending(from)
    }

    pub(super) fn keep_bytes(&mut self, bytes: &[u8]) -> io::Result<Backup> {
        let from = self.pending.len();
        self.pending.extend_from_slice(bytes);
        self.keep_pending(from)
    }

    fn keep_pending(&mut self, from: usize) -> io::Result<Backup> {
        let bytes = &self.pending[from..];
        let (at, len) = (self.end + from as u64, bytes.len() as u64);
        let crc = Some(crc32fast::hash(bytes));
        if self.pending.len() as u64 > SHORT {
            self.flush()?;
        }
        Ok(Backup { at, len, crc })
    }

    fn keep_long(&mut self, source: &File, len: u64) -> io::Result<Backup> {
        self.flush()?;
        let at = self.end.next_multiple_of(ALIGNMENT);
        // Holes are left out, and nothing of an earlier write that failed may show in them.
        self.file.set_len(at)?;
        let len = copy(source, 0..len, &self.file, at)?;
        self.end = at + len;
        Ok(Backup { at, len, crc: None })
    }

    /// Writes what is pending. What cannot be written is forgotten, or everything after it would be at the
    /// wrong place.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all_at(&self.pending, self.end);
        let end = self.end;
        match written {
            Ok(()) => self.end += self.pending.len() as u64,
            Err(_) => self.kept.retain(|_, backup| backup.at + backup.len <= end),
        }
        self.pending.clear();
        written
    }

    pub(super) fn read(&self, backup: &Backup) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(backup.len).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, backup.at)?;
        if backup.crc.is_some_and(|crc| crc != crc32fast::hash(&bytes)) {
            return Err(io::Error::other("the copy was tampered with"));
        }
        Ok(bytes)
    }

    pub(super) fn write_to(&self, backup: &Backup, target: &File) -> io::Result<()> {
        if backup.crc.is_some() {
            return target.write_all_at(&self.read(backup)?, 0);
        }
        let copied = copy(&self.file, backup.at..backup.at + backup.len, target, 0)?;
        if copied == backup.len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Whether a file has exactly the bytes of a copy.
    pub(super) fn matches(&self, backup: &Backup, file: &File) -> io::Result<bool> {
        if file.metadata()?.len() != backup.len {
            return Ok(false);
        }
        let (mut kept, mut found) = (vec![0; 256 * 1024], vec![0; 256 * 1024]);
        let mut offset = 0;
        while offset < backup.len {
            let want = usize::try_from(backup.len - offset).unwrap_or(usize::MAX).min(kept.len());
            self.file.read_exact_at(&mut kept[..want], backup.at + offset)?;
            file.read_exact_at(&mut found[..want], offset)?;
            if kept[..want] != found[..want] {
                return Ok(false);
            }
            offset += want as u64;
        }
        Ok(true)
    }
}

/// Copies a whole file into an empty one. A sparse file stays sparse.
pub(super) fn copy_file(from: &File, to: &File) -> io::Result<()> {
    copy(from, 0..from.metadata()?.len(), to, 0).map(drop)
}

/// Copies a range to the end of a file and returns its length, which is shorter where the file ends. Holes
/// are not written: a sparse file of a few bytes could fill the disk.
fn copy(
    mut from: &File,
    range: std::ops::Range<u64>,
    mut to: &File,
    start: u64,
) -> io::Result<u64> {
    let end = range.end.min(from.metadata()?.len()).max(range.start);
    let mut position = range.start;
    while let Some(data) = next_data(from, position, end)? {
        from.seek(SeekFrom::Start(data.start))?;
        to.seek(SeekFrom::Start(start + (data.start - range.start)))?;
        // The kernel copies it, and shares the blocks where it can.
        let copied = io::copy(&mut from.take(data.end - data.start), &mut to)?;
        position = data.start + copied;
        if position < data.end {
            return Ok(position - range.start);
        }
    }
    let filled = start + (end - range.start);
    if to.metadata()?.len() < filled {
        to.set_len(filled)?;
    }
    Ok(end - range.start)
}

/// The next range of a file that is not a hole.
#[cfg(target_os = "linux")]
fn next_data(file: &File, position: u64, end: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    use rustix::fs::{SeekFrom, seek};

    if position >= end {
        return Ok(None);
    }
    let data = match seek(file, SeekFrom::Data(position)) {
        Ok(data) => data,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        // This file system has no holes.
        Err(_) => return Ok(Some(position..end)),
    };
    let hole = seek(file, SeekFrom::Hole(data)).unwrap_or(end).min(end);
    Ok((data < hole).then_some(data..hole))
}

#[cfg(not(target_os = "linux"))]
fn next_data(_: &File, position: u64, end: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    Ok((position < end).then_some(position..end))
}
