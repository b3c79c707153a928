//! What is checked before a new run creates anything: its objective and its agents.

use std::path::Path;

use autoloop_core::plan::{BackendPlan, PromptSource};
use autoloop_runtime::drive::Agents;
use autoloop_runtime::project::{Loaded, Outline, Project};
use autoloop_runtime::world::World;

use super::drive_failure;
use super::resolve_args::{Choice, Loop};
use crate::commands::doctor::KNOWN_AGENTS;
use crate::diagnostic;
use crate::failure::Failure;
use crate::presets::Preset;

/// What is known of a loop before its run begins.
pub(in crate::commands) enum Preview {
    /// Its files were read.
    Loop(Box<Loaded>),
    /// A preset of this program. It has neither an objective nor agents of its own.
    Shipped(Box<Outline>),
}

impl Preview {
    /// Reads what there is.
    pub(in crate::commands) fn of(
        choice: &Choice,
        project: &Project,
        world: &World,
    ) -> Result<Preview, Failure> {
        let disk = &*world.disk;
        let read = match &choice.runs {
            Loop::Preset(Preset::Shipped(_)) => {
                project.outline(disk).map(|outline| Preview::Shipped(Box::new(outline)))
            }
            Loop::Preset(Preset::Own { dir, .. }) => {
                let in_place = Project { loop_dir: dir.clone(), ..project.clone() };
                in_place.load(disk).map(|loaded| Preview::Loop(Box::new(loaded)))
            }
            Loop::Own | Loop::In(_) => {
                project.load(disk).map(|loaded| Preview::Loop(Box::new(loaded)))
            }
        };
        read.map_err(diagnostic::refuse)
    }

    fn agents(&self) -> Agents<'_> {
        match self {
            Preview::Loop(loaded) => Agents::of_loop(loaded),
            Preview::Shipped(outline) => Agents::of_preset(outline),
        }
    }

    /// Refuses agents whose programs do not exist.
    pub(in crate::commands) fn require_agents(
        &self,
        dir: &Path,
        world: &World,
    ) -> Result<(), Failure> {
        self.agents().check(dir, world).map_err(drive_failure)
    }

    /// Refuses a loop that would have its agents invent something to do: a preset, or a loop of one of
    /// the known clients, without an objective. A command of the user's own may know what to do.
    pub(in crate::commands) fn require_objective(
        &self,
        choice: &Choice,
        project: &Project,
        world: &World,
    ) -> Result<(), NoObjective> {
        if choice.objective.is_some() || self.has_objective(project, world) {
            return Ok(());
        }
        match &choice.runs {
            Loop::Preset(preset) => Err(NoObjective(format!("'{}'", preset.name()))),
            Loop::Own | Loop::In(_) if self.asks_a_model() => {
                let dir = if let Loop::In(dir) = &choice.runs { dir } else { &choice.dir };
                Err(NoObjective(format!("the loop in {}", shown(dir))))
            }
            Loop::Own | Loop::In(_) => Ok(()),
        }
    }

    fn has_objective(&self, project: &Project, world: &World) -> bool {
        let (is_named, files) = match self {
            Preview::Loop(loaded) => (loaded.objective.is_some(), &loaded.files),
            Preview::Shipped(outline) => {
                let is_set = outline.plan.objective != PromptSource::None;
                let usual = || project.usual_objective(&*world.disk, &outline.files);
                (is_set || usual().is_ok_and(|text| text.is_some()), &outline.files)
            }
        };
        is_named || files.state_dir.plan().exists()
    }

    fn asks_a_model(&self) -> bool {
        let is_client = |backend: &BackendPlan| {
            let name = Path::new(&backend.command).file_name();
            name.is_some_and(|name| KNOWN_AGENTS.iter().any(|known| name == *known))
        };
        self.agents().each().into_iter().any(|(_, backend)| is_client(backend))
    }
}

/// There is nothing to do for this loop.
#[derive(Debug)]
pub(in crate::commands) struct NoObjective(String);

impl NoObjective {
    /// The failure, with the command that would have worked.
    pub(in crate::commands) fn with_example(self, example: &str) -> Failure {
        Failure::usage(format!("no objective for {}", self.0))
            .hint(format!("say what to do: {example}"))
            .hint("or set event_loop.prompt or event_loop.prompt_file")
    }
}

/// A directory as seen from here.
fn shown(dir: &Path) -> String {
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
    match dir.strip_prefix(&here) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => inside.display().to_string(),
        Err(_) => dir.display().to_string(),
    }
}
