//! What the steps of a chain left, read from the journal.

use std::ops::ControlFlow;

use autoloop_core::chain::{ChainStep, Report};
use autoloop_core::coordinator::Fold;
use autoloop_core::format::Format;
use autoloop_core::run::{LoopFold, Run};
use autoloop_core::views::coordination::Coordination;
use autoloop_core::views::scratchpad::Scratchpad;

use super::DriveError;
use crate::journal::Position;
use crate::runs::state;
use crate::site::Site;

/// What is gathered about the run of a step.
struct Gathered<'a> {
    step: &'a ChainStep,
    run: Run,
    scratchpad: Scratchpad,
    coordination: Coordination,
}

/// Reads what steps left that ended. How far a run got and what it printed is taken from the records of
/// its own harness; what its agents kept book of are claims anyway.
pub(super) fn read<'a>(
    site: &Site<'_>,
    steps: impl Iterator<Item = &'a ChainStep>,
) -> Result<Vec<Report>, DriveError> {
    let ended = steps.filter(|step| step.stop_reason.is_some());
    let mut all = ended.map(|step| gather(site, step)).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() {
        return Ok(Vec::new());
    }
    site.journal.read(Position::START, &mut |line| {
        line.records(|record| {
            let id = record.run();
            let found = all.iter_mut().find(|found| !id.is_empty() && found.run.id == id);
            if let Some(found) = found {
                found.coordination.apply(record);
            }
        });
        ControlFlow::Continue(())
    })?;
    Ok(all.into_iter().map(report).collect())
}

fn gather<'a>(site: &Site<'_>, step: &'a ChainStep) -> Result<Gathered<'a>, DriveError> {
    let coordination = Coordination::default();
    let Some(id) = &step.run else {
        // It could not begin.
        let (run, scratchpad) = (Run::new(""), Scratchpad::default());
        return Ok(Gathered { step, run, scratchpad, coordination });
    };
    let found = state(site, id)?;
    let LoopFold { run, scratchpad } = found.unwrap_or_else(|| LoopFold::new(id));
    Ok(Gathered { step, run, scratchpad, coordination })
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
