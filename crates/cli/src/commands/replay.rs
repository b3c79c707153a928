//! `autoloop __replay`: repeats a turn of an earlier run. Started by `autoloop` only.

#![expect(clippy::disallowed_methods, reason = "acts as an agent, which is a real process")]

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use autoloop_core::config::Settings;
use autoloop_core::record::Extract;
use autoloop_core::views::replay::{Part, Replay, Said, earlier_run};
use autoloop_runtime::journal::Journal;
use autoloop_runtime::private_files;
use autoloop_runtime::world::World;

use super::inspect::excerpt::{Found, Out, for_each_record};
use super::{emit, settings};
use crate::failure::{Failure, Kind};

/// Repeat the events and the output of an agent in an earlier run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run id [default: the latest run before this one]
    #[arg(long)]
    run: Option<String>,
    /// Journal of the run
    journal: PathBuf,
    /// Prompt, which a replay does not read
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    rest: Vec<std::ffi::OsString>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match replay(args, world) {
        Ok(0) => Ok(()),
        Ok(code) => std::process::exit(code),
        Err(failure) => {
            // Standard output is recorded as the output of the agent.
            let _ = write!(io::stdout(), "{failure}");
            Err(failure)
        }
    }
}

/// Repeats the turn and returns its exit code.
fn replay(args: &Args, world: &World) -> Result<i32, Failure> {
    let env = settings::environment()?;
    let iteration = env.iteration.as_deref().and_then(|text| text.parse().ok());
    let (Some(iteration), Some(prompt)) = (iteration, &env.prompt_path) else {
        return Err(Failure::usage("a replay is started as an agent by `autoloop run`"));
    };
    let part = match env.review_mode {
        Some(_) => Part::Review(iteration),
        None => Part::Iteration(iteration),
    };
    let path = &args.journal;
    world.disk.stat(path).map_err(|error| {
        Failure::usage(format!("cannot replay the journal {}: {error}", path.display()))
            .hint("set backend.command to a journal, relative to the project")
    })?;
    let journal = settings::journal(path.clone(), world, &Settings::default());
    let run = match &args.run {
        Some(run) => run.clone(),
        None => latest_run(&*journal, env.run_id.as_deref().unwrap_or_default())?,
    };
    let replay = look_up(&*journal, &run, part)?;
    let Some(end) = &replay.end else { return Err(not_found(&*journal, &replay)) };
    let payload = prompt.with_extension("payload");
    replay.said.iter().try_for_each(|said| repeat(said, &*journal, &payload, world))?;
    let mut out = Out::new();
    end.output.show(&*journal, Extract::field("output"), &mut |text| out.text(text))?;
    out.finish()?;
    Ok(exit_code(end.exit_code))
}

fn latest_run(journal: &dyn Journal, current: &str) -> Result<String, Failure> {
    let mut latest = None;
    for_each_record(journal, |record, _| {
        latest = earlier_run(record, current).or_else(|| latest.take());
    })?;
    latest.ok_or_else(|| {
        Failure::failed(format!("no earlier run to replay in {}", journal.path().display()))
    })
}

fn look_up(journal: &dyn Journal, run: &str, part: Part) -> Result<Replay<Found>, Failure> {
    let mut replay = Replay::new(run, part);
    for_each_record(journal, |record, place| {
        replay.apply(record, || place.keep(|| record.payload().or_else(|| record.field("output"))));
    })?;
    Ok(replay)
}

fn not_found(journal: &dyn Journal, replay: &Replay<Found>) -> Failure {
    let path = journal.path().display();
    let Replay { run, part, .. } = replay;
    if !replay.is_known {
        return Failure::failed(format!("no run '{run}' in {path}"))
            .hint("set backend.args to the id of a run, or to nothing for the latest one");
    }
    let failure = Failure::failed(format!("{part} of run '{run}' did not end in {path}"));
    match replay.others {
        None => failure.hint("no such turn of it ended"),
        Some((one, other)) if one == other => failure.hint(format!("only turn {one} ended")),
        Some((first, last)) => failure.hint(format!("turns {first} to {last} ended")),
    }
}

/// Emits an event again, under the rules of the current run.
fn repeat(
    said: &Said<Found>,
    journal: &dyn Journal,
    payload: &Path,
    world: &World,
) -> Result<(), Failure> {
    let (topic, file) = match said {
        Said::Refused(topic) => (topic, None),
        Said::Event(topic, found) => {
            write_payload(found, journal, payload)?;
            (topic, Some(payload.to_owned()))
        }
    };
    // The message of `emit` is part of the replayed output already.
    let emitted = emit::emit(&emit::Args { topic: topic.into(), file, payload: Vec::new() }, world);
    // A file that remains is replaced by the next event.
    let _ = std::fs::remove_file(payload);
    match emitted {
        Err(failure) if matches!(failure.kind(), Kind::Usage | Kind::Refused) => {
            // Refused, or an invalid topic, which a forged record may have. Neither ends the turn.
            failure.report();
            Ok(())
        }
        emitted => emitted.map(|_| ()),
    }
}

/// Writes a payload to a file, because it may be of any length.
fn write_payload(found: &Found, journal: &dyn Journal, path: &Path) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::failed(format!("cannot write {}: {error}", path.display()));
    // An earlier replay or an agent may have left a file.
    let _ = std::fs::remove_file(path);
    let file = private_files::create_file(path, private_files::Use::Data).map_err(failed)?;
    let mut file = BufWriter::new(file);
    found.show(journal, Extract::payload(), &mut |text| file.write_all(text.as_bytes()))?;
    file.flush().map_err(failed)
}

/// A valid exit code; never 0 for a failure.
fn exit_code(recorded: i32) -> i32 {
    match recorded {
        0..=255 => recorded,
        _ => 1,
    }
}
