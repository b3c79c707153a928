//! The agents of a slot: what each is told, how it is started, and what is put on record about it.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::PathBuf;

use autoloop_core::env::Env;
use autoloop_core::excerpt::Shortened;
use autoloop_core::plan::BackendPlan;
use autoloop_core::prompt::slot::{
    CAP, FixOrder, Fixed, ImplementOrder, ItemText, ReviewOrder, fix, implement, review,
};
use autoloop_core::queue::Item;
use autoloop_core::record::{SlotFix, SlotImplement, SlotReview};
use autoloop_core::slot::{Phase, Slot, Verdict, picked};
use autoloop_core::verdict::{self, Ruling};

use super::slot::Flow;
use super::{SlotDrive, SlotProgress, SlotScene};
use crate::drive::DriveError;
use crate::drive::iteration::{millis, notes, said, usage};
use crate::drive::launch::addressed;
use crate::git::LOCATING_VARIABLES;
use crate::process::{self, notes_dir};
use crate::world::{Cause, Finished, Job, Spool};

/// An agent that is to be started for a slot.
struct Order<'o> {
    phase: Phase,
    attempt: u64,
    prompt: &'o str,
    backend: &'o BackendPlan,
}

impl Order<'_> {
    /// The names of its files begin with this.
    fn name(&self) -> String {
        match self.phase {
            Phase::Implement | Phase::Merge => self.phase.to_string(),
            Phase::Review | Phase::Fix => format!("{}-{}", self.phase, self.attempt),
        }
    }
}

impl SlotDrive<'_> {
    pub(super) fn implement(&self, slot: &Slot) -> Result<Flow, DriveError> {
        let prompt = implement(&self.implement_order(slot));
        let backend = &self.loaded.plan.backend;
        let order = Order { phase: Phase::Implement, attempt: 0, prompt: &prompt, backend };
        let Some(finished) = self.carry_out_job(slot, &order)? else {
            return Ok(Flow::Break(()));
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
            exit_code: finished.exit_code(),
            timed_out: finished.timed_out(),
            elapsed_ms: millis(finished.elapsed),
            picked: picked.word().to_owned(),
            stop_marker: finished.found.then_some(true),
            output: Some(shortened(&output)),
        };
        self.put(slot.iteration, |heading| {
            let usage = usage(&finished).map(|usage| usage.record(heading));
            usage.into_iter().chain([record.record(heading)]).collect()
        })?;
        Ok(Flow::Continue(()))
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
        let Some(finished) = self.carry_out_job(slot, &order)? else {
            return Ok(Flow::Break(()));
        };
        let record = SlotFix {
            slot: slot.start.slot,
            item_id: slot.start.item_id.clone(),
            attempt,
            exit_code: finished.exit_code(),
            timed_out: finished.timed_out(),
            elapsed_ms: millis(finished.elapsed),
            stop_marker: finished.found.then_some(true),
            output: Some(shortened(&said(&finished))),
        };
        self.put(slot.iteration, |heading| {
            let usage = usage(&finished).map(|usage| usage.record(heading));
            usage.into_iter().chain([record.record(heading)]).collect()
        })?;
        Ok(Flow::Continue(()))
    }

    pub(super) fn review(&self, slot: &Slot, attempt: u64) -> Result<Flow, DriveError> {
        let prompt = review(&self.review_order(slot, attempt));
        let backend = &self.loaded.plan.slots.reviewer;
        let order = Order { phase: Phase::Review, attempt, prompt: &prompt, backend };
        self.begin_phase(slot, order.phase, attempt)?;
        let mut job = self.job(slot, &order)?;
        let dir = self.slot_dir(slot.iteration, slot.start.slot);
        let bound = self.reviewer.bind(&mut job, (slot, &dir), self);
        let spool = job.spool.clone();
        let (finished, findings) = match bound {
            Ok(bound) => {
                let finished = process::run(job, self.scene.world, self.scene.interrupts);
                (finished, bound.release((slot, &dir), self))
            }
            // Without bounds there is no review.
            Err(error) => (crate::drive::review::not_started(&error), Default::default()),
        };
        if finished.cause == Cause::Interrupt {
            return Ok(Flow::Break(()));
        }
        let ruled = Ruled::of(&finished, spool.as_ref());
        let record = SlotReview {
            slot: slot.start.slot,
            item_id: slot.start.item_id.clone(),
            attempt,
            verdict: ruled.verdict.to_string(),
            follow_up_prompt: ruled.follow_up,
            reason: ruled.reason,
            elapsed_ms: millis(finished.elapsed),
            exit_code: Some(finished.exit_code()),
            output: Some(shortened(&said(&finished))),
        };
        let violations = findings.all_violations();
        self.put(slot.iteration, |heading| {
            let usage = usage(&finished).map(|usage| usage.record(heading));
            let violations = violations.iter().map(|violation| violation.record(heading));
            violations.chain(usage).chain([record.record(heading)]).collect()
        })?;
        for violation in &violations {
            let (number, path) = (slot.start.slot, &violation.path);
            self.note(&format!(
                "the reviewer of slot {number} went too far: {path}: {}",
                violation.what
            ));
        }
        self.tell_notes(&finished);
        self.tell_left_behind(slot, &order, &finished);
        self.tell(SlotProgress::Reviewed(slot, &record));
        Ok(Flow::Continue(()))
    }

    /// Runs an agent to its end; `None` when somebody asked to stop meanwhile.
    fn carry_out_job(
        &self,
        slot: &Slot,
        order: &Order<'_>,
    ) -> Result<Option<Finished>, DriveError> {
        self.begin_phase(slot, order.phase, order.attempt)?;
        let mut job = self.job(slot, order)?;
        let marker = self.loaded.plan.slots.stop_marker.clone();
        job.look_for = marker.unwrap_or_default().into_bytes();
        let finished = process::run(job, self.scene.world, self.scene.interrupts);
        self.tell_notes(&finished);
        self.tell_left_behind(slot, order, &finished);
        Ok((finished.cause != Cause::Interrupt).then_some(finished))
    }

    fn job(&self, slot: &Slot, order: &Order<'_>) -> Result<Job, DriveError> {
        let world = self.scene.world;
        let dir = self.slot_dir(slot.iteration, slot.start.slot);
        let path = |ending: &str| dir.join(format!("{}.{ending}", order.name()));
        let prompt_path = path("prompt.md");
        world
            .disk
            .replace(&prompt_path, order.prompt.as_bytes())
            .map_err(|source| DriveError::Write { path: prompt_path.clone(), source })?;
        let SlotScene { program, project, .. } = &self.scene;
        let (home, env_removed) = match slot.start.branch.as_str() {
            "" => (None, Vec::new()),
            _ => (Some(&*project.dir), LOCATING_VARIABLES.map(OsString::from).into()),
        };
        let (job, _) = addressed(order.backend, (program, home), (order.prompt, &prompt_path));
        let env = self.environment(slot, order, prompt_path);
        Ok(Job {
            env_removed,
            env: env.vars().into_iter().map(|(name, value)| (name.into(), value)).collect(),
            dir: Some(PathBuf::from(&slot.start.tree)),
            notes: Some(notes_dir(&self.loaded.files.state_dir)),
            spool: Some(Spool { stdout: path("out"), stderr: path("err") }),
            ..job
        })
    }

    fn environment(&self, slot: &Slot, order: &Order<'_>, prompt_path: PathBuf) -> Env {
        let files = &self.loaded.files;
        Env {
            run_id: Some(self.look(|slots| slots.id.clone())),
            iteration: Some(slot.iteration.to_string()),
            project_dir: std::path::absolute(&self.scene.project.dir).ok(),
            state_dir: Some(files.state_dir.clone()),
            journal_file: Some(files.journal.clone()),
            bin: Some(files.tool()),
            prompt_path: Some(prompt_path),
            log_level: Some(self.loaded.plan.log_level.to_string()),
            slot_phase: Some(order.phase.to_string()),
            slot: Some(slot.start.slot.to_string()),
            item_id: Some(slot.start.item_id.clone()),
            fix_attempt: Some(order.attempt.to_string()),
            ..Env::default()
        }
    }

    fn implement_order(&self, slot: &Slot) -> ImplementOrder {
        ImplementOrder {
            instructions: self.prompts.developer.text.clone(),
            item: self.item_text(slot),
            ground: self.grounds.told(slot),
        }
    }

    fn review_order(&self, slot: &Slot, attempt: u64) -> ReviewOrder {
        let implement = slot.implement.as_ref();
        let asked = slot.reviews.iter().rfind(|review| review.attempt + 1 == attempt);
        let fixed = slot.fixes.iter().find(|fix| fix.attempt == attempt);
        let broken = slot.reviews.iter().rfind(|review| review.attempt == attempt);
        let dir = self.slot_dir(slot.iteration, slot.start.slot);
        ReviewOrder {
            instructions: self
                .prompts
                .reviewer
                .as_ref()
                .map(|it| it.text.clone())
                .unwrap_or_default(),
            item: self.item_text(slot),
            ground: self.grounds.told(slot),
            output: implement.map(|implement| implement.turn.output.clone()).unwrap_or_default(),
            diff: self.grounds.diff(slot, &dir),
            fix: asked.zip(fixed).map(|(asked, fixed)| Fixed {
                attempt,
                most: self.rules().max_fix_attempts,
                follow_up: asked.follow_up.clone(),
                output: fixed.output.clone(),
            }),
            repair: broken.map(|review| review.reason.clone()),
        }
    }

    fn item_text(&self, slot: &Slot) -> ItemText {
        let item = self.claims.item(slot.start.slot).unwrap_or_else(|| Item {
            id: slot.start.item_id.clone(),
            title: slot.start.title.clone(),
            ..Item::default()
        });
        ItemText {
            id: item.id,
            title: item.title,
            status: item.status.to_string(),
            priority: item.priority.number().to_string(),
            description: item.description,
            acceptance: item.acceptance,
        }
    }

    /// Tells why an agent may have failed that was to find a file of the project in its tree.
    fn tell_left_behind(&self, slot: &Slot, order: &Order<'_>, finished: &Finished) {
        if finished.exit_code() != 0
            && let Some(name) = self.grounds.left_behind(slot, &order.backend.args)
        {
            self.note(&format!(
                "slot {}: {name} is in the project and not in the tree that its agent was started in; commit it, or name it by its whole path",
                slot.start.slot
            ));
        }
    }

    fn tell_notes(&self, finished: &Finished) {
        notes(finished).iter().for_each(|note| self.note(note));
    }
}

/// What came of a review.
struct Ruled {
    verdict: Verdict,
    follow_up: String,
    reason: String,
}

impl Ruled {
    /// A reviewer that failed is not listened to.
    fn of(finished: &Finished, spool: Option<&Spool>) -> Ruled {
        let failed =
            |reason: String| Ruled { verdict: Verdict::Failed, follow_up: String::new(), reason };
        if finished.timed_out() {
            return failed("the reviewer took too long".to_owned());
        }
        if finished.exit_code() != 0 {
            return failed(format!("the reviewer exited with {}", finished.exit_code()));
        }
        match read(finished, spool) {
            Ok(found) => Ruled {
                verdict: match found.ruling {
                    Ruling::Pass => Verdict::Pass,
                    Ruling::Drift => Verdict::Drift,
                },
                follow_up: found.follow_up,
                reason: String::new(),
            },
            Err(violation) => Ruled {
                verdict: Verdict::Violation,
                follow_up: String::new(),
                reason: violation.to_string(),
            },
        }
    }
}

/// Reads the verdict out of all that the reviewer printed, also where that is not held in memory.
fn read(
    finished: &Finished,
    spool: Option<&Spool>,
) -> Result<verdict::Verdict, verdict::Violation> {
    if let Some(answer) = &finished.answer {
        return verdict::read_answer(answer);
    }
    let output = &finished.stdout;
    let mut reader = verdict::Reader::new(autoloop_core::agents::Stream::Plain);
    let file = spool.filter(|_| output.left_out() > 0 && output.spooled == output.bytes);
    match file.and_then(|spool| std::fs::File::open(&spool.stdout).ok()) {
        Some(mut file) => {
            let mut piece = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = file.read(&mut piece) {
                reader.push(&piece[..count]);
            }
        }
        None => {
            reader.push(&output.head);
            // What stands behind a gap could mean anything.
            if output.left_out() == 0 {
                reader.push(&output.tail);
            }
        }
    }
    reader.finish()
}

fn shortened(output: &str) -> String {
    Shortened::new(output, CAP).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Ending, Exit, Output};

    #[test]
    fn nothing_behind_a_gap_makes_a_verdict() {
        let verdict = |head: &str, tail: &str, missing: usize| {
            let bytes = (head.len() + tail.len() + missing) as u64;
            let (head, tail) = (head.into(), tail.into());
            let mut finished = Finished::new(Ending::Exited(Exit::Code(0)));
            finished.stdout = Output { head, tail, bytes, spooled: 0 };
            Ruled::of(&finished, None).verdict
        };
        let (begin, end) = (r#"{"verdict": "pass", "a": "#, r#"1, "followUpPrompt": "x"}"#);
        assert_eq!(verdict(begin, end, 0), Verdict::Pass);
        assert_eq!(verdict(begin, end, 9), Verdict::Violation);
        let whole = [begin, end].concat();
        assert_eq!(verdict(&whole, "and so on", 9), Verdict::Pass);
        assert_eq!(verdict("I think ", &whole, 9), Verdict::Violation);
    }
}
