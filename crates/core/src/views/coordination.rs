//! What agents said about their work: issues, slices, commits, archives and chains.
//!
//! All of it is claims. Nothing here is evidence of anything but that somebody said so.

mod render;

use serde::{Deserialize, Serialize};

use super::recent_runs::RecentRuns;
use crate::record::{ChainSpawned, Coordination as Said, Event, Glance};
use crate::text;
use crate::topic::TopicClass;
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
    #[serde(rename = "slice_id")]
    slice: String,
    #[serde(rename = "commit_hash")]
    hash: String,
}

/// Context that was moved out of the way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Archive {
    #[serde(rename = "source_file")]
    source: String,
    #[serde(rename = "dest_file")]
    dest: String,
    reason: String,
}

/// A chain that was started from within the loop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Chain {
    #[serde(rename = "chain_id")]
    id: String,
    #[serde(rename = "parent_id")]
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
        match record.event() {
            Event::Coordination(said) => self.heard(said),
            Event::ChainSpawned(granted) => self.granted(granted),
            _ => return false,
        }
        true
    }

    fn heard(&mut self, said: Said) {
        match said {
            Said::IssueDiscovered { id, summary, disposition, owner } => {
                let issue = self.issue(&kept(id));
                issue.summary = kept(summary);
                issue.disposition = match disposition.is_empty() {
                    true => "open".to_owned(),
                    false => kept(disposition),
                };
                issue.owner = kept(owner);
                issue.resolution = String::new();
            }
            Said::IssueResolved { id, resolution } => {
                let issue = self.issue(&kept(id));
                issue.disposition = "resolved".to_owned();
                issue.resolution = kept(resolution);
            }
            Said::SliceStarted { id, description } => {
                let slice = self.slice(&kept(id));
                slice.description = kept(description);
                slice.status = "in-progress".to_owned();
            }
            Said::SliceVerified { id } => self.slice(&kept(id)).status = "verified".to_owned(),
            Said::SliceCommitted { id, commit_hash } => {
                let slice = kept(id);
                self.slice(&slice).status = "committed".to_owned();
                self.commits.push(Commit { slice, hash: kept(commit_hash) });
            }
            Said::ContextArchived { source_file, dest_file, reason } => {
                self.archives.push(Archive {
                    source: kept(source_file),
                    dest: kept(dest_file),
                    reason: kept(reason),
                });
            }
            Said::ChainSpawn { chain_id, parent_id, steps, justification } => {
                self.chains.push(Chain {
                    id: kept(chain_id),
                    parent: kept(parent_id),
                    steps: kept(steps),
                    justification: kept(justification),
                });
            }
        }
    }

    /// The harness granted a chain. One that was asked for is told as it was granted.
    fn granted(&mut self, granted: ChainSpawned) {
        let chain = Chain {
            id: kept(granted.chain_id),
            parent: kept(granted.parent_id),
            steps: kept(granted.steps),
            justification: kept(granted.justification),
        };
        match self.chains.list.iter().position(|asked| chain.grants(asked)) {
            Some(place) => self.chains.list[place] = chain,
            None => self.chains.push(chain),
        }
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

/// The beginning of a text.
fn kept(text: String) -> String {
    text::clip(&text, TEXT_KEPT).into_owned()
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
        if TopicClass::of(&record.topic()) == TopicClass::Coordination {
            self.runs.heard(&record.run()).apply(record);
        }
    }
}

#[cfg(test)]
mod tests;
