//! Coordination for people and programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::{Archive, Chain, Commit, Coordination, Coordinations, Entries, Issue, Slice};
use crate::format::{Format, json_text};
use crate::text::{self, one_line};

/// How long a line for a terminal is.
const LINE: usize = 100;

impl Coordination {
    /// The coordination of a run, written out.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Json => json_text(&self.json()),
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

    fn json(&self) -> Json<'_> {
        Json {
            issues: &self.issues.list,
            slices: &self.slices.list,
            commits: &self.commits.list,
            archives: &self.archives.list,
            chains: &self.chains.list,
        }
    }
}

impl Coordinations {
    /// Every run that is remembered, as one object by the names of the runs.
    pub fn json_by_run(&self) -> String {
        let runs: BTreeMap<&str, Json<'_>> =
            self.iter().map(|(run, coordination)| (run, coordination.json())).collect();
        json_text(&runs)
    }
}

#[derive(Serialize)]
struct Json<'a> {
    issues: &'a [Issue],
    slices: &'a [Slice],
    commits: &'a [Commit],
    archives: &'a [Archive],
    chains: &'a [Chain],
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

fn chain(chain: &Chain) -> String {
    let mut line = named(&chain.id, &chain.steps);
    if !chain.justification.is_empty() {
        let _ = write!(line, " — {}", chain.justification);
    }
    if !chain.parent.is_empty() {
        let _ = write!(line, " (from {})", chain.parent);
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
