//! The settings and prompts, read again before every iteration.
//!
//! How work is judged is settled when a person begins a run or takes it up again. An agent that works in
//! the project can write its settings, and must not be able to have itself judged by nobody, or by another.

use autoloop_core::config::Isolation;
use autoloop_core::plan::{BackendPlan, SlotsPlan};
use autoloop_core::slot::{Review, SlotRules};

use super::SlotDrive;
use super::ground::Grounds;
use crate::drive::DriveError;

/// How work is judged, by the settings.
#[derive(Clone, PartialEq)]
pub(super) struct Judging {
    review: Review,
    max_fix_attempts: u64,
    contract_repair: u64,
    reviewer: BackendPlan,
    has_prompt: bool,
}

impl SlotDrive<'_> {
    /// Reads the settings and prompts again. Where an agent broke the settings, the last good ones stay in
    /// force: the rest of the queue is not to wait for a person. A prompt that is named and is not there is
    /// never passed over.
    pub(super) fn reload(&mut self) -> Result<(), DriveError> {
        let (project, world) = (self.scene.project, self.scene.world);
        let (settled, place) = (self.judging(), placing(&self.loaded.plan.slots));
        let prompt = self.prompts.reviewer.clone();
        match project.load(&*world.disk) {
            Ok(loaded) => self.loaded = loaded,
            Err(error) => self.note(&format!(
                "the run goes on with the settings that it had, as these cannot be used: {error}"
            )),
        }
        self.prompts = project.slot_prompts(&self.loaded, &*world.disk)?;
        let asked = self.judging();
        if asked.has_prompt != settled.has_prompt {
            self.prompts.reviewer.clone_from(&prompt);
        }
        self.judge_by(&settled);
        if place != placing(&self.loaded.plan.slots) {
            self.grounds = Grounds::find(project, &self.loaded, world)?;
            self.tell_of_grounds();
        }
        let is_told = asked == settled || self.asked.as_ref() == Some(&asked);
        if !is_told {
            self.note(
                "the settings of reviews changed; this run goes on with those that it began with",
            );
        }
        if self.rules().review == Review::On && self.prompts.reviewer != prompt {
            self.note("reviewers are told something else from now on: their prompt changed");
        }
        self.asked = Some(asked);
        Ok(())
    }

    fn judging(&self) -> Judging {
        let SlotsPlan { rules, reviewer, .. } = &self.loaded.plan.slots;
        let SlotRules { review, max_fix_attempts, contract_repair, .. } = *rules;
        Judging {
            review,
            max_fix_attempts,
            contract_repair,
            reviewer: reviewer.clone(),
            has_prompt: self.prompts.reviewer.is_some(),
        }
    }

    /// Has work be judged as it was settled, whatever the settings say by now.
    fn judge_by(&mut self, settled: &Judging) {
        let Judging { review, max_fix_attempts, contract_repair, .. } = *settled;
        let plan = &mut self.loaded.plan.slots;
        plan.rules = SlotRules { review, max_fix_attempts, contract_repair, ..plan.rules };
        plan.reviewer.clone_from(&settled.reviewer);
    }
}

/// What decides where slots work.
fn placing(plan: &SlotsPlan) -> (Option<Isolation>, u64) {
    (plan.isolation, plan.rules.parallel_agents)
}
