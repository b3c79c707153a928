//! Which records of a run its harness wrote, in a file beside them.
//!
//! Before a record is appended, its mark is noted here under the [key](crate::world::Key) of the user, and the
//! note is synced: no power cut leaves the record without it. A harness that resumes the run believes the records that have a valid
//! note, each once; every other record that claims to be a harness's is forged. So a note that was removed,
//! damaged, edited or lost in a power cut costs the repetition of a step, never a false one.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::provenance::Mark;

use super::request::Request;
use crate::journal::NewRecord;
use crate::journal::file::sync_name;
use crate::layout::RunDir;
use crate::project::{LoadError, Unreadable, read_text};
use crate::world::{Access, Disk, DiskFile, FileStat, Key, KeyedDigest, World};

/// The longest file that is read; it holds millions of notes.
const LONGEST: u64 = 256 * 1024 * 1024;
/// The first line.
const HEADER: &str = "autoloop notes 2";
/// What begins the line with the request.
const REQUEST: &str = "request";

/// Which records of earlier harnesses are believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that are proven by the notes of the run.
    #[default]
    Proven,
    /// All that claim to be a harness's: the user vouches for the journal.
    Journal,
}

/// The notes about one run.
#[derive(Clone, Copy)]
pub(super) struct Notes<'a> {
    /// The directory of the run.
    pub(super) dir: &'a Path,
    /// Its id.
    pub(super) run: &'a str,
    pub(super) world: &'a World,
}

/// What is known about the records of earlier harnesses.
pub(super) enum Noted {
    /// The marks of those that are proven, and maybe of some that could not be written.
    Proven(Vec<Mark>),
    /// All that claim to be a harness's are believed.
    Trusted,
}

/// A file of notes, read.
#[derive(Default)]
struct Found {
    has_header: bool,
    tail: Tail,
    marks: Vec<Mark>,
    /// The number behind the last note.
    next: u64,
    request: Option<Request>,
}

impl<'a> Notes<'a> {
    /// What is to be believed by someone who decides.
    ///
    /// # Errors
    ///
    /// When the system does not let the notes be read.
    pub(super) fn read(self, trust: Trust) -> Result<Noted, LoadError> {
        match trust {
            Trust::Proven => Ok(Noted::Proven(self.found()?.marks)),
            Trust::Journal => Ok(Noted::Trusted),
        }
    }

    /// What is shown to someone who only looks: of a run that no harness of this version drove, everything.
    pub(super) fn to_show(self) -> Noted {
        match self.found() {
            Ok(found) if found.has_header || self.is_sealed(&found) => Noted::Proven(found.marks),
            _ => Noted::Trusted,
        }
    }

    /// Whether a harness of this version began the run, whatever became of its notes.
    pub(super) fn are_ours(self) -> bool {
        matches!(self.to_show(), Noted::Proven(_))
    }

    fn is_sealed(self, found: &Found) -> bool {
        found.request.is_some() || Request::read_sealed(self).is_some()
    }

    /// The request that was noted, if it is proven.
    pub(super) fn request(self) -> Option<Request> {
        self.found().ok()?.request
    }

    fn found(self) -> Result<Found, LoadError> {
        let path = path(self.dir);
        let text = match read_text(&*self.world.disk, &path, LONGEST) {
            Ok(Some(text)) => text,
            Err(why @ Unreadable::Io(_)) => return Err(LoadError::Unreadable { path, why }),
            Ok(None) | Err(_) => return Ok(Found::default()),
        };
        let Some(key) = self.world.key() else { return Ok(Found::default()) };
        let mut found = Found {
            has_header: text.lines().next() == Some(HEADER),
            tail: if text.ends_with('\n') { Tail::Whole } else { Tail::Torn },
            ..Found::default()
        };
        // A note that was copied counts once.
        let mut seen = HashSet::new();
        for line in text.lines() {
            if let Some((number, mark)) = self.note(line, &key) {
                if seen.insert(number) {
                    found.marks.push(mark);
                    found.next = found.next.max(number.saturating_add(1));
                }
            } else if let Some(request) = self.noted_request(line) {
                found.request = Some(request);
            }
        }
        Ok(found)
    }

    /// Reads one note, if it is valid.
    fn note(self, line: &str, key: &Key) -> Option<(u64, Mark)> {
        let mut words = line.split(' ');
        let number = words.next()?.parse().ok()?;
        let mark = Mark::from_number(hex(words.next()?)?);
        let seal = hex(words.next()?)?;
        (words.next().is_none() && seal == self.seal(number, mark, key)).then_some((number, mark))
    }

    fn noted_request(self, line: &str) -> Option<Request> {
        let text = line.strip_prefix(REQUEST)?.strip_prefix(' ')?;
        Request::unsealed(&unescaped(text), self)
    }

    fn seal(self, number: u64, mark: Mark, key: &Key) -> KeyedDigest {
        let (number, mark) = (number.to_le_bytes(), mark.number().to_le_bytes());
        key.seal("note", &[self.run.as_bytes(), &number, &mark])
    }

    /// Begins the notes of a run that has no records yet.
    pub(super) fn begin(self) -> Result<Notebook, (PathBuf, io::Error)> {
        let disk = &self.world.disk;
        let begun = disk.replace(&path(self.dir), format!("{HEADER}\n").as_bytes());
        begun.map_err(|error| (path(self.dir), error))?;
        self.open(0)
    }

    /// Goes on with the notes of a run whose believed records have these marks. What is there stays: it was
    /// synced, and a file in its place would not be. Only a damaged file is replaced.
    pub(super) fn resume(self, known: &[Mark]) -> Result<Notebook, (PathBuf, io::Error)> {
        let mut found = self.found().unwrap_or_default();
        let is_replaced = !found.has_header;
        if is_replaced {
            drop(self.begin()?);
            found = Found { tail: Tail::Whole, ..Found::default() };
        }
        let mut noted: HashMap<Mark, u32> = HashMap::new();
        found.marks.iter().for_each(|mark| *noted.entry(*mark).or_default() += 1);
        let is_missing = |mark: &&Mark| match noted.get_mut(mark) {
            Some(count @ 1..) => {
                *count -= 1;
                false
            }
            _ => true,
        };
        let missing: Vec<Mark> = known.iter().filter(is_missing).copied().collect();
        let mut notebook = self.open(found.next)?;
        notebook.tail = found.tail;
        if is_replaced || !missing.is_empty() {
            let begin = notebook.tail.begin();
            let lines = begin.to_owned() + &notebook.lines(&missing);
            notebook.write(&lines)?;
        }
        Ok(notebook)
    }

    fn open(self, next: u64) -> Result<Notebook, (PathBuf, io::Error)> {
        let path = path(self.dir);
        match self.world.disk.open(&path, Access::Append) {
            Ok(file) => Ok(Notebook {
                run: self.run.to_owned(),
                dir: self.dir.to_owned(),
                world: self.world.clone(),
                file,
                path,
                next,
                pending: Vec::new(),
                tail: Tail::Whole,
                name: Name::Cached,
            }),
            Err(error) => Err((path, error)),
        }
    }

    /// Notes what the run was asked to do, in case the file that says so is edited.
    pub(super) fn note_request(self, sealed: &str) -> Result<(), (PathBuf, io::Error)> {
        let path = path(self.dir);
        // The line begins anew where the last one was not finished.
        let line = format!("\n{REQUEST} {}\n", escaped(sealed));
        let opened = self.world.disk.open(&path, Access::Append);
        opened.and_then(|file| write(&*file, line.as_bytes())).map_err(|error| (path, error))
    }
}

/// The file with the notes about a run, where one was begun.
pub(super) fn notebook_stat(run_dir: &Path, disk: &dyn Disk) -> Option<FileStat> {
    disk.stat(&path(run_dir)).ok()
}

/// Whether the last line that was written is whole.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Tail {
    #[default]
    Whole,
    Torn,
}

impl Tail {
    /// What ends the last line, if it needs an end.
    fn begin(self) -> &'static str {
        match self {
            Tail::Whole => "",
            Tail::Torn => "\n",
        }
    }
}

/// Whether the name of the file survives a power cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Cached,
    Durable,
}

/// Notes to be written.
pub(super) struct Notebook {
    run: String,
    dir: PathBuf,
    world: World,
    file: Box<dyn DiskFile>,
    path: PathBuf,
    /// The number of the next note.
    next: u64,
    /// What was noted for the append under way.
    pending: Vec<Mark>,
    tail: Tail,
    name: Name,
}

impl Notebook {
    /// Notes what is about to be written. When another writer was faster and it is tried again, only what is
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
        if fresh.is_empty() {
            return Ok(());
        }
        // What could not be noted whole must not spoil what is noted after it.
        let text = self.tail.begin().to_owned() + &self.lines(&fresh);
        self.tail = Tail::Torn;
        self.write(&text)?;
        self.tail = Tail::Whole;
        self.pending.extend(fresh);
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), (PathBuf, io::Error)> {
        let written = write(&*self.file, text.as_bytes()).and_then(|()| self.file.sync());
        written.map_err(|error| (self.path.clone(), error))?;
        if self.name == Name::Cached {
            sync_name(&self.path, &*self.world.disk)?;
            self.name = Name::Durable;
        }
        Ok(())
    }

    /// Says that what was noted is written.
    pub(super) fn written(&mut self) {
        self.pending.clear();
    }

    /// Without a key the notes prove nothing; the marks are there for people to look at.
    fn lines(&mut self, marks: &[Mark]) -> String {
        let key = self.world.key();
        let mut lines = String::new();
        for mark in marks {
            let notes = Notes { dir: &self.dir, run: &self.run, world: &self.world };
            let seal = key.map_or(0, |key| notes.seal(self.next, *mark, &key));
            lines.push_str(&format!("{} {:032x} {seal:032x}\n", self.next, mark.number()));
            self.next += 1;
        }
        lines
    }
}

fn write(file: &dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = file.append(bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

fn path(run_dir: &Path) -> PathBuf {
    RunDir::at(run_dir).own_records()
}

fn hex(word: &str) -> Option<u128> {
    (word.len() == 32).then(|| u128::from_str_radix(word, 16).ok())?
}

/// A text in one line.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

fn unescaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                other => text.extend(other),
            },
            (character, false) => text.push(character),
        }
    }
    text
}
