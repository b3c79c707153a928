//! Who sees a run go on: somebody who reads lines, or somebody who looks at the live view.

use autoloop_core::config::Config;
use autoloop_runtime::drive::Progress;
use autoloop_runtime::world::World;

use super::{Args, Errand, Reporter};
use crate::commands::settings;
use crate::failure::Failure;
use crate::tui::feed::Feed;
use crate::tui::{self, Beside};

/// Tells of a run in the way that was asked for.
pub(super) struct Audience<'a> {
    reporter: Reporter,
    errand: &'a Errand,
    world: &'a World,
    view: View,
}

/// The live view of a run.
enum View {
    /// Nobody wants it, or nobody does any more.
    None,
    /// It opens when the run is on record.
    Wanted,
    Open(Beside),
}

impl<'a> Audience<'a> {
    pub(super) fn new(args: &Args, errand: &'a Errand, world: &'a World) -> Self {
        let view = if args.watch && tui::is_possible() { View::Wanted } else { View::None };
        Audience { reporter: Reporter::new(args.verbose), errand, world, view }
    }

    /// What the view shows is not told in lines as well.
    pub(super) fn tell(&mut self, progress: Progress<'_>) {
        if let (View::Wanted, Progress::Began(run)) = (&self.view, progress) {
            match self.open(&run.id) {
                Ok(beside) => self.view = View::Open(beside),
                Err(failure) => self.without_view(&failure),
            }
        }
        if matches!(&self.view, View::Open(beside) if !beside.is_open()) {
            self.leave();
        }
        if !matches!(self.view, View::Open(_)) {
            self.reporter.tell(progress);
        }
    }

    fn open(&self, run: &str) -> Result<Beside, Failure> {
        let loaded = self.errand.load(self.world)?;
        let config = Config::from(&loaded.settings);
        let journal = settings::journal(loaded.files.journal.clone(), self.world, &config);
        Beside::open(Feed::open((&loaded.files, journal), Some(run), self.world)?)
    }

    /// Closes the view, so that the terminal can be written to.
    pub(super) fn leave(&mut self) {
        if let View::Open(beside) = std::mem::replace(&mut self.view, View::None)
            && let Err(failure) = beside.close()
        {
            self.without_view(&failure);
        }
    }

    /// A run goes on whether or not it can be seen.
    fn without_view(&mut self, failure: &Failure) {
        self.view = View::None;
        let note = format!("there is no live view: {}", failure.message());
        self.reporter.tell(Progress::Note(&note));
    }
}
