//! What the steps of a chain left, folded from the journal as it grows.

use std::collections::HashMap;
use std::ops::ControlFlow;

use autoloop_core::chain::{ChainStep, Report};
use autoloop_core::coordinator::Fold;
use autoloop_core::coordinator::Kind;
use autoloop_core::format::Format;
use autoloop_core::run::{LoopFold, Run};
use autoloop_core::views::coordination::Coordination;

use super::DriveError;
use crate::harness::{RunPlace, RunRecords, run_dir};
use crate::journal::Position;
use crate::site::Site;

/// The runs of the steps of a chain, up to a position of the journal.
pub(super) struct StepReports {
    runs: HashMap<String, StepRun>,
    position: Position,
}

struct StepRun {
    /// Its state by the records of its own harness.
    records: RunRecords<LoopFold>,
    /// What its agents recorded. These are claims in any case.
    coordination: Coordination,
    is_there: bool,
}

impl StepReports {
    /// Reads from a position that is before all records of these steps.
    pub(super) fn new(position: Position) -> Self {
        StepReports { runs: HashMap::new(), position }
    }

    /// Adds the run of a step. Its records have to come after the last position that was read.
    pub(super) fn add(&mut self, site: &Site<'_>, run: &str) -> Result<(), DriveError> {
        if self.runs.contains_key(run) {
            return Ok(());
        }
        let dir = run_dir(site.state_dir, Kind::Loop, run)?;
        let provenance = RunPlace { dir: &dir, run, world: site.world }.provenance(site.trust)?;
        let (records, coordination) = (RunRecords::new(run, provenance), Coordination::default());
        self.runs.insert(run.to_owned(), StepRun { records, coordination, is_there: false });
        Ok(())
    }

    /// Reads what was appended since the last call.
    pub(super) fn read_on(&mut self, site: &Site<'_>) -> Result<(), DriveError> {
        let StepReports { runs, position } = self;
        site.journal.read(*position, &mut |line| {
            line.records(|record| {
                if let Some(run) = runs.get_mut(&*record.run()) {
                    run.is_there = true;
                    run.records.take(record);
                    run.coordination.apply(record);
                }
            });
            *position = line.position();
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// The run of a step, if the journal mentions it.
    pub(super) fn run(&self, run: &str) -> Option<&Run> {
        self.runs.get(run).filter(|run| run.is_there).map(|run| &run.records.fold.run)
    }

    /// What a step left that ended. One that could not begin has no run.
    pub(super) fn report(&self, step: &ChainStep) -> Report {
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
