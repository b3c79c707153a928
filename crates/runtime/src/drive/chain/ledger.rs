//! What the journal says about chains.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use autoloop_core::chain::Chain;
use autoloop_core::coordinator::Kind;
use autoloop_core::record::{ChainSpawned, Glance};
use autoloop_core::run_id::RunId;

use super::{ChainScene, DriveError, create_dirs, run_dir};
use crate::drive::ledger::unwritable;
use crate::drive::notebook::{Noted, Notes, Trust};
use crate::drive::own::{Fold, Sieve, known};
use crate::journal::{FileJournal, Journal, Position};
use crate::layout::StateDir;
use crate::world::World;

impl Fold for Chain {
    fn id(&self) -> &str {
        &self.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        Chain::apply(self, record);
    }
}

/// What a chain has come to by the records that are believed; `None` when there are no records of it. For a
/// caller that means to resume it: a last record that lacks nothing but its newline is given it.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn chain_standing(
    journal: &FileJournal,
    state_dir: &StateDir,
    (id, world, trust): (&str, &World, Trust),
) -> Result<Option<Chain>, DriveError> {
    journal.repair()?;
    let dir = state_dir.run(Kind::Chain, &id.parse()?);
    let noted = Notes { dir: &dir, run: id, world }.read(trust)?;
    let chain = known(journal, Chain::new(id), noted)?;
    let is_claimed = || Ok::<_, DriveError>(chains(journal)?.iter().any(|chain| chain.id == id));
    Ok((chain.start.is_some() || is_claimed()?).then_some(chain))
}

/// Every chain of a journal as its records tell it, in the order in which they began.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn chains(journal: &FileJournal) -> Result<Vec<Chain>, DriveError> {
    let mut chains: Vec<Chain> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            if !record.has_payload() && record.topic().starts_with("chain.") {
                let id = record.run().into_owned();
                let place = *places.entry(id.clone()).or_insert_with(|| {
                    chains.push(Chain::new(id));
                    chains.len() - 1
                });
                chains[place].apply(record);
            }
        });
        ControlFlow::Continue(())
    })?;
    chains.retain(|chain| chain.start.is_some());
    Ok(chains)
}

/// All chains of a journal by the records of their own harnesses, and every id that somebody has.
pub(super) struct Census {
    /// The chains, in the order in which they began.
    pub(super) chains: Vec<Chain>,
    /// The ids of runs and of chains, also of those that are about to begin.
    pub(super) ids: HashSet<String>,
}

/// Notes that nothing is on record yet about a chain that is to be: whatever claims to be is forged.
pub(super) fn reserve(scene: ChainScene<'_>, spawned: &ChainSpawned) -> Result<(), DriveError> {
    let dir = scene.state_dir.run(Kind::Chain, &spawned.chain_id.parse()?);
    create_dirs(&dir, scene.world)?;
    let notes = Notes { dir: &dir, run: &spawned.chain_id, world: scene.world };
    notes.begin().map(drop).map_err(unwritable)
}

/// Whether somebody has an id by now, be it that a run of this name is about to begin.
pub(super) fn is_taken(scene: ChainScene<'_>, id: &str) -> Result<bool, DriveError> {
    let is_run = scene.world.disk.stat(&run_dir(scene.state_dir, id)?).is_ok();
    Ok(is_run || census(scene)?.ids.contains(id))
}

/// Counts chains and runs.
pub(super) fn census(scene: ChainScene<'_>) -> Result<Census, DriveError> {
    let mut found: Vec<(Chain, Sieve)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut ids = HashSet::new();
    let mut unreadable = None;
    scene.journal.read(Position::START, &mut |line| {
        line.records(|record| {
            let id = record.run();
            if !ids.contains(&*id) {
                ids.insert(id.clone().into_owned());
            }
            if record.has_payload() || !record.topic().starts_with("chain.") {
                return;
            }
            ids.extend(record.field("chain_id").map(Cow::into_owned));
            let place = *places.entry(id.clone().into_owned()).or_insert_with(|| {
                let noted = match id.parse::<RunId>() {
                    Ok(id) => {
                        let dir = scene.state_dir.run(Kind::Chain, &id);
                        let notes = Notes { dir: &dir, run: id.as_str(), world: scene.world };
                        notes.read(scene.trust)
                    }
                    Err(_) => Ok(Noted::Proven(Vec::new())),
                };
                let noted = noted.unwrap_or_else(|error| {
                    unreadable.get_or_insert(error);
                    Noted::Proven(Vec::new())
                });
                found.push((Chain::new(id), Sieve::new(noted)));
                found.len() - 1
            });
            let (chain, sieve) = &mut found[place];
            if sieve.own(record).is_some() {
                chain.apply(record);
            }
        });
        ControlFlow::Continue(())
    })?;
    if let Some(error) = unreadable {
        return Err(error.into());
    }
    let chains = found.into_iter().map(|(chain, _)| chain);
    Ok(Census { chains: chains.filter(|chain| chain.start.is_some()).collect(), ids })
}
