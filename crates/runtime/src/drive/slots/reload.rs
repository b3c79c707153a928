//! The settings, read again before every iteration.
//!
//! How work is judged is settled when a person begins a run or takes it up again. An agent that works in
//! the project can write its settings, and must not be able to have itself judged by nobody, or by another.

use autoloop_core::config::Isolation;
use autoloop_core::plan::{BackendPlan, SlotsPlan};
use autoloop_core::slot::{NewItems, Review, SlotRules};

use super::worktrees::Grounds;
use super::{SlotDrive, preflight};
use crate::drive::DriveError;

/// How work is judged, by the settings.
#[derive(Clone, PartialEq)]
pub(super) struct Judging {
    review: Review,
    max_fix_attempts: u64,
    contract_repair: u64,
    new_items: NewItems,
    max_items: Option<u64>,
    reviewer: BackendPlan,
}

impl SlotDrive<'_> {
    /// Reads the settings again. Where an agent left settings that cannot be used, the last good ones stay in
    /// force: the rest of the queue is not to wait for a person.
    pub(super) fn reload(&mut self) -> Result<(), DriveError> {
        let (project, world) = (self.project, self.site.world);
        let (settled, place) = (self.judging(), placing(&self.loaded.plan.slots));
        match project.load(&*world.disk) {
            Ok(loaded) => self.loaded = loaded,
            Err(error) => self.site.note(&format!(
                "the run goes on with the settings that it had, as these cannot be used: {error}"
            )),
        }
        self.compare_prompts();
        let asked = self.judging();
        self.judge_by(&settled);
        preflight::check(project, &self.loaded, self.rules().review, world)?;
        if place != placing(&self.loaded.plan.slots) {
            self.grounds =
                Grounds::find(project, &self.loaded, world)?.with_settings_of(&self.grounds);
            self.tell_of_grounds();
        }
        let is_told = asked == settled || self.asked.as_ref() == Some(&asked);
        if !is_told {
            self.site.note(
                "the settings of reviews or the limits of items changed; this run uses those that it began with",
            );
        }
        self.asked = Some(asked);
        Ok(())
    }

    fn judging(&self) -> Judging {
        let SlotsPlan { rules, reviewer, .. } = &self.loaded.plan.slots;
        let SlotRules { review, max_fix_attempts, contract_repair, new_items, max_items, .. } =
            *rules;
        Judging {
            review,
            max_fix_attempts,
            contract_repair,
            new_items,
            max_items,
            reviewer: reviewer.clone(),
        }
    }

    /// Has work be judged as it was settled, whatever the settings say by now.
    fn judge_by(&mut self, settled: &Judging) {
        let Judging { review, max_fix_attempts, contract_repair, new_items, max_items, .. } =
            *settled;
        let plan = &mut self.loaded.plan.slots;
        plan.rules = SlotRules {
            review,
            max_fix_attempts,
            contract_repair,
            new_items,
            max_items,
            ..plan.rules
        };
        plan.reviewer.clone_from(&settled.reviewer);
    }
}

/// What decides where slots work.
fn placing(plan: &SlotsPlan) -> (Option<Isolation>, u64) {
    (plan.isolation, plan.rules.parallel_agents)
}
