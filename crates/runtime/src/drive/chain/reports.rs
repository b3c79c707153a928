//! What the steps of a chain left, read from the journal.

use std::ops::ControlFlow;

use autoloop_core::chain::{ChainStep, Report};
use autoloop_core::project::coordination::{Coordination, Format};
use autoloop_core::project::scratchpad::Scratchpad;
use autoloop_core::run::Run;

use super::DriveError;
use crate::journal::{FileJournal, Journal, Position};

/// What is gathered about the run of a step.
struct Gathered<'a> {
    step: &'a ChainStep,
    run: Run,
    scratchpad: Scratchpad,
    coordination: Coordination,
}

/// Reads what steps left that ended.
pub(super) fn read<'a>(
    journal: &FileJournal,
    steps: impl Iterator<Item = &'a ChainStep>,
) -> Result<Vec<Report>, DriveError> {
    let mut all: Vec<Gathered<'a>> = steps
        .filter(|step| step.stop_reason.is_some())
        .map(|step| Gathered {
            step,
            run: Run::new(step.run.clone().unwrap_or_default()),
            scratchpad: Scratchpad::default(),
            coordination: Coordination::default(),
        })
        .collect();
    if all.is_empty() {
        return Ok(Vec::new());
    }
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            let id = record.run();
            // A step that could not begin has no run.
            let found = all.iter_mut().find(|found| !id.is_empty() && found.run.id == id);
            if let Some(found) = found {
                found.run.apply(record);
                found.scratchpad.apply(record);
                found.coordination.apply(record);
            }
        });
        ControlFlow::Continue(())
    })?;
    Ok(all.into_iter().map(report).collect())
}

fn report(gathered: Gathered<'_>) -> Report {
    let Gathered { step, run, scratchpad, coordination } = gathered;
    Report {
        number: step.number,
        preset: step.preset.clone(),
        stop_reason: step.stop_reason.clone().unwrap_or_default(),
        iterations: run.done,
        last_event: run.recent_event,
        output: scratchpad.last_output().cloned().unwrap_or_default(),
        coordination: match coordination.is_empty() {
            true => String::new(),
            false => coordination.render(Format::Markdown),
        },
        run: run.id,
        files: step.files.clone().unwrap_or_default(),
        detail: step.detail.clone().unwrap_or_default(),
    }
}
