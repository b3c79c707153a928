//! What is known about a run that is on record, without what was forged.
//!
//! Views show what the journal says. Whoever goes on with a run has to know who said it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use autoloop_core::project::scratchpad::{Scratchpad, Scratchpads};
use autoloop_core::provenance::{Mark, claim};
use autoloop_core::run::{Run, Runs};

use super::ledger::Foreign;
use super::notebook::Noted;
use super::{DriveError, chains, run_dir};
use crate::journal::{FileJournal, Journal, Position};
use crate::world::Disk;

/// A run as its own records tell it.
pub(super) struct Known {
    pub(super) run: Run,
    pub(super) scratchpad: Scratchpad,
    /// Everything before it is in the two above.
    pub(super) position: Position,
    /// The marks of the records of the harness among it.
    pub(super) marks: Vec<Mark>,
}

impl Known {
    /// Finds out about a run. The views that are kept tell it quickly, unless there is something on
    /// record that the harness did not note: then every record is looked at.
    pub(super) fn read(journal: &FileJournal, id: &str, noted: Noted) -> Result<Known, DriveError> {
        let runs = journal.fold::<Runs>()?;
        let run = runs.view.get(id).cloned().unwrap_or_else(|| Run::new(id));
        let marks = match noted {
            Noted::All(marks) if sum(&marks) == run.claims => marks,
            Noted::All(marks) => return Known::sifted(journal, id, &marks),
            Noted::Nothing => claims(journal, id)?,
        };
        let scratchpads = journal.fold::<Scratchpads>()?.view;
        let scratchpad = scratchpads.of(id).cloned().unwrap_or_default();
        Ok(Known { run, scratchpad, position: runs.position, marks })
    }

    /// Believes only what was noted. A copy of a record of ours is not ours: the first one is.
    fn sifted(journal: &FileJournal, id: &str, noted: &[Mark]) -> Result<Known, DriveError> {
        let mut left: HashMap<Mark, u32> = HashMap::new();
        for mark in noted {
            *left.entry(*mark).or_default() += 1;
        }
        let mut run = Run::new(id);
        let mut scratchpad = Scratchpad::default();
        let mut marks = Vec::new();
        let mut foreign = Foreign::default();
        let position = journal.read(Position::START, &mut |line| {
            line.records(|record| {
                if record.run() != id {
                    return;
                }
                let own = claim(record).filter(|mark| match left.get_mut(mark) {
                    Some(count @ 1..) => {
                        *count -= 1;
                        true
                    }
                    _ => false,
                });
                match own {
                    Some(mark) => {
                        run.apply(record);
                        scratchpad.apply(record);
                        marks.push(mark);
                    }
                    None => foreign.take(record, &mut run),
                }
            });
            ControlFlow::Continue(())
        })?;
        Ok(Known { run, scratchpad, position, marks })
    }
}

/// What a run has come to by its own records; `None` when there are none. For whoever means to go on
/// with it: a last record that lacks nothing but its newline is given it.
///
/// # Errors
///
/// When the journal cannot be read, or the id leads out of the state directory.
pub fn standing(
    journal: &FileJournal,
    state_dir: &Path,
    (id, disk): (&str, &dyn Disk),
) -> Result<Option<Run>, DriveError> {
    journal.repair()?;
    let runs = journal.fold::<Runs>()?.view;
    let Some(run) = runs.get(id) else { return Ok(None) };
    let noted = Noted::read(&run_dir(state_dir, id)?, disk)?;
    believed(journal, run, &noted).map(Some)
}

/// The id of the run that began last among those that did not complete. One that this program drove
/// comes before one that only the journal knows of. A step of a chain that a run asked for is resumed
/// with that run, and one that did its part in a chain is not resumed unless it is named. The journal is
/// repaired first, as for [`standing`].
///
/// # Errors
///
/// When the journal cannot be read.
pub fn latest_resumable(
    journal: &FileJournal,
    state_dir: &Path,
    disk: &dyn Disk,
) -> Result<Option<String>, DriveError> {
    journal.repair()?;
    let runs = journal.fold::<Runs>()?.view;
    let chains = chains(journal)?;
    let is_left_to_chain = |run: &str| {
        let mut of = chains.iter().filter_map(|chain| Some((chain, chain.step_of(run)?)));
        of.any(|(chain, step)| chain.parent().is_some() || step.is_well())
    };
    let candidates =
        || runs.iter().rev().filter(|run| run.stands_alone() && !is_left_to_chain(&run.id));
    for run in candidates() {
        let Ok(dir) = run_dir(state_dir, &run.id) else { continue };
        // Resuming it reports what cannot be read.
        let noted = Noted::read(&dir, disk).unwrap_or(Noted::Nothing);
        let is_ours = matches!(noted, Noted::All(_));
        if is_ours && believed(journal, run, &noted)?.can_resume() {
            return Ok(Some(run.id.clone()));
        }
    }
    Ok(candidates().find(|run| run.can_resume()).map(|run| run.id.clone()))
}

/// A run as the views tell it, or without what was forged if something was.
fn believed(journal: &FileJournal, run: &Run, noted: &Noted) -> Result<Run, DriveError> {
    match noted {
        Noted::All(marks) if sum(marks) != run.claims => {
            Ok(Known::sifted(journal, &run.id, marks)?.run)
        }
        Noted::All(_) | Noted::Nothing => Ok(run.clone()),
    }
}

/// The marks of whatever claims to be written by the harness of a run.
fn claims(journal: &FileJournal, id: &str) -> Result<Vec<Mark>, DriveError> {
    let mut marks = Vec::new();
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            if record.run() == id {
                marks.extend(claim(record));
            }
        });
        ControlFlow::Continue(())
    })?;
    Ok(marks)
}

fn sum(marks: &[Mark]) -> u64 {
    marks.iter().fold(0, |sum, mark| sum.wrapping_add(mark.number()))
}
