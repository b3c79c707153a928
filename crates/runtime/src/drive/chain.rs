//! Carries a chain out: asks for the next step, carries it out as a run, and appends the result.
//!
//! The records of a chain have an id of their own, in the journal of the project, and one harness writes them. The
//! handoff of a step is in the directory of the step for people, and beside its run for the harness of the run, which
//! finds it there when the run is resumed.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use autoloop_core::chain::{
    Budget, Chain, Next, Outcome, Report, Resumption, changed_files, handoff, next_step, result,
    resumption,
};
use autoloop_core::coordinator::Kind;
use autoloop_core::record::{
    ChainComplete, ChainResume, ChainStart, ChainStepFinish, ChainStepStart, Heading, Record,
};
use autoloop_core::run::{Run, StopReason};

use super::chain_records::{ChainIndex, StepReports};
use super::loop_driver::LoopDriver;
use super::{DriveError, durability, write_file};
use crate::error::LaunchError;
use crate::harness::{Harness, RunLock, RunPlace, run_dir};
use crate::journal::Position;
use crate::launch::{ChainLaunch, ChainStep, Launch, Opening, StepLauncher};
use crate::layout::RunDir;
use crate::sandbox::Listing;
use crate::site::Site;
use crate::turn::millis;

pub struct ChainDriver<'a> {
    site: Site<'a>,
    chain: &'a ChainLaunch,
    launcher: &'a dyn StepLauncher,
    budget: Budget,
    harness: Harness<'a, Chain>,
    start: ChainStart,
    dir: RunDir,
    reports: StepReports,
    /// The chains of the journal, for steps that request chains.
    index: Rc<RefCell<ChainIndex>>,
}

impl<'a> ChainDriver<'a> {
    /// Prepares to carry out a chain within these limits. A resumed chain of which nothing is proven begins again.
    pub fn open(
        site: Site<'a>,
        chain: &'a ChainLaunch,
        launcher: &'a dyn StepLauncher,
        budget: Budget,
    ) -> Result<Self, DriveError> {
        chain.launch.report(&site);
        let driver = ChainDriver::new(site, chain, launcher, budget, None, Rc::default())?;
        chain.keep_request(driver.site.world)?;
        Ok(driver)
    }

    /// With the lock of the chain, where it was taken when the chain was granted to a run.
    pub(super) fn new(
        site: Site<'a>,
        chain: &'a ChainLaunch,
        launcher: &'a dyn StepLauncher,
        budget: Budget,
        granted: Option<RunLock>,
        index: Rc<RefCell<ChainIndex>>,
    ) -> Result<Self, DriveError> {
        let ChainLaunch { launch: Launch { id, opening, .. }, start, .. } = chain;
        let place = RunPlace::of(&site, Kind::Chain, id.as_str())?;
        let is_granted = granted.is_some();
        let lock = granted.map_or_else(|| RunLock::take(&place), Ok)?;
        // A chain that no run requested is begun by the process that created its directory, unless a run was
        // granted the same id in between.
        let is_requested = start.parent_id.is_some() || is_granted;
        if *opening == Opening::Begin && !is_requested && lock.was_used() {
            let (kind, run) = (Kind::Chain, id.to_string());
            return Err(DriveError::Busy { kind, run, holder: None });
        }
        let durability = durability(&chain.launch.loaded.plan);
        let harness: Harness<'_, Chain> = Harness::open(*opening, &site, &place, lock, durability)?;
        let position = match opening {
            Opening::Begin => site.journal.head()?,
            Opening::Resume => Position::START,
        };
        let dir = place.dir;
        let start = harness.fold().start.clone().unwrap_or_else(|| start.clone());
        let mut reports = StepReports::new(position);
        reports.read_on(harness.fold(), &site)?;
        let mut driver =
            ChainDriver { site, chain, launcher, budget, harness, start, dir, reports, index };
        if *opening == Opening::Resume {
            driver.record_resumption()?;
        }
        Ok(driver)
    }

    pub(super) fn chain(&self) -> &Chain {
        self.harness.fold()
    }

    fn record_resumption(&mut self) -> Result<(), DriveError> {
        let chain = self.chain();
        let previous_outcome = chain.outcome.clone().unwrap_or_default();
        if chain.start.is_none() || previous_outcome == Outcome::AllStepsComplete {
            return Ok(());
        }
        let open = chain.steps.iter().find(|step| step.stop_reason.is_none());
        let run = open.and_then(|step| self.reports.run(step.run.as_deref()?));
        // How long the step was at work that was interrupted.
        let elapsed_ms = run.and_then(|run| chain.interrupted_after_ms(&run.times.1));
        let resumed_from_step = chain.first_open();
        let resume = ChainResume { resumed_from_step, previous_outcome, elapsed_ms };
        self.append(|heading| resume.record(heading))
    }

    /// Carries the chain out to its end, or until it is interrupted.
    pub fn run(mut self) -> Result<Chain, DriveError> {
        self.carry_out()?;
        Ok(self.harness.into_fold())
    }

    pub(super) fn carry_out(&mut self) -> Result<(), DriveError> {
        loop {
            match next_step(self.chain(), &self.budget) {
                Next::Start => {
                    let start = self.start.clone();
                    self.append(|heading| start.record(heading))?;
                }
                Next::Step(number) => {
                    if !self.step(number)? {
                        return Ok(());
                    }
                }
                Next::Complete(outcome) => {
                    let complete = ChainComplete {
                        name: self.start.name.clone(),
                        steps_completed: self.chain().ended(),
                        outcome: outcome.into(),
                    };
                    self.append(|heading| complete.record(heading))?;
                }
                Next::Over => return Ok(()),
            }
        }
    }

    /// Carries out one step; returns whether it ended. One that was interrupted did not.
    fn step(&mut self, number: u64) -> Result<bool, DriveError> {
        let before = self.site.world.clock.elapsed();
        let known = self.chain().step(number).and_then(|step| step.run.clone());
        let state = known.and_then(|run| self.reports.run(&run).cloned());
        let end =
            ChainStepFinish { step: number, preset: self.preset(number), ..Default::default() };
        let (run, files) = match (resumption(state.as_ref()), state) {
            (Resumption::Finish, Some(run)) => (run, None),
            (Resumption::Resume, Some(run)) => {
                // It was not synced when it was written, so a power cut may have removed it.
                self.write_handoff(number, &run.id)?;
                let launch = self.launcher.resume(self.chain_step(number)?, &run.id)?;
                self.carry_out_run(number, &launch)?
            }
            _ => match self.launcher.begin(self.chain_step(number)?) {
                Ok(launch) => {
                    self.begin_step(number, &launch)?;
                    self.carry_out_run(number, &launch)?
                }
                // A step of a requested chain that cannot begin ends the chain, not the run that requested it.
                Err(error) if self.start.parent_id.is_some() && error.cannot_begin() => {
                    let (stop_reason, detail) =
                        (StopReason::CannotBegin.into(), Some(error.to_string()));
                    let end = ChainStepFinish { stop_reason, detail, ..end };
                    self.append(|heading| end.record(heading))?;
                    return Ok(true);
                }
                Err(error) => return Err(error),
            },
        };
        let Some(reason) = run.stop_reason() else { return Ok(false) };
        let took = self.site.world.clock.elapsed().saturating_sub(before);
        let finish = ChainStepFinish {
            stop_reason: reason.clone(),
            elapsed_ms: Some(millis(took)),
            detail: run.failure().map(ToString::to_string),
            files,
            ..end
        };
        self.append(|heading| finish.record(heading))?;
        self.reports.read_on(self.harness.fold(), &self.site)?;
        if let [.., last] = self.reports(number).as_slice() {
            write_file(&self.dir.step(number).join("result.md"), &result(last), self.site.world)?;
        }
        Ok(true)
    }

    fn chain_step(&self, number: u64) -> Result<ChainStep<'_>, LaunchError> {
        let ChainLaunch { launch, steps, .. } = self.chain;
        let place = usize::try_from(number - 1).unwrap_or(usize::MAX);
        Ok(ChainStep {
            chain: launch.id.as_str(),
            number,
            definition: steps.get(place).ok_or(LaunchError::NoStep(number))?,
            objective: self.start.objective.as_deref(),
            project: &launch.project,
        })
    }

    /// Carries out the run of a step; returns it and the files that changed meanwhile, one per line, if known.
    fn carry_out_run(
        &self,
        number: u64,
        launch: &Launch,
    ) -> Result<(Run, Option<String>), DriveError> {
        let (site, index) = (self.site.clone(), Rc::clone(&self.index));
        let is_real = !site.world.spawner.is_simulated();
        // Without a listing the step works too.
        let list = || Listing::of_files(&launch.project.dir, site.state_dir).ok();
        let before = is_real.then(list).flatten();
        let earlier = self.reports.spent(self.chain(), number);
        let step = LoopDriver::open_step(site, launch, Some(self.launcher), earlier, index)?;
        let run = step.run()?;
        let files = before.and_then(|before| before.changed_files().ok());
        let names = |files: Vec<PathBuf>| {
            changed_files(files.into_iter().map(|path| path.to_string_lossy().into_owned()))
        };
        Ok((run, files.and_then(names)))
    }

    fn begin_step(&mut self, number: u64, launch: &Launch) -> Result<(), DriveError> {
        self.write_handoff(number, launch.id.as_str())?;
        let start = ChainStepStart {
            step: number,
            preset: self.preset(number),
            preset_dir: launch.project.loop_dir.display().to_string(),
            work_dir: self.dir.step(number).display().to_string(),
            run_id: Some(launch.id.to_string()),
        };
        self.append(|heading| start.record(heading))
    }

    /// Writes what the earlier steps left, for people and for the harness of the run.
    fn write_handoff(&self, number: u64, run: &str) -> Result<(), DriveError> {
        let text = handoff(self.chain(), number, &self.reports(number - 1));
        let beside_run = run_dir(self.site.state_dir, Kind::Loop, run)?.handoff();
        write_file(&self.dir.step(number).join("handoff.md"), &text, self.site.world)?;
        write_file(&beside_run, &text, self.site.world)
    }

    pub(super) fn reports(&self, last: u64) -> Vec<Report> {
        self.reports.of(self.chain(), last)
    }

    fn preset(&self, number: u64) -> String {
        let place = usize::try_from(number - 1).unwrap_or(usize::MAX);
        self.chain().presets().get(place).copied().unwrap_or_default().to_owned()
    }

    fn append(&mut self, record: impl FnOnce(&Heading) -> Record) -> Result<(), DriveError> {
        self.harness.record_refusing("", |heading| vec![record(heading)]).map(drop)
    }
}
