//! Carries a chain out: asks for the next step, lets it be done, and puts on record what came of it.
//!
//! The records of a chain have an id of their own, in the journal of the project, and one harness writes
//! them. Every step is a run like any other; whoever knows where presets are carries it out ([`Steps`]).
//! What a step is told by those before it is in its directory for people, and beside its run for the
//! harness of the run, which finds it there whoever takes the run up again.

mod census;
mod reports;
mod spawn;

use std::path::{Path, PathBuf};

use autoloop_core::chain::{
    Budget, Chain, Next, Outcome, Report, Resumption, handoff, next_step, result, resumption,
};
use autoloop_core::coordinator::Kind;
use autoloop_core::record::{
    ChainComplete, ChainResume, ChainStart, ChainStepFinish, ChainStepStart, Heading, Record,
};
use autoloop_core::run::{Run, StopReason};
use autoloop_core::run_id::RunId;

use super::DriveError;
use crate::harness::{Harness, RunLock, RunPlace, create_dirs, run_dir};
use crate::journal::Durability;
use crate::layout::RunDir;
use crate::project::{LoadError, read_text};
use crate::runs::state;
use crate::site::Site;
use crate::turn::millis;
use crate::world::Disk;

pub(super) use census::Census;
pub use spawn::{Loops, StepsOrder};

/// The longest handoff that is read back.
const LONGEST: u64 = 1024 * 1024;

/// A step that can begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The run that it will be.
    pub run: String,
    /// Where the files of its loop are.
    pub loop_dir: PathBuf,
}

/// What came of making a step ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// It can begin.
    Ready(Ready),
    /// It cannot, and that is how it ends: for this reason.
    Unfit(String),
}

/// Whoever carries steps out.
pub trait Steps {
    /// Why one cannot be.
    type Error: From<DriveError>;

    /// Makes a step ready to begin.
    fn prepare(&mut self, step: u64) -> Result<Preparation, Self::Error>;

    /// Carries out the step that was made ready.
    fn begin(&mut self) -> Result<Run, Self::Error>;

    /// Goes on with the run of a step that was cut off or that failed.
    fn resume(&mut self, step: u64, run: &str) -> Result<Run, Self::Error>;

    /// The files that changed while the last step was carried out, one a line, if that is known.
    fn files(&self) -> Option<String> {
        None
    }
}

/// A chain, and everything that is needed to carry it out.
pub struct ChainDrive<'a> {
    site: Site<'a>,
    budget: Budget,
    durability: Durability,
    harness: Harness<'a, Chain>,
    start: ChainStart,
    dir: RunDir,
}

impl<'a> ChainDrive<'a> {
    /// Prepares to begin a chain.
    pub fn begin(
        site: Site<'a>,
        budget: Budget,
        durability: Durability,
        id: &RunId,
        start: ChainStart,
    ) -> Result<Self, DriveError> {
        let lock = lock(&site, id.as_str())?;
        // A chain that a run requested was locked when it was granted; any other is begun by the process that made
        // its directory, unless a run was granted this very id in between.
        if start.parent_id.is_none() && lock.was_used() {
            return Err(DriveError::BusyChain { chain: id.as_str().to_owned(), holder: None });
        }
        ChainDrive::granted(site, budget, durability, id, start, lock)
    }

    /// Prepares to begin a chain that is locked already.
    fn granted(
        site: Site<'a>,
        budget: Budget,
        durability: Durability,
        id: &RunId,
        start: ChainStart,
        lock: RunLock,
    ) -> Result<Self, DriveError> {
        let dir = site.state_dir.run(Kind::Chain, id);
        let place = RunPlace { dir: &dir, run: id.as_str(), world: site.world };
        let harness = Harness::begin(site.journal, place, lock)?;
        Ok(ChainDrive { site, budget, durability, harness, start, dir })
    }

    /// Resumes a chain, and records that. Where nothing of it is proven it begins again, as `start` says.
    pub fn resume(
        site: Site<'a>,
        budget: Budget,
        durability: Durability,
        id: &RunId,
        start: ChainStart,
    ) -> Result<Self, DriveError> {
        let lock = lock(&site, id.as_str())?;
        let dir = site.state_dir.run(Kind::Chain, id);
        let place = RunPlace { dir: &dir, run: id.as_str(), world: site.world };
        let harness: Harness<'_, Chain> = Harness::resume(site.journal, place, lock, site.trust)?;
        let start = harness.fold().start.clone().unwrap_or(start);
        let mut drive = ChainDrive { site, budget, durability, harness, start, dir };
        let chain = drive.chain();
        let previous_outcome = chain.outcome.clone().unwrap_or_default();
        if chain.start.is_some() && previous_outcome != Outcome::AllStepsComplete {
            let resumed_from_step = chain.first_open();
            let elapsed_ms = drive.cut_off_after_ms()?;
            let resume = ChainResume { resumed_from_step, previous_outcome, elapsed_ms };
            drive.put(|heading| resume.record(heading))?;
        }
        Ok(drive)
    }

    /// The chain, as far as it is.
    pub fn chain(&self) -> &Chain {
        self.harness.fold()
    }

    /// Carries the chain out to its end, or until it is interrupted.
    ///
    /// # Errors
    ///
    /// When it cannot be carried on. Everything that happened is on record, and the chain can be taken
    /// up again.
    pub fn run<S: Steps + ?Sized>(mut self, steps: &mut S) -> Result<Chain, S::Error> {
        loop {
            match next_step(self.chain(), &self.budget) {
                Next::Start => {
                    let start = self.start.clone();
                    self.put(|heading| start.record(heading))?;
                }
                Next::Step(number) => {
                    if !self.step(number, steps)? {
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

    /// Does one step. Says whether it ended: one that was interrupted did not.
    fn step<S: Steps + ?Sized>(&mut self, number: u64, steps: &mut S) -> Result<bool, S::Error> {
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
                // It was not synced when it was written, so a power cut may have taken it.
                self.hand_on(number, &run.id)?;
                (steps.resume(number, &run.id)?, steps.files())
            }
            _ => match steps.prepare(number)? {
                Preparation::Ready(ready) => {
                    self.announce(number, ready)?;
                    (steps.begin()?, steps.files())
                }
                Preparation::Unfit(why) => {
                    let stop_reason = StopReason::CannotBegin.into();
                    let end = ChainStepFinish { stop_reason, detail: Some(why), ..end };
                    self.put(|heading| end.record(heading))?;
                    return Ok(true);
                }
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

    /// Writes down what the step is told, and says on record that it begins.
    fn announce(&mut self, number: u64, ready: Ready) -> Result<(), DriveError> {
        self.hand_on(number, &ready.run)?;
        let start = ChainStepStart {
            step: number,
            preset: self.preset(number),
            preset_dir: ready.loop_dir.display().to_string(),
            work_dir: self.step_dir(number).display().to_string(),
            run_id: Some(ready.run),
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
        self.harness.append_refusing(self.durability, &heading, &records)?;
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
