//! The phases in which a slot has an agent: what it is started for, and what is put on record about it.

use std::path::Path;

use autoloop_core::env::Env;
use autoloop_core::plan::BackendPlan;
use autoloop_core::prompt::slot::{FixOrder, UnderReview, fix, implement};
use autoloop_core::record::{Heading, Record, SlotFix, SlotImplement};
use autoloop_core::slot::{Changes, Phase, Slot, picked};

use super::SlotDrive;
use super::disk_full::check_room;
use super::slot::Flow;
use crate::drive::DriveError;
use crate::turn::{Launch, Place, Turn, failure, millis, notes, recorded, said, usage};
use crate::world::{Cause, Finished};

/// An agent that is to be started for a slot.
pub(super) struct Order<'o> {
    pub(super) phase: Phase,
    pub(super) attempt: u64,
    pub(super) prompt: &'o str,
    pub(super) backend: &'o BackendPlan,
}

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
            self.site.note(&format!(
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

    /// What changed where a slot works since the slot began.
    fn changes(&self, slot: &Slot) -> Changes {
        let dir = self.slot_dir(slot.iteration, slot.start.slot);
        self.attributed(slot, &self.grounds.work(slot, &dir))
    }

    /// What a slot changed, by the tree object that it made. Where others work too, changes may be theirs.
    pub(super) fn attributed(&self, slot: &Slot, work: &Result<UnderReview, String>) -> Changes {
        match work.as_ref().map(|work| self.grounds.is_empty(work)) {
            Ok(true) => Changes::Empty,
            Ok(false) if !self.has_shared(slot) => Changes::Made,
            Ok(false) | Err(_) => Changes::Unknown,
        }
    }

    /// Prepares the turn of an agent.
    pub(super) fn launch(
        &self,
        slot: &Slot,
        order: &Order<'_>,
        look_for: Option<&str>,
    ) -> Result<Launch, DriveError> {
        let project = &*self.project.dir;
        let tree = Path::new(&slot.start.tree);
        let turn = Turn {
            backend: order.backend,
            prompt: order.prompt,
            dir: &self.slot_dir(slot.iteration, slot.start.slot),
            name: match order.phase {
                Phase::Implement | Phase::Merge => order.phase.to_string(),
                Phase::Review | Phase::Fix => format!("{}-{}", order.phase, order.attempt),
            },
            stdout: None,
            place: match slot.start.branch.as_str() {
                "" => Place::Project(tree),
                _ => Place::Worktree { dir: tree, project },
            },
            env: self.environment(slot, order),
            look_for,
        };
        let state_dir = &self.loaded.files.state_dir;
        Ok(turn.prepare(self.site.program, state_dir, self.site.world)?)
    }

    fn environment(&self, slot: &Slot, order: &Order<'_>) -> Env {
        let files = &self.loaded.files;
        Env {
            run_id: Some(self.look(|slots| slots.id.clone())),
            iteration: Some(slot.iteration.to_string()),
            project_dir: std::path::absolute(&self.project.dir).ok(),
            state_dir: Some(files.state_dir.to_path_buf()),
            journal_file: Some(files.journal.clone()),
            bin: Some(files.state_dir.tool()),
            log_level: Some(self.loaded.plan.log_level.to_string()),
            slot_phase: Some(order.phase.to_string()),
            slot: Some(slot.start.slot.to_string()),
            item_id: Some(slot.start.item_id.clone()),
            fix_attempt: Some(order.attempt.to_string()),
            ..Env::default()
        }
    }

    /// Runs an agent to its end, which comes early when the run is interrupted, or when the slot loses
    /// its item.
    pub(super) fn run_agent(&self, slot: &Slot, launch: Launch) -> Finished {
        let ends = self.claims.ends(slot.start.slot, &self.site.interrupts);
        launch.run(self.site.world, &ends).finished
    }

    /// Whether a slot goes on whose agent was interrupted: to its end, if it is the item that was lost.
    pub(super) fn after_interrupt(&self) -> Flow {
        match self.site.interrupts.first() {
            Some(_) => Flow::Break(()),
            None => Flow::Continue(()),
        }
    }

    /// Lets an agent work that may change things, to its end; `None` when it was interrupted.
    fn let_work(&self, slot: &Slot, order: &Order<'_>) -> Result<Option<Finished>, DriveError> {
        self.begin_phase(slot, order.phase, order.attempt)?;
        let marker = self.loaded.plan.slots.stop_marker.as_deref();
        let finished = self.run_agent(slot, self.launch(slot, order, marker)?);
        self.has_begun(&finished, order)?;
        self.tell_notes(&finished);
        Ok((finished.cause != Cause::Interrupt).then_some(finished))
    }

    /// Puts on record how an agent ended, behind what it cost. One that failed because the disk is full
    /// is started again when there is room.
    pub(super) fn put_end(
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

    pub(super) fn tell_notes(&self, finished: &Finished) {
        notes(finished).iter().for_each(|note| self.site.note(note));
    }
}
