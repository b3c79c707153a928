//! What is known about runs over a queue that are on record.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use autoloop_core::coordinator::Kind;
use autoloop_core::record::SlotRunStart;
use autoloop_core::run_id::RunId;
use autoloop_core::slot::{Slots, is_slot_topic};

use crate::drive::DriveError;
use crate::drive::driver::{Driver, driver_in};
use crate::drive::notebook::{Noted, Notes, Trust};
use crate::drive::own::{Sieve, known};
use crate::journal::{FileJournal, Journal, Position};
use crate::layout::StateDir;
use crate::world::World;

/// Every run over a queue by its own records, in the order in which they began. Of one that no harness of
/// this program drove, all records count.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn slot_runs(
    journal: &FileJournal,
    state_dir: &StateDir,
    world: &World,
) -> Result<Vec<Slots>, DriveError> {
    let mut found = runs_on_record(journal, state_dir, (world, Trust::Proven))?;
    found.retain(|known| known.run.start.is_some());
    Ok(found.into_iter().map(|known| known.run).collect())
}

/// A run over a queue that is on record.
struct OnRecord {
    /// By its own records.
    run: Slots,
    sieve: Sieve,
    /// Whether a harness of this program drove it.
    is_ours: bool,
    /// Whether the journal says that it began, whoever wrote that.
    has_start: bool,
}

impl OnRecord {
    fn new(id: String, state_dir: &StateDir, (world, trust): (&World, Trust)) -> OnRecord {
        let noted = match (id.parse(), trust) {
            (Ok(run), Trust::Proven) => {
                Notes { dir: &state_dir.run(Kind::Slots, &run), run: &id, world }.to_show()
            }
            (Err(_), _) | (_, Trust::Journal) => Noted::Trusted,
        };
        let is_ours = matches!(noted, Noted::Proven(_));
        OnRecord { run: Slots::new(id), sieve: Sieve::new(noted), is_ours, has_start: false }
    }
}

fn runs_on_record(
    journal: &FileJournal,
    state_dir: &StateDir,
    believed: (&World, Trust),
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
                found.push(OnRecord::new(id.clone(), state_dir, believed));
                found.len() - 1
            });
            let OnRecord { run, sieve, has_start, .. } = &mut found[place];
            *has_start |= record.topic() == SlotRunStart::TOPIC;
            if sieve.own(record).is_some() {
                run.apply(record);
            }
        });
        ControlFlow::Continue(())
    })?;
    found.retain(|known| known.has_start);
    Ok(found)
}

/// What a run has come to by the records that are believed; `None` when there are no records of it. For a
/// caller that means to resume it: a last record that lacks nothing but its newline is given it.
///
/// # Errors
///
/// When the journal cannot be read, or the id leads out of the state directory.
pub fn slots_standing(
    journal: &FileJournal,
    state_dir: &StateDir,
    (id, world, trust): (&str, &World, Trust),
) -> Result<Option<Slots>, DriveError> {
    let dir = state_dir.run(Kind::Slots, &id.parse()?);
    journal.repair()?;
    let found = runs_on_record(journal, state_dir, (world, trust))?;
    if !found.iter().any(|known| known.run.id == id) {
        return Ok(None);
    }
    let noted = Notes { dir: &dir, run: id, world }.read(trust)?;
    known(journal, Slots::new(id), noted).map(Some)
}

/// The run that began last among those that did not complete and that no process drives. One that this
/// program drove comes before one that only the journal knows of.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn latest_resumable_slots(
    journal: &FileJournal,
    state_dir: &StateDir,
    believed: (&World, Trust),
) -> Result<Option<String>, DriveError> {
    journal.repair()?;
    let found = idle(journal, state_dir, (Slots::can_resume, believed))?;
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
    state_dir: &StateDir,
    world: &World,
) -> Result<Vec<Slots>, DriveError> {
    let found = idle(journal, state_dir, (Slots::is_unfinished, (world, Trust::Proven)))?;
    Ok(found.into_iter().map(|known| known.run).collect())
}

/// The runs of a sort that no process drives.
fn idle(
    journal: &FileJournal,
    state_dir: &StateDir,
    (is_meant, believed): (impl Fn(&Slots) -> bool, (&World, Trust)),
) -> Result<Vec<OnRecord>, DriveError> {
    let disk = &*believed.0.disk;
    let is_driven = |run: &RunId| {
        matches!(driver_in(&state_dir.run(Kind::Slots, run), disk), Driver::Process(_))
    };
    let mut found = runs_on_record(journal, state_dir, believed)?;
    found.retain(|OnRecord { run, .. }| {
        // One of which nothing is proven begins again.
        let is_meant = is_meant(run) || run.start.is_none();
        is_meant && run.id.parse().is_ok_and(|id| !is_driven(&id))
    });
    Ok(found)
}
