//! The memory section of a prompt.
//!
//! Every live entry is a line. Lines that exceed the budget are left out: the oldest learnings first, then the
//! oldest notes, preferences last. The others are shown by tier and kind, newest first, with a footer that
//! counts what was left out.

use std::fmt::Write;

use super::{Entry, Kind, Memory};
use crate::text;

pub const DEFAULT_BUDGET: usize = 8_000;
/// The minimum number of characters shown of an entry, if the budget allows a line of it.
const ENTRY_SHOWN: usize = 400;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    pub text: String,
    /// The number of characters of all lines.
    pub chars: usize,
    /// The limit for that; 0 is no limit.
    pub budget: usize,
    pub entries: Counts,
    pub dropped: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub preferences: usize,
    pub learnings: usize,
    pub meta: usize,
}

impl Counts {
    fn of(lines: &[Line<'_>]) -> Counts {
        let count = |kind| lines.iter().filter(|line| line.kind == kind).count();
        Counts {
            preferences: count(Kind::Preference),
            learnings: count(Kind::Learning),
            meta: count(Kind::Meta),
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
        let limit = if budget == 0 { usize::MAX } else { budget };
        let (kept, left_out) = lines.split_at(fitting(&lines, limit));
        let mut text = written(kept);
        if !left_out.is_empty() {
            text += &footer(left_out);
        }
        Block {
            text,
            chars: chars(&lines),
            budget,
            entries: Counts::of(&lines),
            dropped: Counts::of(left_out),
        }
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

fn chars(lines: &[Line<'_>]) -> usize {
    lines.iter().map(|line| line.chars).sum()
}

/// The number of lines before the first one that exceeds the limit.
fn fitting(lines: &[Line<'_>], limit: usize) -> usize {
    let mut left = limit;
    let fits = |line: &&Line<'_>| {
        let rest = left.checked_sub(line.chars);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    lines.iter().take_while(fits).count()
}

fn written(lines: &[Line<'_>]) -> String {
    let mut out = String::new();
    for (tier, name) in [(Tier::Project, "Project memory:"), (Tier::Run, "Run memory:")] {
        let of_tier = |line: &&Line<'_>| line.tier == tier;
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

fn footer(left_out: &[Line<'_>]) -> String {
    let Counts { preferences, learnings, meta } = Counts::of(left_out);
    format!(
        "...\n({} left out to keep to the budget: {preferences} preferences, {learnings} learnings, {meta} meta; {} characters. `autoloop memory list` shows all.)\n",
        left_out.len(),
        chars(left_out),
    )
}
