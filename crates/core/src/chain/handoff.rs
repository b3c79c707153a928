//! The report of a step of a chain, and the handoff to the next one.

use std::fmt::Write;

use super::Chain;
use crate::record::StopReason;
use crate::text::{self, Shortened};
use crate::wire_enum::Word;

/// How many characters of the objective a handoff repeats; the prompt contains all of it.
const OBJECTIVE: usize = 2_000;
/// How many characters of outputs, coordination and file names all steps of a handoff share.
const LEFT: usize = 24_000;

/// How many files are listed, and how many characters of each name.
const FILES: usize = 100;
const NAME: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub number: u64,
    pub preset: String,
    pub run: String,
    pub stop_reason: Word<StopReason>,
    pub iterations: u64,
    pub last_event: String,
    /// Of its last iteration.
    pub output: Shortened,
    /// Markdown; empty where its agents reported nothing.
    pub coordination: String,
    /// The changed files, one per line; empty where they are unknown.
    pub files: String,
    /// Why it could not begin; empty otherwise.
    pub detail: String,
}

/// A list of changed files, one per line; `None` where there are none.
pub fn changed_files(files: impl ExactSizeIterator<Item = String>) -> Option<String> {
    let more = files.len().saturating_sub(FILES);
    let name = |file: String| text::clip(&text::one_line(&file), NAME).into_owned();
    let mut lines: Vec<String> = files.take(FILES).map(name).collect();
    if more > 0 {
        lines.push(format!("… and {more} more"));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The handoff section of a step's prompt: the objective, the position in the chain, and the
/// reports of the earlier steps. What agents wrote is fenced.
pub fn handoff(chain: &Chain, number: u64, before: &[Report]) -> String {
    let presets = chain.presets();
    let mut out = format!(
        "Step {number} of {} of chain {}: {}\n",
        presets.len(),
        text::one_line(chain.name()),
        presets.join(", ")
    );
    if let Some(parent) = chain.parent() {
        let _ = writeln!(out, "Run {} requested this chain.", text::one_line(parent));
    }
    if let Some(objective) = chain.objective() {
        let shown = text::clip(objective.trim_end(), OBJECTIVE);
        let _ = write!(out, "\n## Objective of all steps\n\n{shown}\n");
    }
    if before.is_empty() {
        out.push_str("\nNo step came before this one.\n");
    }
    out + &all_left(before)
}

pub fn returned(chain: &Chain, reports: &[Report]) -> String {
    let (presets, ended) = (chain.presets(), chain.ended());
    let all = presets.len();
    format!("{ended} of {all} steps ended: {}\n{}", presets.join(", "), all_left(reports))
}

fn all_left(reports: &[Report]) -> String {
    let share = LEFT / reports.len().max(1);
    reports.iter().fold(String::new(), |mut out, report| {
        let _ = write!(out, "\n## Step {}: {}\n\n", report.number, report.preset);
        out.push_str(&left(report, share));
        out
    })
}

pub fn result(report: &Report) -> String {
    format!("# Step {}: {}\n\n{}", report.number, report.preset, left(report, LEFT))
}

fn left(report: &Report, budget: usize) -> String {
    let why = match text::one_line(&report.detail) {
        none if none.is_empty() => String::new(),
        why => format!("- why: {why}\n"),
    };
    let stop_reason = text::one_line(report.stop_reason.as_str());
    // A step that could not begin has no run.
    if report.run.is_empty() && !why.is_empty() {
        return format!("- ended with: {stop_reason}\n{why}");
    }
    let mut out = format!(
        "- run: {}\n- ended with: {stop_reason}\n{why}- iterations: {}\n- last event: {}\n",
        report.run,
        report.iterations,
        text::one_line(&report.last_event),
    );
    let Shortened { head, tail, left_out } = report.output.shortened(budget / 2);
    let output = match left_out {
        0 => head,
        _ => format!("{head}\n[… {left_out} characters left out …]\n{tail}"),
    };
    let coordination = text::clip(report.coordination.trim_end(), budget / 4);
    let files = text::clip(&report.files, budget / 4);
    for (heading, text) in [
        ("Its last output", output.as_str()),
        ("Coordination events of its agents", &coordination),
        ("Files that changed during the step", &files),
    ] {
        if !text.trim().is_empty() {
            let _ = write!(out, "\n{heading}:\n\n{}", text::fenced(text));
        }
    }
    out
}
