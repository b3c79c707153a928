//! One slot, carried out step by step.

use std::ops::ControlFlow;
use std::path::Path;

use autoloop_core::merge::MergeOutcome;
use autoloop_core::record::{SlotFinish, SlotPhase};
use autoloop_core::slot::{Outcome, Phase, Slot, SlotStep, slot_step};
use autoloop_core::text;

use super::claims::Again;
use super::disk_full::check_room;
use super::worktrees::{in_place, on_record};
use super::{SlotDrive, SlotProgress};
use crate::drive::DriveError;
use crate::error::LaunchError;
use crate::review::ConcurrentRuns;

/// So many characters of a reason are put on record and told to the queue. A reviewer may ask for far
/// more, and the record of its review has more of it.
const LONGEST_REASON: usize = 4_000;

/// Whether a slot goes on: it does not when somebody asked to stop.
pub(super) type Flow = ControlFlow<()>;

impl SlotDrive<'_> {
    /// Carries out one slot to its end, or from where it was cut off.
    pub(super) fn slot(&self, iteration: u64, number: u64) -> Result<(), DriveError> {
        let dir = self.slot_dir(iteration, number);
        self.make_dir(&dir)?;
        let Some(slot) = self.slot_now(iteration, number) else { return Ok(()) };
        if slot.has_item() {
            let end = self.end_of(&slot);
            let start = &slot.start;
            match (self.claims.again(number, &start.item_id, &start.actor)?, end) {
                (Again::Ours, _) | (Again::Closed, Some(Outcome::Passed)) => {}
                // What failed has failed, whoever has the item now.
                (_, Some(outcome)) if outcome != Outcome::Passed => {}
                (Again::Closed, _) => return self.give_up(&slot, "somebody else closed the item"),
                (Again::Lost(why), _) => return self.give_up(&slot, &lost(&why)),
            }
            if end.is_none()
                && let Err(error) = self.grounds.prepare(&slot, &dir)
            {
                check_room(&dir, &error.to_string())?;
                return self.give_up(&slot, &format!("there is no tree to work in: {error}"));
            }
        }
        while let Some(slot) = self.slot_now(iteration, number) {
            if self.site.interrupts.first().is_some() {
                return Ok(());
            }
            let flow = self.next(&slot, &dir);
            if let Err(DriveError::Launch(LaunchError::NoAgent { why, .. })) = &flow
                && slot.implement.is_none()
            {
                // Nobody began with it, so it need not wait for this run. Where that cannot be said, whoever
                // takes the run up has it.
                let _ = self.claims.release(number, why);
            }
            if flow?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// A slot as it is, until it has ended.
    fn slot_now(&self, iteration: u64, number: u64) -> Option<Slot> {
        self.look(|slots| slots.slot(iteration, number).cloned())
            .filter(|slot| slot.finish.is_none())
    }

    /// How a slot ends, if there is nothing left to do but to end it.
    fn end_of(&self, slot: &Slot) -> Option<Outcome> {
        match slot_step(slot, &self.rules()) {
            SlotStep::Finish(finish) => finish.outcome.known(),
            _ => None,
        }
    }

    fn next(&self, slot: &Slot, dir: &Path) -> Result<Flow, DriveError> {
        let step = slot_step(slot, &self.rules());
        if step == SlotStep::Merge {
            // The claim may have been taken away long ago: it is renewed only now and then.
            self.claims.confirm(slot.start.slot);
        }
        if needs_item(&step)
            && let Some(why) = self.claims.lost(slot.start.slot)
        {
            self.give_up(slot, &lost(&why))?;
            return Ok(Flow::Continue(()));
        }
        match step {
            SlotStep::Implement => self.implement(slot),
            SlotStep::Review { attempt } => self.review(slot, attempt),
            SlotStep::Fix { attempt, follow_up } => self.fix(slot, attempt, &follow_up),
            SlotStep::Merge => self.merge(slot, dir),
            SlotStep::Finish(finish) => self.finish(slot, finish),
            SlotStep::Over => Ok(Flow::Break(())),
        }
    }

    /// Says on record that a phase begins.
    pub(super) fn begin_phase(
        &self,
        slot: &Slot,
        phase: Phase,
        attempt: u64,
    ) -> Result<(), DriveError> {
        let record = SlotPhase {
            slot: slot.start.slot,
            item_id: slot.start.item_id.clone(),
            phase: phase.into(),
            attempt,
        };
        self.mention(slot.iteration, |heading| record.record(heading))?;
        self.report(SlotProgress::Phase { slot, phase, attempt });
        Ok(())
    }

    fn merge(&self, slot: &Slot, dir: &Path) -> Result<Flow, DriveError> {
        self.begin_phase(slot, Phase::Merge, 0)?;
        let merge = match self.is_mixed(slot) {
            Some(why) => on_record(slot, in_place(&[], why)),
            None => self.grounds.bring_back(slot, dir)?,
        };
        if merge.outcome == MergeOutcome::Failed {
            check_room(dir, merge.detail.as_deref().unwrap_or_default())?;
        }
        if merge.outcome == MergeOutcome::Changed {
            let number = slot.start.slot;
            self.site.note(&format!(
                "slot {number}: the work was changed after its review; it is reviewed again"
            ));
        }
        if merge.outcome == MergeOutcome::InPlace {
            let (number, item) = (slot.start.slot, &slot.start.item_id);
            let why = [&*merge.files, merge.detail.as_deref().unwrap_or_default()];
            let why =
                why.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
            self.site.note(&format!(
                "slot {number}: the work on {item} stays in the working tree, not committed ({why})"
            ));
        }
        self.put(slot.iteration, |heading| vec![merge.record(heading)])?;
        Ok(Flow::Continue(()))
    }

    /// Why nothing tells the work of a slot in the project itself from that of others, where that is so.
    fn is_mixed(&self, slot: &Slot) -> Option<&'static str> {
        let (state_dir, world) = (&self.loaded.files.state_dir, self.site.world);
        match slot.start.branch.is_empty() {
            true if self.has_shared(slot) => Some("other slots work in the project too"),
            true if ConcurrentRuns::before(state_dir, world).were_driven() => {
                Some("another run is at work in the project")
            }
            _ => None,
        }
    }

    /// Clears up behind a slot: takes its working tree away, or what it left in the project itself. Returns the
    /// branches that have its work.
    fn clear(
        &self,
        slot: &Slot,
        dir: &Path,
        finish: &SlotFinish,
    ) -> Result<Vec<String>, DriveError> {
        if !slot.start.branch.is_empty() {
            return self.grounds.clear(slot, dir);
        }
        let has_begun = slot.phase.is_some();
        let run = self.look(|slots| slots.id.clone());
        match self.is_mixed(slot) {
            None if finish.outcome == Outcome::Passed => {
                if let Some(what) = self.grounds.keep_discarded(slot, dir, &run)? {
                    let number = slot.start.slot;
                    self.site.note(&format!(
                        "slot {number}: the work undid uncommitted changes of yours in {what}"
                    ));
                }
                Ok(Vec::new())
            }
            None if has_begun => self.grounds.set_aside(slot, dir, &run),
            _ => Ok(Vec::new()),
        }
    }

    /// Ends a slot that cannot go on.
    fn give_up(&self, slot: &Slot, why: &str) -> Result<(), DriveError> {
        self.finish(slot, slot.finished(Outcome::Failed, why.to_owned())).map(drop)
    }

    /// Clears up behind a slot, settles its item and says on record how it ended.
    fn finish(&self, slot: &Slot, finish: SlotFinish) -> Result<Flow, DriveError> {
        let number = slot.start.slot;
        let dir = self.slot_dir(slot.iteration, number);
        let kept = match self.clear(slot, &dir, &finish) {
            Ok(kept) => kept,
            Err(error) => {
                check_room(&dir, &error.to_string())?;
                let what = match slot.start.branch.as_str() {
                    "" => "what it left in the working tree stays there",
                    _ => "its working tree is left as it is",
                };
                self.site.note(&format!("slot {number}: {what}: {error}"));
                Vec::new()
            }
        };
        let mut finish = SlotFinish { reason: located(&finish.reason, &kept), ..finish };
        if finish.outcome == Outcome::Passed
            && let Err(why) = self.claims.close(number, &finish.reason)?
        {
            let why = format!("the item could not be closed: {why}");
            finish = slot.finished(Outcome::Failed, located(&why, &kept));
        }
        if finish.outcome != Outcome::Passed {
            self.claims.release(number, &finish.reason)?;
        }
        self.put(slot.iteration, |heading| vec![finish.record(heading)])?;
        self.report(SlotProgress::Finished(slot, &finish));
        Ok(Flow::Break(()))
    }
}

/// A reason, as much of it as anybody reads, and the branches that the work is kept on.
fn located(reason: &str, kept: &[String]) -> String {
    let reason = text::clip(reason, LONGEST_REASON);
    match kept {
        [] => reason.into_owned(),
        kept => format!("{reason}; its work is on branch {}", kept.join(" and ")),
    }
}

/// Whether a step is for somebody who has the item. What failed is put on record all the same.
fn needs_item(step: &SlotStep) -> bool {
    match step {
        SlotStep::Finish(finish) => finish.outcome == Outcome::Passed,
        SlotStep::Over => false,
        SlotStep::Implement | SlotStep::Review { .. } | SlotStep::Fix { .. } | SlotStep::Merge => {
            true
        }
    }
}

fn lost(why: &str) -> String {
    format!("the item was lost: {why}")
}
