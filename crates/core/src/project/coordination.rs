//! What agents said about their work: issues, slices, commits, archives and chains.
//!
//! All of it is claims. Nothing here is evidence of anything but that somebody said so.

mod render;

use serde::{Deserialize, Serialize};

use super::recent_runs::RecentRuns;
use crate::excerpt;
use crate::payload::Payload;
use crate::record::Glance;
use crate::view::View;

/// How many entries of a sort are kept of a run; the oldest go first.
pub const ENTRIES_KEPT: usize = 2_000;
/// How much of a text is kept, in characters.
pub const TEXT_KEPT: usize = 1_000;

/// The coordination of the runs that were heard of last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coordinations {
    runs: RecentRuns<Coordination>,
}

/// The coordination of one run, in the order in which things were first heard of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coordination {
    issues: Entries<Issue>,
    slices: Entries<Slice>,
    commits: Entries<Commit>,
    archives: Entries<Archive>,
    chains: Entries<Chain>,
}

/// Entries of one sort, and how many older ones were dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entries<T> {
    dropped: u64,
    list: Vec<T>,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Entries { dropped: 0, list: Vec::new() }
    }
}

/// Something that is to be seen to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Issue {
    id: String,
    summary: String,
    disposition: String,
    owner: String,
    resolution: String,
}

/// A unit of work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Slice {
    id: String,
    description: String,
    status: String,
}

/// Where a unit of work went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Commit {
    slice: String,
    hash: String,
}

/// Context that was moved out of the way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Archive {
    source: String,
    dest: String,
    reason: String,
}

/// A chain that was started from within the loop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Chain {
    id: String,
    parent: String,
    steps: String,
    justification: String,
}

impl Chain {
    /// Whether it is what the harness made of a chain that was asked for: the same, with an id and a
    /// parent that count.
    fn grants(&self, asked: &Chain) -> bool {
        let is_open = asked.parent != self.parent && (asked.id.is_empty() || asked.id == self.id);
        is_open && asked.steps == self.steps && asked.justification == self.justification
    }
}

impl<T> Entries<T> {
    fn push(&mut self, entry: T) {
        if self.list.len() >= ENTRIES_KEPT {
            self.list.remove(0);
            self.dropped += 1;
        }
        self.list.push(entry);
    }

    /// The entry of this name, made when there is none. Without a name it is always a new one.
    fn named(&mut self, id: &str, id_of: fn(&T) -> &str, new: fn(String) -> T) -> &mut T {
        let known = self.list.iter().rposition(|entry| !id.is_empty() && id_of(entry) == id);
        let at = known.unwrap_or_else(|| {
            self.push(new(id.to_owned()));
            self.list.len() - 1
        });
        &mut self.list[at]
    }
}

impl Coordination {
    /// Takes in a record of the run; says whether it was one of the seven sorts.
    pub fn apply(&mut self, record: &Glance<'_>) -> bool {
        let topic = record.topic();
        if !is_coordination(&topic) {
            return false;
        }
        let said = record.payload().map(|payload| Payload::parse(&payload));
        let text = |key: &str| {
            let value = match &said {
                Some(payload) => payload.get(key).unwrap_or_default().to_owned(),
                None => record.field(key).unwrap_or_default().into_owned(),
            };
            excerpt::clip(&value, TEXT_KEPT).into_owned()
        };
        // Words without a key are what there is to say, whatever key was meant.
        let words = said.as_ref().and_then(Payload::text).unwrap_or_default().trim();
        let or_words = |value: String| match value.is_empty() {
            true => excerpt::clip(words, TEXT_KEPT).into_owned(),
            false => value,
        };
        match topic.as_ref() {
            "issue.discovered" => {
                let issue = self.issue(&text("id"));
                issue.summary = or_words(text("summary"));
                issue.disposition = or_else(text("disposition"), "open");
                issue.owner = text("owner");
                issue.resolution = String::new();
            }
            "issue.resolved" => {
                let issue = self.issue(&text("id"));
                issue.disposition = "resolved".to_owned();
                issue.resolution = or_words(text("resolution"));
            }
            "slice.started" => {
                let slice = self.slice(&text("id"));
                slice.description = or_words(text("description"));
                slice.status = "in-progress".to_owned();
            }
            "slice.verified" => self.slice(&text("id")).status = "verified".to_owned(),
            "slice.committed" => {
                self.slice(&text("id")).status = "committed".to_owned();
                self.commits
                    .push(Commit { slice: text("id"), hash: or_words(text("commit_hash")) });
            }
            "context.archived" => self.archives.push(Archive {
                source: or_words(text("source_file")),
                dest: text("dest_file"),
                reason: text("reason"),
            }),
            _ => {
                let chain = Chain {
                    id: text("chain_id"),
                    parent: text("parent_id"),
                    steps: text("steps"),
                    justification: or_words(text("justification")),
                };
                let is_granted = |asked: &Chain| said.is_none() && chain.grants(asked);
                match self.chains.list.iter().position(is_granted) {
                    Some(place) => self.chains.list[place] = chain,
                    None => self.chains.push(chain),
                }
            }
        }
        true
    }

    fn issue(&mut self, id: &str) -> &mut Issue {
        self.issues.named(id, |issue| &issue.id, |id| Issue { id, ..Issue::default() })
    }

    fn slice(&mut self, id: &str) -> &mut Slice {
        self.slices.named(id, |slice| &slice.id, |id| Slice { id, ..Slice::default() })
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        *self == Coordination::default()
    }
}

fn is_coordination(topic: &str) -> bool {
    matches!(
        topic,
        "issue.discovered"
            | "issue.resolved"
            | "slice.started"
            | "slice.verified"
            | "slice.committed"
            | "context.archived"
            | "chain.spawn"
    )
}

fn or_else(text: String, default: &str) -> String {
    if text.is_empty() { default.to_owned() } else { text }
}

impl Coordinations {
    /// The coordination of a run, if it is one of those heard of last.
    pub fn of(&self, run: &str) -> Option<&Coordination> {
        self.runs.get(run)
    }

    /// Every run that is remembered.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Coordination)> {
        self.runs.iter()
    }
}

impl View for Coordinations {
    const NAME: &'static str = "coordination";
    const VERSION: u32 = 2;

    fn apply(&mut self, record: &Glance<'_>) {
        if is_coordination(&record.topic()) {
            self.runs.heard(&record.run()).apply(record);
        }
    }
}

#[cfg(test)]
mod tests;
