//! The sections that both prompts are made of.

use std::fmt::Write;

use super::{Budgets, Cast, Pressure, RoleText, Tools};
use crate::text;

/// Adds a section with a heading, unless its body is empty.
pub(super) fn section(out: &mut String, heading: &str, body: &str) {
    let body = body.trim_matches('\n');
    if !body.trim().is_empty() {
        let _ = write!(out, "{heading}\n{body}\n\n");
    }
}

/// A text of the user within a budget, with a note if it was cut.
pub(super) fn whole(text: &str, budget: usize) -> String {
    let text = text.trim_end().trim_start_matches('\n');
    let kept = text::head(text, budget);
    if kept.len() == text.len() {
        return text.to_owned();
    }
    let left_out = text::length(&text[kept.len()..]);
    format!("{kept}\n[… {left_out} characters left out …]")
}

/// Untrusted text on one line within a budget.
pub(super) fn name(text: &str, budgets: &Budgets) -> String {
    // A name is short; of something that is not one, four times the budget shows enough.
    let seen = text::head(text, budgets.name.saturating_mul(4));
    text::clip(&text::one_line(seen), budgets.name).into_owned()
}

/// A text that is searched for literally: as it is, or quoted if it could be misread.
pub(super) fn exact(text: &str, budgets: &Budgets) -> String {
    let is_plain = text::one_line(text) == text;
    let shown = if is_plain { text.to_owned() } else { format!("{text:?}") };
    text::clip(&shown, budgets.note).into_owned()
}

/// A path, quoted for the shell.
pub(super) fn command(path: &str, budgets: &Budgets) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+$:@%,".contains(c);
    let path = text::head(path, budgets.name);
    if path.chars().all(is_plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''").replace(char::is_control, "?"))
    }
}

/// Names separated by commas, or `none`.
pub(super) fn names(list: &[String], none: &str, budgets: &Budgets) -> String {
    if list.is_empty() {
        return none.to_owned();
    }
    let all = list.iter().map(|entry| name(entry, budgets)).collect::<Vec<_>>().join(", ");
    text::clip(&all, budgets.note).into_owned()
}

pub(super) fn pressure(pressure: &Pressure, budgets: &Budgets) -> String {
    let Pressure { memory_chars, memory_budget, entries, dropped, invalid_emits, .. } = pressure;
    let budget = match memory_budget {
        0 => "no budget".to_owned(),
        budget => format!("{budget} characters budget"),
    };
    let mut out = format!("- Memory: {memory_chars} characters / {budget}\n");
    let _ = writeln!(
        out,
        "- Memory entries: {} ({} preferences, {} learnings, {} meta)",
        entries.total(),
        entries.preferences,
        entries.learnings,
        entries.meta
    );
    let last = match &pressure.last_rejected {
        Some(event) if *invalid_emits > 0 => {
            format!(" (last rejected: `{}`)", name(event, budgets).replace('`', "'"))
        }
        _ => String::new(),
    };
    let _ = writeln!(out, "- Invalid emits in this run: {invalid_emits}{last}");
    if dropped.total() > 0 {
        let _ = writeln!(
            out,
            "- Recommendation: {} memory entries do not fit; remove what is stale with `memory remove` before adding more.",
            dropped.total()
        );
    }
    if *invalid_emits > 0 {
        out.push_str("- Recommendation: only the allowed events under Topology are accepted; keep to them.\n");
    }
    out
}

pub(super) fn topology(cast: &Cast, budgets: &Budgets) -> String {
    let mut out = routing(cast, budgets);
    if cast.roles.is_empty() {
        return out;
    }
    out.push_str("\nRole deck:\n");
    let is_acting = |role: &RoleText| cast.route.roles.contains(&role.id);
    for role in cast.roles.iter().filter(|role| is_acting(role)) {
        let emits = names(&role.emits, "any event", budgets);
        let _ =
            writeln!(out, "\n### Role: {} (acting now)\nemits: {emits}\n", name(&role.id, budgets));
        match whole(&role.prompt, budgets.role) {
            none if none.trim().is_empty() => out.push_str("(no prompt)\n"),
            prompt => {
                let _ = writeln!(out, "{prompt}");
            }
        }
    }
    let others: Vec<_> = cast.roles.iter().filter(|role| !is_acting(role)).collect();
    if !others.is_empty() {
        out.push_str("\n### Other roles\n");
    }
    for role in others {
        let emits = names(&role.emits, "any event", budgets);
        // Prompts like to begin with a heading.
        let about = text::first_line(&role.prompt, budgets.name);
        let about = about.trim_start_matches(['#', ' ']);
        let about = if about.is_empty() { String::new() } else { format!(": {about}") };
        let _ = writeln!(out, "- {} (emits: {emits}){about}", name(&role.id, budgets));
    }
    out
}

fn routing(cast: &Cast, budgets: &Budgets) -> String {
    format!(
        "Recent event: {}\nSuggested roles: {}\nAllowed events: {}\n",
        name(&cast.recent_event, budgets),
        names(&cast.route.roles, "(any)", budgets),
        names(&cast.route.events, "(any)", budgets),
    )
}

pub(super) fn inspect_hints(tools: &Tools, iteration: u64, budgets: &Budgets) -> String {
    let bin = command(&tools.bin, budgets);
    let mut out = String::new();
    if iteration > 0 {
        let _ = writeln!(out, "- `{bin} inspect output {iteration} --format text`");
        let _ = writeln!(out, "- `{bin} inspect prompt {iteration} --format md`");
    }
    for what in [
        "scratchpad --format md",
        "coordination --format md",
        "metrics --format md",
        "memory",
        "journal --format json",
    ] {
        let _ = writeln!(out, "- `{bin} inspect {what}`");
    }
    out
}
