//! Copies of what may have to be put back, in one file that has no name.
//!
//! A file without a name cannot be deleted or found by a reviewer that clears the state directory,
//! needs no cleaning up after a crash, and costs no directory entry a copy. A vault outlives a review:
//! what has not changed since the last one is not copied again.
//!
//! An agent that runs without a sandbox as the same user could still reach the file through the
//! harness's descriptors in `/proc`; a checksum tells that, and nothing is put back from such a copy.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use autoloop_core::permissions::Stamp;
use rustix::fs::{Mode, OFlags};

use super::append_only::Block;
use super::openat;

/// Files up to here are read and checked; longer ones are copied by the system, which shares the
/// bytes where the file system can.
const SHORT: u64 = 1024 * 1024;

/// Long copies begin at a multiple of this, because only whole blocks can be shared.
const ALIGNMENT: u64 = 4096;

/// So much may be useless before it is thrown away.
const SLACK: u64 = 64 * 1024 * 1024;

/// Where the copies are. A snapshot takes it, and gives it back in the end.
#[derive(Debug)]
pub struct Vault {
    dir: PathBuf,
    file: File,
    /// Bytes that the last snapshot needed; the rest is of no use any more.
    needed: u64,
    /// Bytes in the file.
    end: u64,
    /// Bytes that wait to be written at the end: many small files make one write.
    pending: Vec<u8>,
    kept: HashMap<(u64, u64), (Stamp, Blob)>,
    pub(super) grown: HashMap<PathBuf, Vec<Block>>,
}

/// One copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blob {
    at: u64,
    pub(super) len: u64,
    crc: Option<u32>,
}

impl Vault {
    /// Makes an empty vault on the file system of a directory, best that of the project.
    ///
    /// # Errors
    ///
    /// When no file can be made there.
    pub fn new(dir: &Path) -> io::Result<Vault> {
        Ok(Vault {
            dir: dir.to_owned(),
            file: nameless(dir)?,
            needed: 0,
            end: 0,
            pending: Vec::new(),
            kept: HashMap::new(),
            grown: HashMap::new(),
        })
    }

    /// Begins anew when most of what is kept is of no use any more.
    pub(super) fn tidy(&mut self) -> io::Result<()> {
        if self.len() > 2 * self.needed + SLACK {
            *self = Vault::new(&self.dir)?;
        }
        Ok(())
    }

    /// Notes how many bytes a snapshot needs.
    pub(super) fn need(&mut self, bytes: u64) {
        self.needed = bytes;
    }

    /// How many bytes of disk it takes.
    pub fn len(&self) -> u64 {
        self.end + self.pending.len() as u64
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the system's clock says, in the grain that files are stamped with.
    pub(super) fn now(&self) -> io::Result<i128> {
        rustix::fs::futimens(&self.file, &now_times())?;
        Ok(openat::stamp(&rustix::fs::fstat(&self.file)?).written)
    }

    /// The copy of a file with this stamp, when there is one.
    pub(super) fn find(&self, stamp: &Stamp) -> Option<Blob> {
        let (kept, blob) = self.kept.get(&(stamp.device, stamp.inode))?;
        (kept == stamp).then_some(*blob)
    }

    /// Copies a file. Gives the stamp that belongs to the copy: the file may be newer than it was
    /// when it was looked at.
    pub(super) fn keep(&mut self, source: &File) -> io::Result<(Stamp, Blob)> {
        let mut stamp = openat::stamp(&rustix::fs::fstat(source)?);
        // A file that is written while it is copied is copied again; one that never rests is not ours
        // to wait for.
        for _ in 0..3 {
            let blob = if stamp.len <= SHORT {
                self.keep_short(source, stamp.len)?
            } else {
                self.keep_long(source, stamp.len)?
            };
            let again = openat::stamp(&rustix::fs::fstat(source)?);
            if again == stamp {
                self.kept.insert((stamp.device, stamp.inode), (stamp, blob));
                return Ok((stamp, blob));
            }
            stamp = again;
        }
        Err(io::Error::other("the file is being written"))
    }

    fn keep_short(&mut self, source: &File, len: u64) -> io::Result<Blob> {
        let from = self.pending.len();
        let at = self.end + from as u64;
        let mut offset = 0;
        loop {
            let filled = self.pending.len();
            // One byte more than is expected, so that the end shows itself at once.
            let room = usize::try_from(len.saturating_sub(offset)).unwrap_or_default() + 1;
            self.pending.resize(filled + room, 0);
            let read = source.read_at(&mut self.pending[filled..], offset)?;
            self.pending.truncate(filled + read);
            offset += read as u64;
            if read < room {
                break;
            }
        }
        let crc = Some(crc32fast::hash(&self.pending[from..]));
        self.flush_when(SHORT)?;
        Ok(Blob { at, len: offset, crc })
    }

    fn keep_long(&mut self, source: &File, len: u64) -> io::Result<Blob> {
        self.flush_when(0)?;
        self.end = self.end.next_multiple_of(ALIGNMENT);
        let at = self.end;
        // Holes are left out, and nothing of an earlier write that failed may show in them.
        self.file.set_len(at)?;
        let copied = copy(source, 0, (&self.file, at), len)?;
        self.end = at + copied;
        Ok(Blob { at, len: copied, crc: None })
    }

    /// Keeps some bytes.
    pub(super) fn keep_bytes(&mut self, bytes: &[u8]) -> io::Result<Blob> {
        let at = self.len();
        self.pending.extend_from_slice(bytes);
        self.flush_when(SHORT)?;
        Ok(Blob { at, len: bytes.len() as u64, crc: Some(crc32fast::hash(bytes)) })
    }

    /// Writes what waits, when it is more than this.
    pub(super) fn flush_when(&mut self, more_than: u64) -> io::Result<()> {
        if self.pending.len() as u64 > more_than {
            let written = self.file.write_all_at(&self.pending, self.end);
            // What did not fit is forgotten, or everything after it would stand at the wrong place.
            if written.is_ok() {
                self.end += self.pending.len() as u64;
            }
            let (from, to) = (self.end, self.end + self.pending.len() as u64);
            self.pending.clear();
            if written.is_err() {
                self.kept.retain(|_, (_, blob)| blob.at + blob.len <= from || blob.at >= to);
            }
            written?;
        }
        Ok(())
    }

    /// Reads a short copy back, whole.
    pub(super) fn read(&self, blob: &Blob) -> io::Result<Vec<u8>> {
        let len = usize::try_from(blob.len).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, blob.at)?;
        if blob.crc.is_some_and(|crc| crc != crc32fast::hash(&bytes)) {
            return Err(io::Error::other("the copy of it was tampered with"));
        }
        Ok(bytes)
    }

    /// Writes a copy into an empty file.
    pub(super) fn write_to(&self, blob: &Blob, target: &File) -> io::Result<()> {
        if blob.len <= SHORT {
            return target.write_all_at(&self.read(blob)?, 0);
        }
        let copied = copy(&self.file, blob.at, (target, 0), blob.len)?;
        if copied == blob.len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Whether a file holds exactly the bytes of a copy.
    pub(super) fn matches(&self, blob: &Blob, file: &File) -> io::Result<bool> {
        if file.metadata()?.len() != blob.len {
            return Ok(false);
        }
        let mut buffers = (vec![0; 256 * 1024], vec![0; 256 * 1024]);
        let mut offset = 0;
        while offset < blob.len {
            let want =
                usize::try_from(blob.len - offset).unwrap_or(usize::MAX).min(buffers.0.len());
            self.file.read_exact_at(&mut buffers.0[..want], blob.at + offset)?;
            file.read_exact_at(&mut buffers.1[..want], offset)?;
            if buffers.0[..want] != buffers.1[..want] {
                return Ok(false);
            }
            offset += want as u64;
        }
        Ok(true)
    }
}

/// Copies a whole file into an empty one. A sparse file stays sparse.
pub(super) fn copy_file(from: &File, to: &File) -> io::Result<()> {
    copy(from, 0, (to, 0), from.metadata()?.len()).map(drop)
}

/// Copies bytes to the end of a file and gives how many there were. Holes are not written, or a sparse file
/// of a few bytes could fill the disk.
fn copy(from: &File, at: u64, (to, start): (&File, u64), len: u64) -> io::Result<u64> {
    let end = at + len.min(from.metadata()?.len().saturating_sub(at));
    let mut position = at;
    while let Some((data, hole)) = next_data(from, position, end)? {
        let stretch = hole - data;
        let copied = copy_data(from, data, (to, start + (data - at)), stretch)?;
        position = data + copied;
        if copied < stretch {
            return Ok(position - at);
        }
    }
    let filled = start + (end - at);
    if to.metadata()?.len() < filled {
        to.set_len(filled)?;
    }
    Ok(end - at)
}

/// The next stretch of a file that is no hole, before an end.
#[cfg(target_os = "linux")]
fn next_data(file: &File, position: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;

    if position >= end {
        return Ok(None);
    }
    let data = match seek(file, SeekFrom::Data(position)) {
        Ok(data) => data,
        Err(Errno::NXIO) => return Ok(None),
        // A file system that knows no holes has none.
        Err(_) => return Ok(Some((position, end))),
    };
    let hole = seek(file, SeekFrom::Hole(data)).unwrap_or(end);
    Ok((data < end).then(|| (data, hole.clamp(data, end))).filter(|(data, hole)| data < hole))
}

#[cfg(not(target_os = "linux"))]
fn next_data(_: &File, position: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    Ok((position < end).then_some((position, end)))
}

/// Copies bytes inside the system where it can, and through us where not.
fn copy_data(from: &File, at: u64, (to, start): (&File, u64), len: u64) -> io::Result<u64> {
    let (mut source, mut target) = (at, start);
    let mut left = len;
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(1 << 30);
        match copy_range((from, &mut source), (to, &mut target), want) {
            Ok(0) => break,
            Ok(copied) => left -= copied as u64,
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Err(error),
            Err(_) => return Ok(len - left + copy_through(from, source, (to, target), left)?),
        }
    }
    Ok(len - left)
}

#[cfg(target_os = "linux")]
fn copy_range(from: (&File, &mut u64), to: (&File, &mut u64), want: usize) -> io::Result<usize> {
    Ok(rustix::fs::copy_file_range(from.0, Some(from.1), to.0, Some(to.1), want)?)
}

#[cfg(not(target_os = "linux"))]
fn copy_range(_: (&File, &mut u64), _: (&File, &mut u64), _: usize) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

fn copy_through(from: &File, at: u64, (to, start): (&File, u64), len: u64) -> io::Result<u64> {
    let mut buffer = vec![0; 256 * 1024];
    let mut done = 0;
    while done < len {
        let want = usize::try_from(len - done).unwrap_or(usize::MAX).min(buffer.len());
        let read = from.read_at(&mut buffer[..want], at + done)?;
        if read == 0 {
            break;
        }
        to.write_all_at(&buffer[..read], start + done)?;
        done += read as u64;
    }
    Ok(done)
}

fn now_times() -> rustix::fs::Timestamps {
    let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    rustix::fs::Timestamps { last_access: now, last_modification: now }
}

/// A file that only its descriptor leads to.
pub(crate) fn nameless(dir: &Path) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        if let Ok(fd) = rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR) {
            return Ok(File::from(fd));
        }
    }
    let name = dir.join(format!(".vault-{}", std::process::id()));
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits();
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(i32::from_ne_bytes(flags.to_ne_bytes()))
        .open(&name)?;
    std::fs::remove_file(&name)?;
    Ok(file)
}
