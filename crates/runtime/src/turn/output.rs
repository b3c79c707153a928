//! The output of a job on its way into the journal: a short one through memory, a long one from a file.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::files::{self, Links};
use crate::journal::Spooled;
use crate::world::{Disk, DiskFile, Ending, FileKind, FileStat, Finished, Output, Spool, World};

/// Maximum size in bytes of an output that is recorded from memory: escaped, it can be six times as long, and it is
/// recorded twice.
const SHORT: u64 = 64 * 1024;

/// The source of a long output; `None` for a short one, or where only the answer is recorded.
///
/// An output that does not fit into memory is read from its file, if that is complete and unchanged: agents can write to
/// it. Otherwise the record has the beginning and the end of the output, and a line about what is missing.
pub(super) fn spooled(
    spool: Option<&Spool>,
    finished: &Finished,
    world: &World,
) -> Option<Spooled> {
    let output = &finished.stdout;
    let is_said = matches!(finished.ending, Ending::Exited(_)) && finished.answer.is_none();
    let spool = spool.filter(|_| is_said && output.bytes > SHORT)?;
    let text = match unchanged(&spool.stdout, output, &*world.disk) {
        Some(file) => Text::File(Box::new(file)),
        None => Text::Memory(output.text().into_bytes()),
    };
    let text = Arc::new(text);
    Some(Spooled { path: spool.stdout.clone(), text, secrets: None })
}

/// The file with an output that memory has only in part, if it contains exactly that output.
fn unchanged(path: &Path, output: &Output, disk: &dyn Disk) -> Option<Unchanged> {
    let is_needed = output.left_out() > 0 && output.spooled == output.bytes;
    let digest = output.digest.filter(|_| is_needed)?;
    let file = files::open(disk, path, Links::Refuse).ok()??;
    let file = Unchanged { file, len: output.bytes, digest, read: Mutex::default() };
    let mut piece = vec![0; 256 * 1024];
    let mut offset = 0;
    while offset < output.bytes {
        offset += file.read_at(&mut piece, offset).ok()? as u64;
    }
    Some(file)
}

/// A file that is compared with its digest whenever it is read from its beginning to its end, so that no change
/// between two readings goes unnoticed.
struct Unchanged {
    file: Box<dyn DiskFile>,
    len: u64,
    digest: [u8; 32],
    read: Mutex<Read>,
}

#[derive(Default)]
struct Read {
    offset: u64,
    hasher: blake3::Hasher,
}

impl Unchanged {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.file.read_at(buffer, offset)?;
        if offset == 0 {
            *read = Read::default();
        }
        // The digest needs the bytes in order.
        if offset != read.offset || (count == 0 && offset < self.len) {
            return Err(changed());
        }
        read.offset += count as u64;
        read.hasher.update(&buffer[..count]);
        match read.offset >= self.len && *read.hasher.finalize().as_bytes() != self.digest {
            true => Err(changed()),
            false => Ok(count),
        }
    }
}

fn changed() -> io::Error {
    io::Error::other("it was changed after it was written")
}

/// An output, to be copied from where it is.
enum Text {
    Memory(Vec<u8>),
    File(Box<Unchanged>),
}

impl DiskFile for Text {
    fn stat(&self) -> io::Result<FileStat> {
        match self {
            Text::Memory(text) => {
                let (len, kind) = (text.len() as u64, FileKind::Regular);
                Ok(FileStat { device: 0, inode: 0, len, links: 0, kind, changed: 0 })
            }
            Text::File(file) => match file.file.stat()? {
                stat if stat.len == file.len => Ok(stat),
                _ => Err(changed()),
            },
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Text::Memory(text) => {
                let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
                let count = buffer.len().min(text.len() - begin);
                buffer[..count].copy_from_slice(&text[begin..begin + count]);
                Ok(count)
            }
            Text::File(file) => file.read_at(buffer, offset),
        }
    }

    fn try_lock(&self) -> io::Result<bool> {
        read_only()
    }

    fn unlock(&self) -> io::Result<()> {
        read_only()
    }

    fn lock_holder(&self) -> Option<u32> {
        None
    }

    fn append(&self, _: &[u8]) -> io::Result<usize> {
        read_only()
    }

    fn cut(&self, _: u64) -> io::Result<()> {
        read_only()
    }

    fn sync(&self) -> io::Result<()> {
        read_only()
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::RealDisk;

    #[test]
    fn a_changed_file_is_not_taken_for_the_output() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let printed = b"printed ".repeat(100_000);
        let digest = Some(*blake3::hash(&printed).as_bytes());
        let bytes = printed.len() as u64;
        let output = Output { bytes, spooled: bytes, digest, ..Output::default() };
        let found = || unchanged(&path, &output, &RealDisk).map(|file| Text::File(Box::new(file)));
        assert!(found().is_none(), "there is no file");
        std::fs::write(&path, &printed).unwrap();
        let text = found().expect("it is as it was written");
        let mut all = vec![0; printed.len()];
        assert_eq!(text.read_at(&mut all, 0).unwrap(), all.len());
        assert_eq!(all, printed);
        for changed in [b"forged! ".repeat(100_000), b"printed ".repeat(100_001), Vec::new()] {
            std::fs::write(&path, &changed).unwrap();
            assert!(found().is_none());
        }
        std::fs::write(&path, b"forged! ".repeat(100_000)).unwrap();
        let late = text.read_at(&mut all, 0).unwrap_err();
        assert_eq!(late.to_string(), "it was changed after it was written");
    }
}
