//! The journal of one run, as its harness knows it: what is on record, and who wrote it.
//!
//! The harness appends only where it expects the journal to end, so it knows which lines are its own.
//! Every other line of the run is somebody else's, whatever it claims to be.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use autoloop_core::project::scratchpad::Scratchpad;
use autoloop_core::provenance::is_harness_only;
use autoloop_core::record::{Glance, Heading};
use autoloop_core::run::Run;
use autoloop_core::run_id::RunId;
use autoloop_core::stamp::Stamp;
use autoloop_core::topic::{Topic, TopicClass};

use super::DriveError;
use super::known::Known;
use super::notebook::{Notebook, Notes, Trust};
use crate::journal::{Append, AppendError, Durability, FileJournal, Journal, NewRecord, Position};
use crate::world::World;

/// What is on record about a run.
pub struct Ledger<'a> {
    journal: &'a FileJournal,
    run: Run,
    scratchpad: Scratchpad,
    /// Everything before it is in the two above.
    position: Position,
    notebook: Notebook,
    /// The topics of records that claim to be a harness's and are not believed, from before it was resumed.
    forged: Vec<String>,
}

/// What others wrote about the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// Events that want to route, in order.
    pub events: Vec<Topic>,
    /// Topics that only the harness may write.
    pub forged: Vec<String>,
}

impl<'a> Ledger<'a> {
    /// The ledger of a run that begins now. Nobody else may drive it.
    pub(super) fn begin(
        journal: &'a FileJournal,
        id: &RunId,
        (run_dir, world): (&Path, &World),
    ) -> Result<Self, DriveError> {
        Ok(Ledger {
            position: journal.head()?,
            notebook: Notes { dir: run_dir, run: id.as_str(), world }
                .begin()
                .map_err(unwritable)?,
            journal,
            run: Run::new(id.as_str()),
            scratchpad: Scratchpad::default(),
            forged: Vec::new(),
        })
    }

    /// The ledger of a run that is on record, as far as it is believed. No other process may drive it.
    pub(super) fn resume(
        journal: &'a FileJournal,
        id: &str,
        (dir, world, trust): (&Path, &World, Trust),
    ) -> Result<Self, DriveError> {
        // What its last harness wrote may lack nothing but the newline.
        journal.repair()?;
        let notes = Notes { dir, run: id, world };
        let known = Known::read(journal, id, notes.read(trust)?)?;
        let Known { run, scratchpad, position, marks, forged } = known;
        let notebook = notes.resume(&marks).map_err(unwritable)?;
        Ok(Ledger { journal, run, scratchpad, position, notebook, forged })
    }

    /// The topics of records that were not believed when the run was resumed.
    pub(super) fn forged(&self) -> &[String] {
        &self.forged
    }

    /// The journal.
    pub(super) fn journal(&self) -> &'a FileJournal {
        self.journal
    }

    /// The run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The run, at the end.
    pub fn into_run(self) -> Run {
        self.run
    }

    /// What the iterations printed.
    pub fn scratchpad(&self) -> &Scratchpad {
        &self.scratchpad
    }

    /// The heading of the records of one step.
    pub fn heading(&self, iteration: impl ToString, now: Stamp) -> Heading {
        Heading { run: self.run.id.clone(), iteration: iteration.to_string(), now }
    }

    /// Takes in what others wrote since, and returns it.
    pub fn read_on(&mut self) -> Result<Foreign, DriveError> {
        let mut foreign = Foreign::default();
        let Ledger { journal, run, position, .. } = self;
        *position = journal.read(*position, &mut |line| {
            line.records(|record| foreign.take(record, run));
            ControlFlow::Continue(())
        })?;
        Ok(foreign)
    }

    /// Appends records of the harness, and takes them in. What others wrote before them is taken in
    /// first and given to `records`, which may be asked again when somebody was faster.
    pub fn append(
        &mut self,
        durability: Durability,
        mut records: impl FnMut(&Foreign) -> Vec<NewRecord>,
    ) -> Result<Foreign, DriveError> {
        let mut foreign = Foreign::default();
        loop {
            foreign.extend(self.read_on()?);
            let how = Append { expect: Some(self.position), durability };
            let records = records(&foreign);
            self.notebook.note(&records).map_err(unwritable)?;
            match self.journal.append(&records, how) {
                Ok(end) => {
                    self.notebook.written();
                    self.take_own(end)?;
                    return Ok(foreign);
                }
                Err(AppendError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes in what we wrote ourselves: everything up to `end`.
    fn take_own(&mut self, end: Position) -> Result<(), DriveError> {
        let Ledger { journal, run, scratchpad, position, .. } = self;
        journal.read(*position, &mut |line| {
            line.records(|record| {
                if record.run() == run.id {
                    run.apply(record);
                    scratchpad.apply(record);
                }
            });
            if line.position() == end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        *position = end;
        Ok(())
    }
}

pub(super) fn unwritable((path, source): (PathBuf, io::Error)) -> DriveError {
    DriveError::Write { path, source }
}

impl Foreign {
    pub(super) fn take(&mut self, record: &Glance<'_>, run: &mut Run) {
        if record.run() != run.id {
            return;
        }
        let topic = Topic::new(record.topic());
        if is_harness_only(record) {
            self.forged.push(topic.to_string());
            return;
        }
        // A refusal at the door is written by `emit`, in the agent's process; all that a forged one can
        // do is to make its author try again.
        run.apply(record);
        if topic.class() == TopicClass::Agent {
            self.events.push(topic);
        }
    }

    fn extend(&mut self, other: Foreign) {
        self.events.extend(other.events);
        self.forged.extend(other.forged);
    }
}
