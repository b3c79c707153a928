//! How a run over a queue begins, or is taken up again.

use autoloop_core::config::Isolation;
use autoloop_core::plan::SlotsPlan;
use autoloop_core::record::{SlotRunResume, SlotRunStart};
use autoloop_core::slot::{Review, Slots};

use super::{NO_PROMPT, SlotDrive, SlotProgress, claims};
use crate::drive::DriveError;
use crate::launch::Opening;

impl SlotDrive<'_> {
    pub(super) fn start(&self) -> Result<(), DriveError> {
        let plan = &self.loaded.plan.slots;
        let rules = self.rules();
        let start = SlotRunStart {
            iterations: rules.iterations.unwrap_or(0),
            parallel_agents: rules.parallel_agents,
            review: rules.review == Review::On,
            max_fix_attempts: rules.max_fix_attempts,
            source: plan.source.into(),
            isolation: self.grounds.isolation.into(),
            stop_marker: plan.stop_marker.clone().unwrap_or_default(),
            queue_mark: Some(self.queue.mark()?),
        };
        self.put(0, |heading| vec![start.record(heading)])?;
        self.record_prompts()?;
        self.announce();
        Ok(())
    }

    /// Records that a run is resumed, and releases what its last harness claimed and did not record. A run of
    /// which nothing is proven begins again instead.
    pub(super) fn take_up(&mut self) -> Result<(), DriveError> {
        let is_over = self.look(|slots| slots.start.is_some() && !slots.status().can_resume());
        if self.opening == Opening::Begin || is_over {
            return Ok(());
        }
        let (run, at_work) = self.look(|slots| {
            let at_work: Vec<String> = slots.open().map(|slot| slot.start.actor.clone()).collect();
            (slots.id.clone(), at_work)
        });
        let is_dead =
            |name: &str| claims::is_of(name, &run) && !at_work.iter().any(|at| at == name);
        let why = format!("run {run} was cut off");
        self.queue.release_all(&is_dead, &why)?;
        if self.look(|slots| slots.start.is_none()) {
            return Ok(());
        }
        let resume = SlotRunResume { resumed_from_iteration: self.look(Slots::iteration) };
        self.put(0, |heading| vec![resume.record(heading)])?;
        self.record_prompts()?;
        self.announce();
        self.compare_prompts();
        Ok(())
    }

    fn announce(&self) {
        let rules = self.rules();
        self.look(|slots| self.report(SlotProgress::Began(slots, &rules)));
        if rules.review == Review::NoPrompt {
            self.site.note(NO_PROMPT);
        }
        self.tell_of_grounds();
    }

    /// Tells what a person should know about where slots work.
    pub(super) fn tell_of_grounds(&self) {
        let review = self.rules().review;
        self.grounds.notes(review).iter().for_each(|note| self.site.note(note));
        let is_shared = self.grounds.isolation == Isolation::Shared
            && self.loaded.plan.slots.rules.parallel_agents > 1;
        if review == Review::On && is_shared && !self.reviewer.is_of_kernel() {
            self.site.note(
                "several slots work in one tree and no sandbox holds reviewers, so nothing keeps them from changing it",
            );
        }
    }
}

/// A run goes on with the queue that it began with: the items that it holds are there.
pub(super) fn same_source(slots: &Slots, plan: &SlotsPlan) -> Result<(), DriveError> {
    match &slots.start {
        Some(start) if start.source != plan.source => Err(DriveError::OtherSource {
            run: slots.id.clone(),
            began: start.source.clone(),
            now: plan.source,
        }),
        _ => Ok(()),
    }
}
