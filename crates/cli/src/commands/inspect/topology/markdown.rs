//! Tables for a page.

use std::fmt::Write;

use autoloop_core::topology::{OPENING_EVENT, RolePrompt};

use super::Picture;

pub(super) fn write(picture: &Picture<'_>) -> String {
    let Picture { topology, completion, warnings } = picture;
    let mut text = format!("# {}\n\n", picture.name());
    let codes = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| code(name)).collect();
        if names.is_empty() { "-".to_owned() } else { names.join(", ") }
    };
    let _ = writeln!(text, "Entry: {}", codes(&topology.route(OPENING_EVENT).roles));
    let promise = match &completion.promise {
        Some(promise) => format!(", or {} in the output", code(promise)),
        None => String::new(),
    };
    let _ = writeln!(text, "Completion: {}{promise}", code(&completion.event));
    let _ = writeln!(text, "Required events: {}", codes(&completion.required));

    text.push_str("\n## Roles\n\n| role | emits | prompt |\n|---|---|---|\n");
    for role in &topology.roles {
        let emits: Vec<String> = role.emits.iter().map(ToString::to_string).collect();
        let prompt = match role.prompt() {
            RolePrompt::Inline(_) => "in topology.toml".to_owned(),
            RolePrompt::File(file) => code(file.get_ref()),
            RolePrompt::None => "-".to_owned(),
        };
        let _ = writeln!(text, "| {} | {} | {prompt} |", code(&role.id), codes(&emits));
    }
    text.push_str("\n## Handoff\n\n| event | roles |\n|---|---|\n");
    for handoff in &topology.handoff {
        let _ = writeln!(text, "| {} | {} |", code(handoff.event.as_str()), codes(&handoff.roles));
    }
    if !warnings.is_empty() {
        text.push_str("\n## Warnings\n\n");
        for warning in warnings {
            let _ = writeln!(text, "- {warning}");
        }
    }
    text
}

/// Words as they were written, in a cell of a table.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace('|', "\\|"))
}
