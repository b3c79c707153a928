//! The runs of a project: which there are, their states, which can be resumed, and which process carries one out.

#![expect(clippy::disallowed_methods, reason = "the Disk cannot list directories")]

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_core::chain::Chain;
use autoloop_core::coordinator::{Fold, Holder, Kind, Status};
use autoloop_core::exchange::Exchange;
use autoloop_core::provenance::{Provenance, Unsealed, is_claimed};
use autoloop_core::record::Glance;
use autoloop_core::run::{Miss, Run, Runs, SomeRun};
use autoloop_core::run_id::RunId;
use autoloop_core::slot::Slots;
use autoloop_core::squad::Squad;

use crate::error::DriveError;
pub use crate::error::LookupError;
use crate::harness::{RunPlace, RunRecords, repair, run_dir};
use crate::journal::sidecar::Kept;
use crate::journal::{Journal, Position, ReadError};
use crate::layout::{RunDir, StateDir};
use crate::site::{Site, Trust};
use crate::world::{Access, Disk, World};

const LOCKS: &str = "/proc/locks";

pub struct RunList {
    pub runs: Runs,
    /// How far the journal was read.
    pub position: Position,
    journal: PathBuf,
    state_dir: StateDir,
    disk: Arc<dyn Disk>,
}

fn lookup_error(miss: Miss, name: &str, journal: &Path) -> LookupError {
    let (name, journal) = (name.to_owned(), journal.display().to_string());
    match miss {
        Miss::Unknown(None) if name == "latest" => LookupError::Empty { journal },
        Miss::Unknown(meant) => LookupError::Unknown { name, journal, meant },
        Miss::Ambiguous(ids) => LookupError::Ambiguous { name, ids },
    }
}

pub fn find(journal: &dyn Journal, name: &str) -> Result<SomeRun, LookupError> {
    let runs = journal.fold::<Runs>()?.view;
    let run = runs.find(name).cloned();
    run.map_err(|miss| lookup_error(miss, name, journal.path()))
}

impl RunList {
    pub fn read(
        journal: &dyn Journal,
        state_dir: &StateDir,
        world: &World,
    ) -> Result<RunList, ReadError> {
        let Kept { view: runs, position } = journal.fold::<Runs>()?;
        Ok(RunList {
            runs,
            position,
            journal: journal.path().to_owned(),
            state_dir: state_dir.clone(),
            disk: Arc::clone(&world.disk),
        })
    }

    pub fn find(&self, name: &str) -> Result<&SomeRun, LookupError> {
        self.runs.find(name).map_err(|miss| lookup_error(miss, name, &self.journal))
    }

    /// The named run, or the running one, or the latest.
    pub fn named_or_current(&self, name: Option<&str>) -> Result<&SomeRun, LookupError> {
        let empty = || LookupError::Empty { journal: self.journal.display().to_string() };
        name.map_or_else(|| self.current().ok_or_else(empty), |name| self.find(name))
    }

    pub fn dir(&self, run: &SomeRun) -> Option<RunDir> {
        run_dir(&self.state_dir, run.kind().unwrap_or(Kind::Loop), run.id()).ok()
    }

    pub fn holder(&self, run: &SomeRun) -> Holder {
        self.dir(run).map_or(Holder::None, |dir| holder(&dir, &*self.disk))
    }

    /// The status of a run; `None` where no record begins it.
    pub fn status(&self, run: &SomeRun) -> Option<Status> {
        Some(self.runs.status(run)?.with_holder(self.holder(run)))
    }

    /// The run that is running, or else the one that began last.
    fn current(&self) -> Option<&SomeRun> {
        let unfinished = |run: &&SomeRun| self.runs.status(run).is_some_and(Status::is_unfinished);
        let is_running = |run: &&SomeRun| self.status(run) == Some(Status::Running);
        let running = self.runs.iter().rev().filter(unfinished).find(is_running);
        running.or_else(|| self.runs.latest())
    }
}

/// Looks up which process carries a run out: the one that holds its lock.
///
/// The lock is looked up in the system's list and never taken, not even for a moment. A harness tries
/// it once and gives up when it is held, so taking it to see whether it is free could keep a run from
/// being started.
pub fn holder(dir: &RunDir, disk: &dyn Disk) -> Holder {
    let Ok(lock) = disk.open(&dir.lock(), Access::Read) else { return Holder::None };
    match lock.lock_holder() {
        Some(process) => Holder::Process(process),
        None if disk.stat(Path::new(LOCKS)).is_ok() => Holder::None,
        None => Holder::Unknown,
    }
}

fn holder_of(site: &Site<'_>, kind: Kind, run: &str) -> Holder {
    let dir = run_dir(site.state_dir, kind, run);
    dir.map_or(Holder::None, |dir| holder(&dir, &*site.world.disk))
}

/// The runs that other processes carry out in this project, loops and slots, each with its process.
pub fn concurrent_runs(state_dir: &StateDir, disk: &dyn Disk) -> Vec<(String, u32)> {
    let own = std::process::id();
    let dirs = [Kind::Loop, Kind::Slots, Kind::Exchange, Kind::Squad]
        .map(|kind| fs::read_dir(state_dir.runs(kind)));
    let entries = dirs.into_iter().flatten().flatten().flatten();
    let held = entries.filter_map(|entry| {
        let process = holder(&RunDir::at(entry.path()), disk).process()?;
        let name = entry.file_name().into_string().ok()?;
        (process != own).then_some((name, process))
    });
    held.collect()
}

/// The state of a run by the records that are believed; `None` if the journal does not mention it. For a caller that
/// is about to resume it: the journal is repaired first.
pub fn state<F: Fold>(site: &Site<'_>, run: &str) -> Result<Option<F>, DriveError> {
    repair(site.journal)?;
    let provenance = RunPlace::of(site, F::KIND, run)?.provenance(site.trust)?;
    let mut records = RunRecords::new(run, provenance);
    records.read(site.journal)?;
    Ok(records.is_there.then_some(records.fold))
}

/// Every chain that the journal claims to have begun, in that order.
pub fn chains(journal: &dyn Journal) -> Result<Vec<Chain>, ReadError> {
    let mut chains = ByRun::default();
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            if Kind::Chain.concerns(record) {
                chains.of(&record.run(), Chain::new).apply(record);
            }
        });
        ControlFlow::Continue(())
    })?;
    chains.found.retain(|chain| chain.start.is_some());
    Ok(chains.found)
}

/// Every run of slots by its own records, in the order in which they began. Of one that no harness of
/// this program carried out, all records count.
pub fn slot_runs(site: &Site<'_>) -> Result<Vec<Slots>, DriveError> {
    let found = recorded_slots(site, Trust::Proven)?;
    let runs = found.into_iter().map(|run| run.records.fold);
    Ok(runs.filter(|run| run.start.is_some()).collect())
}

/// The runs of slots that did not end, by their own records, and that no process carries out.
pub(crate) fn unfinished_slots(site: &Site<'_>) -> Result<Vec<Slots>, DriveError> {
    let mut found = recorded_slots(site, Trust::Proven)?;
    found.retain(|run| is_open(run, Status::is_unfinished));
    let runs = found.into_iter().map(|run| run.records.fold);
    let is_held = |run: &Slots| holder_of(site, Kind::Slots, &run.id).process().is_some();
    Ok(runs.filter(|run| !is_held(run)).collect())
}

fn recorded_slots(site: &Site<'_>, trust: Trust) -> Result<Vec<RecordedRun<Slots>>, DriveError> {
    let mut found =
        recorded(site.journal, |run| match (RunPlace::of(site, Kind::Slots, run), trust) {
            (Ok(place), Trust::Proven) => place.provenance_to_show(),
            (Err(_), _) | (_, Trust::Journal) => Provenance::new(None, Unsealed::Claimed),
        })?;
    found.retain(|run: &RecordedRun<Slots>| run.records.is_there);
    Ok(found)
}

/// Whether a run of slots has this status. One of which nothing is proven begins again.
fn is_open(run: &RecordedRun<Slots>, has_status: fn(Status) -> bool) -> bool {
    let run = run.proven();
    (has_status(run.status()) || run.start.is_none()) && run.id.parse::<RunId>().is_ok()
}

/// The latest run of a coordinator that can be resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latest {
    /// The run; `None` where every run completed or is running.
    pub run: Option<String>,
    /// Later runs that processes carry out.
    pub running: Vec<(String, u32)>,
}

impl Latest {
    /// The first of these runs that no process carries out.
    fn of<'r>(runs: impl Iterator<Item = &'r str>, kind: Kind, site: &Site<'_>) -> Latest {
        let mut latest = Latest::default();
        for run in runs {
            match holder_of(site, kind, run) {
                Holder::Process(process) => latest.running.push((run.to_owned(), process)),
                Holder::None | Holder::Unknown => {
                    latest.run = Some(run.to_owned());
                    break;
                }
            }
        }
        latest
    }
}

/// The run of a coordinator that began last among those that did not complete and that no process carries out. The
/// journal is repaired first.
pub fn latest_resumable(site: &Site<'_>, kind: Kind) -> Result<Latest, DriveError> {
    repair(site.journal)?;
    match kind {
        Kind::Loop => latest_loop(site),
        Kind::Chain => latest_chain(site),
        Kind::Slots => latest_slots(site),
        Kind::Exchange => latest_exchange(site),
        Kind::Squad => latest_squad(site),
    }
}

/// A run that a harness of this program carried out comes before one that only the journal claims. A step of a
/// chain that a run requested is resumed with that run, and one that did its part in a chain is not resumed unless
/// it is named.
fn latest_loop(site: &Site<'_>) -> Result<Latest, DriveError> {
    let chains = chains(site.journal)?;
    let is_left_to_chain = |run: &str| {
        let mut of = chains.iter().filter_map(|chain| Some((chain, chain.step_of(run)?)));
        of.any(|(chain, step)| chain.parent().is_some() || step.is_success())
    };
    let mut runs: Vec<RecordedRun<Run>> =
        recorded(site.journal, |run| proof(site, Kind::Loop, run))?;
    runs.retain(|run| run.claimed.stands_alone() && !is_left_to_chain(&run.claimed.id));
    let (ours, others): (Vec<_>, Vec<_>) = runs.iter().rev().partition(|run| run.is_ours(site));
    let ours = ours.into_iter().filter(|run| run.proven().status().can_resume());
    let others = others.into_iter().filter(|run| run.claimed.status().can_resume());
    let open = ours.chain(others).map(|run| run.claimed.id.as_str());
    Ok(Latest::of(open, Kind::Loop, site))
}

/// A chain of which nothing is proven counts where this program carried it out, or where it did not complete by the
/// claims of the journal. A chain that a run requested is resumed with that run.
fn latest_chain(site: &Site<'_>) -> Result<Latest, DriveError> {
    let chains: Vec<RecordedRun<Chain>> =
        recorded(site.journal, |run| proof(site, Kind::Chain, run))?;
    let can_resume = |chain: &&RecordedRun<Chain>| match (&chain.claimed.start, chain.proven()) {
        (None, _) => false,
        (Some(start), _) if start.parent_id.is_some() => false,
        (Some(_), proven) if proven.start.is_some() => proven.status().can_resume(),
        _ => chain.claimed.status().can_resume() || chain.is_ours(site),
    };
    let open = chains.iter().rev().filter(can_resume).map(|chain| chain.claimed.id.as_str());
    Ok(Latest::of(open, Kind::Chain, site))
}

/// A run that this program carried out comes before one that only the journal claims.
fn latest_slots(site: &Site<'_>) -> Result<Latest, DriveError> {
    let mut found = recorded_slots(site, site.trust)?;
    found.retain(|run| is_open(run, Status::can_resume));
    let is_ours = |run: &&RecordedRun<Slots>| site.trust == Trust::Proven && run.is_ours(site);
    let (ours, others): (Vec<_>, Vec<_>) = found.iter().rev().partition(is_ours);
    let open = ours.into_iter().chain(others).map(|run| run.claimed.id.as_str());
    Ok(Latest::of(open, Kind::Slots, site))
}

/// Every review by message, by its own records, in the order in which they began.
pub fn exchanges(site: &Site<'_>) -> Result<Vec<Exchange>, DriveError> {
    let found: Vec<RecordedRun<Exchange>> =
        recorded(site.journal, |run| proof(site, Kind::Exchange, run))?;
    let proven = found.into_iter().map(|run| run.records.fold);
    Ok(proven.filter(|exchange| exchange.start.is_some()).collect())
}

/// One that ended with a response is over: the next request begins another.
fn latest_exchange(site: &Site<'_>) -> Result<Latest, DriveError> {
    let found = exchanges(site)?;
    let is_open =
        |exchange: &&Exchange| !matches!(exchange.status(), Status::Completed | Status::Stopped);
    let open = found.iter().rev().filter(is_open).map(|exchange| exchange.id.as_str());
    Ok(Latest::of(open, Kind::Exchange, site))
}

/// Every squad, by its own records, in the order in which they began.
pub fn squads(site: &Site<'_>) -> Result<Vec<Squad>, DriveError> {
    let found: Vec<RecordedRun<Squad>> =
        recorded(site.journal, |run| proof(site, Kind::Squad, run))?;
    let proven = found.into_iter().map(|run| run.records.fold);
    Ok(proven.filter(|squad| squad.start.is_some()).collect())
}

/// One squad, by its own records, with what its agents used; `None` where nothing is proven.
pub fn squad(site: &Site<'_>, run: &str) -> Result<Option<Squad>, DriveError> {
    let mut records = RunRecords::new(run, proof(site, Kind::Squad, run));
    records.read(site.journal)?;
    Ok(Some(records.fold).filter(|squad: &Squad| squad.start.is_some()))
}

fn latest_squad(site: &Site<'_>) -> Result<Latest, DriveError> {
    let found = squads(site)?;
    let open = found.iter().rev().filter(|squad| squad.status().can_resume());
    Ok(Latest::of(open.map(|squad| squad.id.as_str()), Kind::Squad, site))
}

/// Tells the records of a run apart. Of one whose files cannot be read nothing is proven: the error is reported when
/// it is resumed.
fn proof(site: &Site<'_>, kind: Kind, run: &str) -> Provenance {
    let place = RunPlace::of(site, kind, run).ok();
    let found = place.and_then(|place| place.provenance(site.trust).ok());
    found.unwrap_or_else(|| Provenance::new(None, Unsealed::Noted(Default::default())))
}

/// Tells the records of the harness of a run from forged ones, for a view that follows the run.
pub struct WatchedRun {
    pub kind: Kind,
    provenance: Provenance,
}

impl WatchedRun {
    pub fn new(state_dir: &StateDir, kind: Kind, run: &RunId, world: &World) -> Self {
        let dir = state_dir.run(kind, run);
        let place = RunPlace { kind, dir, run: run.as_str(), world };
        WatchedRun { kind, provenance: place.provenance_to_show() }
    }

    /// Whether a record of the run counts: its harness wrote it, or any process may. Has to be called once for each
    /// record, in order.
    pub fn counts(&mut self, record: &Glance<'_>) -> bool {
        self.provenance.own(record).is_some() || !is_claimed(record)
    }
}

/// Something about each of several runs, in the order in which they were first mentioned.
pub(crate) struct ByRun<S> {
    places: HashMap<String, usize>,
    pub(crate) found: Vec<S>,
}

impl<S> Default for ByRun<S> {
    fn default() -> Self {
        ByRun { places: HashMap::new(), found: Vec::new() }
    }
}

impl<S> ByRun<S> {
    pub(crate) fn of(&mut self, run: &str, new: impl FnOnce(&str) -> S) -> &mut S {
        let place = match self.places.get(run) {
            Some(place) => *place,
            None => {
                self.places.insert(run.to_owned(), self.found.len());
                self.found.push(new(run));
                self.found.len() - 1
            }
        };
        &mut self.found[place]
    }
}

pub(crate) struct RecordedRun<F> {
    pub(crate) claimed: F,
    /// By the records that are believed.
    records: RunRecords<F>,
}

impl<F: Fold> RecordedRun<F> {
    pub(crate) fn new(run: &str, provenance: Provenance) -> Self {
        RecordedRun { claimed: F::new(run), records: RunRecords::new(run, provenance) }
    }

    pub(crate) fn take(&mut self, record: &Glance<'_>) {
        self.claimed.apply(record);
        self.records.take(record);
    }

    pub(crate) fn proven(&self) -> &F {
        &self.records.fold
    }

    /// Whether a harness of this program carried it out.
    fn is_ours(&self, site: &Site<'_>) -> bool {
        let place = RunPlace::of(site, F::KIND, self.claimed.id());
        self.records.has_seals() || place.is_ok_and(|place| place.is_ours())
    }
}

/// Every run of a coordinator. `provenance` tells the records of each apart.
fn recorded<F: Fold>(
    journal: &dyn Journal,
    provenance: impl Fn(&str) -> Provenance,
) -> Result<Vec<RecordedRun<F>>, ReadError> {
    let mut runs = ByRun::default();
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            let run = record.run();
            if !run.is_empty() && F::KIND.concerns(record) {
                runs.of(&run, |run| RecordedRun::new(run, provenance(run))).take(record);
            }
        });
        ControlFlow::Continue(())
    })?;
    Ok(runs.found)
}
