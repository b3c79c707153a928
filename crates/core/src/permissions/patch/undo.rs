//! Undoing the change of one file in the file as it is now.
//!
//! Somebody may have edited the file since. A change is undone where all of its lines still stand
//! with a line around them, at their place or, if they moved, at the only place where they are found.
//! Otherwise it is a conflict, and a person has to look.

use super::{Content, Deed, FilePatch, Hunk, Side, lines};

/// How many lines the writer shows around a change. Where there are fewer, the file begins or ends.
const AROUND: usize = 3;

/// What the journal says about a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was never undone.
    Open,
    /// It was undone before. In a file of many equal lines nothing else tells.
    Undone,
}

/// What has to become of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// Nothing: it is as it was before the change.
    Already,
    /// It has to hold this text.
    Holds(String),
    /// It has to go.
    Gone,
}

/// Why the change of a file cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// The record only says that there was a change.
    #[error("the record only says that it was changed ({0})")]
    OnlyNamed(String),
    /// The lines of a hunk are not there any more.
    #[error("change {number} ({header}) is not there any more: its lines were changed since")]
    Changed {
        /// Which one, counted from 1.
        number: usize,
        /// Where it was.
        header: String,
    },
    /// The file was added by the review, and somebody added to it.
    #[error("it was added by the review and has been changed since")]
    AddedTo,
    /// The file was deleted by the review, and is there again.
    #[error("it was deleted by the review, and there is another one now")]
    ThereAgain,
    /// The file was edited by the review, and is gone.
    #[error("it was edited by the review, and is gone now")]
    Missing,
    /// The file is no text any more.
    #[error("it is not a text any more")]
    NotText,
}

/// How well the hunks of a file fit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fit {
    /// Every line is at its place.
    Exact(Vec<usize>),
    /// They can be told, though something around them is different.
    Near(Vec<usize>),
    /// This one does not fit.
    Not(usize),
}

impl FilePatch {
    /// Decides what has to become of the file, given what it holds now; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When the change cannot be told from what others did since.
    pub fn undo(&self, now: Option<&[u8]>, standing: Standing) -> Result<Undone, Conflict> {
        let hunks = match &self.content {
            Content::Named(why) => return Err(Conflict::OnlyNamed(why.clone())),
            Content::Hunks(hunks) => hunks,
        };
        let text = now.map(|bytes| str::from_utf8(bytes).map_err(|_| Conflict::NotText));
        let whole = |side| hunks.iter().flat_map(|hunk| hunk.side(side)).collect::<String>();
        match (self.deed, text.transpose()?) {
            (Deed::Added, None) => Ok(Undone::Already),
            (Deed::Added, Some(now)) if now == whole(Side::New) => Ok(Undone::Gone),
            (Deed::Added, Some(_)) => Err(Conflict::AddedTo),
            (Deed::Deleted, None) => Ok(Undone::Holds(whole(Side::Old))),
            (Deed::Deleted, Some(now)) if now == whole(Side::Old) => Ok(Undone::Already),
            (Deed::Deleted, Some(_)) => Err(Conflict::ThereAgain),
            (Deed::Edited, None) => Err(Conflict::Missing),
            (Deed::Edited, Some(now)) => undo_edit(hunks, &lines(now), standing),
        }
    }
}

fn undo_edit(hunks: &[Hunk], now: &[&str], standing: Standing) -> Result<Undone, Conflict> {
    let undone = fit(hunks, now, Side::New);
    let already = fit(hunks, now, Side::Old);
    let adds = hunks.iter().flat_map(|hunk| &hunk.lines).any(|(side, _)| *side == Side::New);
    match (&undone, &already) {
        (Fit::Exact(_), Fit::Exact(_)) if standing == Standing::Undone => Ok(Undone::Already),
        (Fit::Exact(places), _) => replace(hunks, now, places),
        (_, Fit::Exact(_)) | (Fit::Not(_), Fit::Near(_)) => Ok(Undone::Already),
        (Fit::Near(places), Fit::Not(_)) => replace(hunks, now, places),
        // The lines that were taken out are there, and there are none that were added.
        (Fit::Near(_), Fit::Near(_)) if !adds => Ok(Undone::Already),
        (Fit::Near(_), Fit::Near(_)) => Err(changed(hunks, 0)),
        (Fit::Not(number), Fit::Not(_)) => Err(changed(hunks, *number)),
    }
}

fn changed(hunks: &[Hunk], index: usize) -> Conflict {
    let header = hunks.get(index).map(|hunk| hunk.header.clone()).unwrap_or_default();
    Conflict::Changed { number: index + 1, header }
}

/// Finds one side of all hunks in a text, in their order.
fn fit(hunks: &[Hunk], now: &[&str], side: Side) -> Fit {
    let mut places = Vec::new();
    let mut is_exact = true;
    let mut end = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let own = Look { hunk, now, lines: hunk.side(side), side };
        let place = match own.exact() {
            true => Some(own.place()),
            false => {
                is_exact = false;
                own.near()
            }
        };
        match place {
            Some(place) if place >= end => {
                end = place + own.lines.len();
                places.push(place);
            }
            _ => return Fit::Not(index),
        }
    }
    if is_exact { Fit::Exact(places) } else { Fit::Near(places) }
}

/// Puts the old lines in the place of the new ones. Lines around a change stay as they are now.
fn replace(hunks: &[Hunk], now: &[&str], places: &[usize]) -> Result<Undone, Conflict> {
    let mut result: Vec<(usize, &str)> = Vec::new();
    let mut next = 0;
    for (index, (hunk, &place)) in hunks.iter().zip(places).enumerate() {
        result.extend(now[next..place].iter().map(|line| (index, *line)));
        next = place;
        for (side, line) in &hunk.lines {
            match side {
                Side::Old => result.push((index, line)),
                Side::New => next += 1,
                Side::Both => {
                    result.push((index, now[next]));
                    next += 1;
                }
            }
        }
    }
    result.extend(now[next..].iter().map(|line| (hunks.len().saturating_sub(1), *line)));
    // A line without an end belongs to the end of the file; anywhere else two lines would become one.
    let last = result.len().saturating_sub(1);
    let glued = result[..last].iter().find(|(_, line)| !line.ends_with(['\n', '\r']));
    match glued {
        Some((index, _)) => Err(changed(hunks, *index)),
        None => Ok(Undone::Holds(result.into_iter().map(|(_, line)| line).collect())),
    }
}

/// One side of a hunk, looked for in a text.
struct Look<'h> {
    hunk: &'h Hunk,
    now: &'h [&'h str],
    lines: Vec<&'h str>,
    side: Side,
}

impl Look<'_> {
    /// Where it was.
    fn place(&self) -> usize {
        if self.side == Side::New { self.hunk.new_start } else { self.hunk.old_start }
    }

    /// Whether it is where it was, to the letter.
    fn exact(&self) -> bool {
        let place = self.place();
        self.is_at(place, 0..self.lines.len()) && self.begins(place) && self.ends(place)
    }

    /// Where it is, if that can be told.
    fn near(&self) -> Option<usize> {
        // Where lines were only added, the lines around them say nothing about them.
        if self.side == Side::Old && !self.is_telling() {
            return None;
        }
        let place = self.place();
        let (before, after) = self.hunk.around();
        let length = self.lines.len();
        // The nearest line on either side is enough where it was.
        let inner = before.saturating_sub(1)..length - after.saturating_sub(1);
        if self.is_at(place, inner.clone()) && self.is_allowed(place) {
            return Some(place);
        }
        // Some of it is still there: it has not moved, but has been changed. The same lines somewhere
        // else are others.
        let is_here = |lines: std::ops::Range<usize>| !lines.is_empty() && self.is_at(place, lines);
        let parts = [0..before, before..length - after, length - after..length];
        if length == 0 || parts.into_iter().any(is_here) {
            return None;
        }
        match self.only_place(0..length) {
            Found::Nowhere if self.side == Side::New && self.is_telling() => {
                self.only_place(inner).place()
            }
            found => found.place(),
        }
    }

    /// The one place at which these of its lines are.
    fn only_place(&self, lines: std::ops::Range<usize>) -> Found {
        let places = 0..=self.now.len().saturating_sub(self.lines.len());
        let is_it = |at: &usize| self.is_at(*at, lines.clone()) && self.is_allowed(*at);
        let mut found = places.filter(is_it);
        match (found.next(), found.next()) {
            (None, _) => Found::Nowhere,
            (Some(place), None) => Found::At(place),
            (Some(_), Some(_)) => Found::Often,
        }
    }

    /// Whether these of its lines are there when it begins at a place.
    fn is_at(&self, place: usize, lines: std::ops::Range<usize>) -> bool {
        let there = self.now.get(place + lines.start..place + lines.end);
        let fits = place + self.lines.len() <= self.now.len();
        fits && there.is_some_and(|there| there == &self.lines[lines])
    }

    /// Lines that were added are known by themselves. Where lines were only taken out, nothing but the
    /// beginning or the end of the file may tell where that was.
    fn is_allowed(&self, place: usize) -> bool {
        let is_known =
            self.side == Side::New && self.hunk.lines.iter().any(|(side, _)| *side == Side::New);
        is_known || (self.begins(place) && self.ends(place))
    }

    /// Whether it has lines that the other side lacks.
    fn is_telling(&self) -> bool {
        self.hunk.lines.iter().any(|(side, _)| *side == self.side)
    }

    fn begins(&self, place: usize) -> bool {
        self.hunk.around().0 >= AROUND || place == 0
    }

    fn ends(&self, place: usize) -> bool {
        self.hunk.around().1 >= AROUND || place + self.lines.len() == self.now.len()
    }
}

/// At how many places something is.
enum Found {
    Nowhere,
    At(usize),
    Often,
}

impl Found {
    fn place(self) -> Option<usize> {
        match self {
            Found::At(place) => Some(place),
            Found::Nowhere | Found::Often => None,
        }
    }
}

impl Hunk {
    fn side(&self, wanted: Side) -> Vec<&str> {
        let is_there = |side: Side| side == wanted || side == Side::Both;
        let lines = self.lines.iter().filter(|(side, _)| is_there(*side));
        lines.map(|(_, line)| line.as_str()).collect()
    }

    /// How many lines are around the change, before and after it.
    fn around(&self) -> (usize, usize) {
        let same = |(side, _): &&(Side, String)| *side == Side::Both;
        let before = self.lines.iter().take_while(same).count();
        (before, self.lines.iter().rev().take_while(same).count())
    }
}
