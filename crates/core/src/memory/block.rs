//! Memory as a prompt carries it.
//!
//! Every live entry is a line; the lines together keep to a budget. Where they do not, lines go in
//! this order: the oldest learnings first, then notes, the oldest first, and preferences last. What is
//! left is shown by tier and by sort, newest first, with a footer that says what went.

use std::fmt::Write;

use super::{Entry, Kind, Memory};
use crate::text;

/// The default budget in characters.
pub const DEFAULT_BUDGET: usize = 8_000;
/// The minimum number of characters shown of an entry, if the budget allows a line of it.
const ENTRY_SHOWN: usize = 400;

/// The memory section of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Lines, headings and footer; empty without entries.
    pub text: String,
    /// The number of characters of all lines.
    pub chars: usize,
    /// The limit for that; 0 is no limit.
    pub budget: usize,
    pub entries: Counts,
    /// The number of entries that were left out.
    pub dropped: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub preferences: usize,
    pub learnings: usize,
    pub meta: usize,
}

impl Counts {
    fn add(&mut self, kind: Kind) {
        match kind {
            Kind::Preference => self.preferences += 1,
            Kind::Learning => self.learnings += 1,
            Kind::Meta => self.meta += 1,
        }
    }

    pub fn total(self) -> usize {
        self.preferences + self.learnings + self.meta
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    Project,
    Run,
}

struct Line<'a> {
    tier: Tier,
    kind: Kind,
    created: &'a str,
    text: String,
    chars: usize,
}

impl Block {
    /// Renders the memory of both tiers within a budget of characters; 0 is no limit.
    pub fn new(project: &Memory, run: &Memory, budget: usize) -> Block {
        // So that one giant entry does not drive out all others.
        let longest = if budget == 0 { usize::MAX } else { (budget / 4).max(ENTRY_SHOWN) };
        let lines = lines(project, run, longest);
        let mut entries = Counts::default();
        for line in &lines {
            entries.add(line.kind);
        }
        let chars = lines.iter().map(|line| line.chars).sum();
        let limit = if budget == 0 { usize::MAX } else { budget };
        let (kept, went) = keep(&lines, limit);
        let mut dropped = Counts::default();
        for line in &went {
            dropped.add(line.kind);
        }
        let mut text = written(&kept);
        if dropped.total() > 0 {
            let chars: usize = went.iter().map(|line| line.chars).sum();
            footer(dropped, chars, &mut text);
        }
        Block { text, chars, budget, entries, dropped }
    }

    pub fn is_truncated(&self) -> bool {
        self.dropped.total() > 0
    }
}

/// The maximum length of a block: lines, headings and footer.
pub const fn longest(budget: usize) -> usize {
    budget + 400
}

/// The lines of all live entries by priority: preferences, notes, learnings, and the newest first in each.
fn lines<'a>(project: &'a Memory, run: &'a Memory, longest: usize) -> Vec<Line<'a>> {
    let line = |tier| move |entry: &&'a Entry| line(tier, entry, longest);
    let project: Vec<Line<'a>> = project.live().iter().filter_map(line(Tier::Project)).collect();
    let run: Vec<Line<'a>> = run.live().iter().filter_map(line(Tier::Run)).collect();
    let mut lines = merged(project, run);
    lines.sort_by_key(|line| match line.kind {
        Kind::Preference => 0,
        Kind::Meta => 1,
        Kind::Learning => 2,
    });
    lines
}

/// Merges both tiers, newest first. Each is sorted already; the times decide between them, and if they do
/// not, the run comes first.
fn merged<'a>(project: Vec<Line<'a>>, run: Vec<Line<'a>>) -> Vec<Line<'a>> {
    let mut lines = Vec::with_capacity(project.len() + run.len());
    let (mut project, mut run) = (project.into_iter().peekable(), run.into_iter().peekable());
    loop {
        let next = match (project.peek(), run.peek()) {
            (Some(ours), Some(theirs)) if ours.created > theirs.created => project.next(),
            (Some(_), None) => project.next(),
            _ => run.next(),
        };
        match next {
            Some(line) => lines.push(line),
            None => return lines,
        }
    }
}

fn line<'a>(tier: Tier, entry: &'a Entry, longest: usize) -> Option<Line<'a>> {
    let kind = entry.said.kind()?;
    let said = entry.said.to_string();
    let said = text::clip(&said, longest);
    let id = text::one_line(text::head(&entry.id, 40));
    let created = match text::one_line(text::head(&entry.created, 40)) {
        unknown if unknown.is_empty() => "unknown".to_owned(),
        created => created,
    };
    let text = format!("- [{id}] {said} (created: {created})\n");
    let chars = text::length(&text);
    Some(Line { tier, kind, created: &entry.created, text, chars })
}

/// Splits the lines into those that fit and all after the first one that does not.
fn keep<'a, 'b>(lines: &'b [Line<'a>], limit: usize) -> (Vec<&'b Line<'a>>, Vec<&'b Line<'a>>) {
    let mut left = limit;
    let fits = |line: &&Line<'_>| match left.checked_sub(line.chars) {
        Some(less) => {
            left = less;
            true
        }
        None => false,
    };
    let kept: Vec<_> = lines.iter().take_while(fits).collect();
    let went = lines[kept.len()..].iter().collect();
    (kept, went)
}

/// The lines under the headings of their tier and kind.
fn written(lines: &[&Line<'_>]) -> String {
    let mut out = String::new();
    for (tier, name) in [(Tier::Project, "Project memory:"), (Tier::Run, "Run memory:")] {
        let of_tier = |line: &&&Line<'_>| line.tier == tier;
        if !lines.iter().any(|line| of_tier(&line)) {
            continue;
        }
        let _ = writeln!(out, "{name}");
        for (kind, name) in [
            (Kind::Preference, "Preferences:"),
            (Kind::Learning, "Learnings:"),
            (Kind::Meta, "Meta:"),
        ] {
            let mut of_kind = lines.iter().filter(of_tier).filter(|line| line.kind == kind);
            if let Some(first) = of_kind.next() {
                let _ = write!(out, "{name}\n{}", first.text);
            }
            out.extend(of_kind.map(|line| line.text.as_str()));
        }
    }
    out
}

fn footer(dropped: Counts, chars: usize, out: &mut String) {
    let _ = writeln!(
        out,
        "...\n({} left out to keep to the budget: {} preferences, {} learnings, {} meta; {chars} characters. `autoloop memory list` shows all.)",
        dropped.total(),
        dropped.preferences,
        dropped.learnings,
        dropped.meta,
    );
}
