//! Runs that are on record, for processes that do not carry them out.

use std::collections::HashMap;
use std::ops::ControlFlow;

use autoloop_core::coordinator::{Fold, Kind};
use autoloop_core::provenance::Provenance;
use autoloop_core::record::Glance;

use super::place::run_dir;
use super::{HarnessError, RunPlace, RunRecords, Trust, repair};
use crate::journal::{Journal, Position, ReadError};
use crate::layout::{RunDir, StateDir};
use crate::world::World;

/// What is known about each of several runs, in the order in which they were first mentioned.
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

/// A run of the journal.
pub(crate) struct OnRecord<F> {
    /// As the journal tells it.
    pub(crate) claimed: F,
    /// By the records that are believed.
    records: RunRecords<F>,
    /// Whether the journal says that it began.
    pub(crate) has_start: bool,
}

impl<F: Fold> OnRecord<F> {
    pub(crate) fn new(run: &str, provenance: Provenance) -> Self {
        let records = RunRecords::new(run, provenance);
        OnRecord { claimed: F::new(run), records, has_start: false }
    }

    pub(crate) fn take(&mut self, record: &Glance<'_>) {
        self.has_start |= F::KIND.begins(record);
        self.claimed.apply(record);
        self.records.take(record);
    }

    /// The state by the records that are believed.
    pub(crate) fn proven(&self) -> &F {
        &self.records.fold
    }

    pub(crate) fn into_proven(self) -> F {
        self.records.fold
    }

    /// Whether a harness of this program carried it out.
    pub(crate) fn is_ours(&self, state_dir: &StateDir, world: &World) -> bool {
        let run = self.claimed.id();
        let is_ours_by_files = |dir: RunDir| RunPlace { dir: &dir, run, world }.is_ours();
        self.records.provenance.next_number() > 0
            || run_dir(state_dir, F::KIND, run).is_ok_and(is_ours_by_files)
    }
}

/// Every run of a coordinator. `provenance` tells the records of each apart.
pub(crate) fn all<F: Fold>(
    journal: &dyn Journal,
    provenance: impl Fn(&str) -> Provenance,
) -> Result<Vec<OnRecord<F>>, ReadError> {
    let mut runs = ByRun::default();
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            let run = record.run();
            if !run.is_empty() && F::KIND.concerns(record) {
                runs.of(&run, |run| OnRecord::new(run, provenance(run))).take(record);
            }
        });
        ControlFlow::Continue(())
    })?;
    Ok(runs.found)
}

/// Every run of a coordinator as the journal tells it.
pub(crate) fn claimed<F: Fold>(journal: &dyn Journal) -> Result<Vec<F>, ReadError> {
    let mut runs = ByRun::default();
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            if F::KIND.concerns(record) {
                runs.of(&record.run(), F::new).apply(record);
            }
        });
        ControlFlow::Continue(())
    })?;
    Ok(runs.found)
}

/// The state of one run by the records that are believed; `None` if the journal does not mention it. For a caller that
/// means to resume it: the journal is [repaired](super::repair) first.
pub(crate) fn find<F: Fold>(
    journal: &dyn Journal,
    state_dir: &StateDir,
    (run, world, trust): (&str, &World, Trust),
) -> Result<Option<F>, HarnessError> {
    repair(journal)?;
    let dir = run_dir(state_dir, F::KIND, run)?;
    let provenance = RunPlace { dir: &dir, run, world }.provenance(trust)?;
    let mut records = RunRecords::new(run, provenance);
    let mut is_there = false;
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            let is_mentioned = F::KIND == Kind::Loop || F::KIND.begins(record);
            is_there |= is_mentioned && record.run() == run;
            records.take(record);
        });
        ControlFlow::Continue(())
    })?;
    Ok(is_there.then_some(records.fold))
}
