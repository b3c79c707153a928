//! What is known about runs over a queue that are on record.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use autoloop_core::run_id::RunId;
use autoloop_core::slot::Slots;

use crate::drive::DriveError;
use crate::drive::notebook::Noted;
use crate::drive::own::known;
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
    let (slots, _) = known(journal, Slots::new(id), noted)?;
    Ok(slots.start.is_some().then_some(slots))
}

/// The run that began last among those that were cut off or interrupted, and that nobody drives.
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
    let is_driven = |run: &str| {
        let lock = slots_dir(state_dir, run).join("lock");
        disk.open(&lock, Access::Read).is_ok_and(|lock| lock.lock_holder().is_some())
    };
    for run in slot_runs(journal)?.iter().rev() {
        let is_open = RunId::is_safe(&run.id) && run.is_unfinished() && !is_driven(&run.id);
        if is_open
            && slots_standing(journal, state_dir, (&run.id, disk))?
                .is_some_and(|slots| slots.is_unfinished())
        {
            return Ok(Some(run.id.clone()));
        }
    }
    Ok(None)
}
