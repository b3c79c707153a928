//! `autoloop inspect topology`: who there is in a loop, who follows whom, and what was hardly meant.

mod drawing;
mod graph;
mod markdown;

use std::path::PathBuf;

use autoloop_core::plan::Completion;
use autoloop_core::topology::{OPENING_EVENT, Role, RolePrompt, Topology, Warning};
use autoloop_runtime::world::World;
use clap::ValueEnum;

use crate::commands::json::Json;
use crate::commands::settings;
use crate::diagnostic;
use crate::failure::Failure;
use crate::terminal;

/// Who there is in a loop, and who follows whom.
///
/// Read from topology.toml and autoloops.toml, not from the journal. At the end stands what works, but
/// hardly as it was meant: roles that are never reached, events that nobody handles, a completion that
/// nobody may emit. The exit code is 0 with warnings too, and 2 when the files cannot be used.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The project [default: the current one].
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How to print it.
    #[arg(long, value_enum, default_value = "terminal")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A little drawing, not wider than 80 columns.
    #[value(alias = "text")]
    Terminal,
    /// Tables.
    Md,
    /// One object.
    Json,
    /// A graph for Graphviz (`| dot -Tsvg`).
    #[value(alias = "dot")]
    Graph,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let (located, _) = settings::look_for(args.dir.as_deref(), world)?;
    let project = settings::project(&located.dir).map_err(diagnostic::refuse)?;
    let loaded = project.load(&*world.disk).map_err(diagnostic::refuse)?;
    diagnostic::show(&loaded.warnings);
    let picture = Picture::of(&loaded.topology, &loaded.plan.completion);
    let text = match args.format {
        Format::Terminal => drawing::draw(&picture),
        Format::Md => markdown::write(&picture),
        Format::Json => format!("{}\n", json(&picture)),
        Format::Graph => graph::write(&picture),
    };
    Ok(terminal::print(&text)?)
}

/// A topology, with what completes its runs.
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

    /// What it is called.
    fn name(&self) -> &str {
        match self.topology.name.as_str() {
            "" => "topology",
            name => name,
        }
    }
}

fn json(picture: &Picture<'_>) -> Json {
    let Picture { topology, completion, warnings } = picture;
    let handoff = topology.handoff.iter().map(|handoff| {
        let roles = Json::texts(&handoff.roles);
        Json::Object(vec![("event", handoff.event.as_str().into()), ("roles", roles)])
    });
    let warnings = warnings.iter().map(|warning| {
        let message = warning.to_string();
        Json::Object(vec![("kind", warning.kind().into()), ("message", message.into())])
    });
    Json::Object(vec![
        ("name", topology.name.as_str().into()),
        ("entry", Json::texts(topology.route(OPENING_EVENT).roles)),
        (
            "completion",
            Json::Object(vec![
                ("event", completion.event.as_str().into()),
                ("promise", completion.promise.as_deref().into()),
                ("required_events", Json::texts(&completion.required)),
            ]),
        ),
        ("roles", Json::List(topology.roles.iter().map(role).collect())),
        ("handoff", Json::List(handoff.collect())),
        ("warnings", Json::List(warnings.collect())),
    ])
}

fn role(role: &Role) -> Json {
    let file = match role.prompt() {
        RolePrompt::File(file) => Some(file.get_ref().as_str()),
        RolePrompt::Inline(_) | RolePrompt::None => None,
    };
    let command = role.backend_command.as_ref().map(|command| command.get_ref().as_str());
    Json::Object(vec![
        ("id", role.id.as_str().into()),
        ("emits", Json::texts(&role.emits)),
        ("has_prompt", (role.prompt() != RolePrompt::None).into()),
        ("prompt_file", file.into()),
        ("backend_command", command.into()),
    ])
}
