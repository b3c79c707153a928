//! What is known about runs over a queue that are on record.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use autoloop_core::run_id::RunId;
use autoloop_core::slot::{Slots, is_slot_topic};

use crate::drive::DriveError;
use crate::drive::driver::{Driver, driver_in};
use crate::drive::notebook::Noted;
use crate::drive::own::{Sieve, known};
use crate::journal::{FileJournal, Journal, Position};
use crate::world::Disk;

/// Where the files of a run over a queue are.
pub fn slots_dir(state_dir: &Path, run: &str) -> PathBuf {
    state_dir.join("slots").join(run)
}

/// Every run over a queue by its own records, in the order in which they began. Of one that no harness of
/// this program drove, all records count.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn slot_runs(
    journal: &FileJournal,
    state_dir: &Path,
    disk: &dyn Disk,
) -> Result<Vec<Slots>, DriveError> {
    Ok(runs_on_record(journal, state_dir, disk)?.into_iter().map(|known| known.run).collect())
}

/// A run over a queue that is on record.
struct OnRecord {
    /// By its own records.
    run: Slots,
    sieve: Sieve,
    /// Whether a harness of this program drove it.
    is_ours: bool,
}

impl OnRecord {
    fn new(id: String, state_dir: &Path, disk: &dyn Disk) -> OnRecord {
        let noted = match RunId::is_safe(&id) {
            // Whoever takes it up will be told.
            true => Noted::read(&slots_dir(state_dir, &id), disk).unwrap_or(Noted::Nothing),
            false => Noted::Nothing,
        };
        let is_ours = matches!(noted, Noted::All(_));
        OnRecord { run: Slots::new(id), sieve: Sieve::new(noted), is_ours }
    }
}

fn runs_on_record(
    journal: &FileJournal,
    state_dir: &Path,
    disk: &dyn Disk,
) -> Result<Vec<OnRecord>, DriveError> {
    let mut found: Vec<OnRecord> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            if record.has_payload() || !is_slot_topic(&record.topic()) {
                return;
            }
            let id = record.run().into_owned();
            let place = *places.entry(id).or_insert_with_key(|id| {
                found.push(OnRecord::new(id.clone(), state_dir, disk));
                found.len() - 1
            });
            let OnRecord { run, sieve, .. } = &mut found[place];
            if sieve.own(record).is_some() {
                run.apply(record);
            }
        });
        ControlFlow::Continue(())
    })?;
    found.retain(|known| known.run.start.is_some());
    Ok(found)
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

/// The run that began last among those that did not complete and that no process drives. One that this
/// program drove comes before one that only the journal knows of.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn latest_resumable_slots(
    journal: &FileJournal,
    state_dir: &Path,
    disk: &dyn Disk,
) -> Result<Option<String>, DriveError> {
    journal.repair()?;
    let found = idle(journal, state_dir, (Slots::can_resume, disk))?;
    let latest = found.iter().rfind(|known| known.is_ours).or(found.last());
    Ok(latest.map(|known| known.run.id.clone()))
}

/// The runs that did not end, by their own records, and that no process drives.
///
/// # Errors
///
/// When the journal cannot be read.
pub(super) fn cut_off_slots(
    journal: &FileJournal,
    state_dir: &Path,
    disk: &dyn Disk,
) -> Result<Vec<Slots>, DriveError> {
    let found = idle(journal, state_dir, (Slots::is_unfinished, disk))?;
    Ok(found.into_iter().map(|known| known.run).collect())
}

/// The runs of a sort that no process drives.
fn idle(
    journal: &FileJournal,
    state_dir: &Path,
    (is_meant, disk): (impl Fn(&Slots) -> bool, &dyn Disk),
) -> Result<Vec<OnRecord>, DriveError> {
    let is_driven =
        |run: &str| matches!(driver_in(&slots_dir(state_dir, run), disk), Driver::Process(_));
    let mut found = runs_on_record(journal, state_dir, disk)?;
    found.retain(|OnRecord { run, .. }| {
        RunId::is_safe(&run.id) && is_meant(run) && !is_driven(&run.id)
    });
    Ok(found)
}
