//! The bookkeeping of agents: issues, slices, commits, archives and chains. All of it is claims, not
//! evidence.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize, Serializer};

use super::recent_runs::RecentRuns;
use crate::format::{Format, json_text};
use crate::record::{ChainSpawned, Coordination as Said, Event, Glance};
use crate::text::{self, one_line};
use crate::topic::TopicClass;
use crate::view::View;

/// How many entries of a kind are kept per run; the oldest are dropped first.
pub const ENTRIES_KEPT: usize = 2_000;
/// In characters.
pub const TEXT_KEPT: usize = 1_000;
/// The width of a line on a terminal.
const LINE: usize = 100;

pub type Coordinations = RecentRuns<Coordination>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coordination {
    issues: Entries<Issue>,
    slices: Entries<Slice>,
    commits: Entries<Commit>,
    archives: Entries<Archive>,
    chains: Entries<ChainSpawned>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Entries<T> {
    dropped: u64,
    list: Vec<T>,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Entries { dropped: 0, list: Vec::new() }
    }
}

/// As JSON it is a plain list; a kept view needs the rest too.
impl<T: Serialize> Serialize for Entries<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match to.is_human_readable() {
            true => self.list.serialize(to),
            false => (self.dropped, &self.list).serialize(to),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Issue {
    id: String,
    summary: String,
    disposition: String,
    owner: String,
    resolution: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Slice {
    id: String,
    description: String,
    status: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Commit {
    #[serde(rename = "slice_id")]
    slice: String,
    #[serde(rename = "commit_hash")]
    hash: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Archive {
    #[serde(rename = "source_file")]
    source: String,
    #[serde(rename = "dest_file")]
    dest: String,
    reason: String,
}

impl<T> Entries<T> {
    fn push(&mut self, entry: T) {
        if self.list.len() >= ENTRIES_KEPT {
            self.list.remove(0);
            self.dropped += 1;
        }
        self.list.push(entry);
    }

    /// The entry with this id, created where it is missing. Without an id it is always a new one.
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
    /// Applies a record of the run; returns whether it was one of the seven kinds.
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
                let asked = ChainSpawned { chain_id, parent_id, steps, justification };
                self.chains.push(kept_chain(asked));
            }
        }
    }

    /// A granted chain replaces its request.
    fn granted(&mut self, granted: ChainSpawned) {
        let chain = kept_chain(granted);
        match self.chains.list.iter().position(|asked| grants(&chain, asked)) {
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

    pub fn is_empty(&self) -> bool {
        *self == Coordination::default()
    }
}

fn kept(text: String) -> String {
    text::clip(&text, TEXT_KEPT).into_owned()
}

fn kept_chain(chain: ChainSpawned) -> ChainSpawned {
    let ChainSpawned { chain_id, parent_id, steps, justification } = chain;
    let [chain_id, parent_id, steps, justification] =
        [chain_id, parent_id, steps, justification].map(kept);
    ChainSpawned { chain_id, parent_id, steps, justification }
}

/// Whether a granted chain answers a request: the steps and the justification are the same, and the harness
/// chose the id and the parent.
fn grants(granted: &ChainSpawned, asked: &ChainSpawned) -> bool {
    asked.parent_id != granted.parent_id
        && (asked.chain_id.is_empty() || asked.chain_id == granted.chain_id)
        && asked.steps == granted.steps
        && asked.justification == granted.justification
}

impl View for Coordinations {
    const NAME: &'static str = "coordination";
    const VERSION: u32 = 2;

    fn apply(&mut self, record: &Glance<'_>) {
        if TopicClass::of(&record.topic()) == TopicClass::Coordination {
            self.touch(&record.run()).apply(record);
        }
    }
}

impl Coordination {
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Json => json_text(self),
            _ if self.is_empty() => "No coordination data available.\n".to_owned(),
            Format::Markdown => self.headed(|heading| format!("## {heading}\n\n"), usize::MAX),
            Format::Terminal => self.headed(|heading| format!("{heading}\n"), LINE),
        }
    }

    fn headed(&self, heading: impl Fn(&str) -> String, width: usize) -> String {
        let mut parts = vec![
            heading("Issues") + &listed(&self.issues, issue, width),
            heading("Slices") + &listed(&self.slices, slice, width),
            heading("Commits") + &listed(&self.commits, commit, width),
            heading("Archives") + &listed(&self.archives, archive, width),
        ];
        if !self.chains.list.is_empty() {
            parts.push(heading("Chains") + &listed(&self.chains, chain, width));
        }
        parts.join("\n")
    }
}

impl Coordinations {
    /// All kept runs, as one object with the ids of the runs as keys.
    pub fn json_by_run(&self) -> String {
        json_text(&self.iter().collect::<BTreeMap<_, _>>())
    }
}

fn listed<T>(entries: &Entries<T>, line: impl Fn(&T) -> String, width: usize) -> String {
    let mut out = String::new();
    if entries.dropped > 0 {
        let _ = writeln!(out, "… {} earlier", entries.dropped);
    }
    for entry in &entries.list {
        let _ = writeln!(out, "- {}", text::clip(&one_line(&line(entry)), width));
    }
    if entries.list.is_empty() {
        out.push_str("(none)\n");
    }
    out
}

fn issue(issue: &Issue) -> String {
    let mut line = format!("[{}] {}", issue.disposition, named(&issue.id, &issue.summary));
    if !issue.resolution.is_empty() {
        let _ = write!(line, " — {}", issue.resolution);
    }
    if !issue.owner.is_empty() {
        let _ = write!(line, " (owner: {})", issue.owner);
    }
    line
}

fn slice(slice: &Slice) -> String {
    format!("[{}] {}", slice.status, named(&slice.id, &slice.description))
}

fn commit(commit: &Commit) -> String {
    format!("{} → {}", or_dash(&commit.slice), or_dash(&commit.hash))
}

fn archive(archive: &Archive) -> String {
    let mut line = format!("{} → {}", or_dash(&archive.source), or_dash(&archive.dest));
    if !archive.reason.is_empty() {
        let _ = write!(line, " ({})", archive.reason);
    }
    line
}

fn chain(chain: &ChainSpawned) -> String {
    let mut line = named(&chain.chain_id, &chain.steps);
    if !chain.justification.is_empty() {
        let _ = write!(line, " — {}", chain.justification);
    }
    if !chain.parent_id.is_empty() {
        let _ = write!(line, " (from {})", chain.parent_id);
    }
    line
}

fn named(id: &str, text: &str) -> String {
    match (id, text) {
        ("", text) => text.to_owned(),
        (id, "") => id.to_owned(),
        (id, text) => format!("{id}: {text}"),
    }
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

#[cfg(test)]
mod tests;
