//! The records of a coordinator that only its own harness writes, as that harness knows them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use autoloop_core::provenance::{Mark, claim};
use autoloop_core::record::{Glance, Record, print};

use super::DriveError;
use super::ledger::unwritable;
use super::notebook::{Notebook, Noted};
use crate::journal::{Append, Durability, FileJournal, Journal, NewRecord, Position};
use crate::world::World;

/// What the records of one coordinator come to.
pub(super) trait Fold {
    /// Whose records these are.
    fn id(&self) -> &str;

    /// Takes in one of them.
    fn apply(&mut self, record: &Glance<'_>);
}

/// What is on record about one coordinator.
pub(super) struct OwnRecords<'a, F> {
    journal: &'a FileJournal,
    /// What records have to survive that something is concluded from.
    durability: Durability,
    fold: F,
    notebook: Notebook,
}

impl<'a, F: Fold> OwnRecords<'a, F> {
    /// For one that begins now.
    pub(super) fn begin(
        (journal, durability): (&'a FileJournal, Durability),
        fold: F,
        (dir, world): (&Path, &World),
    ) -> Result<Self, DriveError> {
        let notebook = Notebook::begin(dir, &[], world).map_err(unwritable)?;
        Ok(OwnRecords { journal, durability, fold, notebook })
    }

    /// For one that is on record. Nobody else may drive it.
    pub(super) fn resume(
        (journal, durability): (&'a FileJournal, Durability),
        fold: F,
        (dir, world): (&Path, &World),
    ) -> Result<Self, DriveError> {
        // What its last harness wrote may lack nothing but the newline.
        journal.repair()?;
        let (fold, marks) = known(journal, fold, Noted::read(dir, &*world.disk)?)?;
        let notebook = Notebook::begin(dir, &marks, world).map_err(unwritable)?;
        Ok(OwnRecords { journal, durability, fold, notebook })
    }

    /// What they come to.
    pub(super) fn fold(&self) -> &F {
        &self.fold
    }

    pub(super) fn into_fold(self) -> F {
        self.fold
    }

    /// Appends records, all or a part from the first on, and takes them in.
    pub(super) fn append(&mut self, records: Vec<Record>) -> Result<(), DriveError> {
        self.append_as(records, self.durability)
    }

    /// The same for records that nothing is concluded from: the next ones bring them to the disk.
    pub(super) fn mention(&mut self, records: Vec<Record>) -> Result<(), DriveError> {
        self.append_as(records, Durability::Cached)
    }

    fn append_as(
        &mut self,
        records: Vec<Record>,
        durability: Durability,
    ) -> Result<(), DriveError> {
        let records: Vec<NewRecord> = records.into_iter().map(NewRecord::from).collect();
        self.notebook.note(&records).map_err(unwritable)?;
        self.journal.append(&records, Append { expect: None, durability })?;
        self.notebook.written();
        for new in &records {
            let mut line = Vec::new();
            print(&new.record, &mut line);
            if let Ok(glance) = Glance::read(line.trim_ascii_end()) {
                self.fold.apply(&glance);
            }
        }
        Ok(())
    }
}

/// What the records come to that the harness noted, or all that there are where nothing was noted.
pub(super) fn known<F: Fold>(
    journal: &FileJournal,
    mut fold: F,
    noted: Noted,
) -> Result<(F, Vec<Mark>), DriveError> {
    let mut sieve = Sieve::new(noted);
    let mut marks = Vec::new();
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            if record.run() != fold.id() {
                return;
            }
            if let Some(mark) = sieve.own(record) {
                fold.apply(record);
                marks.push(mark);
            }
        });
        ControlFlow::Continue(())
    })?;
    Ok((fold, marks))
}

/// Lets the records through that a harness noted, or all where it noted nothing. A copy of a record of
/// ours is not ours: the first one is.
pub(super) struct Sieve(Option<HashMap<Mark, u32>>);

impl Sieve {
    pub(super) fn new(noted: Noted) -> Sieve {
        Sieve(match noted {
            Noted::Nothing => None,
            Noted::All(marks) => Some(marks.into_iter().fold(HashMap::new(), |mut left, mark| {
                *left.entry(mark).or_default() += 1;
                left
            })),
        })
    }

    /// The mark of a record of the harness.
    pub(super) fn own(&mut self, record: &Glance<'_>) -> Option<Mark> {
        let mark = claim(record)?;
        if let Some(left) = &mut self.0 {
            let count = left.get_mut(&mark).filter(|count| **count > 0)?;
            *count -= 1;
        }
        Some(mark)
    }
}
