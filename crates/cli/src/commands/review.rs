//! `autoloop review`: reviews by message, findings packets, the quality gate, and reverting changes of a metareview.

mod address;
mod exchange;
mod gate;
mod packet;
mod request;
mod run;
pub(crate) mod status;

use std::path::{Path, PathBuf};

use autoloop_core::coordinator;
use autoloop_core::permissions::{Earlier, read_patch};
use autoloop_core::record::{Heading, LoopReverted};
use autoloop_core::run::Run;
use autoloop_core::views::review::Review;
use autoloop_runtime::journal::{Append, Journal};
use autoloop_runtime::runs::{self, concurrent_runs};
use autoloop_runtime::sandbox::{RevertError, Reverted, Reverter};
use autoloop_runtime::site::Site;
use autoloop_runtime::world::World;
use clap::Subcommand;

use super::inspect::Source;
use super::inspect::excerpt::Found;
use super::inspect::review::{Keep, LONGEST_DIFF, look_up, text_of};
use super::settings::{self, Located};
use crate::failure::{Failure, Kind};
use crate::terminal;

/// Review by message; check findings packets and the gate; revert a metareview.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// Revert the changes of a metareview in the files of the loop.
    ///
    /// Reverts all changes that `autoloop inspect review` shows, in all files or in none. Later changes elsewhere in these
    /// files are kept. Where changed lines were changed again, nothing is reverted, and the message names the file and line.
    Revert {
        /// Iteration before which the review ran [default: the latest review]
        #[arg(value_name = "N")]
        iteration: Option<u64>,
        #[command(flatten)]
        source: Source,
    },
    Request(request::Args),
    Run(run::Args),
    Address(address::Args),
    Status(status::Args),
    #[command(subcommand)]
    Packet(packet::Args),
    Gate(gate::Args),
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match args {
        Args::Revert { iteration, source } => revert(*iteration, source, world),
        Args::Request(args) => request::run(args, world),
        Args::Run(args) => run::run(args, world),
        Args::Address(args) => address::run(args, world),
        Args::Status(args) => status::run(args, world),
        Args::Gate(args) => gate::run(args, world),
        Args::Packet(args) => packet::run(args, world),
    }
}

fn revert(iteration: Option<u64>, source: &Source, world: &World) -> Result<(), Failure> {
    let located = settings::locate(source.project_dir.as_deref(), world)?;
    if let Some((run, process)) = concurrent_runs(&located.files.state_dir, &*world.disk).pop() {
        let message = format!("run '{run}' is running in another process ({process})");
        return Err(Failure::new(Kind::Busy, message)
            .hint("it reads the files of the loop before every iteration; revert the review when it has ended"));
    }
    let journal = located.journal(world);
    let run = source.run(&*journal)?;
    let review = look_up(&*journal, &run, iteration)?;
    let before = review.before;
    let which = format!("the review before iteration {before}");
    let Some(diff) = changes(&review, &*journal)? else {
        return Ok(terminal::print(&format!("{which} changed nothing\n"))?);
    };
    let files = read_patch(&diff).map_err(|error| unusable(before, &error.to_string()))?;
    let reverter = reverter(&located, &*journal, &run, world)?;
    let earlier = review.reverted.as_ref().map_or(Earlier::Unreverted, |_| Earlier::Reverted);
    let fates = reverter.revert(&files, earlier).map_err(|error| refused(before, &error))?;
    let is_new = |(_, fate): &&(&str, Reverted)| *fate != Reverted::Already;
    let done: Vec<&str> = fates.iter().filter(is_new).map(|(path, _)| *path).collect();
    if done.is_empty() {
        return Ok(terminal::print(&format!("{which} is already reverted\n"))?);
    }
    let reverted = LoopReverted { review: Some(before), files: done.join(",") };
    let heading = Heading { run, iteration: String::new(), now: world.clock.now() };
    let append = Append { expect: None, durability: located.durability() };
    journal
        .append(&[reverted.record(&heading).into()], append)
        .map_err(|error| Failure::from(error).hint("the files are reverted nevertheless"))?;
    let lines: String = fates.iter().map(|(path, fate)| line(path, *fate)).collect();
    Ok(terminal::print(&format!("{lines}reverted {which}\n"))?)
}

/// The diff of the review's changes, if there are any.
fn changes(review: &Review<Found>, journal: &dyn Journal) -> Result<Option<String>, Failure> {
    let before = review.before;
    let Some(end) = &review.end else {
        return Err(Failure::failed(format!(
            "no end of the review before iteration {before} is recorded, and no changes"
        ))
        .hint("an interrupted review cannot be reverted; check the files of the loop yourself"));
    };
    if !end.has_diff {
        return Ok(None);
    }
    if matches!(end.place, Found::Ends(_)) {
        return Err(unusable(before, "the record follows a torn one in the same line"));
    }
    let diff = text_of(review, journal, "diff", Keep::Beginning(LONGEST_DIFF))?;
    if diff.len() > LONGEST_DIFF {
        return Err(unusable(before, "they are longer than any recorded diff"));
    }
    Ok(Some(diff))
}

fn unusable(before: u64, why: &str) -> Failure {
    Failure::failed(format!(
        "the changes of the review before iteration {before} cannot be read: {why}"
    ))
    .hint("nothing was changed; `autoloop inspect review` shows the record")
}

fn reverter(
    located: &Located,
    journal: &dyn Journal,
    run: &str,
    world: &World,
) -> Result<Reverter, Failure> {
    let Located { dir, files, .. } = located;
    // Which loop it was is believed from records of its harness only.
    let site = Site::new(world, journal, &files.state_dir);
    let known = runs::state::<Run>(&site, run)?;
    let start = known.and_then(|run| run.start).unwrap_or_default();
    let loop_dir = match (start.preset, start.preset_dir) {
        (None, _) => dir.clone(),
        (Some(_), Some(preset_dir)) => PathBuf::from(preset_dir),
        (Some(_), None) => files.state_dir.run(coordinator::Kind::Loop, &run.parse()?).loop_copy(),
    };
    let growing: [&Path; 2] = [&files.journal, &files.memory];
    let beneath = settings::project(dir)?.settings_beneath(&*world.disk)?;
    Reverter::new(dir, &loop_dir, &files.state_dir, &growing, beneath).map_err(|error| {
        Failure::failed(format!("cannot find the files of run '{run}': {error}"))
            .hint(format!("they were in {}", loop_dir.display()))
    })
}

fn refused(before: u64, error: &RevertError) -> Failure {
    let failure =
        Failure::failed(format!("the review before iteration {before} is not reverted: {error}"));
    match error {
        RevertError::Io { .. } => failure.hint("make sure that it can be read and written"),
        RevertError::Conflict { .. } | RevertError::Unreadable { .. } => failure.hint(format!(
            "nothing was changed; `autoloop inspect review {before}` shows what to revert by hand"
        )),
        _ => failure.hint("nothing was changed"),
    }
}

fn line(path: &str, fate: Reverted) -> String {
    let what = match fate {
        Reverted::Already => "already reverted",
        Reverted::Rewritten => "changes reverted",
        Reverted::Restored => "restored",
        Reverted::Removed => "deleted",
    };
    format!("{path}: {what}\n")
}
