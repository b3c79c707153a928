//! Carries a run out: asks for the next step, carries it out, and appends the result.
//!
//! Nothing is decided here. What to do is a value that [`next_step`] returns, from the state that the
//! `Harness` folds from the journal and from the plan that was last loaded; so a run that crashed
//! anywhere is resumed by asking again.

mod branch;
mod chain;
mod error;
mod iteration;
mod parallel;
mod preflight;
mod progress;
mod request;
mod review;
mod runs;
mod slots;
mod wave;
mod worktrees;

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};

use autoloop_core::config::SyncPolicy;
use autoloop_core::coordinator::Kind;
use autoloop_core::memory::Places;
use autoloop_core::plan::Plan;
use autoloop_core::record::{LoopResume, LoopStart, LoopStop, Record};
use autoloop_core::run::{Ending, LoopFold, Run, Stage, StopReason};
use autoloop_core::run_id::RunId;
use autoloop_core::step::{Step, next_step};
use autoloop_core::wire_enum::Word;

use crate::harness::{Harness, RunLock, RunPlace};
use crate::journal::{Durability, Journal};
use crate::layout::RunDir;
use crate::process::Interrupts;
use crate::project::{Loaded, Project};
use crate::review::{ReviewSandbox, sweep, sweep_placeholders};
use crate::world::World;

pub use crate::review::Bounds;
pub use crate::turn::{PLAY_SCRIPT, REPLAY};
pub use chain::{ChainDrive, ChainScene, Loops, NoLoops, Preparation, Ready, Steps, StepsOrder};
pub use error::DriveError;
pub use preflight::Agents;
pub use progress::Progress;
pub use request::{KeptRequest, Request};
pub use runs::{
    chain_standing, chains, latest_resumable, latest_resumable_chain, latest_resumable_slots,
    slot_runs, slots_standing, standing,
};
pub use slots::{SlotDrive, SlotProgress, SlotScene, WatchedSlots};

pub use crate::harness::{Foreign, Trust};

use branch::Seat;
use chain::Census;
use worktrees::Trees;

/// What a run is for when nobody said.
const DEFAULT_OBJECTIVE: &str = "Do the task and publish the completion event when finished.";

/// A run, and everything that is needed to carry it out.
pub struct Drive<'a> {
    world: &'a World,
    project: &'a Project,
    interrupts: &'a Interrupts,
    /// This program, which plays scripts and is what agents call.
    program: PathBuf,
    harness: Harness<'a, LoopFold>,
    loaded: Loaded,
    objective: String,
    /// What the earlier steps of a chain left; empty outside of one.
    handoff: String,
    /// What is wrong with the files of the loop, for the next prompt.
    notices: Vec<String>,
    /// The end of what the last backend printed.
    output_tail: String,
    /// Whether reviewers are confined.
    bounds: Bounds,
    /// How reviewers are confined, in this project.
    reviewer: ReviewSandbox,
    /// Where its files are.
    dir: RunDir,
    /// Where it is carried out, if it is a branch of another run.
    seat: Option<Seat>,
    /// How many branches are carried out at once.
    threads: Threads,
    /// Which records of earlier harnesses are believed.
    trust: Trust,
    /// The chain that was granted last, until it is carried out.
    granted: Option<RunLock>,
    /// The chains of the journal, as far as they were looked at.
    census: RefCell<Census>,
    /// Who carries out the chains that it asks for.
    loops: &'a dyn Loops,
    /// Where branches have their trees, as it was found first: how git stores files does not change after that.
    trees: OnceCell<Trees>,
    tell: &'a mut dyn FnMut(Progress<'_>),
}

/// Where a run is carried out, and by what.
pub struct Scene<'a> {
    /// The world.
    pub world: &'a World,
    /// The project.
    pub project: &'a Project,
    /// Its journal.
    pub journal: &'a dyn Journal,
    /// Requests to stop.
    pub interrupts: &'a Interrupts,
    /// This program.
    pub program: PathBuf,
    /// Whether reviewers are held to their bounds.
    pub bounds: Bounds,
    /// How many branches of a wave are carried out at once.
    pub threads: Threads,
    /// Which records of earlier harnesses are believed.
    pub trust: Trust,
    /// Who is told how it goes.
    pub tell: &'a mut dyn FnMut(Progress<'_>),
}

/// How many branches of a wave, or slots, are carried out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// All of them.
    Many,
    /// One after another: in a simulated world, which does the same twice.
    One,
}

/// How a run is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    Begin,
    Resume,
}

impl<'a> Drive<'a> {
    /// Prepares to begin a run.
    ///
    /// # Errors
    ///
    /// When the files of the loop cannot be used, or another process drives a run of this name.
    pub fn begin(
        scene: Scene<'a>,
        run: &RunId,
        objective: Option<String>,
    ) -> Result<Self, DriveError> {
        Drive::new(scene, (run, None), Opening::Begin, objective)
    }

    /// Prepares to resume a run. Where nothing of it is proven it begins again, with this objective.
    ///
    /// # Errors
    ///
    /// When the files of the loop cannot be used, or another process drives the run.
    pub fn resume(
        scene: Scene<'a>,
        run: &RunId,
        objective: Option<String>,
    ) -> Result<Self, DriveError> {
        Drive::new(scene, (run, None), Opening::Resume, objective)
    }

    /// The same, for a run that may ask for chains.
    #[must_use]
    pub fn with_loops(mut self, loops: &'a dyn Loops) -> Self {
        self.loops = loops;
        self
    }

    fn new(
        scene: Scene<'a>,
        (run, seat): (&RunId, Option<Seat>),
        opening: Opening,
        objective: Option<String>,
    ) -> Result<Self, DriveError> {
        let loaded = branch::load(scene.project, seat.as_ref(), scene.world)?;
        let mode = loaded.plan.review.as_ref().map(|review| review.sandbox);
        let reviewer = ReviewSandbox::choose(mode, scene.bounds)?;
        let trees = wave::check_isolation(scene.project, &loaded, scene.world)?;
        let dir = match &seat {
            Some(seat) => seat.dir.clone(),
            None => loaded.files.state_dir.run(Kind::Loop, run),
        };
        let place = RunPlace { dir: &dir, run: run.as_str(), world: scene.world };
        let lock = RunLock::take(place)?;
        if scene.bounds == Bounds::Enforced {
            sweep(&loaded.files.state_dir, scene.world);
        }
        let handoff = chain::handoff_of_run(&dir, &*scene.world.disk)?;
        let harness: Harness<'_, LoopFold> = match opening {
            Opening::Begin => Harness::begin(scene.journal, place, lock)?,
            Opening::Resume => Harness::resume(scene.journal, place, lock, scene.trust)?,
        };
        let recorded = harness.run().start.as_ref().map(|start| start.objective.clone());
        let objective = recorded
            .or(objective)
            .or_else(|| loaded.objective.clone())
            .unwrap_or_else(|| DEFAULT_OBJECTIVE.to_owned());
        let drive = Drive {
            trees: trees.map(OnceCell::from).unwrap_or_default(),
            world: scene.world,
            project: scene.project,
            interrupts: scene.interrupts,
            program: scene.program,
            harness,
            loaded,
            objective,
            handoff,
            notices: Vec::new(),
            output_tail: String::new(),
            bounds: scene.bounds,
            reviewer,
            dir,
            seat,
            threads: scene.threads,
            trust: scene.trust,
            granted: None,
            census: RefCell::default(),
            loops: &NoLoops,
            tell: scene.tell,
        };
        if drive.bounds == Bounds::Enforced {
            let (project, state_dir) = (drive.project, &drive.loaded.files.state_dir);
            // What cannot be found now is swept by a later run.
            let _ = sweep_placeholders(&project.dir, &project.loop_dir, state_dir, drive.world);
        }
        Ok(drive)
    }

    /// Carries the run out to its end.
    ///
    /// # Errors
    ///
    /// When it cannot be carried on. Everything that happened is on record, and the run can be taken
    /// up again.
    pub fn run(mut self) -> Result<Run, DriveError> {
        self.carry_out()?;
        Ok(self.harness.into_fold().run)
    }

    fn carry_out(&mut self) -> Result<(), DriveError> {
        self.announce_resumption()?;
        loop {
            if self.is_interrupted()? {
                return Ok(());
            }
            let rules = self.loaded.plan.rules();
            match next_step(self.harness.run(), &rules, &self.loaded.topology) {
                Step::Start => self.start()?,
                Step::Review { before } => self.review(before)?,
                Step::Iterate(order) => {
                    self.iterate(&order)?;
                    self.reload();
                }
                Step::Complete(complete) => {
                    self.put(self.last_iteration(), |heading| complete.record(heading))?;
                }
                Step::Stop(stop) => self.stop(stop)?,
                Step::Wave(step) => self.wave(step)?,
                Step::Chain(step) => self.chain(step)?,
                Step::Over(_) => return Ok(()),
            }
        }
    }

    fn start(&mut self) -> Result<(), DriveError> {
        let plan = &self.loaded.plan;
        let start = LoopStart {
            max_iterations: plan.max_iterations,
            completion_promise: plan.completion.promise.clone().unwrap_or_default(),
            completion_event: plan.completion.event.clone(),
            review_every: plan.review.as_ref().map_or(0, |review| review.every.get()),
            objective: self.objective.clone(),
            preset: self.project.is_preset().then(|| self.project.preset.clone()),
            preset_dir: self.foreign_loop().map(|dir| dir.display().to_string()),
            parent: self.seat.as_ref().map(|seat| seat.parent.clone()),
            opening_event: self.seat.as_ref().map(|seat| seat.opening_event.clone()),
        };
        self.put(String::new(), |heading| start.record(heading))?;
        (self.tell)(Progress::Began(self.harness.run()));
        Ok(())
    }

    /// Where the files of a preset are that the run has no copy of.
    fn foreign_loop(&self) -> Option<&Path> {
        let dir = &self.project.loop_dir;
        (self.project.is_preset() && *dir != self.dir.loop_copy()).then_some(dir)
    }

    /// Records that a run is resumed that had ended or crashed.
    fn announce_resumption(&mut self) -> Result<(), DriveError> {
        if let Some(note) = self.harness.take_forged_note() {
            (self.tell)(Progress::Note(&note));
        }
        let run = self.harness.run();
        let previous_stop_reason = match &run.stage {
            Stage::New => return Ok(()),
            Stage::Ended(Ending::Stop { reason }) => reason.clone(),
            Stage::Ended(Ending::Complete { .. }) => return Ok(()),
            Stage::Between | Stage::Iterating | Stage::Reviewing => Word::default(),
        };
        let resumed_from_iteration = run.done_on_resume();
        let resume = LoopResume { resumed_from_iteration, previous_stop_reason };
        self.put(self.last_iteration(), |heading| resume.record(heading))?;
        (self.tell)(Progress::Resumed(self.harness.run()));
        Ok(())
    }

    /// Ends the run if somebody asked for it.
    fn is_interrupted(&mut self) -> Result<bool, DriveError> {
        let is_over = matches!(self.harness.run().stage, Stage::New | Stage::Ended(_));
        if self.interrupts.first().is_none() || is_over {
            return Ok(false);
        }
        self.stop(LoopStop {
            reason: StopReason::Interrupted.into(),
            iteration: Some(self.harness.run().done),
            ..LoopStop::default()
        })?;
        Ok(true)
    }

    fn stop(&mut self, mut stop: LoopStop) -> Result<(), DriveError> {
        use StopReason::{BackendFailed, BackendTimeout};
        if matches!(stop.reason.known(), Some(BackendFailed | BackendTimeout)) {
            stop.output_tail = Some(self.output_tail.clone());
        }
        self.put(self.last_iteration(), |heading| stop.record(heading))
    }

    /// The number of the last iteration that began; 0 before the first.
    fn last_iteration(&self) -> String {
        let run = self.harness.run();
        (run.done + u64::from(run.stage == Stage::Iterating)).to_string()
    }

    /// Appends one record about the run as a whole.
    fn put(
        &mut self,
        iteration: String,
        record: impl FnOnce(&autoloop_core::record::Heading) -> Record,
    ) -> Result<(), DriveError> {
        let heading = self.harness.heading(iteration, self.world.clock.now());
        let record = record(&heading);
        self.harness.append(self.durability(), |_| vec![record.clone().into()])?;
        Ok(())
    }

    /// Reads the files of the loop again. Where they cannot be used, the last good ones stay in force,
    /// and the next prompt says what is wrong.
    fn reload(&mut self) {
        let before = std::mem::take(&mut self.notices);
        // Where the names of the files cannot be known, loading them says so.
        for file in self.project.ignored_settings(&*self.world.disk).unwrap_or_default() {
            let notice = format!(
                "{} is ignored until the next run: it did not exist when this run began",
                file.display()
            );
            if !before.contains(&notice) {
                (self.tell)(Progress::Note(&notice));
            }
            self.notices.push(notice);
        }
        let loaded = branch::load(self.project, self.seat.as_ref(), self.world);
        let loaded = loaded.map_err(DriveError::from);
        let checked = loaded.and_then(|loaded| {
            let mode = loaded.plan.review.as_ref().map(|review| review.sandbox);
            let layers = ReviewSandbox::layers(mode, self.bounds)?;
            Ok((loaded, layers))
        });
        match checked {
            Ok((loaded, layers)) => {
                self.loaded = loaded;
                self.reviewer.set_layers(layers);
            }
            Err(error) => {
                let notice = format!("the files of the loop cannot be used as they are: {error}");
                (self.tell)(Progress::Note(&notice));
                self.notices.push(notice);
            }
        }
    }

    fn durability(&self) -> Durability {
        durability(&self.loaded.plan)
    }

    /// Where things are remembered.
    fn memory_places(&self) -> Places {
        let run = Some(self.dir.memory());
        Places { project: self.loaded.files.memory.clone(), run }
    }
}

/// What a record of the harness has to survive.
fn durability(plan: &Plan) -> Durability {
    match plan.journal.sync {
        SyncPolicy::Always | SyncPolicy::Iteration => Durability::Synced,
        SyncPolicy::Never => Durability::Cached,
    }
}
