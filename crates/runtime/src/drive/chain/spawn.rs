//! The chains that a run requests, carried out between two of its iterations.
//!
//! The run waits for its chain, and what ends the one ends the other: both are resumed with the run, and the next
//! prompt of the run contains the result of the chain.

use std::cell::RefMut;

use autoloop_core::chain::spawn::{self, SpawnStep};
use autoloop_core::chain::{
    Ancestry, Chain, Definitions, Refusal, SpawnContext, admit, returned,
};
use autoloop_core::coordinator::Kind;
use autoloop_core::record::{ChainSpawnFinish, ChainSpawned};
use autoloop_core::run::SpawnRequest;

use super::{Census, ChainDrive, lock, reports};
use crate::drive::{Drive, DriveError};
use crate::error::LaunchError;
use crate::harness::run_dir;
use crate::launch::{ChainLaunch, Launch, Opening};
use crate::site::Progress;

impl Drive<'_> {
    /// Does what a chain needs that was asked for.
    pub(in crate::drive) fn chain(&mut self, step: SpawnStep) -> Result<(), DriveError> {
        match step {
            SpawnStep::Decide(request) => match self.consider(&request)? {
                Ok(spawned) => self.grant(&spawned),
                Err(refusal) => self.refuse_chain(&refusal),
            },
            SpawnStep::Refuse(refusal) => self.refuse_chain(&refusal),
            SpawnStep::CarryOut(spawned) => self.carry_out_chain(&spawned),
        }
    }

    /// How many chains the run may still ask for; `None` where it may not.
    pub(in crate::drive) fn chains_left(&self) -> Result<Option<u64>, DriveError> {
        let definitions = self.launcher.map(|launcher| launcher.definitions(self.project));
        let Some(Ok(Definitions { budget, .. })) = definitions else { return Ok(None) };
        let run = self.harness.run();
        let left = budget.max_children.saturating_sub(run.spawns.count);
        if left == 0 || run.spawns.failures >= budget.max_consecutive_failures {
            return Ok(None);
        }
        // A run that is no step and asked for nothing yet has no relatives.
        if self.handoff.is_empty() && run.spawns.count == 0 {
            return Ok(Some(left));
        }
        let chains = self.census()?.chains();
        Ok(Some(left).filter(|_| Ancestry::of(&run.id, &chains).has_room(budget)))
    }

    fn refuse_chain(&mut self, refusal: &Refusal) -> Result<(), DriveError> {
        self.site.note(&format!("a chain was not started: {refusal}"));
        self.put_all(|heading| vec![refusal.record().record(heading)])
    }

    fn consider(
        &self,
        request: &SpawnRequest,
    ) -> Result<Result<ChainSpawned, Refusal>, DriveError> {
        let Some(launcher) = self.launcher else { return Ok(Err(Refusal::Off)) };
        let definitions = match launcher.definitions(self.project) {
            Ok(definitions) => definitions,
            Err(error) => return Ok(Err(Refusal::BadFile(error.to_string()))),
        };
        let census = self.census()?;
        let (chains, ids) = (census.chains(), census.ids.clone());
        drop(census);
        let run = self.harness.run();
        let ancestry = Ancestry::of(&run.id, &chains);
        let proposal = admit(run, request, &SpawnContext { definitions, ancestry, ids });
        Ok(proposal.and_then(|proposal| {
            let checked = launcher.check(self.project, &proposal.steps);
            checked.map_err(|error| Refusal::Unfit(error.to_string()))?;
            Ok(proposal.spawned)
        }))
    }

    /// Puts on record that there will be a chain, unless somebody else took its id meanwhile. Whoever
    /// takes an id holds the lock of its directory and looks again, so of several only one can.
    fn grant(&mut self, spawned: &ChainSpawned) -> Result<(), DriveError> {
        let lock = match lock(&self.site, &spawned.chain_id) {
            Ok(lock) => Some(lock),
            Err(DriveError::BusyChain { .. }) => None,
            Err(error) => return Err(error),
        };
        if lock.is_none() || self.is_taken(&spawned.chain_id)? {
            return self.refuse_chain(&Refusal::UsedId(spawned.chain_id.clone()));
        }
        self.put_all(|heading| vec![spawned.record(heading)])?;
        // It is held until it ends, so that no process that looks whether the id is free gets in its way.
        self.granted = lock;
        Ok(())
    }

    /// Whether an id is taken, also by a run of this name that is about to begin.
    fn is_taken(&self, id: &str) -> Result<bool, DriveError> {
        let dir = run_dir(self.site.state_dir, Kind::Loop, id)?;
        Ok(self.site.world.disk.stat(&dir).is_ok() || self.census()?.ids.contains(id))
    }

    /// All chains and ids of the journal. Only what was appended since the last call is read.
    fn census(&self) -> Result<RefMut<'_, Census>, DriveError> {
        let mut census = self.census.borrow_mut();
        census.read_on(&self.site)?;
        Ok(census)
    }

    /// Carries a chain out from wherever it is, and tells the run how it ended.
    fn carry_out_chain(&mut self, spawned: &ChainSpawned) -> Result<(), DriveError> {
        let launcher = self.launcher.ok_or(LaunchError::ChainsOff)?;
        let definitions = launcher.definitions(self.project)?;
        let mut budget = definitions.budget;
        let chains = self.census()?.chains();
        let known = chains.iter().find(|chain| chain.id == spawned.chain_id);
        if let Some(chain) = known.filter(|chain| chain.outcome.is_some()) {
            return self.chain_ended(chain);
        }
        // What its relatives took is taken from its own time.
        let own = known.map_or(0, Chain::spent_ms);
        let others = Ancestry::of(&spawned.parent_id, &chains).spent_ms.saturating_sub(own);
        budget.max_runtime_ms = budget.max_runtime_ms.saturating_sub(others);

        let steps = spawn::steps(spawned, known, &definitions);
        let start = spawn::start(spawned, &steps, &self.objective);
        let opening = if known.is_some() { Opening::Resume } else { Opening::Begin };
        self.site.report(Progress::Chain { id: &spawned.chain_id, steps: &start.steps });
        let (id, site) = (spawned.chain_id.parse()?, self.site.clone());
        let launch =
            Launch::new(Kind::Chain, id, opening, self.project.clone(), self.loaded.clone());
        let chain = ChainLaunch { launch, start, steps };
        let lock = self.granted.take().filter(|_| opening == Opening::Begin);
        let chain = ChainDrive::new(site, &chain, launcher, budget, lock)?.run()?;
        match chain.outcome {
            Some(_) => self.chain_ended(&chain),
            // It was interrupted, and so is this run.
            None => Ok(()),
        }
    }

    fn chain_ended(&mut self, chain: &Chain) -> Result<(), DriveError> {
        let reports = reports::read(&self.site, chain.steps.iter())?;
        let finish = ChainSpawnFinish {
            chain_id: chain.id.clone(),
            outcome: chain.outcome.clone().unwrap_or_default(),
            steps_completed: chain.ended(),
            output: returned(chain, &reports).into(),
        };
        self.put_all(|heading| vec![finish.record(heading)])?;
        self.site.report(Progress::Chained { id: &chain.id, outcome: finish.outcome.as_str() });
        Ok(())
    }
}
