//! Which records of a run over a queue count, for whoever watches while it goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_core::provenance::{Mark, claim};
use autoloop_core::record::Glance;

use super::slots_dir;
use crate::drive::notebook::{Noted, notebook_stat};
use crate::drive::own::Sieve;
use crate::world::{Disk, FileStat};

/// Tells the records of a harness from those that others wrote in its name, by what it noted. Notes come
/// before records, so that whoever misses one looks into the notes again.
pub struct WatchedSlots {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    sieve: Sieve,
    /// The notes as they were when they were read.
    notes: Option<FileStat>,
    /// What was let through.
    seen: Vec<Mark>,
}

impl WatchedSlots {
    /// For a run whose id leads nowhere else.
    pub fn new(state_dir: &Path, run: &str, disk: Arc<dyn Disk>) -> Self {
        let dir = slots_dir(state_dir, run);
        let sieve = Sieve::new(Noted::All(Vec::new()));
        let mut watched = WatchedSlots { disk, dir, sieve, notes: None, seen: Vec::new() };
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
            |watched: &Self| notebook_stat(&watched.dir, &*watched.disk) != watched.notes;
        let mut own = self.sieve.own(record);
        if own.is_none() && has_changed(self) {
            self.read_notes();
            own = self.sieve.own(record);
        }
        self.seen.extend(own);
        own.is_some()
    }

    /// Of a run that no harness of this program drives there are none, and all that is said of it counts; nor
    /// is anything known where they cannot be read, and whoever means to go on with it is told.
    fn read_notes(&mut self) {
        self.notes = notebook_stat(&self.dir, &*self.disk);
        let noted = Noted::read(&self.dir, &*self.disk).unwrap_or(Noted::Nothing);
        self.sieve = Sieve::new(noted);
        self.sieve.spend(&self.seen);
    }
}
