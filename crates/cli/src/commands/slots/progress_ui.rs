//! Who sees a run over a queue go on: somebody who reads lines, or somebody who looks at the live view.

use std::sync::Mutex;

use autoloop_core::plan::Files;
use autoloop_runtime::journal::Journal;
use autoloop_runtime::site::{Progress, SlotProgress};
use autoloop_runtime::world::World;

use super::report;
use crate::failure::Failure;
use crate::tui::Beside;
use crate::tui::model::Feed;

/// Tells of a run: in the view, or in lines while nobody looks at it. Any thread may tell.
pub(super) struct Audience<'a> {
    files: &'a Files,
    world: &'a World,
    /// What the view reads, until it is opened; nothing where there is to be none.
    journal: Mutex<Option<Box<dyn Journal>>>,
    view: Beside,
}

impl<'a> Audience<'a> {
    /// With the journal that a view is to read, or without a view.
    pub(super) fn new(
        files: &'a Files,
        world: &'a World,
        journal: Option<Box<dyn Journal>>,
    ) -> Self {
        Audience { files, world, journal: Mutex::new(journal), view: Beside::default() }
    }

    pub(super) fn tell(&self, progress: Progress<'_>) {
        if let Progress::Slots(SlotProgress::Began(slots, _)) = progress
            && let Some(journal) = self.journal.lock().ok().and_then(|mut journal| journal.take())
        {
            self.note(self.open(&slots.id, journal));
        }
        if !self.view.is_open() {
            self.leave();
            report::tell(progress);
        }
    }

    fn open(&self, run: &str, journal: Box<dyn Journal>) -> Result<(), Failure> {
        self.view.open(Feed::open(self.files, journal, Some(run), self.world)?)
    }

    /// Closes the view, so that the terminal can be written to.
    pub(super) fn leave(&self) {
        self.note(self.view.close());
    }

    /// A run goes on whether or not it can be seen.
    fn note(&self, view: Result<(), Failure>) {
        if let Err(failure) = view {
            let note = format!("there is no live view: {}", failure.message());
            report::tell(Progress::Note(&note));
        }
    }
}
