//! The settings and prompts, read again before every iteration.

use autoloop_core::config::Isolation;
use autoloop_core::plan::{BackendPlan, SlotsPlan};
use autoloop_core::slot::Review;

use super::ground::Grounds;
use super::{NO_PROMPT, SlotDrive};
use crate::drive::DriveError;

/// Who reviews, and by what: an agent that works in the project can change it.
#[derive(PartialEq)]
struct Reviewing {
    review: Review,
    reviewer: BackendPlan,
    prompt: Option<String>,
}

impl SlotDrive<'_> {
    /// Reads the settings and prompts again.
    pub(super) fn reload(&mut self) -> Result<(), DriveError> {
        let (project, world) = (self.scene.project, self.scene.world);
        let (reviewing, place) = (self.reviewing(), placing(&self.loaded.plan.slots));
        self.loaded = project.load(&*world.disk)?;
        self.prompts = project.slot_prompts(&self.loaded, &*world.disk)?;
        if place != placing(&self.loaded.plan.slots) {
            self.grounds = Grounds::find(project, &self.loaded, world)?;
            self.tell_of_grounds();
        }
        if let Some(note) = changed(&reviewing, &self.reviewing()) {
            self.note(note);
        }
        Ok(())
    }

    fn reviewing(&self) -> Reviewing {
        Reviewing {
            review: self.rules().review,
            reviewer: self.loaded.plan.slots.reviewer.clone(),
            prompt: self.prompts.reviewer.as_ref().map(|prompt| prompt.text.clone()),
        }
    }
}

/// What decides where slots work.
fn placing(plan: &SlotsPlan) -> (Option<Isolation>, u64) {
    (plan.isolation, plan.rules.parallel_agents)
}

/// What a person should know about reviews that are not what they were.
fn changed(before: &Reviewing, now: &Reviewing) -> Option<&'static str> {
    match (before.review, now.review) {
        (Review::On, Review::Off) => Some("reviews are off from now on: the settings changed"),
        (Review::On, Review::NoPrompt) => Some(NO_PROMPT),
        (Review::On, Review::On) if before.reviewer != now.reviewer => {
            Some("another agent reviews from now on: the settings changed")
        }
        (Review::On, Review::On) if before.prompt != now.prompt => {
            Some("reviewers are told something else from now on: their prompt changed")
        }
        _ => None,
    }
}
