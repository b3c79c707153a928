//! `autoloop __replay`: an agent that does what one did before. Started by `autoloop` only.

#![expect(clippy::disallowed_methods, reason = "plays an agent, which is a real process")]

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use autoloop_core::config::Settings;
use autoloop_core::env::Env;
use autoloop_core::record::Extract;
use autoloop_core::views::replay::{Part, Replay, Said, earlier_run};
use autoloop_runtime::journal::{Journal, Position};
use autoloop_runtime::private_files;
use autoloop_runtime::world::World;

use super::inspect::excerpt::{Found, Out, for_each_record};
use super::settings;
use crate::failure::Failure;

/// Answer as an agent did in an earlier run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run [default: the latest one that is not under way].
    #[arg(long)]
    run: Option<String>,
    /// The journal that it is in.
    journal: PathBuf,
    /// The prompt, which a replay does not read.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    rest: Vec<std::ffi::OsString>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match replay(args, world) {
        Ok(0) => Ok(()),
        Ok(code) => std::process::exit(code),
        Err(failure) => {
            // What an agent prints is on record, and this is what there is to say.
            let _ = write!(io::stdout(), "{failure}");
            Err(failure)
        }
    }
}

/// Does it again, and says with which code it ended.
fn replay(args: &Args, world: &World) -> Result<i32, Failure> {
    let env = settings::environment()?;
    let iteration = env.iteration.as_deref().and_then(|text| text.parse().ok());
    let (Some(iteration), Some(prompt)) = (iteration, &env.prompt_path) else {
        return Err(Failure::usage("a replay is an agent, and is started by `autoloop run`"));
    };
    let part = match env.review_mode {
        Some(_) => Part::Review(iteration),
        None => Part::Iteration(iteration),
    };
    let path = &args.journal;
    world.disk.stat(path).map_err(|error| {
        Failure::usage(format!("the journal {} cannot be replayed: {error}", path.display()))
            .hint("backend.command of a replay is a journal, seen from the project")
    })?;
    let journal = settings::journal(path.clone(), world, &Settings::default());
    let under_way = env.run_id.clone().unwrap_or_default();
    let run = match &args.run {
        Some(run) => run.clone(),
        None => latest_run(&*journal, &under_way)?,
    };
    let replay = look_up(&*journal, &run, part)?;
    let Some(end) = &replay.end else { return Err(not_there(&*journal, &replay)) };
    let mouth = Mouth { env: &env, journal: &*journal, payload: prompt.with_extension("payload") };
    replay.said.iter().try_for_each(|said| mouth.say(said))?;
    let mut out = Out::new();
    end.output.show(&*journal, Extract::field("output"), &mut |text| out.text(text))?;
    out.finish()?;
    Ok(exit_code(end.exit_code))
}

fn latest_run(journal: &dyn Journal, under_way: &str) -> Result<String, Failure> {
    let mut latest = None;
    journal.read(Position::START, &mut |line| {
        line.records(|record| latest = earlier_run(record, under_way).or_else(|| latest.take()));
        ControlFlow::Continue(())
    })?;
    latest.ok_or_else(|| {
        let path = journal.path().display();
        Failure::failed(format!("there is no earlier run in {path} that could be replayed"))
    })
}

fn look_up(journal: &dyn Journal, run: &str, part: Part) -> Result<Replay<Found>, Failure> {
    let mut replay = Replay::new(run, part);
    for_each_record(journal, |record, place| {
        replay.apply(record, || {
            place.keep(record.payload().or_else(|| record.field("output")).as_deref())
        });
    })?;
    Ok(replay)
}

fn not_there(journal: &dyn Journal, replay: &Replay<Found>) -> Failure {
    let path = journal.path().display();
    let Replay { run, part, .. } = replay;
    if !replay.is_known {
        return Failure::failed(format!("there is no run '{run}' in {path}"))
            .hint("backend.args of a replay is the run, or nothing for the latest one");
    }
    let failure =
        Failure::failed(format!("{part} of run '{run}' is not in {path}, or did not end there"));
    match replay.others {
        None => failure.hint("nothing of the kind ended in that run"),
        Some((one, other)) if one == other => failure.hint(format!("there is only {one}")),
        Some((first, last)) => failure.hint(format!("there are {first} to {last}")),
    }
}

/// How a replay says things again: by the command that agents call, so that the rules of the run that
/// is under way hold.
struct Mouth<'a> {
    env: &'a Env,
    journal: &'a dyn Journal,
    /// A file for a payload, which may be too long for an argument.
    payload: PathBuf,
}

impl Mouth<'_> {
    fn say(&self, said: &Said<Found>) -> Result<(), Failure> {
        match said {
            Said::Refused(topic) => self.emit(topic, None),
            Said::Event(topic, found) => {
                let written = self.write_payload(found);
                let emitted = written.and_then(|()| self.emit(topic, Some(&self.payload)));
                // A file that stays behind is in nobody's way.
                let _ = std::fs::remove_file(&self.payload);
                emitted
            }
        }
    }

    fn write_payload(&self, found: &Found) -> Result<(), Failure> {
        let failed = |error: io::Error| {
            Failure::failed(format!("cannot write {}: {error}", self.payload.display()))
        };
        // What an earlier replay left, or an agent put there.
        let _ = std::fs::remove_file(&self.payload);
        let file =
            private_files::create_file(&self.payload, private_files::Use::Data).map_err(failed)?;
        let mut file = BufWriter::new(file);
        found
            .show(self.journal, Extract::payload(), &mut |text| file.write_all(text.as_bytes()))?;
        file.flush().map_err(failed)
    }

    /// What `emit` prints is in the output that is replayed already. Whether an event is accepted is
    /// the business of the run.
    fn emit(&self, topic: &str, payload: Option<&Path>) -> Result<(), Failure> {
        let program = match &self.env.bin {
            Some(bin) => bin.clone(),
            None => std::env::current_exe()?,
        };
        let mut command = Command::new(&program);
        command.arg("emit").stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(path) = payload {
            command.arg("--file").arg(path);
        }
        let failed = |why: String| Failure::failed(format!("'{topic}' was not emitted: {why}"));
        let status = command.arg("--").arg(topic).status();
        match status.map_err(|error| failed(format!("{}: {error}", program.display())))?.code() {
            // Stored; not a topic, as a record written by hand may have it; refused.
            Some(0 | 2 | 3) => Ok(()),
            code => Err(failed(format!("{} exited with {code:?}", program.display()))),
        }
    }
}

/// A code that a process can end with, and never 0 for a failure.
fn exit_code(recorded: i32) -> i32 {
    match recorded {
        0..=255 => recorded,
        _ => 1,
    }
}
