//! Reverts a diff written by [`unified`](super::unified) in a file that may have been edited since.
//!
//! The diff comes from a journal, which any process can write to. `diffy` reads and applies it; this module
//! decides whether a hunk still stands where the review put it. A hunk is reverted where all of its lines
//! stand with the line before and after them: at their place or, if they moved, at the only place where
//! they are found. Anything else is a conflict.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use diffy::{Hunk, HunkRange, Line, Patch};

use super::diff::NOWHERE;

/// How many lines around a change have to match. There are fewer only at the beginning and end of a file.
const AROUND: usize = 1;

#[derive(Clone, Debug)]
pub struct FilePatch<'t> {
    /// Relative to the project.
    pub path: String,
    deed: Deed,
    patch: Patch<'t, str>,
    /// Why the diff only names the file, if it does.
    named: Option<&'t str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Added,
    Edited,
    Deleted,
}

/// Whether the journal contains an earlier revert of the review. In a file of many equal lines nothing else
/// shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    Unreverted,
    Reverted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revert {
    /// It is as it was before the change.
    Already,
    Write(String),
    Remove,
}

/// Why a text is not a diff written by the harness.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPatch {
    #[error("{0}")]
    Malformed(String),
    #[error("the diff changes {0} twice")]
    Twice(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("the record only says that it was changed ({0})")]
    OnlyNamed(String),
    /// The lines of a hunk, counted from 1, have changed since.
    #[error("change {number} ({header}) no longer applies: its lines were changed since")]
    Changed { number: usize, header: String },
    /// The review added the file, and it was edited since.
    #[error("it was added by the review and has been changed since")]
    AddedTo,
    /// The review deleted the file, and it exists again.
    #[error("it was deleted by the review and has been created again")]
    ThereAgain,
    /// The review edited the file, and it was deleted since.
    #[error("it was edited by the review and has been deleted since")]
    Missing,
    #[error("it is no longer text")]
    NotText,
}

pub fn read_patch(text: &str) -> Result<Vec<FilePatch<'_>>, BadPatch> {
    let mut paths = BTreeSet::new();
    let mut files = Vec::new();
    for section in sections(text) {
        let file = FilePatch::read(section)?;
        if !paths.insert(file.path.clone()) {
            return Err(BadPatch::Twice(file.path));
        }
        files.push(file);
    }
    Ok(files)
}

/// Splits a diff before each header that is not a line of a hunk.
fn sections(text: &str) -> Vec<&str> {
    let mut starts = vec![0];
    let (mut offset, mut old, mut new) = (0, 0_usize, 0_usize);
    for line in text.split_inclusive('\n') {
        match (line.as_bytes().first(), old + new > 0) {
            (Some(b'-'), true) => old = old.saturating_sub(1),
            (Some(b'+'), true) => new = new.saturating_sub(1),
            (Some(b' '), true) => (old, new) = (old.saturating_sub(1), new.saturating_sub(1)),
            (Some(b'@'), false) => (old, new) = lengths(line).unwrap_or_default(),
            (Some(b'-'), false) if line.starts_with("--- ") && offset > 0 => starts.push(offset),
            _ => {}
        }
        offset += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &text[start..end]).collect()
}

/// The number of lines of either side after the header of a hunk.
fn lengths(header: &str) -> Option<(usize, usize)> {
    let length = |range: &str| range.split_once(',').map_or(Some(1), |(_, len)| len.parse().ok());
    let (old, new) = header.strip_prefix("@@ -")?.split_once(" @@")?.0.split_once(" +")?;
    Some((length(old)?, length(new)?))
}

impl<'t> FilePatch<'t> {
    fn read(section: &'t str) -> Result<Self, BadPatch> {
        let malformed = |why: &str| BadPatch::Malformed(why.to_owned());
        let patch = Patch::from_str(section)
            .map_err(|error| malformed(&error.to_string().replace("error parsing patch ", "")))?;
        let side = |path: Option<&str>, prefix: &str| match path {
            Some(NOWHERE) => Ok(None),
            Some(path) => path.strip_prefix(prefix).map(|path| Some(path.to_owned())).ok_or(()),
            None => Err(()),
        };
        let sides = (side(patch.original(), "a/"), side(patch.modified(), "b/"));
        let (path, deed) = match sides {
            (Ok(Some(old)), Ok(Some(new))) if old == new => (new, Deed::Edited),
            (Ok(None), Ok(Some(new))) => (new, Deed::Added),
            (Ok(Some(old)), Ok(None)) => (old, Deed::Deleted),
            _ => return Err(malformed("a header does not name one file")),
        };
        let named = section.lines().nth(2).and_then(|line| line.strip_prefix("# "));
        if patch.hunks().is_empty() && named.is_none() && deed == Deed::Edited {
            return Err(BadPatch::Malformed(format!("no change of {path}")));
        }
        Ok(FilePatch { path, deed, patch, named })
    }

    /// Decides how to revert the file with its current content; `None` if there is no file. Fails if the
    /// change cannot be separated from later edits.
    pub fn revert(&self, now: Option<&[u8]>, earlier: Earlier) -> Result<Revert, Conflict> {
        if let Some(why) = self.named {
            return Err(Conflict::OnlyNamed(why.to_owned()));
        }
        let text = now.map(|bytes| str::from_utf8(bytes).map_err(|_| Conflict::NotText));
        match (self.deed, text.transpose()?) {
            (Deed::Added, None) => Ok(Revert::Already),
            (Deed::Added, Some(now)) if now == before(&self.patch.reverse()) => Ok(Revert::Remove),
            (Deed::Added, Some(_)) => Err(Conflict::AddedTo),
            (Deed::Deleted, None) => Ok(Revert::Write(before(&self.patch))),
            (Deed::Deleted, Some(now)) if now == before(&self.patch) => Ok(Revert::Already),
            (Deed::Deleted, Some(_)) => Err(Conflict::ThereAgain),
            (Deed::Edited, None) => Err(Conflict::Missing),
            (Deed::Edited, Some(now)) => self.revert_edit(now, earlier),
        }
    }

    fn revert_edit(&self, now: &str, earlier: Earlier) -> Result<Revert, Conflict> {
        let near = near(&self.patch);
        let near = Patch::from_str(&near).map_err(|_| self.changed(0))?;
        let reverse = near.reverse();
        let apply = || match diffy::apply(now, &reverse) {
            Ok(text) => Ok(Revert::Write(text)),
            Err(_) => Err(self.changed(0)),
        };
        let lines: Vec<&str> = now.split_inclusive('\n').collect();
        let already = match fit(&self.patch, &lines) {
            // Where lines were only added, the lines around them prove nothing elsewhere.
            Fit::Moved if !self.patch.hunks().iter().all(deletes) => Fit::Not(0),
            fit => fit,
        };
        match (fit(&reverse, &lines), already) {
            (Fit::Exact, Fit::Exact) if earlier == Earlier::Reverted => Ok(Revert::Already),
            (Fit::Exact, _) | (Fit::Moved, Fit::Not(_)) => apply(),
            (_, Fit::Exact) | (Fit::Not(_), Fit::Moved) => Ok(Revert::Already),
            (Fit::Moved, Fit::Moved) => Err(self.changed(0)),
            (Fit::Not(index), Fit::Not(_)) => Err(self.changed(index)),
        }
    }

    fn changed(&self, index: usize) -> Conflict {
        let header = self.patch.hunks().get(index).map(|hunk| {
            let (old, new) = (hunk.old_range(), hunk.new_range());
            format!("@@ -{old} +{new} @@")
        });
        Conflict::Changed { number: index + 1, header: header.unwrap_or_default() }
    }
}

fn near(patch: &Patch<'_, str>) -> String {
    let mut text = String::new();
    for hunk in patch.hunks() {
        let (leading, trailing) = around(hunk);
        let (before, after) = (leading.saturating_sub(AROUND), trailing.saturating_sub(AROUND));
        let range = |range: HunkRange| {
            format!("{},{}", range.start() + before, range.len() - before - after)
        };
        let (old, new) = (range(hunk.old_range()), range(hunk.new_range()));
        let _ = writeln!(text, "@@ -{old} +{new} @@");
        for line in &hunk.lines()[before..hunk.lines().len() - after] {
            let (mark, line) = match line {
                Line::Context(line) => (' ', line),
                Line::Delete(line) => ('-', line),
                Line::Insert(line) => ('+', line),
            };
            let end = if line.ends_with('\n') { "" } else { "\n\\ No newline at end of file\n" };
            let _ = write!(text, "{mark}{line}{end}");
        }
    }
    text
}

/// The number of lines before and after the changes of a hunk.
fn around(hunk: &Hunk<'_, str>) -> (usize, usize) {
    let is_context = |line: &&Line<'_, str>| matches!(line, Line::Context(_));
    let lines = hunk.lines().iter();
    (lines.clone().take_while(is_context).count(), lines.rev().take_while(is_context).count())
}

/// The text to which a patch of a whole file applies.
fn before(patch: &Patch<'_, str>) -> String {
    patch.hunks().iter().flat_map(expected).collect()
}

/// The lines to which a hunk applies.
fn expected<'t>(hunk: &Hunk<'t, str>) -> Vec<&'t str> {
    let there = hunk.lines().iter().filter_map(|line| match line {
        Line::Context(line) | Line::Delete(line) => Some(*line),
        Line::Insert(_) => None,
    });
    there.collect()
}

fn deletes(hunk: &Hunk<'_, str>) -> bool {
    hunk.lines().iter().any(|line| matches!(line, Line::Delete(_)))
}

fn text_of<'t>(line: &Line<'t, str>) -> &'t str {
    let (Line::Context(text) | Line::Delete(text) | Line::Insert(text)) = line;
    text
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// Every hunk is at its position.
    Exact,
    /// Every hunk was found, at least one of them elsewhere.
    Moved,
    /// This hunk does not fit.
    Not(usize),
}

fn fit(patch: &Patch<'_, str>, now: &[&str]) -> Fit {
    let mut fit = Fit::Exact;
    for (index, hunk) in patch.hunks().iter().enumerate() {
        fit = match hunk_fit(hunk, now) {
            Some(Fit::Exact) => fit,
            Some(found) => found,
            None => return Fit::Not(index),
        };
    }
    fit
}

fn hunk_fit(hunk: &Hunk<'_, str>, now: &[&str]) -> Option<Fit> {
    let lines = expected(hunk);
    let (leading, trailing) = around(hunk);
    let is_whole = |at: usize| {
        (leading >= AROUND || at == 0) && (trailing >= AROUND || at + lines.len() == now.len())
    };
    let is_at = |at: usize| now.get(at..at + lines.len()).is_some_and(|there| there == lines);
    let range = hunk.old_range();
    let place = range.start().saturating_sub(usize::from(!range.is_empty()));
    if is_at(place) && is_whole(place) {
        return Some(Fit::Exact);
    }
    // A change without lines of its own is known only by the lines around it, which may be anywhere.
    let has_own = deletes(hunk);
    // Lines that are partly at their place were edited there: the same lines elsewhere are others.
    let end = lines.len() - trailing.min(lines.len());
    let parts = [0..leading, leading.min(end)..end, end..lines.len()];
    let stays = parts.into_iter().filter(|part| !part.is_empty()).any(|part| {
        now.get(place + part.start..place + part.end).is_some_and(|there| there == &lines[part])
    });
    // A line without an end belongs to the end of the file; anywhere else two lines would become one.
    let is_last = hunk.lines().iter().any(|line| !text_of(line).ends_with('\n'));
    let is_known = |at: usize| has_own && (!is_last || at + lines.len() == now.len());
    let mut found = (0..now.len()).filter(|at| is_at(*at));
    match (found.next(), found.next()) {
        (Some(at), None) if (at == place || !stays) && (is_known(at) || is_whole(at)) => {
            Some(Fit::Moved)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
