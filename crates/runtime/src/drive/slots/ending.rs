//! How a run over a queue ends.

use std::collections::BTreeSet;

use autoloop_core::queue::Status;
use autoloop_core::record::SlotRunFinish;
use autoloop_core::slot::{End, FinishedIteration, NewItems, Slot, Slots};

use super::{SlotDrive, SlotProgress};
use crate::drive::DriveError;
use crate::runs::unfinished_slots;

/// So many items are named that were added during a run.
const NAMED: usize = 10;

impl SlotDrive<'_> {
    /// Records that an iteration ended.
    pub(super) fn finish_iteration(&self, finished: &FinishedIteration) -> Result<(), DriveError> {
        let finish = finished.finish();
        self.put(finished.iteration, |heading| vec![finish.record(heading)])?;
        self.report(SlotProgress::IterationFinished(finished));
        Ok(())
    }

    /// Puts on record that the run ends. Where nothing is left to take, somebody may want to know of
    /// items that nobody works on.
    pub(super) fn finish_run(&self, finish: &SlotRunFinish) -> Result<(), DriveError> {
        self.put(0, |heading| vec![finish.record(heading)])?;
        let run = self.look(|slots| slots.id.clone());
        if let Err(error) = self.grounds.forget(&run) {
            self.site.note(&error.to_string());
        }
        if finish.reason == End::NoItems {
            self.tell_of_new_items();
            match unfinished_slots(&self.site) {
                Ok(runs) => self.tell_of_stranded(&runs),
                // The run is over, and over it stays.
                Err(error) => self.site.note(&error.to_string()),
            }
        }
        Ok(())
    }

    /// Names items that were added during the run and left in the queue.
    fn tell_of_new_items(&self) {
        let mark = self.look(|slots| slots.start.as_ref()?.queue_mark.clone());
        let Some(mark) = mark.filter(|_| self.rules().new_items == NewItems::Excluded) else {
            return;
        };
        match self.queue.added_since(&mark) {
            Ok(added) if added.is_empty() => {}
            Ok(added) => {
                let mut named: Vec<&str> = added.iter().map(String::as_str).take(NAMED).collect();
                if added.len() > NAMED {
                    named.push("...");
                }
                self.site.note(&format!(
                    "added during this run and left for the next one: {}; `slots.include_new = true` takes such items at once",
                    named.join(", ")
                ));
            }
            Err(error) => self.site.note(&error.to_string()),
        }
    }

    /// Tells of items that runs hold which were cut off. A queue gives them to nobody else, or only when
    /// the claim has expired.
    fn tell_of_stranded(&self, runs: &[Slots]) {
        let source = self.loaded.plan.slots.source;
        let is_of_queue =
            |run: &&Slots| run.start.as_ref().is_some_and(|start| start.source == source);
        let mut seen = BTreeSet::new();
        for run in runs.iter().filter(is_of_queue) {
            for slot in run.open().filter(|slot| slot.has_item()) {
                let (run, item) = (&run.id, &slot.start.item_id);
                if seen.insert(item) && self.is_held(slot) {
                    self.site.note(&format!(
                        "{item} is held by run '{run}', which was cut off: `autoloop slots --resume={run}` goes on with it"
                    ));
                }
            }
        }
    }

    /// Whether the queue still keeps an item for a slot. One that it does not know is nobody's.
    fn is_held(&self, slot: &Slot) -> bool {
        self.queue.show(&slot.start.item_id).is_ok_and(|item| {
            item.status == Status::InWork && item.owner.as_ref() == Some(&slot.start.actor)
        })
    }
}
