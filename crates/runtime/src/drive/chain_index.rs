//! All chains by the records of their own harnesses, and every id that is taken.

use std::collections::HashSet;
use std::ops::ControlFlow;

use autoloop_core::chain::Chain;
use autoloop_core::coordinator::Kind;
use autoloop_core::provenance::{Provenance, Unsealed};
use autoloop_core::record::{ChainSpawnFinish, ChainSpawned};

use super::DriveError;
use crate::harness::{RunPlace, run_dir};
use crate::journal::Position;
use crate::runs::{ByRun, RecordedRun};
use crate::site::Site;

/// What the journal contains about chains and ids, up to a position. The runs of one process share it, so that the
/// journal is read once.
#[derive(Default)]
pub(super) struct ChainIndex {
    chains: ByRun<RecordedRun<Chain>>,
    /// The ids of runs and of chains, also of those that are about to begin.
    pub(super) ids: HashSet<String>,
    position: Position,
}

impl ChainIndex {
    /// Reads what was appended since the last call.
    pub(super) fn read_on(&mut self, site: &Site<'_>) -> Result<(), DriveError> {
        let ChainIndex { chains, ids, position } = self;
        let mut unreadable = None;
        let mut provenance = |run: &str| {
            let nothing = || Provenance::new(None, Unsealed::Noted(Default::default()));
            let Ok(dir) = run_dir(site.state_dir, Kind::Chain, run) else { return nothing() };
            let found = RunPlace { dir: &dir, run, world: site.world }.provenance(site.trust);
            found.unwrap_or_else(|error: DriveError| {
                unreadable.get_or_insert(error);
                nothing()
            })
        };
        site.journal.read(*position, &mut |line| {
            line.records(|record| {
                let id = record.run();
                if !ids.contains(&*id) {
                    ids.insert(id.clone().into_owned());
                }
                if Kind::Chain.concerns(record) {
                    ids.extend(ChainSpawned::of(record).map(|spawned| spawned.chain_id));
                    ids.extend(ChainSpawnFinish::of(record).map(|finish| finish.chain_id));
                    chains.of(&id, |run| RecordedRun::new(run, provenance(run))).take(record);
                }
            });
            *position = line.position();
            ControlFlow::Continue(())
        })?;
        unreadable.map_or(Ok(()), Err)
    }

    /// The chains, in the order in which they began.
    pub(super) fn chains(&self) -> Vec<Chain> {
        let chains = self.chains.found.iter().map(RecordedRun::proven);
        chains.filter(|chain| chain.start.is_some()).cloned().collect()
    }
}
