//! A graph in the language of Graphviz.

use std::fmt::Write;

use autoloop_core::topology::{Edge, Target};

use super::Picture;

/// Writes the graph: a node for each role, and an edge for each event.
pub(super) fn write(picture: &Picture<'_>) -> String {
    let topology = picture.topology;
    let edges = topology.edges(&picture.completion.event);
    let mut text = format!("digraph {} {{\n", quoted(picture.name()));
    text.push_str("  rankdir=LR;\n  node [shape=box, style=rounded];\n");
    text.push_str("  start [shape=circle, label=\"\"];\n");
    if edges.iter().any(|edge| edge.to == Target::Completion) {
        text.push_str("  complete [shape=doublecircle, label=\"\"];\n");
    }
    if edges.iter().any(|edge| edge.to == Target::Anybody) {
        text.push_str("  anybody [style=dashed];\n");
    }
    for role in &topology.roles {
        let _ = writeln!(text, "  {} [label={}];", node(&role.id), quoted(&role.id));
    }
    for Edge { role, event, to } in &edges {
        let from = role.map_or_else(|| "start".to_owned(), node);
        for to in targets(to) {
            let _ = writeln!(text, "  {from} -> {to} [label={}];", quoted(event));
        }
    }
    text.push_str("}\n");
    text
}

fn targets(to: &Target<'_>) -> Vec<String> {
    match to {
        Target::Roles(roles) => roles.iter().map(|role| node(role)).collect(),
        Target::Anybody => vec!["anybody".to_owned()],
        Target::Completion => vec!["complete".to_owned()],
        Target::Nowhere => Vec::new(),
    }
}

/// The name of the node of a role. It cannot be that of another node, whatever the role is called.
fn node(role: &str) -> String {
    quoted(&format!("role {role}"))
}

/// A string of the language: a quote is written `\"`, and a backslash twice because it has a meaning
/// in labels.
fn quoted(text: &str) -> String {
    let escaped: String = text
        .chars()
        .flat_map(|character| match character {
            '"' | '\\' => vec!['\\', character],
            other if other.is_control() => vec![' '],
            other => vec![other],
        })
        .collect();
    format!("\"{escaped}\"")
}
