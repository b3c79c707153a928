//! Checks before a run begins that its agents can be started.
//!
//! A program that does not exist is a mistake in the settings. It is reported before anything is
//! recorded, so that no run has to be cleaned up after a typing error.

use std::io;
use std::path::Path;

use autoloop_core::config::{BackendKind, Key, Settings};
use autoloop_core::plan::{BackendPlan, Plan};
use autoloop_core::topology::Role;

use super::DriveError;
use crate::project::{Loaded, Outline};
use crate::turn::program_of;
use crate::world::World;

/// The agents that a run would start.
#[derive(Clone, Copy, Debug)]
pub struct Agents<'a> {
    plan: &'a Plan,
    roles: &'a [Role],
    settings: &'a Settings,
}

impl<'a> Agents<'a> {
    /// The agents of a loop whose files have been read.
    pub fn of_loop(loaded: &'a Loaded) -> Self {
        let Loaded { plan, settings, topology, .. } = loaded;
        Agents { plan, settings, roles: &topology.roles }
    }

    /// The agent of a preset whose files are not in place yet and give no role an agent of its own.
    pub fn of_preset(outline: &'a Outline) -> Self {
        Agents { plan: &outline.plan, settings: &outline.settings, roles: &[] }
    }

    /// Each agent, with the setting that names it. The default agent is listed only if a role uses it
    /// or the loop has no roles.
    pub fn each(&self) -> Vec<(String, &'a BackendPlan)> {
        let plan = self.plan;
        let default = || {
            let key = Key::BackendCommand;
            (format!("{key} ({})", self.settings.provenance(key)), &plan.backend)
        };
        if self.roles.is_empty() {
            return vec![default()];
        }
        let of_role = |role: &Role| match plan.backend_for(role) {
            backend if backend.command == plan.backend.command => default(),
            backend => (format!("backend_command of role '{}'", role.id), backend),
        };
        self.roles.iter().map(of_role).collect()
    }

    /// Looks up the program of each agent, as seen from the project.
    ///
    /// # Errors
    ///
    /// [`DriveError::NoAgent`] for the first program that does not exist or may not be executed.
    pub fn check(&self, dir: &Path, world: &World) -> Result<(), DriveError> {
        self.each().into_iter().try_for_each(|(setting, backend)| {
            look_up(backend, dir, world).map_err(|why| DriveError::NoAgent { why, setting })
        })
    }
}

/// Looks up the program of one agent; the error is the reason why it cannot be started.
pub(super) fn look_up(backend: &BackendPlan, dir: &Path, world: &World) -> Result<(), String> {
    if matches!(backend.kind, BackendKind::Script | BackendKind::Replay) {
        let file = dir.join(&backend.command);
        return match world.disk.stat(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("there is no file {}", file.display()))
            }
            _ => Ok(()),
        };
    }
    world.spawner.look_up(&program_of(backend, dir)).map_err(|why| why.message)
}
