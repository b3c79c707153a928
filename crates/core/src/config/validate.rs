//! Settings that stand in one file under two of their names.

use std::sync::Arc;

use super::layer::{Entry, Layer};
use super::problem::{Place, Problem, Severity};

/// Those that are not the same under both. The lower one holds, and somebody should know that.
pub(super) fn contradictions(layer: &Layer, entries: &[Entry]) -> Vec<Problem> {
    let is_other = |one: &Entry, entry: &Entry| one.key == entry.key && one.change != entry.change;
    let twice = entries.iter().enumerate().filter_map(|(count, entry)| {
        let before = entries[..count].iter().find(|one| is_other(one, entry))?;
        Some((before, entry))
    });
    let line = |entry: &Entry| Place::of(&layer.text, entry.span.start).line;
    let problem = |(before, entry): (&Entry, &Entry)| Problem {
        severity: Severity::Warning,
        name: layer.name.clone(),
        text: Arc::clone(&layer.text),
        span: entry.span.clone(),
        message: format!("{} is set twice, to different values", entry.key),
        label: format!("line {} says otherwise; this one holds", line(before)),
        hint: Some("keep one of the two".to_owned()),
    };
    twice.map(problem).collect()
}
