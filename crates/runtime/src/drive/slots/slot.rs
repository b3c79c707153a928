//! Carries out one slot: implement, review, fix, merge, finish.

use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::env::Env;
use autoloop_core::limits::{Scope, Start};
use autoloop_core::memory::Places;
use autoloop_core::merge::MergeOutcome;
use autoloop_core::permissions::AllowList;
use autoloop_core::plan::BackendPlan;
use autoloop_core::prompt::slot::{
    Again, CAP, FixOrder, Fixed, Ground, ImplementOrder, ReviewOrder, UnderReview, fix, implement,
    review,
};
use autoloop_core::queue::Item;
use autoloop_core::record::{
    BackendFailed, BackendUsage, Heading, Record, SlotFinish, SlotFix, SlotImplement, SlotPhase,
    SlotReview,
};
use autoloop_core::slot::{
    Changes, Outcome, Phase, Slot, SlotStep, Slots, Verdict, picked, slot_step,
};
use autoloop_core::text::{self, Shortened};

use super::claims::Held;
use super::disk_full::check_room;
use super::worktrees::{SlotTree, in_place, on_record};
use super::{SlotsDriver, agent_missing};
use crate::drive::review_turn::{ReviewTurn, Reviewed, note_violations};
use crate::drive::{DriveError, environment, reviewer_handler};
use crate::emit::Caller;
use crate::error::LaunchError;
use crate::harness::create_dirs;
use crate::ipc::Handler;
use crate::journal::sidecar::sidecar_dir;
use crate::layout::RunDir;
use crate::process::Interrupts;
use crate::review::{ConcurrentRuns, OtherWriters, Subject, evidence, seen_from};
use crate::sandbox::{Extent, siblings};
use crate::site::SlotProgress;
use crate::turn::{
    LINE, Launch, News, Place, Turn, Waiting, client_failure, failure, millis, notes, recorded,
    said, usage,
};
use crate::world::{Cause, Finished, Reading};

/// Maximum number of characters of a reason on record and in the queue. The record of a review has more of it.
const LONGEST_REASON: usize = 4_000;

pub(super) struct SlotDriver<'d, 'a> {
    run: &'d SlotsDriver<'a>,
    iteration: u64,
    number: u64,
    dir: RunDir,
}

struct Order<'o> {
    phase: Phase,
    attempt: u64,
    prompt: &'o str,
    backend: &'o BackendPlan,
}

impl<'d, 'a> SlotDriver<'d, 'a> {
    pub(super) fn new(run: &'d SlotsDriver<'a>, iteration: u64, number: u64) -> Self {
        SlotDriver { run, iteration, number, dir: run.dir.slot(iteration, number) }
    }
    /// Registers the worktree of a slot in which no agent has worked yet.
    pub(super) fn register_worktree(&self) -> Result<(), DriveError> {
        match self.state().filter(|slot| slot.has_item() && slot.phase.is_none()) {
            Some(slot) => self.tree(&slot).register(),
            None => Ok(()),
        }
    }

    pub(super) fn run(&self) -> Result<(), DriveError> {
        create_dirs(&self.dir, self.run.site.world)?;
        let Some(slot) = self.state() else { return Ok(()) };
        if slot.has_item() {
            let end = self.end_of(&slot);
            let start = &slot.start;
            match (self.run.claims.again(self.number, &start.item_id, &start.actor)?, end) {
                (Held::Ours(_), _) | (Held::Closed(_), Some(Outcome::Passed)) => {}
                // What failed has failed, whichever worker has the item now.
                (_, Some(outcome)) if outcome != Outcome::Passed => {}
                (Held::Closed(_), _) => {
                    return self.give_up(&slot, "another worker closed the item");
                }
                (Held::Lost(_, why), _) => return self.give_up(&slot, &lost(&why)),
            }
            if end.is_none()
                && let Err(error) = self.tree(&slot).prepare()
            {
                check_room(&self.dir, &error.to_string())?;
                return self.give_up(&slot, &format!("no worktree is available: {error}"));
            }
        }
        while let Some(slot) = self.state() {
            if self.run.site.interrupts.first().is_some() {
                return Ok(());
            }
            // It stays open. Where others that end now leave room, the run carries it out again.
            if slot_step(&slot, &self.run.rules())
                .agent()
                .is_some_and(|phase| !self.has_room(phase))
            {
                return Ok(());
            }
            let done = self.step(&slot);
            let is_about_agent = matches!(
                done,
                Err(DriveError::Launch(LaunchError::NoAgent { .. }) | DriveError::Client { .. })
            );
            if let Err(why) = &done
                && is_about_agent
                && slot.implement.is_none()
            {
                // No agent worked on the item, so it need not wait for this run. Where it cannot be released
                // now, that is done when the run is resumed.
                let _ = self.run.claims.release(self.number, &why.to_string());
            }
            done?;
        }
        Ok(())
    }

    fn step(&self, slot: &Slot) -> Result<(), DriveError> {
        let step = slot_step(slot, &self.run.rules());
        if step == SlotStep::Merge {
            // Claims are renewed only now and then: this one may have been taken away long ago.
            self.run.claims.confirm(self.number);
        }
        if needs_item(&step)
            && let Some(why) = self.run.claims.lost(self.number)
        {
            return self.give_up(slot, &lost(&why));
        }
        let limits = &self.run.loaded.plan.limits;
        if let Some(phase) = step.agent()
            && let Err(reached) = self.run.look(|slots| {
                slots.ledger.reserve_in_slot(&self.number.to_string(), phase.name(), limits)
            })
        {
            return self.give_up(slot, &reached.detail);
        }
        match step {
            SlotStep::Implement => self.implement(slot),
            SlotStep::Review { attempt } => self.review(slot, attempt),
            SlotStep::Fix { attempt, follow_up } => self.fix(slot, attempt, &follow_up),
            SlotStep::Merge => self.merge(slot),
            SlotStep::Finish(finish) => self.finish(slot, finish),
            SlotStep::Over => Ok(()),
        }
    }

    /// The slot as it is; `None` once it has ended.
    fn state(&self) -> Option<Slot> {
        let slot = self.run.look(|slots| slots.slot(self.iteration, self.number).cloned());
        slot.filter(|slot| slot.finish.is_none())
    }

    /// How the slot ends, if nothing is left to do but to end it.
    fn end_of(&self, slot: &Slot) -> Option<Outcome> {
        match slot_step(slot, &self.run.rules()) {
            SlotStep::Finish(finish) => finish.outcome.known(),
            _ => None,
        }
    }

    fn implement(&self, slot: &Slot) -> Result<(), DriveError> {
        let prompt = implement(&self.implement_order(slot));
        let backend = &self.in_time(&self.run.loaded.plan.backend, &[]);
        let order = Order { phase: Phase::Implement, attempt: 0, prompt: &prompt, backend };
        let Some(finished) = self.run_worker(slot, &order)? else { return Ok(()) };
        let picked = picked(&said(&finished));
        let item = &slot.start.item_id;
        if picked.differs_from(item) {
            let (number, other) = (self.number, picked.word());
            self.run.site.note(&format!(
                "slot {number} was assigned {item}, but its agent reports working on {other}"
            ));
        }
        let record = SlotImplement {
            slot: self.number,
            item_id: item.clone(),
            exit_code: finished.exit_code().into(),
            timed_out: finished.timed_out(),
            elapsed_ms: millis(finished.elapsed),
            picked,
            reason: failure(&finished, backend).and_then(|failure| failure.cause()),
            stop_marker: finished.found_at.map(|_| true),
            changes: Some(self.changes(slot, &self.tree(slot).work()).into()),
            output: Some(recorded(&finished).into()),
        };
        self.record_end(&finished, &order, |heading| vec![record.record(heading)])
    }

    fn fix(&self, slot: &Slot, attempt: u64, follow_up: &str) -> Result<(), DriveError> {
        let prompt = fix(&FixOrder {
            implement: self.implement_order(slot),
            attempt,
            most: self.run.rules().max_fix_attempts,
            follow_up: follow_up.to_owned(),
        });
        let backend = &self.in_time(&self.run.loaded.plan.backend, &[]);
        let order = Order { phase: Phase::Fix, attempt, prompt: &prompt, backend };
        let Some(finished) = self.run_worker(slot, &order)? else { return Ok(()) };
        let record = SlotFix {
            slot: self.number,
            item_id: slot.start.item_id.clone(),
            attempt,
            exit_code: finished.exit_code().into(),
            timed_out: finished.timed_out(),
            elapsed_ms: millis(finished.elapsed),
            reason: failure(&finished, backend).and_then(|failure| failure.cause()),
            stop_marker: finished.found_at.map(|_| true),
            output: Some(recorded(&finished).into()),
        };
        self.record_end(&finished, &order, |heading| vec![record.record(heading)])
    }

    fn review(&self, slot: &Slot, attempt: u64) -> Result<(), DriveError> {
        let run = self.run;
        let work = self.tree(slot).work();
        if let Err(why) = &work {
            check_room(&self.dir, why)?;
        }
        let prompt = review(&self.review_order(slot, attempt, &work));
        let changes = self.changes(slot, &work);
        let reviewer = self.in_time(&run.loaded.plan.slots.reviewer, &[Scope::Review]);
        let contract = run.rules().contract();
        let backend = &run.reviewer.around(&reviewer, contract, &self.dir, &run.site)?;
        let order = Order { phase: Phase::Review, attempt, prompt: &prompt, backend };
        if !self.begin_turn(slot, &order)? {
            return Ok(());
        }
        let mut review = ReviewTurn {
            site: run.site.clone(),
            sandbox: &run.reviewer,
            launch: self.launch(slot, &order, None)?,
            ends: self.ends(),
        };
        review.launch.job.reading = Reading::Verdict;
        // Objects that it looks up with git must be those that have these names.
        review.launch.job.env.push(("GIT_NO_REPLACE_OBJECTS".into(), "1".into()));
        let confined = review.confine(|| self.subject(slot));
        let tree = self.tree(slot);
        let before = self.turns_in_project();
        let have_slots_worked = || {
            let now = self.turns_in_project();
            now != before || now.iter().any(|(_, is_working)| *is_working)
        };
        let reviewed =
            review.run(confined, Some(&tree), have_slots_worked, |waiting| self.parked(waiting))?;
        let Reviewed { ended, changes: changed, held_by } = reviewed;
        let Some(finished) = self.checked(ended.finished, &order)? else { return Ok(()) };
        let answer = run.rules().contract().read(evidence(&finished, backend));
        let record = SlotReview {
            slot: self.number,
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
        self.record_end(&finished, &order, |heading| {
            let violations = violations.iter().map(|violation| violation.record(heading));
            violations.chain([record.record(heading)]).collect()
        })?;
        note_violations(&violations, &format!("slot {}: ", self.number), &run.site);
        run.report(SlotProgress::Reviewed(slot, &record));
        Ok(())
    }

    fn merge(&self, slot: &Slot) -> Result<(), DriveError> {
        self.begin_phase(slot, Phase::Merge, 0)?;
        let merge = match self.is_mixed(slot) {
            Some(why) => on_record(slot, in_place(&[], why)),
            None => self.tree(slot).merge_back()?,
        };
        if merge.outcome == MergeOutcome::Failed {
            check_room(&self.dir, merge.detail.as_deref().unwrap_or_default())?;
        }
        let number = self.number;
        if merge.outcome == MergeOutcome::Changed {
            self.run.site.note(&format!(
                "slot {number}: the work was changed after its review; it is reviewed again"
            ));
        }
        if merge.outcome == MergeOutcome::InPlace {
            let why = [&*merge.files, merge.detail.as_deref().unwrap_or_default()];
            let why =
                why.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
            let item = &slot.start.item_id;
            self.run.site.note(&format!(
                "slot {number}: the work on {item} stays in the working tree, not committed ({why})"
            ));
        }
        self.run.append(self.iteration, |heading| vec![merge.record(heading)])
    }

    fn give_up(&self, slot: &Slot, why: &str) -> Result<(), DriveError> {
        self.finish(slot, slot.finished(Outcome::Failed, why.to_owned()))
    }

    /// Cleans up behind the slot, closes or releases its item and records how it ended.
    fn finish(&self, slot: &Slot, finish: SlotFinish) -> Result<(), DriveError> {
        let kept = match self.clean_up(slot, &finish) {
            Ok(kept) => kept,
            Err(error) => {
                check_room(&self.dir, &error.to_string())?;
                let what = match slot.start.branch.as_str() {
                    "" => "its changes stay in the working tree",
                    _ => "its worktree is kept",
                };
                self.run.site.note(&format!("slot {}: {what}: {error}", self.number));
                Vec::new()
            }
        };
        let mut finish = SlotFinish { reason: located(&finish.reason, &kept), ..finish };
        if finish.outcome == Outcome::Passed
            && let Err(why) = self.run.claims.close(self.number, &finish.reason)?
        {
            let why = format!("the item could not be closed: {why}");
            finish = slot.finished(Outcome::Failed, located(&why, &kept));
        }
        if finish.outcome != Outcome::Passed {
            self.run.claims.release(self.number, &finish.reason)?;
        }
        self.run.append(self.iteration, |heading| vec![finish.record(heading)])?;
        self.run.report(SlotProgress::Finished(slot, &finish));
        Ok(())
    }

    /// Removes the worktree of the slot, or moves what it left in the project itself to a branch. Returns the
    /// branches that have its work.
    fn clean_up(&self, slot: &Slot, finish: &SlotFinish) -> Result<Vec<String>, DriveError> {
        let tree = self.tree(slot);
        if !slot.start.branch.is_empty() {
            return tree.clear();
        }
        let has_begun = slot.phase.is_some();
        match self.is_mixed(slot) {
            None if finish.outcome == Outcome::Passed => {
                if let Some(what) = tree.keep_discarded()? {
                    self.run.site.note(&format!(
                        "slot {}: the work reverted uncommitted changes in {what}",
                        self.number
                    ));
                }
                Ok(Vec::new())
            }
            None if has_begun => tree.set_aside(),
            _ => Ok(Vec::new()),
        }
    }

    /// Why the work of the slot in the project itself cannot be distinguished from that of others, where it cannot.
    fn is_mixed(&self, slot: &Slot) -> Option<&'static str> {
        let site = &self.run.site;
        match slot.start.branch.is_empty() {
            true if self.has_shared(slot) => Some("other slots work in the project too"),
            true if ConcurrentRuns::before(site.state_dir, site.world).were_driven() => {
                Some("another run is active in the project")
            }
            _ => None,
        }
    }

    /// Whether other slots work where this one does, at this moment. None begins while it is at work.
    fn is_shared(&self, slot: &Slot) -> bool {
        slot.start.branch.is_empty()
            && self.run.look(|slots| slots.open().any(|other| self.shares_project(other)))
    }

    /// Whether other slots of the iteration work or worked in the directory of this one.
    fn has_shared(&self, slot: &Slot) -> bool {
        let is_other =
            |other: &Slot| other.iteration == self.iteration && self.shares_project(other);
        slot.start.branch.is_empty() && self.run.look(|slots| slots.slots.iter().any(is_other))
    }

    fn shares_project(&self, other: &Slot) -> bool {
        other.start.slot != self.number && other.has_item() && other.start.branch.is_empty()
    }

    /// For each other slot in the project itself, how many turns its workers completed, and whether one works now.
    fn turns_in_project(&self) -> Vec<(usize, bool)> {
        self.run.look(|slots| {
            let others = slots
                .slots
                .iter()
                .filter(|other| other.iteration == self.iteration && self.shares_project(other));
            let turns = others.map(|other| {
                let phase = other.phase.as_ref().and_then(|(phase, _)| phase.known());
                let is_working = matches!(phase, Some(Phase::Implement | Phase::Fix));
                let completed = usize::from(other.implement.is_some()) + other.fixes.len();
                (completed, is_working && other.finish.is_none())
            });
            turns.collect()
        })
    }

    /// What the slot changed, by the tree object that it made. Where others work too, changes may be theirs.
    fn changes(&self, slot: &Slot, work: &Result<UnderReview, String>) -> Changes {
        match work.as_ref().map(|work| self.run.worktrees.is_empty(work)) {
            Ok(true) => Changes::Empty,
            Ok(false) if !self.has_shared(slot) => Changes::Made,
            Ok(false) | Err(_) => Changes::Unknown,
        }
    }

    fn implement_order(&self, slot: &Slot) -> ImplementOrder {
        ImplementOrder {
            instructions: self.run.prompts.in_force.developer_prompt.clone(),
            item: self.item(slot),
            ground: self.ground(slot),
        }
    }

    fn review_order(
        &self,
        slot: &Slot,
        attempt: u64,
        work: &Result<UnderReview, String>,
    ) -> ReviewOrder {
        let run = self.run;
        let implement = slot.implement.as_ref();
        let requested = slot.reviews.iter().rfind(|review| review.attempt + 1 == attempt);
        let fixed = slot.fixes.iter().find(|fix| fix.attempt == attempt);
        let before = slot.reviews.iter().rfind(|review| review.attempt == attempt);
        let again = before.map(|review| match review.verdict.known() {
            Some(Verdict::Pass) => Again::Changed,
            _ => Again::Unusable(review.reason.clone()),
        });
        ReviewOrder {
            instructions: run.prompts.in_force.reviewer_prompt.clone().unwrap_or_default(),
            item: self.item(slot),
            ground: self.ground(slot),
            output: implement.map(|implement| implement.turn.output.clone()).unwrap_or_default(),
            diff: run.worktrees.diff(work),
            fix: requested.zip(fixed).map(|(requested, fixed)| Fixed {
                attempt,
                most: run.rules().max_fix_attempts,
                follow_up: requested.follow_up.clone(),
                output: fixed.output.clone(),
            }),
            reviewed: work.as_ref().ok().cloned(),
            again,
        }
    }

    fn item(&self, slot: &Slot) -> Item {
        self.run.claims.item(self.number).unwrap_or_else(|| Item {
            id: slot.start.item_id.clone(),
            title: slot.start.title.clone(),
            ..Item::default()
        })
    }

    /// Where the slot works. Others may work there too although the settings allow only one by now.
    fn ground(&self, slot: &Slot) -> Ground {
        match self.run.worktrees.ground(slot) {
            Ground::Alone if self.is_shared(slot) => Ground::Shared,
            ground => ground,
        }
    }

    fn begin_phase(&self, slot: &Slot, phase: Phase, attempt: u64) -> Result<(), DriveError> {
        let record = self.phase_record(slot, phase, attempt);
        self.run.harness().record_quietly(self.iteration, |heading| record.record(heading))?;
        self.run.report(SlotProgress::Phase { slot, phase, attempt });
        Ok(())
    }

    /// The same for an agent, for which the record reserves what it may take. Returns whether there is room for it: a
    /// slot that began its phase just now may have taken that.
    fn begin_turn(&self, slot: &Slot, order: &Order<'_>) -> Result<bool, DriveError> {
        let record = self.phase_record(slot, order.phase, order.attempt);
        let mut harness = self.run.harness();
        if !self.fits(harness.fold(), order.phase) {
            return Ok(false);
        }
        harness.record_quietly(self.iteration, |heading| record.record(heading))?;
        drop(harness);
        let Order { phase, attempt, .. } = *order;
        self.run.report(SlotProgress::Phase { slot, phase, attempt });
        Ok(true)
    }

    fn phase_record(&self, slot: &Slot, phase: Phase, attempt: u64) -> SlotPhase {
        let item_id = slot.start.item_id.clone();
        SlotPhase { slot: self.number, item_id, phase: phase.into(), attempt }
    }

    /// Whether the limits of the run leave room for an agent.
    fn has_room(&self, phase: Phase) -> bool {
        self.run.look(|slots| self.fits(slots, phase))
    }

    fn fits(&self, slots: &Slots, phase: Phase) -> bool {
        let start = Start { lane: self.number.to_string(), step: phase.name().to_owned() };
        slots.ledger.reserve(&start, &self.run.loaded.plan.limits, self.run.now()).is_ok()
    }

    /// An agent with the time that the limits leave for its turn.
    fn in_time(&self, backend: &BackendPlan, scopes: &[Scope]) -> BackendPlan {
        let (lane, limits) = (self.number.to_string(), &self.run.loaded.plan.limits);
        let scopes = [&[Scope::Run, Scope::Slot], scopes].concat();
        let left = |slots: &Slots| slots.ledger.time_left(&lane, &scopes, limits, self.run.now());
        backend.clone().within(self.run.look(left))
    }

    /// Whether an agent was ended with the run or because the item was lost, so that its turn is repeated if the slot
    /// is.
    fn was_ended(&self, finished: &Finished) -> bool {
        let limits = &self.run.loaded.plan.limits;
        let is_late =
            || self.run.look(|slots| slots.ledger.is_late(limits, self.run.now()).is_some());
        match finished.cause {
            Cause::Itself => false,
            Cause::Interrupt => true,
            Cause::Deadline => is_late(),
        }
    }

    /// Records that an agent waits for its client, or does so no longer.
    fn parked(&self, waiting: &Waiting) -> Result<(), DriveError> {
        if let (Waiting::Parked(parked, News::Known), Some(slot)) = (waiting, self.state()) {
            self.run.report(SlotProgress::Parked(&slot, &parked.client));
        }
        let slot = Some(self.number);
        self.run.harness().record_quietly(self.iteration, |heading| waiting.record(slot, heading))
    }

    /// Runs an implementer or a fixer to its end; `None` when there is no room for it, the run ended or the item was
    /// lost.
    fn run_worker(&self, slot: &Slot, order: &Order<'_>) -> Result<Option<Finished>, DriveError> {
        if !self.begin_turn(slot, order)? {
            return Ok(None);
        }
        let marker = self.run.loaded.plan.slots.stop_marker.as_deref();
        let launch = self.launch(slot, order, marker)?;
        let ended = launch.run(&self.run.site, &self.ends(), |waiting| self.parked(waiting))?;
        self.checked(ended.finished, order)
    }

    /// How an agent ended; `None` when the run ended or the item was lost. Fails where the agent cannot work. What
    /// an agent used is recorded in any case, although its phase is repeated.
    fn checked(
        &self,
        finished: Finished,
        order: &Order<'_>,
    ) -> Result<Option<Finished>, DriveError> {
        let agent = self.check_agent(&finished, order);
        let is_repeated = agent.is_err() || self.was_ended(&finished);
        let usage = self.usage(&finished, order).filter(|_| is_repeated);
        let failed = agent.as_ref().err().map(|why| BackendFailed {
            client: order.backend.client_name().to_owned(),
            detail: why.to_string(),
            slot: Some(self.number),
        });
        if usage.is_some() || failed.is_some() {
            self.run.append(self.iteration, |heading| {
                let usage = usage.iter().map(|usage| usage.record(heading));
                usage.chain(failed.iter().map(|failed| failed.record(heading))).collect()
            })?;
        }
        agent?;
        notes(&finished).iter().for_each(|note| self.run.site.note(note));
        Ok((!is_repeated).then_some(finished))
    }

    fn usage(&self, finished: &Finished, order: &Order<'_>) -> Option<BackendUsage> {
        let usage = usage(finished, order.backend, order.phase.name())?;
        Some(BackendUsage { slot: Some(self.number), ..usage })
    }

    fn launch(
        &self,
        slot: &Slot,
        order: &Order<'_>,
        look_for: Option<&str>,
    ) -> Result<Launch, DriveError> {
        let tree = Path::new(&slot.start.tree);
        let turn = Turn {
            backend: order.backend,
            prompt: order.prompt,
            dir: &self.dir,
            name: match order.phase {
                Phase::Implement | Phase::Merge => order.phase.to_string(),
                Phase::Review | Phase::Fix => format!("{}-{}", order.phase, order.attempt),
            },
            stdout: None,
            place: match slot.start.branch.as_str() {
                "" => Place::Project(tree),
                _ => Place::Worktree { dir: tree, project: &self.run.project.dir },
            },
            env: self.environment(slot, order),
            has_tools: false,
            look_for,
        };
        turn.prepare(&self.run.site)
    }

    fn environment(&self, slot: &Slot, order: &Order<'_>) -> Env {
        Env {
            project_dir: std::path::absolute(&self.run.project.dir).ok(),
            slot_phase: Some(order.phase.to_string()),
            slot: Some(self.number.to_string()),
            item_id: Some(slot.start.item_id.clone()),
            fix_attempt: Some(order.attempt.to_string()),
            ..environment(&self.run.loaded, &self.run.id(), self.iteration)
        }
    }

    fn tree<'s>(&'s self, slot: &'s Slot) -> SlotTree<'s> {
        self.run.worktrees.of(slot, &self.dir, &self.run.id())
    }

    /// Requests to end an agent: the run is interrupted, or the slot lost its item.
    fn ends(&self) -> Interrupts {
        self.run.claims.ends(self.number, &self.run.site.interrupts)
    }

    /// Fails where the program of an agent is missing, which may have been removed since the run began, or where its
    /// client cannot work. Neither is a failure of the item.
    fn check_agent(&self, finished: &Finished, order: &Order<'_>) -> Result<(), DriveError> {
        let missing = |why| agent_missing(&self.run.loaded, order.phase, why);
        client_failure(finished, order.backend, missing).map_or(Ok(()), Err)
    }

    /// Records how an agent ended, behind its usage. One that failed because the disk is full is started again
    /// when there is room.
    fn record_end(
        &self,
        finished: &Finished,
        order: &Order<'_>,
        records: impl FnOnce(&Heading) -> Vec<Record>,
    ) -> Result<(), DriveError> {
        if finished.exit_code() != 0 && !finished.timed_out() {
            check_room(&self.dir, "")?;
        }
        self.run.append(self.iteration, |heading| {
            let usage = self.usage(finished, order).map(|usage| usage.record(heading));
            usage.into_iter().chain(records(heading)).collect()
        })
    }

    /// The subject of a review: the tree of the slot, in which nothing may change.
    fn subject(&self, slot: &Slot) -> io::Result<(Subject, Handler)> {
        let run = self.run;
        let files = &run.loaded.files;
        let tree = Path::new(&slot.start.tree).canonicalize()?;
        let state_dir = files.state_dir.canonicalize()?;
        let real = |path: PathBuf| path.canonicalize().ok();
        let growing = vec![files.journal.clone(), files.memory.clone()];
        let around = run.worktrees.checkout().into_iter().chain(run.worktrees.git_dir());
        let around = around.chain(siblings(&run.project.dir)).filter_map(real);
        let mut protected = vec![tree.clone(), state_dir.clone()];
        protected.extend(around.chain(growing.iter().cloned().filter_map(real)));
        let list = AllowList::read_only();
        let allow = growing.iter().fold(list, |list, file| list.growing(&seen_from(&tree, file)));
        let neighbours = match slot.start.branch.is_empty() {
            false if self.run.look(|slots| slots.open().count()) > 1 => OtherWriters::Worktrees,
            false => OtherWriters::None,
            true if self.is_shared(slot) => OtherWriters::Slots,
            true => OtherWriters::Runs,
        };
        let mut ours = vec![state_dir.clone()];
        // Other slots, and the harness itself, write there meanwhile.
        ours.extend(run.worktrees.git_dir());
        let subject = Subject {
            contract: run.rules().contract(),
            run: run.id(),
            dir: self.dir.clone(),
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
        let memory = Places {
            project: files.memory.clone(),
            run: Places::of_run(&files.state_dir, &run.id()).run,
        };
        let caller = Caller {
            run: Some(run.id()),
            iteration: self.iteration.to_string(),
            ..Caller::default()
        };
        Ok((subject, reviewer_handler(&run.site, &run.loaded, memory, caller)))
    }
}

/// A reason, shortened, and the branches that the work is kept on.
fn located(reason: &str, kept: &[String]) -> String {
    let reason = text::clip(reason, LONGEST_REASON);
    match kept {
        [] => reason.into_owned(),
        kept => format!("{reason}; its work is on branch {}", kept.join(" and ")),
    }
}

/// Whether a step is only for the worker that holds the item. A failure is recorded in any case.
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
    format!("the claim was lost: {why}")
}
