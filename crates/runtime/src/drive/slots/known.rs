//! What is known about runs over a queue that are on record.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use autoloop_core::run_id::RunId;
use autoloop_core::slot::Slots;

use crate::drive::DriveError;
use crate::drive::notebook::Noted;
use crate::drive::own::{Sieve, known};
use crate::journal::{FileJournal, Journal, Position};
use crate::world::{Access, Disk};

/// Where the files of a run over a queue are.
pub fn slots_dir(state_dir: &Path, run: &str) -> PathBuf {
    state_dir.join("slots").join(run)
}

/// Every run over a queue as its records tell it, in the order in which they began.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn slot_runs(journal: &FileJournal) -> Result<Vec<Slots>, DriveError> {
    let mut runs: Vec<Slots> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            if !record.has_payload() && record.topic().starts_with("slot.") {
                let id = record.run().into_owned();
                let place = *places.entry(id.clone()).or_insert_with(|| {
                    runs.push(Slots::new(id));
                    runs.len() - 1
                });
                runs[place].apply(record);
            }
        });
        ControlFlow::Continue(())
    })?;
    runs.retain(|run| run.start.is_some());
    Ok(runs)
}

/// What a run has come to by its own records; `None` when there are none. For whoever means to go on
/// with it: a last record that lacks nothing but its newline is given it.
///
/// # Errors
///
/// When the journal cannot be read, or the id leads out of the state directory.
pub fn slots_standing(
    journal: &FileJournal,
    state_dir: &Path,
    (id, disk): (&str, &dyn Disk),
) -> Result<Option<Slots>, DriveError> {
    if !RunId::is_safe(id) {
        return Err(DriveError::BadRunId(id.to_owned()));
    }
    journal.repair()?;
    let noted = Noted::read(&slots_dir(state_dir, id), disk)?;
    let slots = known(journal, Slots::new(id), noted)?;
    Ok(slots.start.is_some().then_some(slots))
}

/// The run that began last among those that were cut off or interrupted, and that nobody drives. One that
/// this program drove comes before one that only the journal knows of.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn latest_unfinished_slots(
    journal: &FileJournal,
    state_dir: &Path,
    disk: &dyn Disk,
) -> Result<Option<String>, DriveError> {
    journal.repair()?;
    let found = cut_off(journal, state_dir, disk)?;
    let latest = found.iter().rfind(|candidate| candidate.is_ours).or(found.last());
    Ok(latest.map(|candidate| candidate.run.id.clone()))
}

/// The runs that did not end, by their own records, and that nobody drives.
///
/// # Errors
///
/// When the journal cannot be read.
pub(super) fn cut_off_slots(
    journal: &FileJournal,
    state_dir: &Path,
    disk: &dyn Disk,
) -> Result<Vec<Slots>, DriveError> {
    let found = cut_off(journal, state_dir, disk)?;
    Ok(found.into_iter().map(|candidate| candidate.run).collect())
}

/// A run that may be the one to go on with.
struct Candidate {
    /// By its own records.
    run: Slots,
    sieve: Sieve,
    /// Whether a harness of this program drove it.
    is_ours: bool,
}

fn cut_off(
    journal: &FileJournal,
    state_dir: &Path,
    disk: &dyn Disk,
) -> Result<Vec<Candidate>, DriveError> {
    let is_driven = |dir: &Path| {
        disk.open(&dir.join("lock"), Access::Read).is_ok_and(|lock| lock.lock_holder().is_some())
    };
    // What the journal says about the end of a run may be forged, so all of them are candidates.
    let mut found: Vec<Candidate> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for run in slot_runs(journal)?.into_iter().filter(|run| RunId::is_safe(&run.id)) {
        let dir = slots_dir(state_dir, &run.id);
        if is_driven(&dir) {
            continue;
        }
        // Whoever takes it up will be told.
        let noted = Noted::read(&dir, disk).unwrap_or(Noted::Nothing);
        let is_ours = matches!(noted, Noted::All(_));
        places.insert(run.id.clone(), found.len());
        found.push(Candidate { run: Slots::new(run.id), sieve: Sieve::new(noted), is_ours });
    }
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            if let Some(place) = places.get(&*record.run()) {
                let Candidate { run, sieve, .. } = &mut found[*place];
                if sieve.own(record).is_some() {
                    run.apply(record);
                }
            }
        });
        ControlFlow::Continue(())
    })?;
    found.retain(|candidate| candidate.run.is_unfinished());
    Ok(found)
}
