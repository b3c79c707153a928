//! Who sees slots go on: somebody who looks at the live view, or somebody who reads lines.

use autoloop_core::config::Config;
use autoloop_runtime::drive::SlotProgress;
use autoloop_runtime::project::Loaded;
use autoloop_runtime::world::World;

use super::report;
use crate::commands::settings;
use crate::failure::Failure;
use crate::tui::Beside;
use crate::tui::feed::Feed;

/// Tells of a run over a queue, from whichever thread.
pub(super) struct Audience<'a> {
    loaded: &'a Loaded,
    world: &'a World,
    /// Whether there is to be a view as soon as the run is on record.
    wants_view: bool,
    view: Beside,
}

impl<'a> Audience<'a> {
    pub(super) fn new((loaded, world): (&'a Loaded, &'a World), wants_view: bool) -> Self {
        Audience { loaded, world, wants_view, view: Beside::default() }
    }

    /// What the view shows is not told in lines as well.
    pub(super) fn tell(&self, progress: SlotProgress<'_>) {
        if let (true, SlotProgress::Began(slots)) = (self.wants_view, progress) {
            note(self.open(&slots.id));
        }
        if !self.view.is_open() {
            self.leave();
            report::tell(progress);
        }
    }

    fn open(&self, run: &str) -> Result<(), Failure> {
        let Loaded { files, settings: set, .. } = self.loaded;
        let config = Config::from(set);
        let journal = settings::journal(files.journal.clone(), self.world, &config);
        self.view.open(Feed::open((files, journal), Some(run), self.world)?)
    }

    /// Closes the view, so that the terminal can be written to.
    pub(super) fn leave(&self) {
        note(self.view.close());
    }
}

/// The work goes on whether or not it can be seen.
fn note(view: Result<(), Failure>) {
    if let Err(failure) = view {
        let note = format!("there is no live view: {}", failure.message());
        report::tell(SlotProgress::Note(&note));
    }
}
