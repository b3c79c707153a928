//! Carries a run over a queue out: claims items, lets agents implement, review and fix them, and puts on
//! record what came of it.
//!
//! Nothing is decided here: what the run does next is [`next_step`], and what a slot does next is
//! [`slot_step`](autoloop_core::slot::slot_step). So a run that was cut off anywhere is taken up by asking again.

mod begin;
mod claims;
mod disk_full;
mod ending;
mod live;
mod phase;
mod preflight;
mod progress;
mod prompt_text;
mod prompts;
mod reload;
mod review;
mod slot;
mod worktrees;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use autoloop_core::config::Key;
use autoloop_core::coordinator::Kind;
use autoloop_core::queue::Wanted;
use autoloop_core::record::{Heading, Record, SlotStart};
use autoloop_core::run_id::RunId;
use autoloop_core::slot::{End, NewItems, Review, Slot, SlotRules, Slots, Step, begins, next_step};

use super::parallel::together;
use super::{Bounds, DriveError, Opening, Threads};
use crate::harness::{Harness, RunLock, RunPlace, Trust, create_dirs};
use crate::journal::{Durability, Journal};
use crate::layout::RunDir;
use crate::process::Interrupts;
use crate::project::{Loaded, Project};
use crate::queue::Queue;
use crate::review::{ReviewSandbox, sweep};
use crate::world::World;

use begin::same_source;
use claims::{Claims, actor};
use prompts::RunPrompts;
use reload::Judging;
use worktrees::Grounds;

pub(super) use disk_full::says_full;
pub use live::WatchedSlots;
pub use progress::SlotProgress;

/// Said where nobody can review.
const NO_PROMPT: &str = "there is no reviewer prompt, so nothing is reviewed";

/// Where a run over a queue is carried out, and by what.
#[derive(Clone)]
pub struct SlotScene<'a> {
    /// The world.
    pub world: &'a World,
    /// The project.
    pub project: &'a Project,
    /// Its journal.
    pub journal: &'a dyn Journal,
    /// Where items come from.
    pub queue: &'a dyn Queue,
    /// Requests to stop.
    pub interrupts: &'a Interrupts,
    /// This program.
    pub program: PathBuf,
    /// Whether reviewers are held to their bounds.
    pub bounds: Bounds,
    /// How many slots are carried out at once.
    pub threads: Threads,
    /// The prompts that the user names now, of those that a resumed run began with.
    pub named_now: Vec<Key>,
    /// Which records of earlier harnesses are believed.
    pub trust: Trust,
    /// Who is told how it goes.
    pub tell: &'a (dyn Fn(SlotProgress<'_>) + Sync),
}

/// A run over a queue, and everything that is needed to carry it out.
pub struct SlotDrive<'a> {
    scene: SlotScene<'a>,
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
    /// Prepares to begin a run.
    ///
    /// # Errors
    ///
    /// When the settings or the prompts cannot be used, or another process drives a run of this name.
    pub fn begin(scene: SlotScene<'a>, run: &RunId) -> Result<Self, DriveError> {
        SlotDrive::new(scene, run, Opening::Begin)
    }

    /// Prepares to take a run up again.
    ///
    /// # Errors
    ///
    /// When the settings or the prompts cannot be used, or another process drives the run.
    pub fn resume(scene: SlotScene<'a>, run: &RunId) -> Result<Self, DriveError> {
        SlotDrive::new(scene, run, Opening::Resume)
    }

    fn new(scene: SlotScene<'a>, run: &RunId, opening: Opening) -> Result<Self, DriveError> {
        let world = scene.world;
        let loaded = scene.project.load(&*world.disk)?;
        let read = scene.project.slot_prompts(&loaded, &*world.disk);
        let read = match opening {
            // Nothing is left behind by a run that cannot begin.
            Opening::Begin => Ok(read?),
            Opening::Resume => read,
        };
        if opening == Opening::Begin {
            let has_prompt = read.as_ref().is_ok_and(|read| read.reviewer.is_some());
            preflight::check(&scene, &loaded, rules(&loaded, has_prompt).review)?;
        }
        let reviewer = ReviewSandbox::choose(Some(loaded.plan.slots.sandbox), scene.bounds)?;
        let grounds = Grounds::find(scene.project, &loaded, world)?;
        let dir = loaded.files.state_dir.run(Kind::Slots, run);
        let place = RunPlace { dir: &dir, run: run.as_str(), world };
        let lock = RunLock::take(place)?;
        let harness: Harness<'_, Slots> = match opening {
            Opening::Begin => Harness::begin(scene.journal, place, lock)?,
            Opening::Resume => Harness::resume(scene.journal, place, lock, scene.trust)?,
        };
        same_source(harness.fold(), &loaded.plan.slots)?;
        let recorded = harness.fold().prompts.as_ref();
        let prompts = RunPrompts::of(recorded, read, &scene.named_now)?;
        let has_prompt = prompts.in_force.reviewer_prompt.is_some();
        preflight::check(&scene, &loaded, rules(&loaded, has_prompt).review)?;
        let drive = SlotDrive {
            claims: Claims::new(scene.queue, world),
            harness: Mutex::new(harness),
            scene,
            loaded,
            prompts,
            dir,
            grounds,
            reviewer,
            asked: None,
            opening,
        };
        if drive.scene.bounds == Bounds::Enforced {
            sweep(&drive.loaded.files.state_dir, world);
        }
        Ok(drive)
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
            if self.scene.interrupts.first().is_some() {
                break;
            }
            match self.step() {
                Step::Start => self.start()?,
                Step::Open { .. } => {
                    self.reload()?;
                    // By the settings as they are now it may be over.
                    if let Step::Open { iteration, slots } = self.step() {
                        self.open(iteration, &slots)?;
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
    fn open(&self, iteration: u64, numbers: &[u64]) -> Result<(), DriveError> {
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
        self.tell(SlotProgress::Iteration(iteration));
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
            (Some(DriveError::NoAgent { .. }), Err(DriveError::NoAgent { .. })) => {}
            (Some(_), Err(error)) => self.note(&error.to_string()),
            (_, Ok(())) => {}
        };
        match self.scene.threads {
            Threads::One => {
                // Nobody keeps claims meanwhile, so each is kept once, before the work on it.
                let kept = numbers.into_iter().inspect(|_| self.claims.renew_all());
                kept.map(slot).for_each(ended);
            }
            Threads::Many => {
                let (over, is_over) = mpsc::channel::<()>();
                thread::scope(|scope| {
                    // Claims are kept for as long as there is work, and no longer.
                    scope.spawn(move || self.claims.keep(&is_over));
                    together(numbers, slot, ended);
                    drop(over);
                });
            }
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
        note.iter().for_each(|note| self.note(note));
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
        harness.heading(iteration, self.scene.world.clock.now())
    }

    fn tell(&self, progress: SlotProgress<'_>) {
        (self.scene.tell)(progress);
    }

    fn note(&self, note: &str) {
        self.tell(SlotProgress::Note(note));
    }

    fn make_dir(&self, dir: &std::path::Path) -> Result<(), DriveError> {
        Ok(create_dirs(dir, self.scene.world)?)
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
