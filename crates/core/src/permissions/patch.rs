//! A diff as [`unified`](super::unified) writes it, read again so that it can be undone.
//!
//! The text comes from a journal, and anybody may have written there. So nothing is guessed: what our
//! own writer would not have written is refused.

mod undo;

use std::collections::BTreeSet;

pub use undo::{Conflict, Standing, Undone};

use super::diff::NOWHERE;

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    /// The file, as seen from the project.
    pub path: String,
    /// What was done to it.
    pub deed: Deed,
    content: Content,
}

/// What was done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It was not there before.
    Added,
    /// It was there before and after.
    Edited,
    /// It was there before only.
    Deleted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// Everything that is different.
    Hunks(Vec<Hunk>),
    /// Only that something is different, and why no more is said.
    Named(String),
}

/// One stretch of changed lines, with some lines around it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hunk {
    /// As it stands in the diff: `@@ -1,2 +1,2 @@`.
    header: String,
    /// The line before which each side begins, counted from 0.
    old_start: usize,
    new_start: usize,
    lines: Vec<(Side, String)>,
}

/// Where a line of a hunk stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Old,
    New,
    Both,
}

/// Why a text is no diff of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPatch {
    /// A line is not what should come there.
    #[error("line {line} of the diff is not {expected}")]
    Unexpected {
        /// Its number, counted from 1.
        line: usize,
        /// What should come.
        expected: &'static str,
    },
    /// A file is changed twice.
    #[error("the diff changes {0} twice")]
    Twice(String),
}

/// Reads a diff of any number of files.
///
/// # Errors
///
/// When it is not written as our own writer does it.
pub fn read_patch(text: &str) -> Result<Vec<FilePatch>, BadPatch> {
    let mut reader = Reader { lines: lines(text), next: 0 };
    let mut files = Vec::new();
    let mut paths = BTreeSet::new();
    while reader.next < reader.lines.len() {
        let file = reader.file()?;
        if !paths.insert(file.path.clone()) {
            return Err(BadPatch::Twice(file.path));
        }
        files.push(file);
    }
    Ok(files)
}

/// The lines of a text with their ends, as the writer splits them: a lone carriage return ends one.
fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\n', '\r']) {
        let end = if rest[at..].starts_with("\r\n") { at + 2 } else { at + 1 };
        lines.push(&rest[..end]);
        rest = &rest[end..];
    }
    lines.extend(Some(rest).filter(|rest| !rest.is_empty()));
    lines
}

struct Reader<'t> {
    lines: Vec<&'t str>,
    next: usize,
}

impl<'t> Reader<'t> {
    fn file(&mut self) -> Result<FilePatch, BadPatch> {
        let old = self.headed("--- ", "the name of a file before")?;
        let new = self.headed("+++ ", "the name of a file after")?;
        let (old, new) = (name(old, "a/"), name(new, "b/"));
        let (path, deed) = match (old, new) {
            (Some(old), Some(new)) if old == new && !old.is_empty() => (old, Deed::Edited),
            (None, Some(new)) if !new.is_empty() => (new, Deed::Added),
            (Some(old), None) if !old.is_empty() => (old, Deed::Deleted),
            _ => return Err(self.unexpected(self.next, "the name of the same file")),
        };
        let path = path.to_owned();
        if let Some(why) = self.peek().and_then(|line| line.strip_prefix("# ")) {
            let content = Content::Named(why.trim_end().to_owned());
            self.next += 1;
            return Ok(FilePatch { path, deed, content });
        }
        let mut hunks = Vec::new();
        while self.peek().is_some_and(|line| line.starts_with("@@ ")) {
            hunks.push(self.hunk()?);
        }
        if hunks.is_empty() && deed == Deed::Edited {
            return Err(self.unexpected(self.next + 1, "a change"));
        }
        Ok(FilePatch { path, deed, content: Content::Hunks(hunks) })
    }

    fn hunk(&mut self) -> Result<Hunk, BadPatch> {
        let header = self.headed("", "the place of a change")?;
        let place = self.next;
        let ranges =
            ranges(header).ok_or_else(|| self.unexpected(place, "the place of a change"))?;
        let ((old_start, mut old), (new_start, mut new)) = ranges;
        let mut lines = Vec::new();
        while old > 0 || new > 0 {
            let (side, text) = self.changed()?;
            let counts = match side {
                Side::Old => (1, 0),
                Side::New => (0, 1),
                Side::Both => (1, 1),
            };
            match (old.checked_sub(counts.0), new.checked_sub(counts.1)) {
                (Some(rest_old), Some(rest_new)) => (old, new) = (rest_old, rest_new),
                _ => return Err(self.unexpected(self.next, "within the change that it stands in")),
            }
            lines.push((side, text));
        }
        if lines.iter().all(|(side, _)| *side == Side::Both) {
            return Err(self.unexpected(place, "the place of a change"));
        }
        Ok(Hunk { header: header.to_owned(), old_start, new_start, lines })
    }

    /// One line of a hunk, and the mark behind it if it has no end.
    fn changed(&mut self) -> Result<(Side, String), BadPatch> {
        const UNENDED: &str = "\\ No newline at end of file";
        let line = self.peek().unwrap_or_default();
        let side = match line.as_bytes().first() {
            Some(b'-') => Side::Old,
            Some(b'+') => Side::New,
            Some(b' ') => Side::Both,
            _ => return Err(self.unexpected(self.next + 1, "a line of a change")),
        };
        self.next += 1;
        let mut text = &line[1..];
        if self.peek().is_some_and(|next| next.trim_end() == UNENDED) {
            self.next += 1;
            text = text.strip_suffix('\n').unwrap_or(text);
        }
        Ok((side, text.to_owned()))
    }

    fn headed(&mut self, prefix: &str, expected: &'static str) -> Result<&'t str, BadPatch> {
        let found = self.peek().and_then(|line| line.strip_prefix(prefix));
        self.next += 1;
        found
            .and_then(|line| line.strip_suffix('\n'))
            .ok_or_else(|| self.unexpected(self.next, expected))
    }

    fn peek(&self) -> Option<&'t str> {
        self.lines.get(self.next).copied()
    }

    fn unexpected(&self, line: usize, expected: &'static str) -> BadPatch {
        BadPatch::Unexpected { line, expected }
    }
}

/// A name behind its prefix; `None` for no file. A name that lacks the prefix is an empty one.
fn name<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    (text != NOWHERE).then(|| text.strip_prefix(prefix).unwrap_or_default())
}

type Range = (usize, usize);

/// Both ranges of a header, each with its start counted from 0 and its length.
fn ranges(header: &str) -> Option<(Range, Range)> {
    let (old, new) = header.strip_prefix("@@ -")?.strip_suffix(" @@")?.split_once(" +")?;
    Some((range(old)?, range(new)?))
}

fn range(text: &str) -> Option<Range> {
    let (start, length) = text.split_once(',').unwrap_or((text, "1"));
    let number = |text: &str| usize::try_from(text.parse::<u32>().ok()?).ok();
    let (start, length) = (number(start)?, number(length)?);
    // Of nothing, the line before it is told.
    let start = if length == 0 { start } else { start.checked_sub(1)? };
    Some((start, length))
}

#[cfg(test)]
mod tests;
