//! `autoloop inspect topology`: who there is in a loop, who follows whom, and what was hardly meant.

mod drawing;
mod graph;
mod markdown;

use std::path::PathBuf;

use autoloop_core::format::json_text;
use autoloop_core::pattern::Pattern;
use autoloop_core::plan::Completion;
use autoloop_core::topology::{OPENING_EVENT, Role, RolePrompt, Topology, Warning};
use autoloop_runtime::world::World;
use clap::ValueEnum;
use serde::Serialize;

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
        Format::Json => json_text(&Facts::of(&picture)),
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

/// What other programs read of a topology.
#[derive(Serialize)]
struct Facts<'a> {
    name: &'a str,
    entry: Vec<String>,
    completion: CompletionFacts<'a>,
    roles: Vec<RoleFacts<'a>>,
    handoff: Vec<HandoffFacts<'a>>,
    warnings: Vec<WarningFacts>,
}

#[derive(Serialize)]
struct CompletionFacts<'a> {
    event: &'a str,
    promise: Option<&'a str>,
    required_events: &'a [String],
}

#[derive(Serialize)]
struct RoleFacts<'a> {
    id: &'a str,
    emits: Vec<&'a str>,
    has_prompt: bool,
    prompt_file: Option<&'a str>,
    backend_command: Option<&'a str>,
}

#[derive(Serialize)]
struct HandoffFacts<'a> {
    event: &'a str,
    roles: &'a [String],
}

#[derive(Serialize)]
struct WarningFacts {
    kind: &'static str,
    message: String,
}

impl<'a> Facts<'a> {
    fn of(picture: &'a Picture<'_>) -> Self {
        let Picture { topology, completion, warnings } = picture;
        let handoff = topology.handoff.iter();
        let warnings = warnings.iter();
        Facts {
            name: &topology.name,
            entry: topology.route(OPENING_EVENT).roles,
            completion: CompletionFacts {
                event: &completion.event,
                promise: completion.promise.as_deref(),
                required_events: &completion.required,
            },
            roles: topology.roles.iter().map(RoleFacts::of).collect(),
            handoff: handoff
                .map(|it| HandoffFacts { event: it.event.as_str(), roles: &it.roles })
                .collect(),
            warnings: warnings
                .map(|it| WarningFacts { kind: it.kind(), message: it.to_string() })
                .collect(),
        }
    }
}

impl<'a> RoleFacts<'a> {
    fn of(role: &'a Role) -> Self {
        RoleFacts {
            id: &role.id,
            emits: role.emits.iter().map(Pattern::as_str).collect(),
            has_prompt: role.prompt() != RolePrompt::None,
            prompt_file: match role.prompt() {
                RolePrompt::File(file) => Some(file.get_ref()),
                RolePrompt::Inline(_) | RolePrompt::None => None,
            },
            backend_command: role
                .backend_command
                .as_ref()
                .map(|command| command.get_ref().as_str()),
        }
    }
}
