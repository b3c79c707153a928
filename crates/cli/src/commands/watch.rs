//! `autoloop watch`: what runs, row by row, as it goes on.

mod change;
mod lines;

use std::path::PathBuf;

use autoloop_runtime::world::World;

use self::lines::Form;
use super::settings::{self, Located};
use crate::failure::Failure;
use crate::tui;
use crate::tui::model::Feed;

/// Watch a run, a chain or slots.
///
/// Shows a row for whoever works: the loop and the branches of its wave, the steps of a chain, or the
/// slots of a queue, each with what it is at, for how long, and the last line that its agent printed.
/// It looks at the journal and disturbs nothing, so it can be started and left at any time, from any
/// terminal; a run that is over is shown as it ended.
///
/// On a terminal it fills the window: pick a row with the arrows, open its output with Enter, leave
/// with q; ? shows all keys. Anywhere else it prints a line for every change until the run is over, and
/// exits with 0 if it reached its goal, with 1 if it did not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to watch: an id, the beginning of it, or `latest` [default: what is under way, or else the
    /// latest].
    run: Option<String>,
    /// The project [default: the current one].
    project_dir: Option<PathBuf>,
    /// Print how it stands, and leave.
    #[arg(long)]
    once: bool,
    /// Print a JSON object in a line for every change.
    #[arg(long)]
    json: bool,
}

/// Prints how a run goes, a line for every change, until it ends.
pub(super) fn follow(located: &Located, run: &str, world: &World) -> Result<(), Failure> {
    let feed = Feed::open((&located.files, located.journal(world)), Some(run), world)?;
    lines::follow(feed, Form::Text)
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let located = settings::locate(args.project_dir.as_deref(), world)?;
    let place = (&located.files, located.journal(world));
    let mut feed = Feed::open(place, args.run.as_deref(), world)?;
    let form = if args.json { Form::Json } else { Form::Text };
    if args.once {
        return lines::once(&mut feed, form);
    }
    if form == Form::Text && tui::is_possible() {
        return tui::show(feed);
    }
    lines::follow(feed, form)
}
