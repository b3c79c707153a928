//! `autoloop inspect topology`: the roles of a loop, their handoffs, and warnings about them.

use std::fmt::Write;
use std::path::PathBuf;

use autoloop_core::format::json_text;
use autoloop_core::pattern::Pattern;
use autoloop_core::plan::Completion;
use autoloop_core::table;
use autoloop_core::topology::{Edge, OPENING_EVENT, Role, RolePrompt, Target, Topology, Warning};
use autoloop_runtime::world::World;
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::commands::settings;
use crate::diagnostic;
use crate::failure::Failure;
use crate::terminal;

/// Show the roles of a loop and their handoffs.
///
/// Reads topology.toml and autoloops.toml, not the journal. Ends with warnings: roles that are never reached, events
/// that no role handles, a completion event that no role may emit.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Project directory [default: the current project]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "terminal")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A drawing of at most 80 columns
    #[value(alias = "text")]
    Terminal,
    /// Tables
    Md,
    /// One object
    Json,
    /// A graph for Graphviz (`| dot -Tsvg`)
    #[value(alias = "dot")]
    Graph,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let (located, _) = settings::look_for(args.dir.as_deref(), world)?;
    let project = settings::project(&located.dir)?;
    let loaded = project.load(&*world.disk)?;
    diagnostic::show(&loaded.warnings);
    let picture = Picture::of(&loaded.topology, &loaded.plan.completion);
    let text = match args.format {
        Format::Terminal => draw(&picture),
        Format::Md => markdown(&picture),
        Format::Json => json_text(&json(&picture)),
        Format::Graph => graph(&picture),
    };
    Ok(terminal::print(&text)?)
}

struct Picture<'t> {
    topology: &'t Topology,
    completion: &'t Completion,
    warnings: Vec<Warning>,
}

impl<'t> Picture<'t> {
    fn of(topology: &'t Topology, completion: &'t Completion) -> Self {
        let mut warnings = topology.warnings(&completion.event);
        warnings.extend(topology.never_seen(&completion.required));
        Picture { topology, completion, warnings }
    }

    fn name(&self) -> &str {
        match self.topology.name.as_str() {
            "" => "topology",
            name => name,
        }
    }
}

fn json(picture: &Picture<'_>) -> Value {
    let Picture { topology, completion, warnings } = picture;
    let role = |role: &Role| {
        let file = match role.prompt() {
            RolePrompt::File(file) => Some(file.get_ref()),
            RolePrompt::Inline(_) | RolePrompt::None => None,
        };
        json!({
            "id": role.id,
            "emits": role.emits.iter().map(Pattern::as_str).collect::<Vec<_>>(),
            "has_prompt": role.prompt() != RolePrompt::None,
            "prompt_file": file,
            "backend_command": role.backend_command.as_ref().map(|command| command.get_ref()),
        })
    };
    let handoff =
        topology.handoff.iter().map(|it| json!({ "event": it.event.as_str(), "roles": it.roles }));
    json!({
        "name": topology.name,
        "entry": topology.route(OPENING_EVENT).roles,
        "completion": {
            "event": completion.event,
            "promise": completion.promise,
            "required_events": completion.required,
        },
        "roles": topology.roles.iter().map(role).collect::<Value>(),
        "handoff": handoff.collect::<Value>(),
        "warnings": warnings,
    })
}

const WIDTH: usize = 80;
const EVENT: usize = 30;

/// Draws the opening event, then each role with its events and their targets.
fn draw(picture: &Picture<'_>) -> String {
    let topology = picture.topology;
    let mut text = format!("{}\n", terminal::one_line(picture.name(), WIDTH));
    if topology.roles.is_empty() {
        text.push_str("\nno roles: one agent does all work, and every event is accepted\n");
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

/// The target of an event, in one or more lines.
fn wrapped(to: &Target<'_>, indent: usize) -> String {
    match to {
        Target::Roles(roles) => fill(&roles.join(", "), indent),
        Target::AnyRole => fill("any role", indent),
        Target::Completion => fill("complete", indent),
        Target::Nowhere => fill("(recorded, not routed)", indent),
    }
}

/// A text in lines of at most WIDTH columns; all but the first are indented.
fn fill(text: &str, indent: usize) -> String {
    let room = WIDTH.saturating_sub(indent).max(10);
    let words = text.split_whitespace().map(|word| terminal::one_line(word, room));
    terminal::wrapped(words, room).join(&format!("\n{:indent$}", "")) + "\n"
}

fn completion(picture: &Picture<'_>) -> String {
    let completion = picture.completion;
    let mut text = format!("\ncompletes on  {}", fill(&completion.event, 14));
    if let Some(promise) = &completion.promise {
        let promise = terminal::one_line(promise, 40);
        let _ = writeln!(text, "          or  \"{promise}\" in the output");
    }
    if !completion.required.is_empty() {
        let _ = write!(text, "       after  {}", fill(&completion.required.join(", "), 14));
    }
    text
}

/// The handoffs of event patterns, which the drawing of roles does not show.
fn patterns(picture: &Picture<'_>) -> String {
    let several = picture.topology.handoff.iter().filter(|handoff| handoff.event.exact().is_none());
    let mut text = String::new();
    for handoff in several {
        let event = terminal::one_line(handoff.event.as_str(), EVENT);
        let roles = fill(&handoff.roles.join(", "), 2);
        let _ = write!(text, "\n{event} hands over to:\n  {roles}");
    }
    text
}

fn warnings(picture: &Picture<'_>) -> String {
    let lines = picture.warnings.iter().map(|warning| {
        let warning = warning.to_string();
        format!("warning: {}", fill(&terminal::harmless(&warning), 9))
    });
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// A graph in the language of Graphviz: a node per role, an edge per event.
fn graph(picture: &Picture<'_>) -> String {
    let topology = picture.topology;
    let edges = topology.edges(&picture.completion.event);
    let mut text = format!("digraph {} {{\n", quoted(picture.name()));
    text.push_str("  rankdir=LR;\n  node [shape=box, style=rounded];\n");
    text.push_str("  start [shape=circle, label=\"\"];\n");
    if edges.iter().any(|edge| edge.to == Target::Completion) {
        text.push_str("  complete [shape=doublecircle, label=\"\"];\n");
    }
    if edges.iter().any(|edge| edge.to == Target::AnyRole) {
        text.push_str("  any [style=dashed, label=\"any role\"];\n");
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
        Target::AnyRole => vec!["any".to_owned()],
        Target::Completion => vec!["complete".to_owned()],
        Target::Nowhere => Vec::new(),
    }
}

/// The name of the node of a role, which is different from `start`, `any` and `complete`.
fn node(role: &str) -> String {
    quoted(&format!("role {role}"))
}

/// A quoted string. Backslashes are escaped because they have a meaning in labels.
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

fn markdown(picture: &Picture<'_>) -> String {
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

fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace('|', "\\|"))
}
