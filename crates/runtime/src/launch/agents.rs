//! Checks before a run begins that its agents can be started.
//!
//! A program that does not exist is reported before anything is recorded, so that no run has to be cleaned up
//! after a typing error.

use std::io;
use std::path::Path;

use autoloop_core::agents::Adapter;
use autoloop_core::config::{BackendKind, Key};
use autoloop_core::plan::BackendPlan;
use autoloop_core::topology::Role;

use crate::error::LaunchError;
use crate::project::Loaded;
use crate::turn::job_without_run;
use crate::world::World;

/// Why an agent of kind `acp` without a command cannot be started.
pub const NO_ACP_PROGRAM: &str = "an agent of kind \"acp\" needs a program that speaks the Agent Client Protocol, \
    such as backend.command = \"gemini\" with backend.args = [\"--acp\"]";

/// Each agent of a loop, with the setting that names it. The default agent is listed only if a role uses
/// it or the loop has no roles.
fn agents(loaded: &Loaded) -> Vec<(String, &BackendPlan)> {
    let Loaded { plan, topology, .. } = loaded;
    let default = || (loaded.named(Key::BackendCommand), &plan.backend);
    if topology.roles.is_empty() {
        return vec![default()];
    }
    let of_role = |role: &Role| match plan.backend_for(role) {
        backend if backend.command == plan.backend.command => default(),
        backend => (format!("backend_command of role '{}'", role.id), backend),
    };
    topology.roles.iter().map(of_role).collect()
}

/// Looks up the program of each agent of a loop, as seen from the project.
pub(super) fn check(loaded: &Loaded, dir: &Path, world: &World) -> Result<(), LaunchError> {
    agents(loaded).into_iter().try_for_each(|(setting, backend)| {
        if let Err(bad) = backend.arguments() {
            return Err(LaunchError::BadArgument { bad, setting });
        }
        look_up(backend, dir, world).map_err(|why| LaunchError::NoAgent { why, setting })
    })
}

/// Whether an agent of a loop is a known client, which cannot work without an objective.
pub(super) fn has_known_client(loaded: &Loaded) -> bool {
    agents(loaded).into_iter().any(|(_, backend)| Adapter::by_program(&backend.command).is_some())
}

/// Looks up the program of one agent; the error is the reason why it cannot be started.
pub(crate) fn look_up(backend: &BackendPlan, dir: &Path, world: &World) -> Result<(), String> {
    if matches!(backend.kind, BackendKind::Script | BackendKind::Replay) {
        let file = dir.join(&backend.command);
        return match world.disk.stat(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("there is no file {}", file.display()))
            }
            _ => Ok(()),
        };
    }
    if backend.kind == BackendKind::Acp {
        if backend.command.is_empty() {
            return Err(NO_ACP_PROGRAM.to_owned());
        }
        // The program behind `__acp`.
        let program = BackendPlan { kind: BackendKind::Command, ..backend.clone() };
        return look_up(&program, dir, world);
    }
    backend.arguments().map_err(|bad| bad.to_string())?;
    world.spawner.look_up(&job_without_run(backend, dir, "")).map_err(|why| why.message)
}
