//! The file `own-records`: sealed marks of records that have no seal themselves.
//!
//! Versions before records were sealed wrote it; such a run is resumed from it. It is written only for a run whose
//! unsealed records the user vouched for.

use std::collections::{HashMap, HashSet};

use autoloop_core::provenance::Mark;

use super::{DriveError, RunPlace};
use crate::project::{LoadError, Unreadable, read_text};
use crate::world::{Key, KeyedDigest};

/// The longest file that is read; it holds millions of notes.
const LONGEST: u64 = 256 * 1024 * 1024;
const HEADER: &str = "autoloop notes 2";
/// The beginning of the line with the request.
const REQUEST: &str = "request ";

#[derive(Default)]
pub(super) struct Notes {
    pub(super) is_there: bool,
    pub(super) marks: HashMap<Mark, u32>,
    /// The sealed requests in it, not checked.
    pub(super) requests: Vec<String>,
}

pub(super) fn read(place: &RunPlace<'_>) -> Result<Notes, LoadError> {
    let path = place.dir.own_records();
    let text = match read_text(&*place.world.disk, &path, LONGEST) {
        Ok(Some(text)) => text,
        Err(why @ Unreadable::Io(_)) => return Err(LoadError::Unreadable { path, why }),
        Ok(None) | Err(_) => return Ok(Notes::default()),
    };
    let Some(key) = place.world.key() else { return Ok(Notes::default()) };
    let mut notes = Notes { is_there: text.lines().next() == Some(HEADER), ..Notes::default() };
    // A note that was copied counts once.
    let mut seen = HashSet::new();
    for line in text.lines() {
        if let Some((number, mark)) = note(line, place.run, &key) {
            if seen.insert(number) {
                *notes.marks.entry(mark).or_default() += 1;
            }
        } else if let Some(request) = line.strip_prefix(REQUEST) {
            notes.requests.push(unescaped(request));
        }
    }
    Ok(notes)
}

/// Writes notes about unsealed records that are believed from now on.
pub(super) fn write(place: &RunPlace<'_>, marks: &[Mark]) -> Result<(), DriveError> {
    let key = place.world.key();
    let mut text = format!("{HEADER}\n");
    for (number, mark) in (0..).zip(marks) {
        let seal = key.map_or(0, |key| seal(place.run, number, *mark, &key));
        text.push_str(&format!("{number} {:032x} {seal:032x}\n", mark.0));
    }
    place.write(place.dir.own_records(), &text)
}

/// Makes the notes about earlier records void, where there are any.
pub(super) fn forget(place: &RunPlace<'_>) -> Result<(), DriveError> {
    match place.world.disk.stat(&place.dir.own_records()) {
        Ok(_) => write(place, &[]),
        Err(_) => Ok(()),
    }
}

fn note(line: &str, run: &str, key: &Key) -> Option<(u64, Mark)> {
    let mut words = line.split(' ');
    let number = words.next()?.parse().ok()?;
    let mark = Mark(hex(words.next()?)?);
    let found = hex(words.next()?)?;
    (words.next().is_none() && found == seal(run, number, mark, key)).then_some((number, mark))
}

fn seal(run: &str, number: u64, mark: Mark, key: &Key) -> KeyedDigest {
    key.seal("note", &[run.as_bytes(), &number.to_le_bytes(), &mark.0.to_le_bytes()])
}

fn hex(word: &str) -> Option<u128> {
    (word.len() == 32).then(|| u128::from_str_radix(word, 16).ok())?
}

/// A text that was written in one line.
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
