//! What outlives an iteration: learnings, preferences and notes, in files that only grow.
//!
//! There are two tiers, each a JSONL file. The *project* tier is read by every run; the *run* tier
//! belongs to one. A line is never changed: what is no longer wanted is hidden by a tombstone, and a
//! note (`meta`) by a later one with the same key. A [`Memory`] is the fold of one file.

mod block;
mod check;
mod line;
mod place;

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use block::{Block, Counts, DEFAULT_BUDGET, longest};
pub use check::BadEntry;
pub use line::{Line, parse, print};
pub use place::Places;

/// How long the text of an entry may be, in characters.
pub const LONGEST_TEXT: usize = 16_000;
/// How long a category or a key may be, in characters.
pub const LONGEST_NAME: usize = 100;
/// Numbers above this are not ours and are not counted on from.
const LARGEST_NUMBER: u64 = 999_999_999_999;

/// One line of a memory file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, unique in its file: `mem-1`, `meta-7`, `ts-9`.
    pub id: String,
    /// When it was added, as written; empty when the line does not say.
    pub created: String,
    /// Who added it: a run and an iteration, or nobody in particular.
    pub source: String,
    /// What it says.
    pub said: Said,
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// Something worth knowing next time.
    Learning {
        /// What.
        text: String,
    },
    /// How somebody wants things done.
    Preference {
        /// In which matter.
        category: String,
        /// How.
        text: String,
    },
    /// A note under a key; the last one with a key counts.
    Meta {
        /// The key.
        key: String,
        /// The note.
        value: String,
    },
    /// Another entry is not wanted any more. Only a removal writes it, after it has checked that there is such
    /// an entry; none is accepted from another process.
    #[serde(skip_deserializing)]
    Tombstone {
        /// Which.
        target: String,
        /// Why.
        reason: String,
    },
}

/// The three sorts of entries that can be live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`Said::Preference`]
    Preference,
    /// [`Said::Learning`]
    Learning,
    /// [`Said::Meta`]
    Meta,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Preference => "preference",
            Kind::Learning => "learning",
            Kind::Meta => "meta",
        })
    }
}

impl Said {
    /// Its sort; a tombstone has none.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Said::Learning { .. } => Some(Kind::Learning),
            Said::Preference { .. } => Some(Kind::Preference),
            Said::Meta { .. } => Some(Kind::Meta),
            Said::Tombstone { .. } => None,
        }
    }

    /// The first part of the names of such entries.
    fn prefix(&self) -> &'static str {
        match self {
            Said::Learning { .. } | Said::Preference { .. } => "mem",
            Said::Meta { .. } => "meta",
            Said::Tombstone { .. } => "ts",
        }
    }

    /// The name of such an entry with this number.
    pub fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.prefix())
    }
}

/// The fold of one memory file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// In the order of the file, tombstones too.
    entries: Vec<Entry>,
    /// The largest number that a name has had.
    largest: u64,
    /// How many lines there are.
    lines: u64,
    /// Lines that are none.
    bad: u64,
}

/// What became of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate<'a> {
    /// It is there.
    Live(&'a Entry),
    /// It was removed, or a later note took its place.
    Gone,
    /// Nothing has had it.
    Unknown,
}

impl Memory {
    /// Takes in one line, without its newline. A blank one says nothing; one that cannot be understood
    /// is counted.
    pub fn apply(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        self.lines += 1;
        match parse(line) {
            Some(entry) => self.add(entry),
            None => self.bad += 1,
        }
    }

    fn add(&mut self, entry: Entry) {
        let number = entry.id.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
        let number = number.filter(|number| *number <= LARGEST_NUMBER).unwrap_or(0);
        self.largest = self.largest.max(number);
        self.entries.push(entry);
    }

    /// The number that the next entry gets. Names of this file are never used again.
    pub fn next_number(&self) -> u64 {
        self.largest.max(self.lines) + 1
    }

    /// How many lines could not be understood.
    pub fn bad(&self) -> u64 {
        self.bad
    }

    /// What there is, newest first: entries without a tombstone behind them, and of the notes with one
    /// key the last.
    ///
    /// A note that was removed takes the earlier ones with its key along: what it had replaced does
    /// not come back.
    pub fn live(&self) -> Vec<&Entry> {
        let mut buried: HashSet<&str> = HashSet::new();
        let mut keys: HashSet<&str> = HashSet::new();
        let mut live = Vec::new();
        for entry in self.entries.iter().rev() {
            match &entry.said {
                Said::Tombstone { target, .. } => {
                    buried.insert(target);
                    continue;
                }
                Said::Meta { key, .. } if !keys.insert(key) => continue,
                _ => {}
            }
            if !buried.contains(entry.id.as_str()) {
                live.push(entry);
            }
        }
        live
    }

    /// What became of a name.
    pub fn fate(&self, id: &str) -> Fate<'_> {
        match self.live().into_iter().find(|entry| entry.id == id) {
            Some(entry) => Fate::Live(entry),
            None if self.entries.iter().any(|entry| entry.id == id) => Fate::Gone,
            None => Fate::Unknown,
        }
    }

    /// Live entries that hold every one of these words, in any case, newest first.
    pub fn find(&self, words: &[String]) -> Vec<&Entry> {
        let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let holds = |entry: &&Entry| {
            let text = format!("{} {}", entry.id, entry.said).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.live().into_iter().filter(holds).collect()
    }
}

/// In one line, as it is shown to people and agents.
impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::text::one_line;
        match self {
            Said::Learning { text } => f.write_str(&one_line(text)),
            Said::Preference { category, text } => {
                write!(f, "[{}] {}", one_line(category), one_line(text))
            }
            Said::Meta { key, value } => write!(f, "{}: {}", one_line(key), one_line(value)),
            Said::Tombstone { target, reason } => {
                write!(f, "removed {}: {}", one_line(target), one_line(reason))
            }
        }
    }
}

#[cfg(test)]
mod tests;
