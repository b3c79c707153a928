//! The harness of one run: the only process that carries it out and writes its records.
//!
//! Every record of the harness is [sealed](autoloop_core::provenance), so the journal itself proves which records
//! of a run its harness wrote. All coordinators begin, resume and append through [`Harness`]; what differs is the
//! [`Fold`] of their records.

mod notes;
mod place;
mod request_file;

use std::ops::ControlFlow;

use autoloop_core::coordinator::{Fold, Kind};
use autoloop_core::provenance::{FORGED, Mark, Proof, Provenance, is_harness_only};
use autoloop_core::record::{EventInvalid, Glance, Heading, Record};
use autoloop_core::topic::{Topic, TopicClass};

use crate::error::DriveError;
use crate::journal::{Append, AppendError, Durability, Journal, NewRecord, Position, ReadError};
use crate::site::{Site, Trust};
use crate::world::Clock;

pub(crate) use place::{RunLock, RunPlace, create_dirs, run_dir};
pub(crate) use request_file::{RequestText, keep_request, read_request};

/// A run, held by this process, and the records that it is folded from.
pub(crate) struct Harness<'a, F> {
    journal: &'a dyn Journal,
    clock: &'a dyn Clock,
    /// What its records have to survive.
    pub(crate) durability: Durability,
    records: RunRecords<F>,
    /// Everything before it is in the records.
    position: Position,
    /// Held as long as the run is carried out, so that no other process does.
    _lock: RunLock,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// Events that want to route, in order.
    pub events: Vec<Topic>,
    pub forged: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Begin,
    Resume,
}

impl<'a, F: Fold> Harness<'a, F> {
    pub(crate) fn open(
        opening: Opening,
        site: &Site<'a>,
        place: &RunPlace<'_>,
        lock: RunLock,
        durability: Durability,
    ) -> Result<Self, DriveError> {
        let (records, position) = match opening {
            Opening::Begin => begin(site.journal, place, &lock)?,
            Opening::Resume => resume(site.journal, place, site.trust)?,
        };
        let clock = &*site.world.clock;
        Ok(Harness { journal: site.journal, clock, durability, records, position, _lock: lock })
    }

    pub(crate) fn fold(&self) -> &F {
        &self.records.fold
    }

    pub(crate) fn into_fold(self) -> F {
        self.records.fold
    }

    pub(crate) fn heading(&self, iteration: impl ToString) -> Heading {
        let (run, now) = (self.fold().id().to_owned(), self.clock.now());
        Heading { run, iteration: iteration.to_string(), now }
    }

    /// Appends records of the harness and applies them. `records` is given what other processes wrote since the
    /// last call, and is called again when one of them was faster.
    pub(crate) fn append(
        &mut self,
        records: impl FnMut(&Foreign) -> Vec<NewRecord>,
    ) -> Result<(), DriveError> {
        self.store(self.durability, records)?;
        self.records.foreign = Foreign::default();
        Ok(())
    }

    pub(crate) fn record(
        &mut self,
        iteration: impl ToString,
        records: impl FnOnce(&Heading) -> Vec<Record>,
    ) -> Result<(), DriveError> {
        let records = records(&self.heading(iteration));
        self.append(|_| records.iter().cloned().map(NewRecord::from).collect())
    }

    /// The same, and before them a refusal of each forged one. Returns a note about these for the user.
    pub(crate) fn record_refusing(
        &mut self,
        iteration: impl ToString,
        records: impl FnOnce(&Heading) -> Vec<Record>,
    ) -> Result<Option<String>, DriveError> {
        let heading = self.heading(iteration);
        let records = records(&heading);
        let mut forged = Vec::new();
        self.append(|foreign| {
            forged.clone_from(&foreign.forged);
            let refusals = forged.iter().map(|topic| refusal(topic).record(&heading));
            refusals.chain(records.iter().cloned()).map(NewRecord::from).collect()
        })?;
        Ok(forged_note(&forged))
    }

    /// Appends a record that only views use; the next records bring it to the disk. What other processes wrote is
    /// left for the next append.
    pub(crate) fn record_quietly(
        &mut self,
        iteration: impl ToString,
        record: impl FnOnce(&Heading) -> Record,
    ) -> Result<(), DriveError> {
        let record = record(&self.heading(iteration));
        self.store(Durability::Cached, |_| vec![record.clone().into()])
    }

    fn store(
        &mut self,
        durability: Durability,
        mut records: impl FnMut(&Foreign) -> Vec<NewRecord>,
    ) -> Result<(), DriveError> {
        loop {
            self.read_on(None)?;
            let mut new = records(&self.records.foreign);
            self.records.provenance.seal(new.iter_mut().map(|new| &mut new.record));
            let how = Append { expect: Some(self.position), durability };
            match self.journal.append(&new, how) {
                Ok(end) => return Ok(self.read_on(Some(end))?),
                // None of the records was stored, so their numbers are free.
                Err(AppendError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads up to a position, or to the end. Also what this harness wrote is read back, so that the state is
    /// always what a process that resumes the run would fold.
    fn read_on(&mut self, end: Option<Position>) -> Result<(), ReadError> {
        let Harness { journal, records, position, .. } = self;
        let read = journal.read(*position, &mut |line| {
            line.records(|record| records.take(record));
            // A read that fails half way is continued by the next one.
            *position = line.position();
            if end == Some(*position) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        *position = read;
        Ok(())
    }

    /// Returns a note about forged records for the user, once.
    pub(crate) fn take_forged_note(&mut self) -> Option<String> {
        forged_note(&std::mem::take(&mut self.records.foreign.forged))
    }
}

/// Begins a run. Records that are already there do not count.
fn begin<F: Fold>(
    journal: &dyn Journal,
    place: &RunPlace<'_>,
    lock: &RunLock,
) -> Result<(RunRecords<F>, Position), DriveError> {
    let mut records = RunRecords::new(place.run, place.provenance(Trust::Proven)?);
    let mut position = journal.head()?;
    if lock.was_used() {
        // Its own records are of an earlier attempt. Numbers are not used twice.
        notes::forget(place)?;
        let found = place.provenance(Trust::Proven)?;
        let mut earlier = RunRecords::<F>::new(place.run, found);
        position = earlier.read(journal)?;
        records.provenance = earlier.provenance;
    }
    Ok((records, position))
}

/// Resumes a run from the records that are proven to be its harness's.
fn resume<F: Fold>(
    journal: &dyn Journal,
    place: &RunPlace<'_>,
    trust: Trust,
) -> Result<(RunRecords<F>, Position), DriveError> {
    repair(journal)?;
    let mut records = RunRecords::new(place.run, place.provenance(trust)?);
    let position = records.read(journal)?;
    if trust == Trust::Journal && !records.unsealed.is_empty() {
        notes::write(place, &records.unsealed)?;
    }
    records.foreign.events.clear();
    Ok((records, position))
}

/// The records of one run, told apart by who wrote them.
pub(crate) struct RunRecords<F> {
    pub(crate) fold: F,
    /// Whether the journal claims that the run began, or mentions it where it is one of a loop.
    pub(crate) is_there: bool,
    provenance: Provenance,
    foreign: Foreign,
    /// The marks of records that are believed without a seal.
    unsealed: Vec<Mark>,
}

impl<F: Fold> RunRecords<F> {
    pub(crate) fn new(run: &str, provenance: Provenance) -> Self {
        RunRecords {
            fold: F::new(run),
            is_there: false,
            provenance,
            foreign: Foreign::default(),
            unsealed: Vec::new(),
        }
    }

    pub(crate) fn read(&mut self, journal: &dyn Journal) -> Result<Position, ReadError> {
        journal.read(Position::START, &mut |line| {
            line.records(|record| self.take(record));
            ControlFlow::Continue(())
        })
    }

    /// Whether a harness of this program wrote one of the records.
    pub(crate) fn has_seals(&self) -> bool {
        self.provenance.next_number() > 0
    }

    pub(crate) fn take(&mut self, record: &Glance<'_>) {
        if record.run() != self.fold.id() {
            return;
        }
        self.is_there |= F::KIND == Kind::Loop || F::KIND.begins(record);
        let proof = self.provenance.own(record);
        let topic = record.topic();
        match proof {
            Some(Proof::Seal) if topic == F::KIND.start_topic() => {
                // The run begins again, if it had begun.
                self.fold = F::new(&record.run());
            }
            Some(Proof::Unsealed) => self.unsealed.push(Mark::of(record)),
            Some(Proof::Seal) => {}
            None if is_harness_only(record) => {
                self.foreign.forged.push(topic.into_owned());
                return;
            }
            None => {
                self.fold.apply_foreign(record);
                let topic = Topic::new(topic);
                if topic.class() == TopicClass::Agent {
                    self.foreign.events.push(topic);
                }
                return;
            }
        }
        self.fold.apply(record);
        self.foreign.refused(record);
    }
}

impl Foreign {
    /// Drops a forged record that the harness refused: the first of its topic.
    fn refused(&mut self, record: &Glance<'_>) {
        if self.forged.is_empty() {
            return;
        }
        let Some(EventInvalid { emitted, reason, .. }) = EventInvalid::of(record) else { return };
        if reason.as_deref() == Some(FORGED)
            && let Some(place) = self.forged.iter().position(|topic| *topic == emitted)
        {
            self.forged.remove(place);
        }
    }
}

fn refusal(forged: &str) -> EventInvalid {
    EventInvalid {
        emitted: forged.to_owned(),
        reason: Some(FORGED.to_owned()),
        ..EventInvalid::default()
    }
}

/// Ends a line that its writer did not live to end: it may be a record that lacks nothing but its newline.
pub(crate) fn repair(journal: &dyn Journal) -> Result<(), AppendError> {
    journal.append(&[], Append::default()).map(drop)
}

fn forged_note(topics: &[String]) -> Option<String> {
    const NAMED: usize = 10;

    match topics {
        [] => None,
        [topic] => Some(format!("ignored forged record {topic}: only the harness may write it")),
        topics => {
            let named = topics[..topics.len().min(NAMED)].join(", ");
            let rest = match topics.len().saturating_sub(NAMED) {
                0 => String::new(),
                rest => format!(" and {rest} more"),
            };
            let count = topics.len();
            Some(format!(
                "ignored {count} forged records: only the harness may write {named}{rest}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_forged_records() {
        let note = |count: usize| {
            let topics: Vec<_> = (1..=count).map(|number| format!("slot.{number}")).collect();
            forged_note(&topics).unwrap_or_default()
        };
        assert_eq!(note(0), "");
        insta::assert_snapshot!(note(1), @"ignored forged record slot.1: only the harness may write it");
        insta::assert_snapshot!(note(2), @"ignored 2 forged records: only the harness may write slot.1, slot.2");
        assert!(note(12).ends_with(" slot.1, slot.2, slot.3, slot.4, slot.5, slot.6, slot.7, slot.8, slot.9, slot.10 and 2 more"));
    }
}
