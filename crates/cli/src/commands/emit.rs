//! `autoloop emit`: appends an event of an agent.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_core::config::Settings;
use autoloop_core::env::Env;
use autoloop_core::topic::Topic;
use autoloop_core::topology::Route;
use autoloop_core::wave::Parallel;
use autoloop_runtime::emit::{Caller, Emitter, Event, LARGEST_PAYLOAD};
use autoloop_runtime::ipc::Payload;
use autoloop_runtime::journal::{Journal, Spooled};
use autoloop_runtime::world::{Access, FileKind, World};

use super::settings;
use crate::failure::Failure;

/// Append an event to the journal.
///
/// Agents call it to report a result: `autoloop emit review.ready "the parser is done"`. The words of the payload are
/// joined by spaces. After the command has succeeded, the event survives a power cut.
///
/// The run, the iteration and the journal are taken from AUTOLOOP_RUN_ID, AUTOLOOP_ITERATION and AUTOLOOP_JOURNAL_FILE,
/// which the harness sets. Without them, the event belongs to the latest run in .autoloop/journal.jsonl. An agent that
/// cannot write the journal, like a reviewer in its sandbox, has AUTOLOOP_DOOR instead: a socket of the harness, which
/// checks and stores the event.
///
/// An event that is not allowed now (AUTOLOOP_ALLOWED_EVENTS), or that only the harness may write, is refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read the payload from FILE, up to 100 MB
    #[arg(long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Topic of the event, like `review.ready`
    pub(super) topic: OsString,
    /// Payload: a short text
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(super) payload: Vec<OsString>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let emitted = emit(args, world)?;
    // The event is stored, so a closed output is not a failure.
    let _ = writeln!(io::stdout(), "{emitted}");
    Ok(())
}

/// Stores an event and returns a message about it.
pub(super) fn emit(args: &Args, world: &World) -> Result<String, Failure> {
    let topic = topic(&args.topic)?;
    let env = settings::environment()?;
    let payload = payload(&args.payload)?;
    let file = args.file.as_deref().map(|path| spooled(path, world)).transpose()?;
    if file.is_some() && !payload.is_empty() {
        return Err(Failure::usage("the payload is given twice: as words and by --file")
            .hint("omit one of them"));
    }
    match settings::client(&env) {
        Some(client) => {
            let whole = Payload::Text(&payload);
            let payload = file.as_ref().map_or(whole, |(file, bytes)| Payload::File(file, *bytes));
            Ok(client.emit(&topic, payload)?.to_string())
        }
        None => {
            let spooled = file.map(|(file, _)| file);
            let project = env.project_dir_or_here();
            let settings = settings::of_project_file(&project, world);
            let files = settings::places(&env, &settings);
            let journal = settings::journal(files.journal.clone(), world, &settings);
            let emitted =
                emitter(env, journal, &settings, world).emit(Event { topic, payload, spooled });
            settings::protect(&files, &project);
            Ok(emitted?.to_string())
        }
    }
}

/// The emitter of the agent that the environment describes.
fn emitter(env: Env, journal: Box<dyn Journal>, settings: &Settings, world: &World) -> Emitter {
    let parallel = match env.parallel.as_deref() {
        Some("on") => {
            Parallel::On { completion_event: env.completion_event.clone().unwrap_or_default() }
        }
        _ => Parallel::Off,
    };
    Emitter {
        journal: journal.into(),
        durability: settings::durability_of_events(settings),
        clock: Arc::clone(&world.clock),
        caller: Caller {
            run: env.run_id,
            iteration: env.iteration.unwrap_or_default(),
            recent_event: env.recent_event.unwrap_or_default(),
            route: Route { roles: env.allowed_roles, events: env.allowed_events },
            parallel,
        },
    }
}

fn topic(text: &OsString) -> Result<Topic, Failure> {
    let Some(text) = text.to_str() else {
        let shown = text.to_string_lossy();
        return Err(Failure::usage(format!("the topic '{shown}' is not valid UTF-8")));
    };
    Topic::check(text).map_err(|error| Failure::usage(error.to_string()))
}

fn payload(words: &[OsString]) -> Result<String, Failure> {
    let text = words.join(&OsString::from(" "));
    text.into_string().map_err(|text| {
        let good =
            text.as_encoded_bytes().utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
        Failure::usage(format!(
            "the payload is not valid UTF-8 from byte {good} on; nothing was stored"
        ))
        .hint("pass the text with --file, which replaces such bytes")
    })
}

/// The text of a file and its length.
fn spooled(path: &Path, world: &World) -> Result<(Spooled, u64), Failure> {
    let failed =
        |error: io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    let text = world.disk.open(path, Access::Read).map_err(failed)?;
    let stat = text.stat().map_err(failed)?;
    if stat.kind != FileKind::Regular {
        return Err(Failure::usage(format!("{} is not a regular file", path.display()))
            .hint("write the text to a regular file first"));
    }
    if stat.len > LARGEST_PAYLOAD {
        let message = format!(
            "{} has {} bytes: the limit of a payload is {LARGEST_PAYLOAD}",
            path.display(),
            stat.len
        );
        return Err(Failure::usage(message).hint("emit the path of the file instead of its text"));
    }
    let spooled = Spooled { path: path.to_owned(), text: Arc::from(text), secrets: None };
    Ok((spooled, stat.len))
}
