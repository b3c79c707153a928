//! Which records of a run its harness wrote, in a file beside them.
//!
//! A harness that lives knows that itself. For the one that takes the run up again after it was
//! killed, a mark of every record is noted before the record is written. The notes are not synced:
//! they are there when a process was killed, and when the machine was, that is told by the epoch of
//! its disk, and the records are taken by what they say.
//!
//! An agent that runs without a sandbox could write here as well. It would have to want to.

use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::provenance::Mark;

use crate::journal::NewRecord;
use crate::project::{LoadError, Unreadable, read_text};
use crate::world::{Access, Disk, DiskFile, FileStat, World};

/// The longest notebook that is read; it holds millions of marks.
const LONGEST: u64 = 256 * 1024 * 1024;

/// A notebook to write in.
pub(super) struct Notebook {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    /// What was noted for the append under way.
    pending: Vec<Mark>,
    /// Whether the last line may lack its end.
    is_torn: bool,
}

/// What was noted before.
pub(super) enum Noted {
    /// The marks of all records that the harness wrote, and maybe of some that it could not.
    All(Vec<Mark>),
    /// Nothing that can be relied on.
    Nothing,
}

impl Noted {
    /// Reads the notes about a run.
    ///
    /// # Errors
    ///
    /// When the system does not let them be read: whoever went on without them would believe everything.
    pub(super) fn read(run_dir: &Path, disk: &dyn Disk) -> Result<Noted, LoadError> {
        let path = path(run_dir);
        let text = match read_text(disk, &path, LONGEST) {
            Ok(Some(text)) => text,
            Err(why @ Unreadable::Io(_)) => return Err(LoadError::Unreadable { path, why }),
            Ok(None) | Err(_) => return Ok(Noted::Nothing),
        };
        let mut lines = text.lines();
        if lines.next() != Some(header(disk).trim_end()) {
            return Ok(Noted::Nothing);
        }
        let mark = |line: &str| {
            let number = (line.len() == 16).then(|| u64::from_str_radix(line, 16).ok())??;
            Some(Mark::from_number(number))
        };
        Ok(Noted::All(lines.filter_map(mark).collect()))
    }
}

/// The file with the notes about a run, where somebody began one.
pub(super) fn notebook_stat(run_dir: &Path, disk: &dyn Disk) -> Option<FileStat> {
    disk.stat(&path(run_dir)).ok()
}

impl Notebook {
    /// Whether somebody began one.
    pub(super) fn is_there(run_dir: &Path, disk: &dyn Disk) -> bool {
        notebook_stat(run_dir, disk).is_some()
    }

    /// Begins a notebook with marks that are known already.
    pub(super) fn begin(
        run_dir: &Path,
        known: &[Mark],
        world: &World,
    ) -> Result<Notebook, (PathBuf, io::Error)> {
        let path = path(run_dir);
        let known = known.iter().copied().map(line);
        let text: String = std::iter::once(header(&*world.disk)).chain(known).collect();
        let file = world
            .disk
            .replace(&path, text.as_bytes())
            .and_then(|()| world.disk.open(&path, Access::Append));
        match file {
            Ok(file) => Ok(Notebook { file, path, pending: Vec::new(), is_torn: false }),
            Err(error) => Err((path, error)),
        }
    }

    /// Notes what is about to be written. When somebody was faster and it is tried again, only what is
    /// new is noted again.
    pub(super) fn note(&mut self, records: &[NewRecord]) -> Result<(), (PathBuf, io::Error)> {
        let mut noted = self.pending.clone();
        let is_fresh = |mark: &Mark| match noted.iter().position(|known| known == mark) {
            Some(place) => {
                noted.swap_remove(place);
                false
            }
            None => true,
        };
        let marks = records.iter().map(|new| Mark::of(&new.record));
        let fresh: Vec<Mark> = marks.filter(is_fresh).collect();
        // What could not be noted whole must not spoil what is noted after it.
        let begin = if self.is_torn { "\n" } else { "" }.to_owned();
        let text = fresh.iter().copied().map(line).fold(begin, |text, line| text + &line);
        self.is_torn = true;
        self.write(text.as_bytes()).map_err(|error| (self.path.clone(), error))?;
        self.is_torn = false;
        self.pending.extend(fresh);
        Ok(())
    }

    fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.file.append(bytes)?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Says that what was noted is written.
    pub(super) fn written(&mut self) {
        self.pending.clear();
    }
}

fn path(run_dir: &Path) -> PathBuf {
    run_dir.join("own-records")
}

fn header(disk: &dyn Disk) -> String {
    format!("epoch {:x}\n", disk.epoch())
}

fn line(mark: Mark) -> String {
    format!("{:016x}\n", mark.number())
}
