//! The outputs of a run's iterations, in the short form for prompts.
//!
//! The last four iterations are shown in full, the older ones with a line each. The view is bounded: it keeps
//! neither more of an output nor more lines than fit into a prompt. The rich form with every output needs the
//! journal itself; [`rich_heading`] is its frame.

mod compact;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::iteration_text::IterationText;
use super::recent_runs::RecentRuns;
use crate::record::{Glance, IterationFinish};
use crate::text::{self, Shortened};
use crate::view::View;

pub use compact::longest;

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

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scratchpads {
    runs: RecentRuns<Scratchpad>,
}

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

impl Scratchpads {
    pub fn of(&self, run: &str) -> Option<&Scratchpad> {
        self.runs.get(run)
    }
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

    /// Reduces the oldest full output to a line.
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
            self.runs.touch(&record.run()).apply(record);
        }
    }
}

/// The heading of an output in the rich form. The output follows as it is, and a newline.
pub fn rich_heading(iteration: &str, exit_code: &str) -> String {
    format!("## Iteration {iteration}\n\nexit_code={exit_code}\n\n")
}

#[cfg(test)]
mod tests;
