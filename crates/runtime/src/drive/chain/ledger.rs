//! The records of one chain, as its harness knows them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;

use autoloop_core::chain::Chain;
use autoloop_core::provenance::{Mark, claim};
use autoloop_core::record::{ChainSpawned, Glance, Record, print};
use autoloop_core::run_id::RunId;

use super::{ChainScene, DriveError, chain_dir, create_dirs, run_dir};
use crate::drive::ledger::unwritable;
use crate::drive::notebook::{Notebook, Noted};
use crate::journal::{Append, FileJournal, Journal, NewRecord, Position};
use crate::world::Disk;

/// What is on record about a chain. Only its own harness adds to it.
pub(super) struct ChainLedger<'a> {
    scene: ChainScene<'a>,
    chain: Chain,
    notebook: Notebook,
}

impl<'a> ChainLedger<'a> {
    pub(super) fn begin(scene: ChainScene<'a>, id: &str, dir: &Path) -> Result<Self, DriveError> {
        let notebook = Notebook::begin(dir, &[], scene.world).map_err(unwritable)?;
        Ok(ChainLedger { scene, chain: Chain::new(id), notebook })
    }

    pub(super) fn resume(scene: ChainScene<'a>, id: &str, dir: &Path) -> Result<Self, DriveError> {
        // What its last harness wrote may lack nothing but the newline.
        scene.journal.repair()?;
        let (chain, marks) = known(scene.journal, id, Noted::read(dir, &*scene.world.disk)?)?;
        let notebook = Notebook::begin(dir, &marks, scene.world).map_err(unwritable)?;
        Ok(ChainLedger { scene, chain, notebook })
    }

    pub(super) fn chain(&self) -> &Chain {
        &self.chain
    }

    pub(super) fn into_chain(self) -> Chain {
        self.chain
    }

    /// Appends a record of the harness, and takes it in.
    pub(super) fn append(&mut self, record: Record) -> Result<(), DriveError> {
        let mut line = Vec::new();
        print(&record, &mut line);
        let records = [NewRecord::from(record)];
        self.notebook.note(&records).map_err(unwritable)?;
        let how = Append { expect: None, durability: self.scene.durability };
        self.scene.journal.append(&records, how)?;
        self.notebook.written();
        if let Ok(glance) = Glance::read(line.trim_ascii_end()) {
            self.chain.apply(&glance);
        }
        Ok(())
    }
}

/// What a chain has come to by its own records; `None` when there are none. For whoever means to go on
/// with it: a last record that lacks nothing but its newline is given it.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn chain_standing(
    journal: &FileJournal,
    state_dir: &Path,
    (id, disk): (&str, &dyn Disk),
) -> Result<Option<Chain>, DriveError> {
    journal.repair()?;
    let noted = Noted::read(&chain_dir(state_dir, id), disk)?;
    let (chain, _) = known(journal, id, noted)?;
    Ok(chain.start.is_some().then_some(chain))
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
    let dir = chain_dir(scene.state_dir, &spawned.chain_id);
    create_dirs(&dir, scene.world)?;
    Notebook::begin(&dir, &[], scene.world).map(drop).map_err(unwritable)
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
                let noted = match RunId::is_safe(&id) {
                    true => Noted::read(&chain_dir(scene.state_dir, &id), &*scene.world.disk),
                    false => Ok(Noted::Nothing),
                };
                let noted = noted.unwrap_or_else(|error| {
                    unreadable.get_or_insert(error);
                    Noted::Nothing
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

/// A chain by what its harness noted, or by all that is said where nothing was noted.
fn known(journal: &FileJournal, id: &str, noted: Noted) -> Result<(Chain, Vec<Mark>), DriveError> {
    let mut sieve = Sieve::new(noted);
    let (mut chain, mut marks) = (Chain::new(id), Vec::new());
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            if record.run() != id {
                return;
            }
            if let Some(mark) = sieve.own(record) {
                chain.apply(record);
                marks.push(mark);
            }
        });
        ControlFlow::Continue(())
    })?;
    Ok((chain, marks))
}

/// Lets the records through that a harness noted, or all where it noted nothing. A copy of a record of
/// ours is not ours: the first one is.
struct Sieve(Option<HashMap<Mark, u32>>);

impl Sieve {
    fn new(noted: Noted) -> Sieve {
        Sieve(match noted {
            Noted::Nothing => None,
            Noted::All(marks) => Some(marks.into_iter().fold(HashMap::new(), |mut left, mark| {
                *left.entry(mark).or_default() += 1;
                left
            })),
        })
    }

    /// The mark of a record of the harness.
    fn own(&mut self, record: &Glance<'_>) -> Option<Mark> {
        let mark = claim(record)?;
        if let Some(left) = &mut self.0 {
            let count = left.get_mut(&mark).filter(|count| **count > 0)?;
            *count -= 1;
        }
        Some(mark)
    }
}
