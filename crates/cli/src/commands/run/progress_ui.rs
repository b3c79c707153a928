//! Who sees a run go on: somebody who reads lines, or somebody who looks at the live view.

use autoloop_core::config::Config;
use autoloop_runtime::site::Progress;
use autoloop_runtime::world::World;

use super::{Args, Errand, Reporter};
use crate::commands::settings;
use crate::failure::Failure;
use crate::tui::model::Feed;
use crate::tui::{self, Beside};

/// Tells of a run in the way that was asked for.
pub(super) struct Audience<'a> {
    reporter: Reporter,
    errand: &'a Errand,
    world: &'a World,
    /// Whether there is to be a view as soon as the run is on record.
    wants_view: bool,
    view: Beside,
}

impl<'a> Audience<'a> {
    pub(super) fn new(args: &Args, errand: &'a Errand, world: &'a World) -> Self {
        let reporter = Reporter::new(args.verbose, world);
        let wants_view = args.watch && tui::is_possible();
        Audience { reporter, errand, world, wants_view, view: Beside::default() }
    }

    /// What the view shows is not told in lines as well.
    pub(super) fn tell(&self, progress: Progress<'_>) {
        if let (true, Progress::Began(run) | Progress::Resumed(run)) = (self.wants_view, progress) {
            let opened = self.open(&run.id);
            self.note(opened);
        }
        if !self.view.is_open() {
            self.leave();
            self.reporter.tell(progress);
        }
    }

    fn open(&self, run: &str) -> Result<(), Failure> {
        let loaded = self.errand.load(self.world)?;
        let config = Config::from(&loaded.settings);
        let journal = settings::journal(loaded.files.journal.clone(), self.world, &config);
        self.view.open(Feed::open(&loaded.files, journal, Some(run), self.world)?)
    }

    /// Closes the view, so that the terminal can be written to.
    pub(super) fn leave(&self) {
        let closed = self.view.close();
        self.note(closed);
    }

    /// A run goes on whether or not it can be seen.
    fn note(&self, view: Result<(), Failure>) {
        if let Err(failure) = view {
            let note = format!("there is no live view: {}", failure.message());
            self.reporter.tell(Progress::Note(&note));
        }
    }
}
