//! The short form of the scratchpad.

use std::fmt::Write;

use super::{Entry, IN_FULL, NUMBER_KEPT, Scratchpad, rich_heading};
use crate::text::{self, Shortened, longest_fenced};

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
