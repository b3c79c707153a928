//! The phases in which a slot has an agent: what it is started for, and what is put on record about it.

use autoloop_core::prompt::slot::{FixOrder, UnderReview, fix, implement, review};
use autoloop_core::record::{Heading, Record, SlotFix, SlotImplement, SlotReview};
use autoloop_core::slot::{Changes, Phase, Slot, picked};

use super::agent::Order;
use super::recorded::recorded;
use super::room::check_room;
use super::ruled::Ruled;
use super::slot::Flow;
use super::{SlotDrive, SlotProgress};
use crate::drive::DriveError;
use crate::drive::failure::failure;
use crate::drive::findings::Findings;
use crate::drive::iteration::{millis, notes, said, usage};
use crate::drive::signalled::attributed;
use crate::process;
use crate::world::{Cause, Finished, Job, Reading};

impl SlotDrive<'_> {
    pub(super) fn implement(&self, slot: &Slot) -> Result<Flow, DriveError> {
        let prompt = implement(&self.implement_order(slot));
        let backend = &self.loaded.plan.backend;
        let order = Order { phase: Phase::Implement, attempt: 0, prompt: &prompt, backend };
        let Some(finished) = self.let_work(slot, &order)? else {
            return Ok(self.after_interrupt());
        };
        let output = said(&finished);
        let picked = picked(&output);
        if picked.differs_from(&slot.start.item_id) {
            let (number, item) = (slot.start.slot, &slot.start.item_id);
            let said = picked.word();
            self.note(&format!(
                "slot {number} has {item}, and its agent says to have picked {said}"
            ));
        }
        let record = SlotImplement {
            slot: slot.start.slot,
            item_id: slot.start.item_id.clone(),
            exit_code: finished.exit_code().into(),
            timed_out: finished.timed_out(),
            elapsed_ms: millis(finished.elapsed),
            picked,
            reason: failure(&finished, backend).and_then(|failure| failure.cause()),
            stop_marker: finished.found_at.map(|_| true),
            changes: Some(self.changes(slot).into()),
            output: Some(recorded(&finished).into()),
        };
        self.put_end(slot, &finished, |heading| vec![record.record(heading)])
    }

    pub(super) fn fix(
        &self,
        slot: &Slot,
        attempt: u64,
        follow_up: &str,
    ) -> Result<Flow, DriveError> {
        let prompt = fix(&FixOrder {
            implement: self.implement_order(slot),
            attempt,
            most: self.rules().max_fix_attempts,
            follow_up: follow_up.to_owned(),
        });
        let backend = &self.loaded.plan.backend;
        let order = Order { phase: Phase::Fix, attempt, prompt: &prompt, backend };
        let Some(finished) = self.let_work(slot, &order)? else {
            return Ok(self.after_interrupt());
        };
        let record = SlotFix {
            slot: slot.start.slot,
            item_id: slot.start.item_id.clone(),
            attempt,
            exit_code: finished.exit_code().into(),
            timed_out: finished.timed_out(),
            elapsed_ms: millis(finished.elapsed),
            reason: failure(&finished, backend).and_then(|failure| failure.cause()),
            stop_marker: finished.found_at.map(|_| true),
            output: Some(recorded(&finished).into()),
        };
        self.put_end(slot, &finished, |heading| vec![record.record(heading)])
    }

    pub(super) fn review(&self, slot: &Slot, attempt: u64) -> Result<Flow, DriveError> {
        let dir = self.slot_dir(slot.iteration, slot.start.slot);
        let work = self.grounds.work(slot, &dir);
        if let Err(why) = &work {
            check_room(&dir, why)?;
        }
        let order = self.review_order(slot, attempt, &work);
        let changes = self.attributed(slot, &work);
        let prompt = review(&order);
        let backend = &self.loaded.plan.slots.reviewer;
        let order = Order { phase: Phase::Review, attempt, prompt: &prompt, backend };
        self.begin_phase(slot, order.phase, attempt)?;
        let mut job = Job { reading: Reading::Verdict, ..self.job(slot, &order)? };
        // What it looks up with git is what it is named after, too.
        job.env.push(("GIT_NO_REPLACE_OBJECTS".into(), "1".into()));
        let bound = self.reviewer.bind(&mut job, (slot, &dir), self);
        let (finished, findings, held_by) = match bound {
            Ok(bound) => {
                let finished = self.run_job(slot, job);
                let (findings, held_by) = bound.release((slot, &dir), self);
                self.has_begun(&finished, &order)?;
                (finished, findings, Some(held_by))
            }
            // Without bounds there is no review.
            Err(error) => (crate::drive::review::not_started(&error), Findings::default(), None),
        };
        self.tell_notes(&finished);
        if finished.cause == Cause::Interrupt {
            return Ok(self.after_interrupt());
        }
        let ruled = Ruled::of(&finished, backend);
        let record = SlotReview {
            slot: slot.start.slot,
            item_id: slot.start.item_id.clone(),
            attempt,
            verdict: ruled.verdict.into(),
            follow_up_prompt: ruled.follow_up,
            reason: ruled.reason,
            elapsed_ms: millis(finished.elapsed),
            exit_code: Some(finished.exit_code().into()),
            enforcement: held_by.map(|held_by| held_by.to_string()),
            changes: Some(changes.into()),
            tree: work.ok().map(|work| work.tree),
            output: Some(recorded(&finished).into()),
        };
        let violations = findings.all_violations();
        let flow = self.put_end(slot, &finished, |heading| {
            let violations = violations.iter().map(|violation| violation.record(heading));
            violations.chain([record.record(heading)]).collect()
        })?;
        for violation in &violations {
            let (number, path) = (slot.start.slot, &violation.path);
            self.note(&format!(
                "the reviewer of slot {number} went too far: {path}: {}",
                violation.what
            ));
        }
        self.tell(SlotProgress::Reviewed(slot, &record));
        Ok(flow)
    }

    /// What changed where a slot works since the slot began.
    fn changes(&self, slot: &Slot) -> Changes {
        let dir = self.slot_dir(slot.iteration, slot.start.slot);
        self.attributed(slot, &self.grounds.work(slot, &dir))
    }

    /// What a slot changed, by the tree object that it made. Where others work too, changes may be theirs.
    fn attributed(&self, slot: &Slot, work: &Result<UnderReview, String>) -> Changes {
        match work.as_ref().map(|work| self.grounds.is_empty(work)) {
            Ok(true) => Changes::Empty,
            Ok(false) if !self.has_shared(slot) => Changes::Made,
            Ok(false) | Err(_) => Changes::Unknown,
        }
    }

    /// Runs the job of an agent to its end, which comes early when somebody asks to stop, or when the slot
    /// loses its item.
    fn run_job(&self, slot: &Slot, job: Job) -> Finished {
        let ends = self.claims.ends(slot.start.slot, self.scene.interrupts);
        let finished = process::run(job, self.scene.world, &ends);
        attributed(finished, &ends, &*self.scene.world.clock)
    }

    /// Whether a slot goes on whose agent was interrupted: to its end, if it is the item that was lost.
    fn after_interrupt(&self) -> Flow {
        match self.scene.interrupts.first() {
            Some(_) => Flow::Break(()),
            None => Flow::Continue(()),
        }
    }

    /// Lets an agent work that may change things, to its end; `None` when it was interrupted.
    fn let_work(&self, slot: &Slot, order: &Order<'_>) -> Result<Option<Finished>, DriveError> {
        self.begin_phase(slot, order.phase, order.attempt)?;
        let mut job = self.job(slot, order)?;
        let marker = self.loaded.plan.slots.stop_marker.clone();
        job.look_for = marker.unwrap_or_default().into_bytes();
        let finished = self.run_job(slot, job);
        self.has_begun(&finished, order)?;
        self.tell_notes(&finished);
        Ok((finished.cause != Cause::Interrupt).then_some(finished))
    }

    /// Puts on record how an agent ended, behind what it cost. One that failed because the disk is full
    /// is started again when there is room.
    fn put_end(
        &self,
        slot: &Slot,
        finished: &Finished,
        records: impl FnOnce(&Heading) -> Vec<Record>,
    ) -> Result<Flow, DriveError> {
        if finished.exit_code() != 0 && !finished.timed_out() {
            check_room(&self.slot_dir(slot.iteration, slot.start.slot), "")?;
        }
        self.put(slot.iteration, |heading| {
            let usage = usage(finished).map(|usage| usage.record(heading));
            usage.into_iter().chain(records(heading)).collect()
        })?;
        Ok(Flow::Continue(()))
    }

    fn tell_notes(&self, finished: &Finished) {
        notes(finished).iter().for_each(|note| self.note(note));
    }
}
