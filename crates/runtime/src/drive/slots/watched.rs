//! Which records of a run over a queue count, for whoever watches while it goes on.

use autoloop_core::coordinator::Kind;
use autoloop_core::provenance::{Mark, claim};
use autoloop_core::record::Glance;
use autoloop_core::run_id::RunId;

use crate::drive::notebook::{Noted, Notes, notebook_stat};
use crate::drive::own::Sieve;
use crate::layout::{RunDir, StateDir};
use crate::world::{FileStat, World};

/// Tells the records of a harness from those that others wrote in its name, by what it noted. Notes come
/// before records, so that whoever misses one looks into the notes again.
pub struct WatchedSlots {
    world: World,
    run: String,
    dir: RunDir,
    sieve: Sieve,
    /// The notes as they were when they were read.
    notes: Option<FileStat>,
    /// What was let through.
    seen: Vec<Mark>,
}

impl WatchedSlots {
    /// Reads the notes of a run.
    pub fn new(state_dir: &StateDir, run: &RunId, world: &World) -> Self {
        let dir = state_dir.run(Kind::Slots, run);
        let sieve = Sieve::new(Noted::Proven(Vec::new()));
        let (world, run) = (world.clone(), run.to_string());
        let mut watched = WatchedSlots { world, run, dir, sieve, notes: None, seen: Vec::new() };
        watched.read_notes();
        watched
    }

    /// Whether a record of the run counts: its harness wrote it, or anybody may. Each is asked about once, in
    /// order.
    pub fn counts(&mut self, record: &Glance<'_>) -> bool {
        if claim(record).is_none() {
            return true;
        }
        let has_changed =
            |watched: &Self| notebook_stat(&watched.dir, &*watched.world.disk) != watched.notes;
        let mut own = self.sieve.own(record);
        if own.is_none() && has_changed(self) {
            self.read_notes();
            own = self.sieve.own(record);
        }
        self.seen.extend(own);
        own.is_some()
    }

    /// Of a run that no harness of this version drives all records are shown.
    fn read_notes(&mut self) {
        self.notes = notebook_stat(&self.dir, &*self.world.disk);
        let notes = Notes { dir: &self.dir, run: &self.run, world: &self.world };
        self.sieve = Sieve::new(notes.to_show());
        self.sieve.spend(&self.seen);
    }
}
