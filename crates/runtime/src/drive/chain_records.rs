//! What the journal contains about chains, folded as it grows: the runs of the steps of one, and all of them.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use autoloop_core::chain::{Chain, ChainStep, Report};
use autoloop_core::coordinator::{Fold, Kind};
use autoloop_core::format::Format;
use autoloop_core::limits::Spent;
use autoloop_core::provenance::{Provenance, Unsealed};
use autoloop_core::record::{ChainSpawnFinish, ChainSpawned};
use autoloop_core::run::{LoopFold, Run};
use autoloop_core::views::coordination::Coordination;

use super::DriveError;
use crate::harness::{RunPlace, RunRecords};
use crate::journal::Position;
use crate::runs::{ByRun, RecordedRun};
use crate::site::Site;

pub(super) struct StepReports {
    runs: HashMap<String, StepRun>,
    position: Position,
}

struct StepRun {
    /// Its state by the records of its own harness.
    records: RunRecords<LoopFold>,
    /// What its agents recorded. These are claims in any case.
    coordination: Coordination,
}

impl StepReports {
    /// Reads from a position that is before all records of these steps.
    pub(super) fn new(position: Position) -> Self {
        StepReports { runs: HashMap::new(), position }
    }

    /// Reads what the runs of all steps of a chain appended since the last call. The records of a step that is new
    /// have to come after that.
    pub(super) fn read_on(&mut self, chain: &Chain, site: &Site<'_>) -> Result<(), DriveError> {
        let StepReports { runs, position } = self;
        for run in chain.steps.iter().filter_map(|step| step.run.as_deref()) {
            if !runs.contains_key(run) {
                let provenance = RunPlace::of(site, Kind::Loop, run)?.provenance(site.trust)?;
                let records = RunRecords::new(run, provenance);
                let coordination = Coordination::default();
                runs.insert(run.to_owned(), StepRun { records, coordination });
            }
        }
        site.journal.read(*position, &mut |line| {
            line.records(|record| {
                if let Some(run) = runs.get_mut(&*record.run()) {
                    run.records.take(record);
                    run.coordination.apply(record);
                }
            });
            *position = line.position();
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// What the steps of a chain up to one left that ended.
    pub(super) fn of(&self, chain: &Chain, last: u64) -> Vec<Report> {
        let steps = chain.steps.iter().filter(|step| step.number <= last);
        let ended = steps.filter(|step| step.stop_reason.is_some());
        ended.map(|step| self.report(step)).collect()
    }

    /// What the runs of the steps before one took.
    pub(super) fn spent(&self, chain: &Chain, before: u64) -> Spent {
        let earlier = chain.steps.iter().filter(|step| step.number < before);
        let runs = earlier.filter_map(|step| self.runs.get(step.run.as_deref()?));
        let spent = runs.map(|run| run.records.fold.ledger.spent());
        spent.fold(Spent::default(), Spent::plus)
    }

    pub(super) fn run(&self, run: &str) -> Option<&Run> {
        self.runs.get(run).filter(|run| run.records.is_there).map(|run| &run.records.fold.run)
    }

    /// A step that could not begin has no run.
    fn report(&self, step: &ChainStep) -> Report {
        let found = step.run.as_ref().and_then(|run| self.runs.get(run));
        let fold = found.map(|found| &found.records.fold);
        let run = fold.map(|fold| &fold.run);
        let coordination = found.map(|found| &found.coordination).filter(|it| !it.is_empty());
        let output = fold.and_then(|fold| fold.scratchpad.last_output());
        Report {
            number: step.number,
            preset: step.preset.clone(),
            stop_reason: step.stop_reason.clone().unwrap_or_default(),
            iterations: run.map_or(0, |run| run.done),
            last_event: run
                .map_or_else(|| Run::new("").recent_event, |run| run.recent_event.clone()),
            output: output.cloned().unwrap_or_default(),
            coordination: coordination.map(|it| it.render(Format::Markdown)).unwrap_or_default(),
            run: step.run.clone().unwrap_or_default(),
            files: step.files.clone().unwrap_or_default(),
            detail: step.detail.clone().unwrap_or_default(),
        }
    }
}

/// All chains by the records of their own harnesses, and every id that is taken, up to a position of the journal. The runs of one process share it, so that the
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
            let Ok(place) = RunPlace::of(site, Kind::Chain, run) else { return nothing() };
            place.provenance(site.trust).unwrap_or_else(|error: DriveError| {
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

    pub(super) fn chains(&self) -> Vec<Chain> {
        let chains = self.chains.found.iter().map(RecordedRun::proven);
        chains.filter(|chain| chain.start.is_some()).cloned().collect()
    }
}
