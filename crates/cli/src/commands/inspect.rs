//! `autoloop inspect`: what a journal says, one file a view.

mod chain;
mod coordination;
pub(super) mod excerpt;
mod journal;
mod memory;
mod metrics;
pub(super) mod review;
mod scratchpad;
mod slots;
mod text;
mod topology;

use std::io::{self, Write};
use std::ops::ControlFlow;

use autoloop_core::format::Format;
use autoloop_core::record::Glance;
use autoloop_core::views::iteration_text::IterationText;
use autoloop_runtime::journal::{Journal, Position};
use autoloop_runtime::runs;
use autoloop_runtime::world::World;
use clap::Subcommand;

use crate::failure::Failure;
use crate::terminal;

/// Show what happened.
///
/// Everything is read from the journal, so a run can be looked at while it goes on, after it ended and
/// years later.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Journal(journal::Args),
    Metrics(metrics::Args),
    Scratchpad(scratchpad::Args),
    Coordination(coordination::Args),
    Chain(chain::Args),
    Slots(slots::Args),
    Memory(memory::Args),
    Topology(topology::Args),
    Review(review::Args),
    /// What the agent was told in an iteration, to the letter.
    Prompt(text::Args),
    /// What the agent printed in an iteration, to the letter.
    Output(text::Args),
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match &args.what {
        What::Journal(args) => journal::run(args, world),
        What::Metrics(args) => metrics::run(args, world),
        What::Scratchpad(args) => scratchpad::run(args, world),
        What::Coordination(args) => coordination::run(args, world),
        What::Chain(args) => chain::run(args, world),
        What::Slots(args) => slots::run(args, world),
        What::Memory(args) => memory::run(args, world),
        What::Topology(args) => topology::run(args, world),
        What::Review(args) => review::run(args, world),
        What::Prompt(args) => text::run(args, IterationText::Prompt, world),
        What::Output(args) => text::run(args, IterationText::Output, world),
    }
}

fn parse_format(text: &str) -> Result<Format, &'static str> {
    text.parse()
}

/// The run that `--run` means.
fn named_run(journal: &dyn Journal, name: Option<&str>) -> Result<Option<String>, Failure> {
    name.map(|name| Ok(runs::find(journal, name)?.id().to_owned())).transpose()
}

/// The run that is asked about: the one that is named, or the latest.
pub(super) fn one_run(journal: &dyn Journal, name: Option<&str>) -> Result<String, Failure> {
    match named_run(journal, name)? {
        None => Ok(journal.latest_run()?.0),
        Some(run) => Ok(run),
    }
}

/// Shows every record of one run.
fn for_run(
    journal: &dyn Journal,
    run: &str,
    mut visit: impl FnMut(&Glance<'_>),
) -> Result<(), Failure> {
    journal.read(Position::START, &mut |line| {
        line.records(|record| {
            if record.run() == run {
                visit(record);
            }
        });
        ControlFlow::Continue(())
    })?;
    Ok(())
}

/// Something that belongs beside the output, not in it.
pub(super) fn note(text: &str) {
    // Where standard error is closed, nobody wanted to know.
    let _ = writeln!(io::stderr(), "autoloop: {}", terminal::harmless(text));
}
