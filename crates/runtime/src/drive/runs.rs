//! Runs that are on record: one by its id, all of a coordinator, and the latest that can be resumed.

use autoloop_core::chain::Chain;
use autoloop_core::coordinator::{Kind, Status};
use autoloop_core::provenance::{Provenance, Unsealed};
use autoloop_core::run::Run;
use autoloop_core::run_id::RunId;
use autoloop_core::slot::Slots;

use super::DriveError;
use crate::harness::{
    HarnessError, OnRecord, RunPlace, Trust, all, claimed, find, repair, run_dir,
};
use crate::journal::Journal;
use crate::layout::StateDir;
use crate::runs::{Latest, holder};
use crate::world::World;

/// The state of a run by the records that are believed; `None` when there are no records of it. For a
/// caller that means to resume it: a last record that lacks nothing but its newline is given it.
///
/// # Errors
///
/// When the journal cannot be read, or the id leads out of the state directory.
pub fn standing(
    journal: &dyn Journal,
    state_dir: &StateDir,
    known: (&str, &World, Trust),
) -> Result<Option<Run>, DriveError> {
    Ok(find(journal, state_dir, known)?)
}

/// The same for a chain.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn chain_standing(
    journal: &dyn Journal,
    state_dir: &StateDir,
    known: (&str, &World, Trust),
) -> Result<Option<Chain>, DriveError> {
    Ok(find(journal, state_dir, known)?)
}

/// The same for a run over a queue.
///
/// # Errors
///
/// When the journal cannot be read, or the id leads out of the state directory.
pub fn slots_standing(
    journal: &dyn Journal,
    state_dir: &StateDir,
    known: (&str, &World, Trust),
) -> Result<Option<Slots>, DriveError> {
    Ok(find(journal, state_dir, known)?)
}

/// Every chain of a journal as its records tell it, in the order in which they began.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn chains(journal: &dyn Journal) -> Result<Vec<Chain>, DriveError> {
    let mut chains = claimed(journal)?;
    chains.retain(|chain: &Chain| chain.start.is_some());
    Ok(chains)
}

/// The run that began last among those that did not complete and that no process carries out. One that a harness of
/// this program carried out comes before one that only the journal knows of. A step of a chain that a run asked for is resumed
/// with that run, and one that did its part in a chain is not resumed unless it is named. The journal is
/// repaired first, as for [`standing`].
///
/// # Errors
///
/// When the journal cannot be read.
pub fn latest_resumable(
    journal: &dyn Journal,
    state_dir: &StateDir,
    (world, trust): (&World, Trust),
) -> Result<Latest, DriveError> {
    repair(journal)?;
    let chains = chains(journal)?;
    let is_left_to_chain = |run: &str| {
        let mut of = chains.iter().filter_map(|chain| Some((chain, chain.step_of(run)?)));
        of.any(|(chain, step)| chain.parent().is_some() || step.is_well())
    };
    let runs: Vec<OnRecord<Run>> = all(journal, |run| {
        let dir = run_dir(state_dir, Kind::Loop, run).map_err(HarnessError::from);
        let found = dir.and_then(|dir| RunPlace { dir: &dir, run, world }.provenance(trust));
        // What cannot be read is reported when the run is resumed.
        found.unwrap_or_else(|_| Provenance::new(None, Unsealed::Noted(Default::default())))
    })?;
    let candidates = || {
        let alone =
            |run: &&OnRecord<Run>| run.claimed.stands_alone() && !is_left_to_chain(&run.claimed.id);
        runs.iter().rev().filter(alone)
    };
    let (ours, others): (Vec<_>, Vec<_>) =
        candidates().partition(|run| run.is_ours(state_dir, world));
    let ours = ours.into_iter().filter(|run| run.proven().status().can_resume());
    let others = others.into_iter().filter(|run| run.claimed.status().can_resume());
    let open = ours.chain(others).map(|run| run.claimed.id.as_str());
    Ok(Latest::of(open, |run| run_dir(state_dir, Kind::Loop, run).ok(), &*world.disk))
}

/// The same for chains. One of which nothing is proven counts where this program carried it out, or where it did not
/// complete by what the journal says. A chain that a run asked for is resumed with that run.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn latest_resumable_chain(
    journal: &dyn Journal,
    state_dir: &StateDir,
    (world, trust): (&World, Trust),
) -> Result<Latest, DriveError> {
    repair(journal)?;
    let chains: Vec<OnRecord<Chain>> = all(journal, |run| {
        let dir = run_dir(state_dir, Kind::Chain, run).map_err(HarnessError::from);
        let found = dir.and_then(|dir| RunPlace { dir: &dir, run, world }.provenance(trust));
        found.unwrap_or_else(|_| Provenance::new(None, Unsealed::Noted(Default::default())))
    })?;
    let can_resume = |chain: &&OnRecord<Chain>| match (&chain.claimed.start, chain.proven()) {
        (None, _) => false,
        (Some(start), _) if start.parent_id.is_some() => false,
        (Some(_), proven) if proven.start.is_some() => proven.status().can_resume(),
        _ => chain.claimed.status().can_resume() || chain.is_ours(state_dir, world),
    };
    let open = chains.iter().rev().filter(can_resume).map(|chain| chain.claimed.id.as_str());
    Ok(Latest::of(open, |run| run_dir(state_dir, Kind::Chain, run).ok(), &*world.disk))
}

/// Every run over a queue by its own records, in the order in which they began. Of one that no harness of
/// this program carried out, all records count.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn slot_runs(
    journal: &dyn Journal,
    state_dir: &StateDir,
    world: &World,
) -> Result<Vec<Slots>, DriveError> {
    let found = slots_on_record(journal, state_dir, (world, Trust::Proven))?;
    let runs = found.into_iter().map(OnRecord::into_proven);
    Ok(runs.filter(|run| run.start.is_some()).collect())
}

fn slots_on_record(
    journal: &dyn Journal,
    state_dir: &StateDir,
    (world, trust): (&World, Trust),
) -> Result<Vec<OnRecord<Slots>>, DriveError> {
    let mut found = all(journal, |run| match (run_dir(state_dir, Kind::Slots, run), trust) {
        (Ok(dir), Trust::Proven) => RunPlace { dir: &dir, run, world }.provenance_to_show(),
        (Err(_), _) | (_, Trust::Journal) => Provenance::new(None, Unsealed::Claimed),
    })?;
    found.retain(|run: &OnRecord<Slots>| run.has_start);
    Ok(found)
}

/// The run that began last among those that did not complete and that no process carries out. One that this
/// program carried out comes before one that only the journal knows of.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn latest_resumable_slots(
    journal: &dyn Journal,
    state_dir: &StateDir,
    (world, trust): (&World, Trust),
) -> Result<Latest, DriveError> {
    repair(journal)?;
    let found = open(slots_on_record(journal, state_dir, (world, trust))?, Status::can_resume);
    let is_ours = |run: &&OnRecord<Slots>| trust == Trust::Proven && run.is_ours(state_dir, world);
    let (ours, others): (Vec<_>, Vec<_>) = found.iter().rev().partition(is_ours);
    let open = ours.into_iter().chain(others).map(|run| run.claimed.id.as_str());
    Ok(Latest::of(open, |run| run_dir(state_dir, Kind::Slots, run).ok(), &*world.disk))
}

/// The runs that did not end, by their own records, and that no process carries out.
pub(super) fn unfinished_slots(
    journal: &dyn Journal,
    state_dir: &StateDir,
    world: &World,
) -> Result<Vec<Slots>, DriveError> {
    let found = slots_on_record(journal, state_dir, (world, Trust::Proven))?;
    let found = open(found, Status::is_unfinished);
    let is_held = |run: &Slots| {
        let dir = run_dir(state_dir, Kind::Slots, &run.id);
        dir.is_ok_and(|dir| holder(&dir, &*world.disk).process().is_some())
    };
    Ok(found.into_iter().map(OnRecord::into_proven).filter(|run| !is_held(run)).collect())
}

/// The runs whose status is meant. One of which nothing is proven begins again.
fn open(mut found: Vec<OnRecord<Slots>>, is_meant: fn(Status) -> bool) -> Vec<OnRecord<Slots>> {
    found.retain(|found| {
        let run = found.proven();
        (is_meant(run.status()) || run.start.is_none()) && run.id.parse::<RunId>().is_ok()
    });
    found
}
