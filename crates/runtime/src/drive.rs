//! Carries a run out: asks for the next step, carries it out, and appends the result.
//!
//! Nothing is decided here. What to do is a value that [`next_step`] returns, from the state that the
//! `Harness` folds from the journal and from the plan that was last loaded; so a run that crashed
//! anywhere is resumed by asking again.

mod branch;
mod chain;
mod iteration;
mod parallel;
mod review;
mod slots;
mod wave;
mod worktrees;

use std::cell::{OnceCell, RefCell};
use std::path::Path;

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
use crate::journal::Durability;
use crate::launch::{Launch, Opening, StepLauncher};
use crate::layout::RunDir;
use crate::project::{Loaded, Project};
use crate::review::{ReviewSandbox, sweep, sweep_placeholders};
use crate::site::{Progress, Site};

pub use crate::turn::{PLAY_SCRIPT, REPLAY};
pub use chain::ChainDrive;
pub use slots::SlotDrive;

pub use crate::error::DriveError;
pub use crate::harness::Foreign;

use branch::Branch;
use chain::Census;
use worktrees::Trees;

/// What a run is for when nobody said.
const DEFAULT_OBJECTIVE: &str = "Do the task and publish the completion event when finished.";

/// A run of a loop, and everything that is needed to carry it out.
pub struct Drive<'a> {
    site: Site<'a>,
    project: &'a Project,
    harness: Harness<'a, LoopFold>,
    loaded: Loaded,
    objective: String,
    /// What the earlier steps of a chain left; empty outside of one.
    handoff: String,
    /// What is wrong with the files of the loop, for the next prompt.
    notices: Vec<String>,
    /// The end of the output of the last agent.
    output_tail: String,
    reviewer: ReviewSandbox,
    dir: RunDir,
    /// Set for a branch of a wave.
    branch: Option<Branch>,
    /// The chain that was granted last, until it is carried out.
    granted: Option<RunLock>,
    /// The chains of the journal, as far as they were read.
    census: RefCell<Census>,
    /// Prepares the steps of chains that the run requests; `None` where it may not.
    launcher: Option<&'a dyn StepLauncher>,
    /// Where branches have their worktrees, as found first: how git stores files does not change after that.
    trees: OnceCell<Trees>,
}

impl<'a> Drive<'a> {
    /// Prepares to carry out a run. With a launcher it may request chains. A resumed run of which nothing is proven
    /// begins again.
    pub fn open(
        site: Site<'a>,
        launch: &'a Launch,
        launcher: Option<&'a dyn StepLauncher>,
    ) -> Result<Self, DriveError> {
        launch.report(&site);
        let Launch { project, loaded, id, opening, objective, .. } = launch;
        let drive =
            Drive::new(site, project, loaded.clone(), id, None, *opening, objective.clone())?;
        launch.keep_request(drive.site.world)?;
        Ok(Drive { launcher, ..drive })
    }

    fn new(
        site: Site<'a>,
        project: &'a Project,
        mut loaded: Loaded,
        run: &RunId,
        branch: Option<Branch>,
        opening: Opening,
        objective: Option<String>,
    ) -> Result<Self, DriveError> {
        if let Some(branch) = &branch {
            loaded.plan = loaded.plan.for_branch(branch.timeout);
        }
        let world = site.world;
        let mode = loaded.plan.review.as_ref().map(|review| review.sandbox);
        let reviewer = ReviewSandbox::choose(mode, world)?;
        let trees = wave::check_isolation(project, &loaded, world)?;
        let dir = match &branch {
            Some(branch) => branch.dir.clone(),
            None => site.state_dir.run(Kind::Loop, run),
        };
        let place = RunPlace { dir: &dir, run: run.as_str(), world };
        let lock = RunLock::take(place)?;
        if !world.spawner.is_simulated() {
            sweep(site.state_dir, world);
        }
        let handoff = chain::handoff_of_run(&dir, &*world.disk)?;
        let harness: Harness<'_, LoopFold> = match opening {
            Opening::Begin => Harness::begin(site.journal, place, lock)?,
            Opening::Resume => Harness::resume(site.journal, place, lock, site.trust)?,
        };
        let recorded = harness.run().start.as_ref().map(|start| start.objective.clone());
        let objective = recorded
            .or(objective)
            .or_else(|| loaded.objective.clone())
            .unwrap_or_else(|| DEFAULT_OBJECTIVE.to_owned());
        if !world.spawner.is_simulated() {
            // What cannot be found now is removed by a later run.
            let _ = sweep_placeholders(&project.dir, &project.loop_dir, site.state_dir, world);
        }
        Ok(Drive {
            trees: trees.map(OnceCell::from).unwrap_or_default(),
            site,
            project,
            harness,
            loaded,
            objective,
            handoff,
            notices: Vec::new(),
            output_tail: String::new(),
            reviewer,
            dir,
            branch,
            granted: None,
            census: RefCell::default(),
            launcher: None,
        })
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
            parent: self.branch.as_ref().map(|branch| branch.parent.clone()),
            opening_event: self.branch.as_ref().map(|branch| branch.opening_event.clone()),
        };
        self.put(String::new(), |heading| start.record(heading))?;
        self.site.report(Progress::Began(self.harness.run()));
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
            self.site.note(&note);
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
        self.site.report(Progress::Resumed(self.harness.run()));
        Ok(())
    }

    /// Ends the run if somebody asked for it.
    fn is_interrupted(&mut self) -> Result<bool, DriveError> {
        let is_over = matches!(self.harness.run().stage, Stage::New | Stage::Ended(_));
        if self.site.interrupts.first().is_none() || is_over {
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
        let heading = self.harness.heading(iteration, self.site.world.clock.now());
        let record = record(&heading);
        self.harness.append(self.durability(), |_| vec![record.clone().into()])?;
        Ok(())
    }

    /// Reads the files of the loop again. Where they cannot be used, the last good ones stay in force,
    /// and the next prompt says what is wrong.
    fn reload(&mut self) {
        let before = std::mem::take(&mut self.notices);
        // Where the names of the files cannot be known, loading them says so.
        for file in self.project.ignored_settings(&*self.site.world.disk).unwrap_or_default() {
            let notice = format!(
                "{} is ignored until the next run: it did not exist when this run began",
                file.display()
            );
            if !before.contains(&notice) {
                self.site.note(&notice);
            }
            self.notices.push(notice);
        }
        let loaded = self.project.load(&*self.site.world.disk).map_err(DriveError::from);
        let checked = loaded.and_then(|mut loaded| {
            if let Some(branch) = &self.branch {
                loaded.plan = loaded.plan.for_branch(branch.timeout);
            }
            let mode = loaded.plan.review.as_ref().map(|review| review.sandbox);
            let layers = ReviewSandbox::layers(mode, self.site.world)?;
            Ok((loaded, layers))
        });
        match checked {
            Ok((loaded, layers)) => {
                self.loaded = loaded;
                self.reviewer.set_layers(layers);
            }
            Err(error) => {
                let notice = format!("the files of the loop cannot be used as they are: {error}");
                self.site.note(&notice);
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
