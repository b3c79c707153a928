//! Finds the workspace and the agent of a command.

#![expect(clippy::disallowed_methods, reason = "reads the environment and looks for a workspace")]

use std::path::{Path, PathBuf};

use autoloop_core::message::AgentName;
use autoloop_runtime::layout;
use autoloop_runtime::mailbox::Workspace;
use autoloop_runtime::world::World;

use crate::commands::settings;
use crate::failure::{Failure, Kind};

const HOME: &str = "OACP_HOME";
const PROJECT: &str = "OACP_PROJECT";
const AGENT: &str = "OACP_AGENT";
/// The file that marks a workspace of the public tool, and the link to it in a project.
const MARKERS: [&str; 2] = ["workspace.json", ".oacp"];

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Home {
    /// Directory that contains projects/ [env: OACP_HOME]
    #[arg(long, value_name = "DIR", global = true)]
    home: Option<PathBuf>,
    /// Name of the project in that directory [env: OACP_PROJECT] [default: default]
    #[arg(long, value_name = "NAME", global = true)]
    project: Option<String>,
}

impl Home {
    pub(crate) fn workspace(&self, world: &World) -> Result<Workspace, Failure> {
        self.workspace_of(None, world)
    }

    /// The same for the project in `dir`, or the current one.
    pub(crate) fn workspace_of(
        &self,
        dir: Option<&Path>,
        world: &World,
    ) -> Result<Workspace, Failure> {
        let in_state_dir = |project: Option<&str>| in_state_dir(dir, world, project);
        let home = self.home.clone().or_else(|| variable(HOME).map(PathBuf::from));
        let project = self.project.clone().or_else(|| variable(PROJECT));
        let dir = match (home, project) {
            (Some(home), project) => in_home(&home, project.as_deref())?,
            (None, None) => match above() {
                Some(dir) => dir,
                None => in_state_dir(None)?,
            },
            (None, project) => in_state_dir(project.as_deref())?,
        };
        Ok(Workspace::new(dir, world))
    }
}

/// The agent that a flag or the environment names. A flag that contradicts the environment is refused: an agent has the
/// variable from the process that started it.
pub(crate) fn agent(flag: Option<&AgentName>, name: &str) -> Result<AgentName, Failure> {
    let own = variable(AGENT).map(|own| {
        own.parse::<AgentName>()
            .map_err(|error| Failure::usage(format!("{AGENT} is '{own}': {error}")))
    });
    match (flag, own.transpose()?) {
        (Some(flag), Some(own)) if *flag != own => Err(Failure::new(
            Kind::Refused,
            format!("forged sender: this process is '{own}' ({AGENT}), not '{flag}'"),
        )
        .hint(format!("leave {name} out"))),
        (Some(agent), _) => Ok(agent.clone()),
        (None, Some(own)) => Ok(own),
        (None, None) => Err(Failure::usage("no agent is named")
            .hint(format!("name it with {name} or the variable {AGENT}"))),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn in_home(home: &Path, project: Option<&str>) -> Result<PathBuf, Failure> {
    let project = project.unwrap_or("default");
    let is_name = !project.starts_with('.')
        && !project.contains(['/', '\\'])
        && !project.contains(char::is_control)
        && !project.is_empty();
    match is_name {
        true => Ok(home.join("projects").join(project)),
        false => Err(Failure::usage(format!("invalid project name '{}'", project.escape_debug()))
            .hint("use letters, digits and -")),
    }
}

fn in_state_dir(
    dir: Option<&Path>,
    world: &World,
    project: Option<&str>,
) -> Result<PathBuf, Failure> {
    let located = settings::locate(dir, world)?;
    let state_dir = &located.files.state_dir;
    layout::prepare(state_dir, &located.dir).map_err(|error| {
        Failure::failed(format!("cannot create {}: {error}", state_dir.display()))
    })?;
    in_home(&state_dir.join("mail"), project)
}

/// The workspace of the public tool that the current directory belongs to.
fn above() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let found = here.ancestors().flat_map(|dir| MARKERS.map(|marker| dir.join(marker)));
    let is_workspace = |dir: &PathBuf| {
        let above = dir.parent().and_then(Path::file_name);
        above.is_some_and(|name| name == "projects") && dir.join("workspace.json").is_file()
    };
    found
        .filter_map(|marker| marker.canonicalize().ok())
        .filter_map(|target| match target.is_dir() {
            true => Some(target),
            false => target.parent().map(Path::to_owned),
        })
        .find(is_workspace)
}
