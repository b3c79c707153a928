//! The programs of agents: whether they are there, before anybody works, and afterwards.
//!
//! A program that is not there is a mistake in the settings, and nobody's failed work: the run ends, and
//! what was done so far is taken up when the mistake is mended.

use std::io;
use std::path::Path;

use autoloop_core::config::{BackendKind, Key, Origin};
use autoloop_core::plan::BackendPlan;
use autoloop_core::slot::{Phase, Review};

use super::agent::Order;
use super::{SlotDrive, SlotScene};
use crate::drive::DriveError;
use crate::drive::launch::addressed;
use crate::project::Loaded;
use crate::world::{Ending, Finished, Job, Obstacle};

/// Looks for the programs of everybody who is to work, from the project: in a working tree, a path in
/// the settings is meant as seen from there, too.
///
/// # Errors
///
/// When one is not there, or may not be executed.
pub(super) fn check(
    scene: &SlotScene<'_>,
    loaded: &Loaded,
    review: Review,
) -> Result<(), DriveError> {
    let plan = &loaded.plan;
    look_up(scene, &plan.backend).map_err(|why| no_agent(loaded, Phase::Implement, why))?;
    match review {
        Review::On => {
            look_up(scene, &plan.slots.reviewer).map_err(|why| no_agent(loaded, Phase::Review, why))
        }
        Review::Off | Review::NoPrompt => Ok(()),
    }
}

/// Looks for one program; why there is none.
fn look_up(scene: &SlotScene<'_>, backend: &BackendPlan) -> Result<(), String> {
    let dir = &scene.project.dir;
    if matches!(backend.kind, BackendKind::Script | BackendKind::Replay) {
        let file = dir.join(&backend.command);
        let found = scene.world.disk.stat(&file);
        return match found.err().filter(|error| error.kind() == io::ErrorKind::NotFound) {
            Some(_) => Err(format!("there is no file {}", file.display())),
            None => Ok(()),
        };
    }
    let (job, _) = addressed(backend, (&scene.program, Some(dir)), ("", Path::new("")));
    let job = Job { dir: Some(dir.clone()), ..job };
    scene.world.spawner.look_up(&job).map_err(|why| why.message)
}

impl SlotDrive<'_> {
    /// Whether an agent began: its program may have gone since it was looked for.
    pub(super) fn has_begun(
        &self,
        finished: &Finished,
        order: &Order<'_>,
    ) -> Result<(), DriveError> {
        match &finished.ending {
            Ending::NeverStarted(why) if why.obstacle == Obstacle::Program => {
                Err(no_agent(&self.loaded, order.phase, why.message.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// Says which setting names the agent of a phase.
fn no_agent(loaded: &Loaded, phase: Phase, why: String) -> DriveError {
    let settings = &loaded.settings;
    let has_own = settings.origin(Key::SlotsReviewerCommand) != Origin::Default;
    let key = match phase {
        Phase::Review if has_own => Key::SlotsReviewerCommand,
        _ => Key::BackendCommand,
    };
    DriveError::NoAgent { why, setting: format!("{key} ({})", settings.provenance(key)) }
}
