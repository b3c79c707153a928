//! The chains that a run requests, carried out between two of its iterations.
//!
//! The run waits for its chain, and what ends the one ends the other: both are resumed with the run, and the next
//! prompt of the run contains the result of the chain.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use autoloop_core::chain::spawn::{self, SpawnStep};
use autoloop_core::chain::{
    Ancestry, Chain, Definitions, Refusal, Report, SpawnContext, admit, returned,
};
use autoloop_core::coordinator::Kind;
use autoloop_core::record::{ChainSpawnFinish, ChainSpawned};
use autoloop_core::run::SpawnRequest;

use super::DriveError;
use super::chain::ChainDriver;
use super::chain_records::{ChainIndex, StepReports};
use super::loop_run::LoopRun;
use crate::error::LaunchError;
use crate::harness::{RunLock, RunPlace, run_dir};
use crate::journal::Position;
use crate::launch::{ChainLaunch, Launch, Opening, StepLauncher};
use crate::site::{Progress, Site};

#[derive(Default)]
pub(super) struct ChainRequests<'a> {
    /// Prepares their steps; `None` where the run may not request chains.
    launcher: Option<&'a dyn StepLauncher>,
    granted: Option<RunLock>,
    index: Rc<RefCell<ChainIndex>>,
}

impl<'a> ChainRequests<'a> {
    pub(super) fn new(
        launcher: Option<&'a dyn StepLauncher>,
        index: Rc<RefCell<ChainIndex>>,
    ) -> Self {
        ChainRequests { launcher, granted: None, index }
    }

    pub(super) fn step(
        &mut self,
        step: SpawnStep,
        run: &mut LoopRun<'a>,
    ) -> Result<(), DriveError> {
        match step {
            SpawnStep::Decide(request) => match self.decide(&request, run)? {
                Ok(spawned) => self.grant(&spawned, run),
                Err(refusal) => refuse(&refusal, run),
            },
            SpawnStep::Refuse(refusal) => refuse(&refusal, run),
            SpawnStep::CarryOut(spawned) => self.carry_out(&spawned, run),
        }
    }

    /// How many chains a run may still request; `None` where it may not.
    pub(super) fn left(&self, run: &LoopRun<'_>) -> Result<Option<u64>, DriveError> {
        let definitions = self.launcher.map(|launcher| launcher.definitions(run.project));
        let Some(Ok(Definitions { budget, .. })) = definitions else { return Ok(None) };
        let state = run.state();
        let left = budget.max_children.saturating_sub(state.spawns.count);
        if left == 0 || state.spawns.failures >= budget.max_consecutive_failures {
            return Ok(None);
        }
        // A run that is not a step and requested nothing yet belongs to no chain.
        if run.handoff.is_empty() && state.spawns.count == 0 {
            return Ok(Some(left));
        }
        let chains = self.index(&run.site)?.chains();
        Ok(Some(left).filter(|_| Ancestry::of(&state.id, &chains).has_room(budget)))
    }

    fn decide(
        &self,
        request: &SpawnRequest,
        run: &LoopRun<'_>,
    ) -> Result<Result<ChainSpawned, Refusal>, DriveError> {
        let Some(launcher) = self.launcher else { return Ok(Err(Refusal::Off)) };
        let definitions = match launcher.definitions(run.project) {
            Ok(definitions) => definitions,
            Err(error) => return Ok(Err(Refusal::BadFile(error.to_string()))),
        };
        let index = self.index(&run.site)?;
        let (chains, ids) = (index.chains(), index.ids.clone());
        drop(index);
        let state = run.state();
        let ancestry = Ancestry::of(&state.id, &chains);
        let proposal = admit(state, request, &SpawnContext { definitions, ancestry, ids });
        Ok(proposal.and_then(|proposal| {
            let checked = launcher.check(run.project, &proposal.steps);
            checked.map_err(|error| Refusal::Unfit(error.to_string()))?;
            Ok(proposal.spawned)
        }))
    }

    /// Records that there will be a chain, unless its id was taken meanwhile. A process that takes an id holds the
    /// lock of its directory and looks again, so of several only one succeeds.
    fn grant(&mut self, spawned: &ChainSpawned, run: &mut LoopRun<'a>) -> Result<(), DriveError> {
        let id = &spawned.chain_id;
        let lock = match RunLock::take(&RunPlace::of(&run.site, Kind::Chain, id)?) {
            Ok(lock) => Some(lock),
            Err(DriveError::Busy { .. }) => None,
            Err(error) => return Err(error),
        };
        if lock.is_none() || self.is_taken(id, &run.site)? {
            return refuse(&Refusal::UsedId(id.clone()), run);
        }
        run.append(run.state().done, |heading| spawned.record(heading))?;
        // It is held until the chain ends, so that no process finds the id free.
        self.granted = lock;
        Ok(())
    }

    /// Whether an id is taken, also by a run that is about to begin.
    fn is_taken(&self, id: &str, site: &Site<'_>) -> Result<bool, DriveError> {
        let dir = run_dir(site.state_dir, Kind::Loop, id)?;
        Ok(site.world.disk.stat(&dir).is_ok() || self.index(site)?.ids.contains(id))
    }

    /// All chains and ids of the journal. Only what was appended since the last call is read.
    fn index(&self, site: &Site<'_>) -> Result<RefMut<'_, ChainIndex>, DriveError> {
        let mut index = self.index.borrow_mut();
        index.read_on(site)?;
        Ok(index)
    }

    /// Carries a chain out from wherever it is, and records its result for the run.
    fn carry_out(
        &mut self,
        spawned: &ChainSpawned,
        run: &mut LoopRun<'a>,
    ) -> Result<(), DriveError> {
        let launcher = self.launcher.ok_or(LaunchError::ChainsOff)?;
        let definitions = launcher.definitions(run.project)?;
        let mut budget = definitions.budget;
        let chains = self.index(&run.site)?.chains();
        let known = chains.iter().find(|chain| chain.id == spawned.chain_id);
        if let Some(chain) = known.filter(|chain| chain.outcome.is_some()) {
            let mut reports = StepReports::new(Position::START);
            reports.read_on(chain, &run.site)?;
            return chain_ended(chain, &reports.of(chain, u64::MAX), run);
        }
        // The time of related chains is subtracted from its own.
        let own = known.map_or(0, Chain::spent_ms);
        let others = Ancestry::of(&spawned.parent_id, &chains).spent_ms.saturating_sub(own);
        budget.max_runtime_ms = budget.max_runtime_ms.saturating_sub(others);

        let steps = spawn::steps(spawned, known, &definitions);
        let start = spawn::start(spawned, &steps, &run.objective);
        let opening = if known.is_some() { Opening::Resume } else { Opening::Begin };
        run.site.report(Progress::Chain { id: &spawned.chain_id, steps: &start.steps });
        let id = spawned.chain_id.parse()?;
        let (project, loaded) = (run.project.clone(), run.loaded.clone());
        let launch = Launch::new(Kind::Chain, id, opening, project, loaded);
        let chain = ChainLaunch { launch, start, steps };
        let lock = self.granted.take().filter(|_| opening == Opening::Begin);
        let (site, index) = (run.site.clone(), Rc::clone(&self.index));
        let mut driver = ChainDriver::new(site, &chain, launcher, budget, lock, index)?;
        driver.carry_out()?;
        match driver.chain().outcome {
            Some(_) => chain_ended(driver.chain(), &driver.reports(u64::MAX), run),
            // It was interrupted, and so is this run.
            None => Ok(()),
        }
    }
}

fn refuse(refusal: &Refusal, run: &mut LoopRun<'_>) -> Result<(), DriveError> {
    run.site.note(&format!("a chain was not started: {refusal}"));
    run.append(run.state().done, |heading| refusal.record().record(heading))
}

fn chain_ended(chain: &Chain, reports: &[Report], run: &mut LoopRun<'_>) -> Result<(), DriveError> {
    let finish = ChainSpawnFinish {
        chain_id: chain.id.clone(),
        outcome: chain.outcome.clone().unwrap_or_default(),
        steps_completed: chain.ended(),
        output: returned(chain, reports).into(),
    };
    run.append(run.state().done, |heading| finish.record(heading))?;
    run.site.report(Progress::Chained { id: &chain.id, outcome: finish.outcome.as_str() });
    Ok(())
}
