//! One slot, carried out step by step.

use std::ops::ControlFlow;

use autoloop_core::record::{SlotFinish, SlotPhase};
use autoloop_core::slot::{Outcome, Phase, Slot, SlotStep, slot_step};

use super::claims::Again;
use super::{SlotDrive, SlotProgress};
use crate::drive::DriveError;

/// Whether a slot goes on: it does not when somebody asked to stop.
pub(super) type Flow = ControlFlow<()>;

impl SlotDrive<'_> {
    /// Carries out one slot to its end, or from where it was cut off.
    pub(super) fn slot(&self, iteration: u64, number: u64) -> Result<(), DriveError> {
        let dir = self.slot_dir(iteration, number);
        self.make_dir(&dir)?;
        let Some(slot) = self.slot_now(iteration, number) else { return Ok(()) };
        if slot.has_item() {
            let start = &slot.start;
            match self.claims.again(number, &start.item_id, &start.actor)? {
                Again::Ours => {}
                Again::Closed if self.is_passing(&slot) => {}
                Again::Closed => return self.give_up(&slot, "somebody else closed the item"),
                Again::Lost(why) => {
                    return self.give_up(&slot, &format!("the item was lost: {why}"));
                }
            }
            if !self.is_ending(&slot)
                && let Err(error) = self.grounds.prepare(&slot, &dir)
            {
                return self.give_up(&slot, &format!("there is no tree to work in: {error}"));
            }
        }
        while let Some(slot) = self.slot_now(iteration, number) {
            if self.scene.interrupts.first().is_some() || self.next(&slot, &dir)?.is_break() {
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

    fn is_passing(&self, slot: &Slot) -> bool {
        let step = slot_step(slot, &self.rules());
        matches!(step, SlotStep::Finish(finish) if finish.outcome == Outcome::Passed.name())
    }

    fn is_ending(&self, slot: &Slot) -> bool {
        matches!(slot_step(slot, &self.rules()), SlotStep::Finish(_))
    }

    fn next(&self, slot: &Slot, dir: &std::path::Path) -> Result<Flow, DriveError> {
        let step = slot_step(slot, &self.rules());
        if let (Some(why), false) =
            (self.claims.lost(slot.start.slot), matches!(step, SlotStep::Over))
        {
            self.give_up(slot, &format!("the item was lost: {why}"))?;
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
            phase: phase.to_string(),
            attempt,
        };
        self.mention(slot.iteration, |heading| record.record(heading))?;
        self.tell(SlotProgress::Phase { slot, phase, attempt });
        Ok(())
    }

    fn merge(&self, slot: &Slot, dir: &std::path::Path) -> Result<Flow, DriveError> {
        self.begin_phase(slot, Phase::Merge, 0)?;
        let merge = self.grounds.bring_back(slot, dir)?;
        self.put(slot.iteration, |heading| vec![merge.record(heading)])?;
        Ok(Flow::Continue(()))
    }

    /// Ends a slot that cannot go on.
    fn give_up(&self, slot: &Slot, why: &str) -> Result<(), DriveError> {
        self.finish(slot, slot.finished(Outcome::Failed, why.to_owned())).map(drop)
    }

    /// Clears up behind a slot, settles its item and says on record how it ended.
    fn finish(&self, slot: &Slot, mut finish: SlotFinish) -> Result<Flow, DriveError> {
        let number = slot.start.slot;
        let dir = self.slot_dir(slot.iteration, number);
        match self.grounds.clear(slot, &dir) {
            Ok(kept) if kept.is_empty() => {}
            Ok(kept) => {
                let kept = kept.join(" and ");
                finish.reason = format!("{}; its work is on branch {kept}", finish.reason);
            }
            Err(error) => {
                self.note(&format!("the tree of slot {number} is left as it is: {error}"));
            }
        }
        if finish.outcome == Outcome::Passed.name() {
            if let Err(why) = self.claims.close(number, &finish.reason)? {
                finish = slot.finished(Outcome::Failed, format!("the item was lost: {why}"));
            }
        } else {
            self.claims.release(number, &finish.reason)?;
        }
        self.put(slot.iteration, |heading| vec![finish.record(heading)])?;
        self.tell(SlotProgress::Finished(slot, &finish));
        Ok(Flow::Break(()))
    }
}
