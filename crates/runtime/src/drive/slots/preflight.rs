//! The programs of agents: whether they are there, before anybody works, and afterwards.
//!
//! A program that is not there is a mistake in the settings, and nobody's failed work: the run ends, and
//! what was done so far is taken up when the mistake is mended.

use autoloop_core::config::{Key, Origin};
use autoloop_core::slot::{Phase, Review};

use super::SlotDrive;
use super::phase::Order;
use crate::drive::DriveError;
use crate::error::LaunchError;
use crate::launch::look_up;
use crate::project::{Loaded, Project};
use crate::world::{Ending, Finished, Obstacle, World};

/// Looks for the programs of everybody who is to work, from the project: in a working tree, a path in
/// the settings is meant as seen from there, too.
///
/// # Errors
///
/// When one is not there, or may not be executed.
pub(super) fn check(
    project: &Project,
    loaded: &Loaded,
    review: Review,
    world: &World,
) -> Result<(), DriveError> {
    let plan = &loaded.plan;
    let dir = &project.dir;
    look_up(&plan.backend, dir, world).map_err(|why| no_agent(loaded, Phase::Implement, why))?;
    match review {
        Review::On => look_up(&plan.slots.reviewer, dir, world)
            .map_err(|why| no_agent(loaded, Phase::Review, why)),
        Review::Off | Review::NoPrompt => Ok(()),
    }
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
    LaunchError::NoAgent { why, setting: format!("{key} ({})", settings.provenance(key)) }.into()
}
