//! A little drawing for a terminal.

use std::fmt::Write;

use autoloop_core::table;
use autoloop_core::topology::{Edge, Target};

use super::Picture;
use crate::terminal;

/// No line is wider.
const WIDTH: usize = 80;
/// No event takes more of a line.
const EVENT: usize = 30;

/// Draws it: the beginning, then each role with what it may say and where that leads.
pub(super) fn draw(picture: &Picture<'_>) -> String {
    let topology = picture.topology;
    let mut text = format!("{}\n", terminal::one_line(picture.name(), WIDTH));
    if topology.roles.is_empty() {
        text.push_str(
            "\nThere are no roles: one agent does everything, and every event is accepted.\n",
        );
    }
    let edges = topology.edges(&picture.completion.event);
    let event = |edge: &Edge<'_>| terminal::one_line(edge.event, EVENT);
    let column = edges.iter().map(|edge| table::width(&event(edge))).max().unwrap_or_default();
    for edge in edges.iter().filter(|edge| edge.role.is_none()) {
        let to = wrapped(&edge.to, column + 8);
        let _ = write!(text, "\n{}  ──▶ {to}", table::padded(&event(edge), column + 2));
    }
    for role in &topology.roles {
        let _ = write!(text, "\n{}\n", terminal::one_line(&role.id, WIDTH));
        let own = edges.iter().filter(|edge| edge.role == Some(&role.id));
        for edge in own {
            let to = wrapped(&edge.to, column + 8);
            let _ = write!(text, "  {}  ──▶ {to}", table::padded(&event(edge), column));
        }
        if role.emits.is_empty() {
            text.push_str("  (emits nothing)\n");
        }
    }
    text.push_str(&completion(picture));
    text.push_str(&patterns(picture));
    text.push_str(&warnings(picture));
    text
}

/// Where an event leads, over as many lines as it takes, each ended.
fn wrapped(to: &Target<'_>, indent: usize) -> String {
    let words: Vec<String> = match to {
        Target::Roles(roles) => {
            let last = roles.len() - 1;
            let comma = |n: usize| if n < last { "," } else { "" };
            roles.iter().enumerate().map(|(n, role)| format!("{role}{}", comma(n))).collect()
        }
        Target::Anybody => vec!["anybody".to_owned()],
        Target::Completion => vec!["complete".to_owned()],
        Target::Nowhere => vec!["(noted, routes nothing)".to_owned()],
    };
    fill(&words, indent)
}

/// Words in lines that are not too wide; all but the first are indented.
fn fill(words: &[String], indent: usize) -> String {
    let room = WIDTH.saturating_sub(indent).max(10);
    let words = words.iter().map(|word| terminal::one_line(word, room));
    terminal::wrapped(words, room).join(&format!("\n{:indent$}", "")) + "\n"
}

fn completion(picture: &Picture<'_>) -> String {
    let completion = picture.completion;
    let mut text = format!("\ncompletes on  {}", fill(&words(&completion.event), 14));
    if let Some(promise) = &completion.promise {
        let promise = terminal::one_line(promise, 40);
        let _ = writeln!(text, "          or  \"{promise}\" in the output");
    }
    if !completion.required.is_empty() {
        let required = completion.required.join(", ");
        let _ = write!(text, "       after  {}", fill(&words(&required), 14));
    }
    text
}

/// The handoffs that are for several events at once: a drawing role by role does not show them.
fn patterns(picture: &Picture<'_>) -> String {
    let several = picture.topology.handoff.iter().filter(|handoff| handoff.event.exact().is_none());
    let mut text = String::new();
    for handoff in several {
        let event = terminal::one_line(handoff.event.as_str(), EVENT);
        let roles = words(&handoff.roles.join(", "));
        let _ = write!(text, "\nlike {event} hands over to:\n  {}", fill(&roles, 2));
    }
    text
}

fn warnings(picture: &Picture<'_>) -> String {
    let lines = picture.warnings.iter().map(|warning| {
        let warning = terminal::harmless(&warning.to_string()).into_owned();
        format!("warning: {}", fill(&words(&warning), 9))
    });
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
