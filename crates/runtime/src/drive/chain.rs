//! Carries a chain out: asks for the next step, carries it out as a run, and appends the result.
//!
//! The records of a chain have an id of their own, in the journal of the project, and one harness writes them. The
//! handoff of a step is in the directory of the step for people, and beside its run for the harness of the run, which
//! finds it there when the run is resumed.

mod census;
mod reports;
mod spawn;

use std::path::{Path, PathBuf};

use autoloop_core::chain::{
    Budget, Chain, Next, Outcome, Report, Resumption, changed_files, handoff, next_step, result,
    resumption,
};
use autoloop_core::coordinator::Kind;
use autoloop_core::record::{
    ChainComplete, ChainResume, ChainStart, ChainStepFinish, ChainStepStart, Heading, Record,
};
use autoloop_core::run::{Run, StopReason};

use super::{Drive, DriveError, durability};
use crate::error::LaunchError;
use crate::harness::{Harness, RunLock, RunPlace, create_dirs, run_dir};
use crate::launch::{ChainLaunch, ChainStep, Launch, Opening, StepLauncher};
use crate::layout::RunDir;
use crate::project::{LoadError, read_text};
use crate::runs::state;
use crate::site::Site;
use crate::turn::millis;
use crate::world::Disk;

pub(super) use census::Census;

/// The longest handoff that is read back.
const LONGEST: u64 = 1024 * 1024;

/// A chain, and everything that is needed to carry it out.
pub struct ChainDrive<'a> {
    site: Site<'a>,
    chain: &'a ChainLaunch,
    launcher: &'a dyn StepLauncher,
    budget: Budget,
    harness: Harness<'a, Chain>,
    start: ChainStart,
    dir: RunDir,
}

impl<'a> ChainDrive<'a> {
    /// Prepares to carry out a chain within these limits. A resumed chain of which nothing is proven begins again.
    pub fn open(
        site: Site<'a>,
        chain: &'a ChainLaunch,
        launcher: &'a dyn StepLauncher,
        budget: Budget,
    ) -> Result<Self, DriveError> {
        chain.launch.report(&site);
        let drive = ChainDrive::new(site, chain, launcher, budget, None)?;
        chain.keep_request(drive.site.world)?;
        Ok(drive)
    }

    /// With the lock of the chain, where it was taken when the chain was granted to a run.
    fn new(
        site: Site<'a>,
        chain: &'a ChainLaunch,
        launcher: &'a dyn StepLauncher,
        budget: Budget,
        granted: Option<RunLock>,
    ) -> Result<Self, DriveError> {
        let ChainLaunch { launch: Launch { id, opening, .. }, start, .. } = chain;
        let dir = site.state_dir.run(Kind::Chain, id);
        let place = RunPlace { dir: &dir, run: id.as_str(), world: site.world };
        let is_granted = granted.is_some();
        let lock = granted.map_or_else(|| lock(&site, id.as_str()), Ok)?;
        if *opening == Opening::Resume {
            let harness: Harness<'_, Chain> =
                Harness::resume(site.journal, place, lock, site.trust)?;
            let start = harness.fold().start.clone().unwrap_or_else(|| start.clone());
            let mut drive = ChainDrive { site, chain, launcher, budget, harness, start, dir };
            drive.record_resume()?;
            return Ok(drive);
        }
        // A chain that no run requested is begun by the process that created its directory, unless a run was granted
        // the same id in between.
        if start.parent_id.is_none() && !is_granted && lock.was_used() {
            return Err(DriveError::BusyChain { chain: id.to_string(), holder: None });
        }
        let harness = Harness::begin(site.journal, place, lock)?;
        Ok(ChainDrive { site, chain, launcher, budget, harness, start: start.clone(), dir })
    }

    fn record_resume(&mut self) -> Result<(), DriveError> {
        let chain = self.chain();
        let previous_outcome = chain.outcome.clone().unwrap_or_default();
        if chain.start.is_none() || previous_outcome == Outcome::AllStepsComplete {
            return Ok(());
        }
        let resumed_from_step = chain.first_open();
        let elapsed_ms = self.cut_off_after_ms()?;
        let resume = ChainResume { resumed_from_step, previous_outcome, elapsed_ms };
        self.put(|heading| resume.record(heading))
    }

    fn chain(&self) -> &Chain {
        self.harness.fold()
    }

    /// Carries the chain out to its end, or until it is interrupted.
    pub fn run(mut self) -> Result<Chain, DriveError> {
        loop {
            match next_step(self.chain(), &self.budget) {
                Next::Start => {
                    let start = self.start.clone();
                    self.put(|heading| start.record(heading))?;
                }
                Next::Step(number) => {
                    if !self.step(number)? {
                        return Ok(self.harness.into_fold());
                    }
                }
                Next::Complete(outcome) => {
                    let complete = ChainComplete {
                        name: self.start.name.clone(),
                        steps_completed: self.chain().ended(),
                        outcome: outcome.into(),
                    };
                    self.put(|heading| complete.record(heading))?;
                }
                Next::Over => return Ok(self.harness.into_fold()),
            }
        }
    }

    /// Carries out one step; returns whether it ended. One that was interrupted did not.
    fn step(&mut self, number: u64) -> Result<bool, DriveError> {
        let before = self.site.world.clock.elapsed();
        let known = self.chain().step(number).and_then(|step| step.run.clone());
        let state = match &known {
            Some(run) => state::<Run>(&self.site, run)?,
            None => None,
        };
        let end =
            ChainStepFinish { step: number, preset: self.preset(number), ..Default::default() };
        let (run, files) = match (resumption(state.as_ref()), state) {
            (Resumption::Finish, Some(run)) => (run, None),
            (Resumption::GoOn, Some(run)) => {
                // It was not synced when it was written, so a power cut may have removed it.
                self.hand_on(number, &run.id)?;
                let launch = self.launcher.resume(self.chain_step(number)?, &run.id)?;
                self.carry_out(&launch)?
            }
            _ => match self.launcher.begin(self.chain_step(number)?) {
                Ok(launch) => {
                    self.announce(number, &launch)?;
                    self.carry_out(&launch)?
                }
                // A step of a requested chain that cannot begin ends the chain, not the run that requested it.
                Err(error) if self.start.parent_id.is_some() && error.is_usage() => {
                    let (stop_reason, detail) =
                        (StopReason::CannotBegin.into(), Some(error.to_string()));
                    let end = ChainStepFinish { stop_reason, detail, ..end };
                    self.put(|heading| end.record(heading))?;
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
        self.put(|heading| finish.record(heading))?;
        if let [.., last] = self.reports(number)?.as_slice() {
            self.write(&self.step_dir(number).join("result.md"), &result(last))?;
        }
        Ok(true)
    }

    /// How long the step had been at work that was cut off or interrupted, if one was.
    fn cut_off_after_ms(&self) -> Result<Option<u64>, DriveError> {
        let open = self.chain().steps.iter().find(|step| step.stop_reason.is_none());
        let Some(run) = open.and_then(|step| step.run.as_deref()) else { return Ok(None) };
        let run = state::<Run>(&self.site, run)?;
        Ok(run.and_then(|run| self.chain().cut_off_after_ms(&run.times.1)))
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
    fn carry_out(&self, launch: &Launch) -> Result<(Run, Option<String>), DriveError> {
        let run = Drive::open(self.site.clone(), launch, Some(self.launcher))?.run()?;
        let files = launch.before.as_ref().and_then(|before| before.changed_files().ok());
        let names = |files: Vec<PathBuf>| {
            changed_files(files.into_iter().map(|path| path.to_string_lossy().into_owned()))
        };
        Ok((run, files.and_then(names)))
    }

    /// Writes the handoff of a step and records that the step begins.
    fn announce(&mut self, number: u64, launch: &Launch) -> Result<(), DriveError> {
        self.hand_on(number, launch.id.as_str())?;
        let start = ChainStepStart {
            step: number,
            preset: self.preset(number),
            preset_dir: launch.project.loop_dir.display().to_string(),
            work_dir: self.step_dir(number).display().to_string(),
            run_id: Some(launch.id.to_string()),
        };
        self.put(|heading| start.record(heading))
    }

    /// Writes down what the step is told, for people and for the harness of its run.
    fn hand_on(&self, number: u64, run: &str) -> Result<(), DriveError> {
        let text = handoff(self.chain(), number, &self.reports(number - 1)?);
        self.write(&self.step_dir(number).join("handoff.md"), &text)?;
        self.write(&run_dir(self.site.state_dir, Kind::Loop, run)?.handoff(), &text)
    }

    /// What the steps up to one left.
    fn reports(&self, last: u64) -> Result<Vec<Report>, DriveError> {
        let ended = self.chain().steps.iter().filter(|step| step.number <= last);
        reports::read(&self.site, ended)
    }

    fn preset(&self, number: u64) -> String {
        let place = usize::try_from(number - 1).unwrap_or(usize::MAX);
        self.chain().presets().get(place).copied().unwrap_or_default().to_owned()
    }

    fn step_dir(&self, number: u64) -> PathBuf {
        self.dir.step(number)
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), DriveError> {
        let world = self.site.world;
        create_dirs(path.parent().unwrap_or(path), world)?;
        world
            .disk
            .replace(path, text.as_bytes())
            .map_err(|source| DriveError::Write { path: path.to_owned(), source })
    }

    fn put(&mut self, record: impl FnOnce(&Heading) -> Record) -> Result<(), DriveError> {
        let heading = self.harness.heading("", self.site.world.clock.now());
        let records = [record(&heading)];
        let durability = durability(&self.chain.launch.loaded.plan);
        self.harness.append_refusing(durability, &heading, &records)?;
        Ok(())
    }
}

/// Makes sure that no other process drives the chain.
fn lock(site: &Site<'_>, id: &str) -> Result<RunLock, DriveError> {
    let dir = run_dir(site.state_dir, Kind::Chain, id)?;
    let place = RunPlace { dir: &dir, run: id, world: site.world };
    RunLock::take(place).map_err(|error| match error {
        DriveError::Busy { run, holder } => DriveError::BusyChain { chain: run, holder },
        error => error,
    })
}

/// What a run is told by the earlier steps of its chain; nothing outside of one.
pub(super) fn handoff_of_run(run_dir: &RunDir, disk: &dyn Disk) -> Result<String, DriveError> {
    let path = run_dir.handoff();
    let text = read_text(disk, &path, LONGEST);
    Ok(text.map_err(|why| LoadError::Unreadable { path, why })?.unwrap_or_default())
}
