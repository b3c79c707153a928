//! What is known about a run that is on record, without what was forged.
//!
//! Views show what the journal says. Who resumes a run has to know who said it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use autoloop_core::project::scratchpad::Scratchpad;
use autoloop_core::provenance::{Mark, claim};
use autoloop_core::record::Glance;
use autoloop_core::run::Run;

use super::ledger::Foreign;
use super::notebook::{Noted, Notes, Trust};
use super::own::Sieve;
use super::{DriveError, chains, run_dir};
use crate::journal::{FileJournal, Journal, Position};
use crate::layout::StateDir;
use crate::world::World;

/// A run as its own records tell it.
pub(super) struct Known {
    pub(super) run: Run,
    pub(super) scratchpad: Scratchpad,
    /// Everything before it is in the two above.
    pub(super) position: Position,
    /// The marks of the records of the harness among it.
    pub(super) marks: Vec<Mark>,
    /// The topics of records that claim to be the harness's and are not believed.
    pub(super) forged: Vec<String>,
}

impl Known {
    /// Reads a run from the journal, and nothing else: what is kept beside it decides nothing. A copy of a
    /// record of ours is not ours: the first one is.
    pub(super) fn read(journal: &FileJournal, id: &str, noted: Noted) -> Result<Known, DriveError> {
        let mut sifted = Sifted::new(id, noted);
        let mut scratchpad = Scratchpad::default();
        let mut marks = Vec::new();
        let position = journal.read(Position::START, &mut |line| {
            line.records(|record| {
                if record.run() == id
                    && let Some(mark) = sifted.take(record)
                {
                    scratchpad.apply(record);
                    marks.push(mark);
                }
            });
            ControlFlow::Continue(())
        })?;
        let Sifted { run, foreign, .. } = sifted;
        Ok(Known { run, scratchpad, position, marks, forged: foreign.forged })
    }
}

/// A run, and what tells its own records.
struct Sifted {
    run: Run,
    sieve: Sieve,
    foreign: Foreign,
}

impl Sifted {
    fn new(id: &str, noted: Noted) -> Sifted {
        Sifted { run: Run::new(id), sieve: Sieve::new(noted), foreign: Foreign::default() }
    }

    /// Takes in a record of the run, and returns its mark if it is the harness's.
    fn take(&mut self, record: &Glance<'_>) -> Option<Mark> {
        let own = claim(record).and_then(|_| self.sieve.own(record));
        match own {
            Some(_) => self.run.apply(record),
            None => self.foreign.take(record, &mut self.run),
        }
        own
    }
}

/// What a run has come to by the records that are believed; `None` when there are no records of it. For a
/// caller that means to resume it: a last record that lacks nothing but its newline is given it.
///
/// # Errors
///
/// When the journal cannot be read, or the id leads out of the state directory.
pub fn standing(
    journal: &FileJournal,
    state_dir: &StateDir,
    (id, world, trust): (&str, &World, Trust),
) -> Result<Option<Run>, DriveError> {
    journal.repair()?;
    let mut is_there = false;
    journal.read(Position::START, &mut |line| {
        line.records(|record| is_there |= record.run() == id);
        if is_there { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if !is_there {
        return Ok(None);
    }
    let dir = run_dir(state_dir, id)?;
    let noted = Notes { dir: &dir, run: id, world }.read(trust)?;
    Ok(Some(Known::read(journal, id, noted)?.run))
}

/// The id of the run that began last among those that did not complete. One that a harness of this version drove
/// comes before one that only the journal knows of. A step of a chain that a run asked for is resumed
/// with that run, and one that did its part in a chain is not resumed unless it is named. The journal is
/// repaired first, as for [`standing`].
///
/// # Errors
///
/// When the journal cannot be read.
pub fn latest_resumable(
    journal: &FileJournal,
    state_dir: &StateDir,
    (world, trust): (&World, Trust),
) -> Result<Option<String>, DriveError> {
    journal.repair()?;
    let chains = chains(journal)?;
    let is_left_to_chain = |run: &str| {
        let mut of = chains.iter().filter_map(|chain| Some((chain, chain.step_of(run)?)));
        of.any(|(chain, step)| chain.parent().is_some() || step.is_well())
    };
    let runs = on_record(journal, state_dir, (world, trust))?;
    let candidates = || {
        let alone =
            |run: &&OnRecord| run.claimed.stands_alone() && !is_left_to_chain(&run.claimed.id);
        runs.iter().rev().filter(alone)
    };
    let ours = candidates().find(|run| run.is_ours && run.sifted.run.can_resume());
    let latest = ours.or_else(|| candidates().find(|run| run.claimed.can_resume()));
    Ok(latest.map(|run| run.claimed.id.clone()))
}

/// A run of the journal.
struct OnRecord {
    /// As the journal tells it.
    claimed: Run,
    /// By the records that are believed.
    sifted: Sifted,
    /// Whether a harness of this version drove it.
    is_ours: bool,
}

fn on_record(
    journal: &FileJournal,
    state_dir: &StateDir,
    (world, trust): (&World, Trust),
) -> Result<Vec<OnRecord>, DriveError> {
    let mut found: Vec<OnRecord> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let known = |id: &str| {
        let dir = run_dir(state_dir, id).ok();
        let noted = dir.as_deref().map(|dir| {
            let notes = Notes { dir, run: id, world };
            // What cannot be read is reported when the run is resumed.
            (notes.read(trust).unwrap_or(Noted::Proven(Vec::new())), notes.are_ours())
        });
        let (noted, is_ours) = noted.unwrap_or((Noted::Proven(Vec::new()), false));
        OnRecord { claimed: Run::new(id), sifted: Sifted::new(id, noted), is_ours }
    };
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            let id = record.run();
            let place = match places.get(&*id) {
                Some(place) => *place,
                None if id.is_empty() => return,
                None => {
                    places.insert(id.clone().into_owned(), found.len());
                    found.push(known(&id));
                    found.len() - 1
                }
            };
            let run = &mut found[place];
            run.claimed.apply(record);
            run.sifted.take(record);
        });
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
