//! The records of a coordinator that only its own harness writes, as that harness knows them.

mod forged;
mod sieve;

use std::ops::ControlFlow;
use std::path::Path;

use autoloop_core::provenance::Mark;
use autoloop_core::record::{Glance, Heading, Record, print};

use super::DriveError;
use super::ledger::unwritable;
use super::notebook::{Notebook, Noted, Notes, Trust};
use crate::journal::{Append, Durability, FileJournal, Journal, NewRecord, Position};
use crate::world::World;

use forged::Forgeries;
pub(super) use forged::forged_note;
pub(super) use sieve::Sieve;

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
    /// What others wrote in its name.
    forgeries: Forgeries,
    /// Everything before it was looked at for forgeries.
    position: Position,
    /// Lets those through that were written behind it.
    sieve: Sieve,
}

impl<'a, F: Fold> OwnRecords<'a, F> {
    /// For one that begins now.
    pub(super) fn begin(
        (journal, durability): (&'a FileJournal, Durability),
        fold: F,
        (dir, world): (&Path, &World),
    ) -> Result<Self, DriveError> {
        let position = journal.head()?;
        let forgeries = Forgeries::default();
        let notebook = Notes { dir, run: fold.id(), world }.begin().map_err(unwritable)?;
        let known = Sifted { fold, marks: Vec::new(), forgeries, position };
        Ok(OwnRecords::open((journal, durability), known, notebook))
    }

    /// For one that is on record, as far as it is believed. No other process may drive it.
    pub(super) fn resume(
        (journal, durability): (&'a FileJournal, Durability),
        fold: F,
        (dir, world, trust): (&Path, &World, Trust),
    ) -> Result<Self, DriveError> {
        // What its last harness wrote may lack nothing but the newline.
        journal.repair()?;
        let noted = Notes { dir, run: fold.id(), world }.read(trust)?;
        let known = sifted(journal, fold, noted)?;
        let notes = Notes { dir, run: known.fold.id(), world };
        let notebook = notes.resume(&known.marks).map_err(unwritable)?;
        Ok(OwnRecords::open((journal, durability), known, notebook))
    }

    fn open(
        (journal, durability): (&'a FileJournal, Durability),
        Sifted { fold, forgeries, position, .. }: Sifted<F>,
        notebook: Notebook,
    ) -> Self {
        let sieve = Sieve::new(Noted::Proven(Vec::new()));
        OwnRecords { journal, durability, fold, notebook, forgeries, position, sieve }
    }

    /// What they come to.
    pub(super) fn fold(&self) -> &F {
        &self.fold
    }

    pub(super) fn into_fold(self) -> F {
        self.fold
    }

    /// Appends records, all or a part from the first on, and takes them in; before them a refusal of
    /// whatever others wrote in the name of the coordinator since. Returns what a person should know of
    /// that.
    pub(super) fn append(
        &mut self,
        heading: &Heading,
        records: Vec<Record>,
    ) -> Result<Option<String>, DriveError> {
        self.look_for_forgeries()?;
        let refusals = self.forgeries.refusals(heading);
        self.append_as(refusals.into_iter().chain(records).collect(), self.durability)?;
        Ok(self.forgeries.told())
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
        self.sieve.expect(records.iter().map(|new| Mark::of(&new.record)));
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

    fn look_for_forgeries(&mut self) -> Result<(), DriveError> {
        let OwnRecords { journal, fold, forgeries, position, sieve, .. } = self;
        // A look that fails half way is none: what it saw is seen again by the next one.
        let (mut left, mut found) = (sieve.clone(), forgeries.clone());
        *position = journal.read(*position, &mut |line| {
            line.records(|record| {
                if record.run() == fold.id() && left.own(record).is_none() {
                    found.look_at(record);
                }
            });
            ControlFlow::Continue(())
        })?;
        (*sieve, *forgeries) = (left, found);
        Ok(())
    }
}

/// What the records come to that are believed.
pub(super) fn known<F: Fold>(
    journal: &FileJournal,
    fold: F,
    noted: Noted,
) -> Result<F, DriveError> {
    Ok(sifted(journal, fold, noted)?.fold)
}

/// What is on record about one coordinator, told apart.
struct Sifted<F> {
    fold: F,
    /// The marks of its own records.
    marks: Vec<Mark>,
    /// The others.
    forgeries: Forgeries,
    /// Everything before it is in these.
    position: Position,
}

fn sifted<F: Fold>(
    journal: &FileJournal,
    mut fold: F,
    noted: Noted,
) -> Result<Sifted<F>, DriveError> {
    let mut sieve = Sieve::new(noted);
    let mut marks = Vec::new();
    let mut forgeries = Forgeries::default();
    let position = journal.read(Position::START, &mut |line| {
        line.records(|record| {
            if record.run() != fold.id() {
                return;
            }
            match sieve.own(record) {
                Some(mark) => {
                    fold.apply(record);
                    forgeries.look_at_own(record);
                    marks.push(mark);
                }
                None => forgeries.look_at(record),
            }
        });
        ControlFlow::Continue(())
    })?;
    Ok(Sifted { fold, marks, forgeries, position })
}
