//! The outputs of a run's iterations, in the short form for prompts.
//!
//! The last four iterations are shown in full, the older ones with a line each. The view is bounded: it keeps
//! neither more of an output nor more lines than fit into a prompt. The rich form with every output needs the
//! journal itself; [`rich_heading`] is its frame.

use std::collections::VecDeque;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::iteration_text::IterationText;
use super::recent_runs::RecentRuns;
use crate::record::{Glance, IterationFinish};
use crate::text::{self, Shortened, longest_fenced};
use crate::view::View;

/// How many iterations are shown in full.
pub const IN_FULL: usize = 4;
/// In characters.
pub const OUTPUT_KEPT: usize = 8_000;
/// How many older iterations are kept, with a line each.
pub const OLDER_KEPT: usize = 100;
/// In characters.
pub const LINE_SHOWN: usize = 120;
/// Ours are short; journals of other writers may contain anything.
const NUMBER_KEPT: usize = 24;

pub type Scratchpads = RecentRuns<Scratchpad>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scratchpad {
    /// How many iterations are older than the kept ones.
    forgotten: u64,
    /// The first lines of their outputs.
    older: VecDeque<Entry<String>>,
    recent: VecDeque<Entry<Shortened>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry<T> {
    iteration: String,
    exit_code: String,
    output: T,
}

impl Scratchpad {
    /// Applies a record of the run; only `iteration.finish` has an effect.
    pub fn apply(&mut self, record: &Glance<'_>) {
        if let Some(IterationFinish { exit_code, output, .. }) = IterationFinish::of(record) {
            self.finish(&record.iteration(), &exit_code.to_string(), &output.read());
        }
    }

    /// A later end of the same iteration replaces the earlier one.
    fn finish(&mut self, iteration: &str, exit_code: &str, output: &str) {
        let iteration = text::one_line(text::head(iteration, NUMBER_KEPT));
        let exit_code = text::one_line(text::head(exit_code, NUMBER_KEPT));
        if let Some(entry) = self.recent.iter_mut().find(|entry| entry.iteration == iteration) {
            entry.exit_code = exit_code;
            entry.output = Shortened::new(output, OUTPUT_KEPT);
            return;
        }
        if let Some(entry) = self.older.iter_mut().find(|entry| entry.iteration == iteration) {
            entry.exit_code = exit_code;
            entry.output = text::first_line(output, LINE_SHOWN);
            return;
        }
        let output = Shortened::new(output, OUTPUT_KEPT);
        self.recent.push_back(Entry { iteration, exit_code, output });
        if self.recent.len() > IN_FULL {
            self.retire();
        }
    }

    fn retire(&mut self) {
        let Some(Entry { iteration, exit_code, output }) = self.recent.pop_front() else { return };
        let spoken = text::first_line(&output.head, LINE_SHOWN);
        let output = match spoken.is_empty() {
            true => text::first_line(&output.tail, LINE_SHOWN),
            false => spoken,
        };
        self.older.push_back(Entry { iteration, exit_code, output });
        if self.older.len() > OLDER_KEPT {
            self.older.pop_front();
            self.forgotten += 1;
        }
    }

    pub fn last_output(&self) -> Option<&Shortened> {
        self.recent.back().map(|entry| &entry.output)
    }

    pub fn is_empty(&self) -> bool {
        self.recent.is_empty()
    }
}

impl View for Scratchpads {
    const NAME: &'static str = "scratchpads";
    const VERSION: u32 = 1;

    fn apply(&mut self, record: &Glance<'_>) {
        if IterationText::Output.held_by(record).is_some() {
            self.touch(&record.run()).apply(record);
        }
    }
}

/// The heading of an output in the rich form. The output follows as it is, and a newline.
pub fn rich_heading(iteration: &str, exit_code: &str) -> String {
    format!("## Iteration {iteration}\n\nexit_code={exit_code}\n\n")
}

/// The maximum length of the short form: texts within the budget, fences that are longer than any
/// run of backticks inside, headings, and notes about omissions.
pub const fn longest(budget: usize) -> usize {
    3 * budget + IN_FULL * (longest_fenced(0) + 3 * NUMBER_KEPT + 200) + 200
}

impl Scratchpad {
    /// The short form: the last iterations in full, the older ones with a line each. Outputs and
    /// lines together take at most `budget` characters. Outputs may take three quarters of it, or
    /// what the lines leave; a short one leaves room for the others. The oldest lines are dropped
    /// first.
    pub fn compact(&self, budget: usize) -> String {
        if self.is_empty() {
            return "(empty)\n".to_owned();
        }
        let bullets: Vec<String> = self.older.iter().map(bullet).collect();
        let wanted: usize = bullets.iter().map(|bullet| text::length(bullet)).sum();
        let outputs = self.outputs(budget - wanted.min(budget / 4));
        let taken: usize = outputs.iter().map(Shortened::length).sum();

        let mut out = String::new();
        if !bullets.is_empty() {
            out.push_str("## Earlier iterations (compacted)\n\n");
            self.write_bullets(&bullets, budget - taken, &mut out);
            out.push('\n');
        }
        for (index, (entry, output)) in self.recent.iter().zip(&outputs).enumerate() {
            if index > 0 {
                out.push('\n');
            }
            write_entry(entry, output, &mut out);
        }
        out
    }

    /// The outputs, none longer than a fair share: longer ones get what shorter ones leave.
    fn outputs(&self, budget: usize) -> Vec<Shortened> {
        let mut lengths: Vec<usize> =
            self.recent.iter().map(|entry| entry.output.length()).collect();
        lengths.sort_unstable();
        let (mut left, mut share) = (budget, usize::MAX);
        for (index, length) in lengths.iter().enumerate() {
            share = left / (lengths.len() - index);
            if *length > share {
                break;
            }
            left -= length;
            share = usize::MAX;
        }
        self.recent.iter().map(|entry| entry.output.shortened(share)).collect()
    }

    fn write_bullets(&self, bullets: &[String], budget: usize, out: &mut String) {
        let mut left = budget;
        let fits = |bullet: &&String| {
            let length = text::length(bullet);
            let fits = length <= left;
            left = left.saturating_sub(length);
            fits
        };
        let shown = bullets.iter().rev().take_while(fits).count();
        let earlier = self.forgotten + (bullets.len() - shown) as u64;
        if earlier > 0 {
            let s = if earlier == 1 { "" } else { "s" };
            let _ = writeln!(out, "… {earlier} earlier iteration{s}");
        }
        for bullet in &bullets[bullets.len() - shown..] {
            out.push_str(bullet);
        }
    }
}

fn bullet(entry: &Entry<String>) -> String {
    let Entry { iteration, exit_code, output } = entry;
    let said = if output.is_empty() { String::new() } else { format!(" — {output}") };
    format!("- Iteration {iteration} exit_code={exit_code}{said}\n")
}

/// One iteration in full. Its output is fenced, so that nothing in it is taken for a heading.
fn write_entry(entry: &Entry<Shortened>, output: &Shortened, out: &mut String) {
    out.push_str(&rich_heading(&entry.iteration, &entry.exit_code));
    if output.left_out == 0 {
        if output.head.trim().is_empty() {
            out.push_str("(no output)\n");
        } else {
            out.push_str(&text::fenced(&output.head));
        }
        return;
    }
    // A view reads only the ends of long strings in a record of many megabytes.
    let at_least = if output.head.contains(" […] ") || output.tail.contains(" […] ") {
        "at least "
    } else {
        ""
    };
    let note = format!(
        "[… {at_least}{} characters left out; `autoloop inspect output {}` prints all …]",
        output.left_out, entry.iteration
    );
    out.push_str(&text::fenced(&format!("{}\n{note}\n{}", output.head, output.tail)));
}

#[cfg(test)]
mod tests;
