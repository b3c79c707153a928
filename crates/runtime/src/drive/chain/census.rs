//! All chains by the records of their own harnesses, and every id that is taken.

use std::collections::HashSet;
use std::ops::ControlFlow;

use autoloop_core::chain::Chain;
use autoloop_core::coordinator::Kind;
use autoloop_core::provenance::{Provenance, Unsealed};
use autoloop_core::record::{ChainSpawnFinish, ChainSpawned};

use super::{ChainScene, DriveError};
use crate::harness::{ByRun, HarnessError, OnRecord, RunPlace, run_dir};
use crate::journal::Position;

/// What the journal says about chains and ids, up to a position.
#[derive(Default)]
pub(in crate::drive) struct Census {
    chains: ByRun<OnRecord<Chain>>,
    /// The ids of runs and of chains, also of those that are about to begin.
    pub(super) ids: HashSet<String>,
    position: Position,
}

impl Census {
    /// Reads what was appended since.
    pub(super) fn read_on(&mut self, scene: ChainScene<'_>) -> Result<(), DriveError> {
        let Census { chains, ids, position } = self;
        let mut unreadable = None;
        let mut provenance = |run: &str| {
            let nothing = || Provenance::new(None, Unsealed::Noted(Default::default()));
            let Ok(dir) = run_dir(scene.state_dir, Kind::Chain, run) else { return nothing() };
            let found = RunPlace { dir: &dir, run, world: scene.world }.provenance(scene.trust);
            found.unwrap_or_else(|error: HarnessError| {
                unreadable.get_or_insert(error);
                nothing()
            })
        };
        scene.journal.read(*position, &mut |line| {
            line.records(|record| {
                let id = record.run();
                if !ids.contains(&*id) {
                    ids.insert(id.clone().into_owned());
                }
                if Kind::Chain.concerns(record) {
                    ids.extend(ChainSpawned::of(record).map(|spawned| spawned.chain_id));
                    ids.extend(ChainSpawnFinish::of(record).map(|finish| finish.chain_id));
                    chains.of(&id, |run| OnRecord::new(run, provenance(run))).take(record);
                }
            });
            *position = line.position();
            ControlFlow::Continue(())
        })?;
        unreadable.map_or(Ok(()), |error| Err(error.into()))
    }

    /// The chains, in the order in which they began.
    pub(super) fn chains(&self) -> Vec<Chain> {
        let chains = self.chains.found.iter().map(OnRecord::proven);
        chains.filter(|chain| chain.start.is_some()).cloned().collect()
    }
}
