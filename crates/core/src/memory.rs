//! Memory: learnings, preferences and notes that outlive an iteration, in append-only files.
//!
//! There are two tiers, each a JSONL file. The *project* tier is read by every run; the *run* tier
//! belongs to one. A line is never changed: a tombstone hides a removed entry, and a later note (`meta`)
//! hides earlier ones with its key. A [`Memory`] is the fold of one file.
//!
//! An entry is one JSON line:
//! `{"id": "mem-3", "type": "preference", "category": "style", "text": "…", "source": "…", "created": "…"}`;
//! a note has `key` and `value`, a tombstone `target_id` and `reason`. Unknown keys are ignored, since no
//! line is ever written back.

mod block;

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::coordinator;
use crate::env::Env;
use crate::format::json_line;
use crate::layout::StateDir;
use crate::wire_enum::words;

pub use block::{Block, Counts, DEFAULT_BUDGET, longest};

pub const LONGEST_TEXT: usize = 16_000;
pub const LONGEST_NAME: usize = 100;
/// Larger numbers were not written by this program and are ignored for numbering.
const LARGEST_NUMBER: u64 = 999_999_999_999;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Unique in its file: `mem-1`, `meta-7`, `ts-9`.
    pub id: String,
    /// As written; may be empty.
    pub created: String,
    /// A run and an iteration, or `manual`.
    pub source: String,
    pub said: Said,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// A fact worth knowing next time.
    Learning { text: String },
    /// How the user wants things done.
    Preference { category: String, text: String },
    /// A note under a key; the last one with a key counts.
    Meta { key: String, value: String },
    /// Removes another entry. Only a removal writes it, after checking that the entry exists; it is not
    /// accepted from other processes.
    #[serde(skip_deserializing)]
    Tombstone { target: String, reason: String },
}

words! {
    #[derive(PartialOrd, Ord)]
    Kind {
        Preference = "preference",
        Learning = "learning",
        Meta = "meta",
    }
}

impl Said {
    /// `None` for a tombstone.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Said::Learning { .. } => Some(Kind::Learning),
            Said::Preference { .. } => Some(Kind::Preference),
            Said::Meta { .. } => Some(Kind::Meta),
            Said::Tombstone { .. } => None,
        }
    }

    pub fn id(&self, number: u64) -> String {
        let prefix = match self {
            Said::Learning { .. } | Said::Preference { .. } => "mem",
            Said::Meta { .. } => "meta",
            Said::Tombstone { .. } => "ts",
        };
        format!("{prefix}-{number}")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// In the order of the file, with tombstones.
    entries: Vec<Entry>,
    /// The largest number of an id.
    largest: u64,
    lines: u64,
    /// The number of invalid lines.
    bad: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdState<'a> {
    Live(&'a Entry),
    /// It was removed or replaced by a later note.
    Gone,
    /// It never existed.
    Unknown,
}

impl Memory {
    /// Applies one line without its newline. Blank lines are ignored; invalid ones are counted.
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

    /// The number of the next entry. Ids of a file are never reused.
    pub fn next_number(&self) -> u64 {
        self.largest.max(self.lines) + 1
    }

    pub fn bad(&self) -> u64 {
        self.bad
    }

    /// The live entries, newest first: those without a later tombstone, and the last note of each key.
    /// Removing a note also removes the earlier ones with its key.
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

    pub fn id_state(&self, id: &str) -> IdState<'_> {
        match self.live().into_iter().find(|entry| entry.id == id) {
            Some(entry) => IdState::Live(entry),
            None if self.entries.iter().any(|entry| entry.id == id) => IdState::Gone,
            None => IdState::Unknown,
        }
    }

    pub fn find(&self, words: &[String]) -> Vec<&Entry> {
        let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let holds = |entry: &&Entry| {
            let text = format!("{} {}", entry.id, entry.said).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.live().into_iter().filter(holds).collect()
    }
}

/// One line, as shown to users and agents.
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    #[error("the text is empty")]
    Empty,
    #[error("the text has {0} characters: the limit is {LONGEST_TEXT}")]
    TooLong(usize),
    #[error("'{}' cannot be a {what}", name.escape_debug())]
    BadName { what: &'static str, name: String },
}

impl BadEntry {
    pub fn hint(&self) -> Option<String> {
        match self {
            BadEntry::Empty => None,
            BadEntry::TooLong(_) => {
                Some("write it to a file of the project, and add the path of the file".to_owned())
            }
            BadEntry::BadName { what, .. } => {
                Some(format!("a {what} is one line of 1 to {LONGEST_NAME} characters"))
            }
        }
    }
}

impl Said {
    /// Trims and checks the texts of an entry.
    pub fn checked(self) -> Result<Said, BadEntry> {
        Ok(match self {
            Said::Learning { text } => Said::Learning { text: checked_text(&text)? },
            Said::Preference { category, text } => Said::Preference {
                category: checked_name("category", &category)?,
                text: checked_text(&text)?,
            },
            Said::Meta { key, value } => {
                Said::Meta { key: checked_name("key", &key)?, value: checked_text(&value)? }
            }
            tombstone @ Said::Tombstone { .. } => tombstone,
        })
    }
}

fn checked_text(text: &str) -> Result<String, BadEntry> {
    let text = text.trim();
    match text.chars().count() {
        0 => Err(BadEntry::Empty),
        1..=LONGEST_TEXT => Ok(text.to_owned()),
        length => Err(BadEntry::TooLong(length)),
    }
}

fn checked_name(what: &'static str, name: &str) -> Result<String, BadEntry> {
    let name = name.trim();
    let is_good = !name.is_empty()
        && name.chars().count() <= LONGEST_NAME
        && !name.contains(char::is_control);
    match is_good {
        true => Ok(name.to_owned()),
        false => Err(BadEntry::BadName { what, name: name.to_owned() }),
    }
}

#[derive(Serialize, Deserialize)]
pub struct Line {
    id: String,
    /// The file, if a list contains lines of both tiers.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    #[serde(flatten, with = "SaidFields")]
    said: Said,
    #[serde(default)]
    source: String,
    #[serde(default)]
    created: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Said", tag = "type", rename_all = "lowercase")]
enum SaidFields {
    Learning {
        #[serde(default)]
        text: String,
    },
    Preference {
        #[serde(default)]
        category: String,
        #[serde(default)]
        text: String,
    },
    Meta {
        #[serde(default)]
        key: String,
        #[serde(default)]
        value: String,
    },
    Tombstone {
        #[serde(default, rename = "target_id")]
        target: String,
        #[serde(default)]
        reason: String,
    },
}

impl Line {
    pub fn new(entry: &Entry, tier: Option<String>) -> Self {
        let Entry { id, created, source, said } = entry.clone();
        Line { id, tier, said, source, created }
    }
}

/// Parses one line; `None` if it is not an entry.
pub fn parse(line: &[u8]) -> Option<Entry> {
    let text = String::from_utf8_lossy(line);
    let line: Line = serde_json::from_str(text.trim_matches(['\0', ' ', '\t', '\r'])).ok()?;
    let Line { id, said, source, created, .. } = line;
    Some(Entry { id, created, source, said })
}

pub fn print(entry: &Entry, out: &mut Vec<u8>) {
    out.extend_from_slice(json_line(&Line::new(entry, None)).as_bytes());
    out.push(b'\n');
}

/// The files of the two tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Read by every run of the project.
    pub project: PathBuf,
    /// `None` outside of a run.
    pub run: Option<PathBuf>,
}

impl Places {
    /// Reads the environment. The project tier is `memory.jsonl` in the state directory. The run tier is the
    /// file in `AUTOLOOP_MEMORY_FILE`, or `runs/<run>/memory.jsonl` if the environment has a state directory
    /// and a run.
    pub fn of(env: &Env) -> Places {
        let state = match &env.state_dir {
            Some(dir) => StateDir::new(dir),
            None => StateDir::of_project(env.project_dir.as_deref()),
        };
        let project = state.memory();
        let named_by_run = || {
            let run = env.run_id.as_deref().filter(|_| env.state_dir.is_some())?;
            Places::of_run(&state, run).run
        };
        let run = env.memory_file.clone().or_else(named_by_run).filter(|file| *file != project);
        Places { project, run }
    }

    pub fn of_run(state_dir: &StateDir, run: &str) -> Places {
        let id = run.parse().ok();
        let run = id.map(|id| state_dir.run(coordinator::Kind::Loop, &id).memory());
        Places { project: state_dir.memory(), run }
    }
}

#[cfg(test)]
mod tests;
