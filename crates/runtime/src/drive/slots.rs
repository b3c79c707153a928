//! Carries a run over a queue out: claims items, lets agents implement, review and fix them, and puts on
//! record what came of it.
//!
//! Nothing is decided here: what the run does next is [`next_step`], and what a slot does next is
//! [`slot_step`](autoloop_core::slot::slot_step). So a run that was cut off anywhere is taken up by asking again.

mod begin;
mod claims;
mod disk_full;
mod ending;
mod phase;
mod preflight;
mod prompt_text;
mod prompts;
mod reload;
mod review;
mod slot;
mod worktrees;

use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use autoloop_core::config::Key;
use autoloop_core::coordinator::Kind;
use autoloop_core::queue::Wanted;
use autoloop_core::record::{Heading, Record, SlotStart};
use autoloop_core::run_id::RunId;
use autoloop_core::slot::{End, NewItems, Review, Slot, SlotRules, Slots, Step, begins, next_step};

use super::DriveError;
use super::parallel::together;
use crate::error::LaunchError;
use crate::harness::{Harness, RunLock, RunPlace, create_dirs};
use crate::journal::Durability;
use crate::launch::{Launch, Opening};
use crate::layout::RunDir;
use crate::project::{Loaded, Project};
use crate::queue::Queue;
use crate::review::{ReviewSandbox, sweep};
use crate::site::{Progress, Site, SlotProgress};

use begin::same_source;
use claims::{Claims, actor};
use prompts::RunPrompts;
use reload::Judging;
use worktrees::Grounds;

/// Said where nobody can review.
const NO_PROMPT: &str = "there is no reviewer prompt, so nothing is reviewed";

/// A run over a queue, and everything that is needed to carry it out.
pub struct SlotDrive<'a> {
    site: Site<'a>,
    project: &'a Project,
    queue: &'a dyn Queue,
    loaded: Loaded,
    prompts: RunPrompts,
    /// Where its files are.
    dir: RunDir,
    harness: Mutex<Harness<'a, Slots>>,
    claims: Claims<'a>,
    grounds: Grounds,
    reviewer: ReviewSandbox,
    /// How work would be judged by the settings as they were last read again.
    asked: Option<Judging>,
    opening: Opening,
}

impl<'a> SlotDrive<'a> {
    /// Prepares to carry out a run. A resumed one uses its own prompts, except for those that the user names now.
    pub fn open(
        site: Site<'a>,
        launch: &'a Launch,
        queue: &'a dyn Queue,
        named_now: &[Key],
    ) -> Result<Self, DriveError> {
        launch.report(&site);
        let Launch { project, loaded, id, opening, .. } = launch;
        let drive = SlotDrive::new(site, project, loaded.clone(), queue, id, *opening, named_now)?;
        launch.keep_request(drive.site.world)?;
        Ok(drive)
    }

    fn new(
        site: Site<'a>,
        project: &'a Project,
        loaded: Loaded,
        queue: &'a dyn Queue,
        run: &RunId,
        opening: Opening,
        named_now: &[Key],
    ) -> Result<Self, DriveError> {
        let world = site.world;
        let read = project.slot_prompts(&loaded, &*world.disk);
        let read = match opening {
            // Nothing is left behind by a run that cannot begin.
            Opening::Begin => Ok(read?),
            Opening::Resume => read,
        };
        if opening == Opening::Begin {
            let has_prompt = read.as_ref().is_ok_and(|read| read.reviewer.is_some());
            preflight::check(project, &loaded, rules(&loaded, has_prompt).review, world)?;
        }
        let reviewer = ReviewSandbox::choose(Some(loaded.plan.slots.sandbox), world)?;
        let grounds = Grounds::find(project, &loaded, world)?;
        let dir = site.state_dir.run(Kind::Slots, run);
        let place = RunPlace { dir: &dir, run: run.as_str(), world };
        let lock = RunLock::take(place)?;
        let harness: Harness<'_, Slots> = match opening {
            Opening::Begin => Harness::begin(site.journal, place, lock)?,
            Opening::Resume => Harness::resume(site.journal, place, lock, site.trust)?,
        };
        same_source(harness.fold(), &loaded.plan.slots)?;
        let recorded = harness.fold().prompts.as_ref();
        let prompts = RunPrompts::of(recorded, read, named_now)?;
        let has_prompt = prompts.in_force.reviewer_prompt.is_some();
        preflight::check(project, &loaded, rules(&loaded, has_prompt).review, world)?;
        if !world.spawner.is_simulated() {
            sweep(site.state_dir, world);
        }
        Ok(SlotDrive {
            claims: Claims::new(queue, world),
            harness: Mutex::new(harness),
            site,
            project,
            queue,
            loaded,
            prompts,
            dir,
            grounds,
            reviewer,
            asked: None,
            opening,
        })
    }

    /// Carries the run out to its end, or until it is interrupted.
    ///
    /// # Errors
    ///
    /// When it cannot be carried on. Everything that happened is on record, and the run can be taken
    /// up again.
    pub fn run(mut self) -> Result<Slots, DriveError> {
        self.take_up()?;
        loop {
            if self.site.interrupts.first().is_some() {
                break;
            }
            match self.step() {
                Step::Start => self.start()?,
                Step::Open { .. } => {
                    self.reload()?;
                    // By the settings as they are now it may be over.
                    if let Step::Open { iteration, slots } = self.step() {
                        self.open_iteration(iteration, &slots)?;
                    }
                }
                Step::CarryOut { iteration, slots } => self.carry_out(iteration, slots)?,
                Step::FinishIteration(finished) => self.finish_iteration(&finished)?,
                Step::Finish(finish) => self.finish_run(&finish)?,
                Step::Over => break,
            }
        }
        Ok(self.harness.into_inner().unwrap_or_else(PoisonError::into_inner).into_fold())
    }

    fn step(&self) -> Step {
        self.look(|slots| next_step(slots, &self.rules()))
    }

    /// What decisions depend on, by the settings and prompts as they were last read.
    fn rules(&self) -> SlotRules {
        let rules = rules(&self.loaded, self.prompts.in_force.reviewer_prompt.is_some());
        SlotRules { commit: self.grounds.commits(rules.commit), ..rules }
    }

    /// Claims items and begins an iteration with them; ends the run where there are none.
    fn open_iteration(&self, iteration: u64, numbers: &[u64]) -> Result<(), DriveError> {
        let rules = self.rules();
        let wanted = self.look(|slots| Wanted {
            but: slots.spent(&rules).into_iter().map(str::to_owned).collect(),
            held_at: match rules.new_items {
                NewItems::Excluded => {
                    slots.start.as_ref().and_then(|start| start.queue_mark.clone())
                }
                NewItems::Included => None,
            },
        });
        let run = self.look(|slots| slots.id.clone());
        let base = self.grounds.base(&run)?;
        self.claims.take(&run, numbers, &wanted)?;
        let mut starts = Vec::new();
        for number in numbers {
            let item = self.claims.item(*number);
            if !begins(iteration, item.is_some()) {
                continue;
            }
            let item = item.unwrap_or_default();
            let place = self.grounds.place(&self.slot_dir(iteration, *number), &run);
            starts.push(SlotStart {
                slot: *number,
                item_id: item.id,
                title: item.title,
                actor: actor(&run, *number),
                base: base.clone(),
                branch: place.branch,
                tree: place.tree.display().to_string(),
            });
        }
        if starts.is_empty() {
            let finish = self.look(|slots| slots.finished(End::NoItems));
            return self.finish_run(&finish);
        }
        self.report(SlotProgress::Iteration(iteration));
        self.put(iteration, |heading| starts.iter().map(|start| start.record(heading)).collect())
    }

    /// Carries out slots together. One that could not be carried on stays unfinished, and the others go
    /// on to their ends; the first failure is the one that the run ends with.
    fn carry_out(&self, iteration: u64, numbers: Vec<u64>) -> Result<(), DriveError> {
        let mut failed: Option<DriveError> = None;
        let slot = |number| self.slot(iteration, number);
        let ended = |end: Result<(), DriveError>| match (&failed, end) {
            (None, Err(error)) => failed = Some(error),
            // All slots have the same agents.
            (
                Some(DriveError::Launch(LaunchError::NoAgent { .. })),
                Err(DriveError::Launch(LaunchError::NoAgent { .. })),
            ) => {}
            (Some(_), Err(error)) => self.site.note(&error.to_string()),
            (_, Ok(())) => {}
        };
        if self.site.world.spawner.is_simulated() {
            // No thread renews claims meanwhile, so they are renewed before each slot.
            let renewed = numbers.into_iter().inspect(|_| self.claims.renew_all());
            renewed.map(slot).for_each(ended);
        } else {
            let (over, is_over) = mpsc::channel::<()>();
            thread::scope(|scope| {
                // Claims are kept for as long as there is work, and no longer.
                scope.spawn(move || self.claims.keep(&is_over));
                together(numbers, slot, ended);
                drop(over);
            });
        }
        failed.map_or(Ok(()), Err)
    }

    /// Whether other slots work where this one does, at this moment. None begins while it is at work.
    fn is_shared(&self, slot: &Slot) -> bool {
        let is_other = |other: &&Slot| {
            other.start.slot != slot.start.slot && other.has_item() && other.start.branch.is_empty()
        };
        slot.start.branch.is_empty()
            && self.look(|slots| slots.open().any(|other| is_other(&other)))
    }

    /// Whether other slots of the iteration work or worked in the directory of this one.
    fn has_shared(&self, slot: &Slot) -> bool {
        let is_other = |other: &Slot| {
            other.iteration == slot.iteration
                && other.start.slot != slot.start.slot
                && other.has_item()
                && other.start.branch.is_empty()
        };
        slot.start.branch.is_empty() && self.look(|slots| slots.slots.iter().any(is_other))
    }

    /// Where the files of a slot are.
    fn slot_dir(&self, iteration: u64, number: u64) -> RunDir {
        self.dir.slot(iteration, number)
    }

    fn report(&self, progress: SlotProgress<'_>) {
        self.site.report(Progress::Slots(progress));
    }

    fn look<T>(&self, look: impl FnOnce(&Slots) -> T) -> T {
        look(self.harness().fold())
    }

    fn harness(&self) -> MutexGuard<'_, Harness<'a, Slots>> {
        self.harness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts records on record; those of an iteration under its number. What agents wrote in the name of
    /// the harness meanwhile is refused before.
    fn put(
        &self,
        iteration: u64,
        records: impl FnOnce(&Heading) -> Vec<Record>,
    ) -> Result<(), DriveError> {
        let mut harness = self.harness();
        let heading = self.heading(&harness, iteration);
        let durability = super::durability(&self.loaded.plan);
        let note = harness.append_refusing(durability, &heading, &records(&heading))?;
        drop(harness);
        note.iter().for_each(|note| self.site.note(note));
        Ok(())
    }

    /// Mentions what is only for people who watch.
    fn mention(
        &self,
        iteration: u64,
        record: impl FnOnce(&Heading) -> Record,
    ) -> Result<(), DriveError> {
        let mut harness = self.harness();
        let record = record(&self.heading(&harness, iteration));
        // The next records bring it to the disk.
        harness.append_quietly(Durability::Cached, |_| vec![record.clone().into()])?;
        Ok(())
    }

    fn heading(&self, harness: &Harness<'_, Slots>, iteration: u64) -> Heading {
        let iteration = if iteration == 0 { String::new() } else { iteration.to_string() };
        harness.heading(iteration, self.site.world.clock.now())
    }

    fn make_dir(&self, dir: &std::path::Path) -> Result<(), DriveError> {
        create_dirs(dir, self.site.world)
    }
}

/// What decisions depend on.
fn rules(loaded: &Loaded, has_reviewer_prompt: bool) -> SlotRules {
    let rules = loaded.plan.slots.rules;
    match (rules.review, has_reviewer_prompt) {
        (Review::On, false) => SlotRules { review: Review::NoPrompt, ..rules },
        _ => rules,
    }
}
