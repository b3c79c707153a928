//! The review of a slot: what is reviewed, how the reviewer is confined, and what is recorded about it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_core::memory::Places;
use autoloop_core::permissions::AllowList;
use autoloop_core::prompt::slot::{CAP, review};
use autoloop_core::record::SlotReview;
use autoloop_core::slot::{HeldBy, Phase, Slot};
use autoloop_core::text::Shortened;

use super::disk_full::check_room;
use super::phase::Order;
use super::slot::Flow;
use super::{SlotDrive, SlotProgress};
use crate::drive::{DriveError, durability};
use crate::emit::{Emitter, Speaker};
use crate::git::HeadState;
use crate::ipc::Handler;
use crate::journal::FileSettings;
use crate::journal::sidecar::sidecar_dir;
use crate::layout::RunDir;
use crate::memory::Tiers;
use crate::review::{
    Confined, Held, Neighbours, ReviewSite, Subject, Violations, evidence, not_started, seen_from,
};
use crate::sandbox::{Extent, siblings};
use crate::turn::{LINE, millis, recorded};
use crate::world::{Cause, Job, Reading};

impl SlotDrive<'_> {
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
        let mut launch = self.launch(slot, &order, None)?;
        launch.job.reading = Reading::Verdict;
        // What it looks up with git is what it is named after, too.
        launch.job.env.push(("GIT_NO_REPLACE_OBJECTS".into(), "1".into()));
        let contract = self.rules().contract();
        let site = ReviewSite {
            world: self.site.world,
            program: &self.site.program,
            home: self.project.env.home.as_deref(),
        };
        let subject = || self.subject(slot, &dir);
        let held = self
            .reviewer
            .confine(subject, &mut launch.job, site)
            .and_then(|confined| confined.map(|it| self.hold(slot, it, &launch.job)).transpose());
        let (finished, changed, held_by) = match held {
            Ok(held) => {
                let finished = self.run_agent(slot, launch);
                let released = held.map(|(held, stand)| {
                    self.reviewer.release(held, self.site.world, |violations| {
                        self.rewind(slot, stand.as_ref(), violations);
                    })
                });
                self.has_begun(&finished, &order)?;
                let (changed, held_by) =
                    released.unwrap_or((Violations::default(), HeldBy::Nothing));
                (finished, changed, Some(held_by))
            }
            Err(error) => (not_started(&error).finished, Violations::default(), None),
        };
        self.tell_notes(&finished);
        if finished.cause == Cause::Interrupt {
            return Ok(self.after_interrupt());
        }
        let answer = contract.read(evidence(&finished, backend));
        let record = SlotReview {
            slot: slot.start.slot,
            item_id: slot.start.item_id.clone(),
            attempt,
            verdict: answer.verdict.into(),
            // No reader is shown more of it.
            follow_up_prompt: Shortened::new(&answer.follow_up, CAP - LINE).to_string(),
            reason: answer.reason,
            elapsed_ms: millis(finished.elapsed),
            exit_code: Some(finished.exit_code().into()),
            enforcement: held_by.map(Into::into),
            changes: Some(changes.into()),
            tree: work.ok().map(|work| work.tree),
            output: Some(recorded(&finished).into()),
        };
        let violations = changed.all_violations();
        let flow = self.put_end(slot, &finished, |heading| {
            let violations = violations.iter().map(|violation| violation.record(heading));
            violations.chain([record.record(heading)]).collect()
        })?;
        for violation in &violations {
            let (number, path) = (slot.start.slot, &violation.path);
            self.site.note(&format!(
                "the reviewer of slot {number} went too far: {path}: {}",
                violation.what
            ));
        }
        self.report(SlotProgress::Reviewed(slot, &record));
        Ok(flow)
    }

    /// What a review of a slot is about: its tree, in which nothing may change.
    fn subject(&self, slot: &Slot, dir: &RunDir) -> io::Result<(Subject, Handler)> {
        let files = &self.loaded.files;
        let tree = Path::new(&slot.start.tree).canonicalize()?;
        let state_dir = files.state_dir.canonicalize()?;
        let real = |path: PathBuf| path.canonicalize().ok();
        let growing = vec![files.journal.clone(), files.memory.clone()];
        let around = self.grounds.checkout().into_iter().chain(self.grounds.git_dir());
        let around = around.chain(siblings(&self.project.dir)).filter_map(real);
        let mut protected = vec![tree.clone(), state_dir.clone()];
        protected.extend(around.chain(growing.iter().cloned().filter_map(real)));
        let list = AllowList::read_only();
        let allow = growing.iter().fold(list, |list, file| list.growing(&seen_from(&tree, file)));
        let neighbours = match slot.start.branch.is_empty() {
            false => Neighbours::None,
            true if self.is_shared(slot) => Neighbours::Slots,
            true => Neighbours::Runs,
        };
        let mut ours = vec![state_dir.clone()];
        // Other slots, and the harness itself, write there meanwhile.
        ours.extend(self.grounds.git_dir());
        let subject = Subject {
            contract: self.rules().contract(),
            run: self.look(|slots| slots.id.clone()),
            dir: dir.clone(),
            allow,
            sealed: vec![state_dir.clone(), sidecar_dir(&files.journal)],
            growing,
            protected,
            ours,
            beneath: Vec::new(),
            extent: Extent::Worktree,
            neighbours,
            tree,
            state_dir,
        };
        Ok((subject, self.handler(slot)))
    }

    /// Looks at the tree before the reviewer starts, and where its checkout stands if that is restored.
    fn hold(
        &self,
        slot: &Slot,
        confined: Confined,
        job: &Job,
    ) -> io::Result<(Held, Option<HeadState>)> {
        let dir = self.slot_dir(slot.iteration, slot.start.slot);
        let stand = match confined.needs_snapshot() {
            true => self.grounds.stand(slot, &dir),
            false => None,
        };
        Ok((self.reviewer.hold(confined, job, self.site.world)?, stand))
    }

    /// Puts the checkout back where it stood before a review.
    fn rewind(&self, slot: &Slot, stand: Option<&HeadState>, violations: &mut Violations) {
        let dir = self.slot_dir(slot.iteration, slot.start.slot);
        match stand.map(|stand| self.grounds.stand_at(stand, (slot, &dir))) {
            Some(Ok(true)) => violations.add_moved(),
            Some(Err(error)) => {
                violations.fail("its commits cannot be undone", &io::Error::other(error));
            }
            Some(Ok(false)) | None => {}
        }
    }

    /// Stores for a reviewer what it cannot write itself.
    fn handler(&self, slot: &Slot) -> Handler {
        let (files, world) = (&self.loaded.files, self.site.world);
        let run = self.look(|slots| slots.id.clone());
        let iteration = slot.iteration.to_string();
        let settings = FileSettings { lock_timeout: self.loaded.plan.journal.lock_timeout };
        let places = Places {
            project: files.memory.clone(),
            run: Places::of_run(&files.state_dir, &run).run,
        };
        let memory = Tiers::at(places, world, settings).for_author(Some(&run), Some(&iteration));
        Handler {
            memory,
            emitter: Emitter {
                speaker: Speaker { run: Some(run), iteration, ..Speaker::default() },
                journal: self.site.journal.handle(),
                durability: durability(&self.loaded.plan),
                clock: Arc::clone(&world.clock),
            },
        }
    }
}
