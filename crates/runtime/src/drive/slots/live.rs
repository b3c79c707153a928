//! Which records of a run over a queue count, for a view that follows it.

use autoloop_core::coordinator::Kind;
use autoloop_core::provenance::{Provenance, is_claimed};
use autoloop_core::record::Glance;
use autoloop_core::run_id::RunId;

use crate::harness::RunPlace;
use crate::layout::StateDir;
use crate::world::World;

/// Tells the records of a harness from forged ones.
pub struct WatchedSlots(Provenance);

impl WatchedSlots {
    /// For the records of a run.
    pub fn new(state_dir: &StateDir, run: &RunId, world: &World) -> Self {
        let dir = state_dir.run(Kind::Slots, run);
        WatchedSlots(RunPlace { dir: &dir, run: run.as_str(), world }.provenance_to_show())
    }

    /// Whether a record of the run counts: its harness wrote it, or any process may. Each is asked about once, in
    /// order.
    pub fn counts(&mut self, record: &Glance<'_>) -> bool {
        self.0.own(record).is_some() || !is_claimed(record)
    }
}
