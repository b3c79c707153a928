//! `autoloop emit`: how an agent says that something happened.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_core::config::Config;
use autoloop_core::env::Env;
use autoloop_core::record::{EventInvalid, Heading, Hole};
use autoloop_core::routing::{Admission, InvalidEvent, Refusal, admit};
use autoloop_core::topic::Topic;
use autoloop_runtime::journal::{Append, FileJournal, Journal, NewRecord, Spooled};
use autoloop_runtime::world::{Access, FileKind, World};

use super::settings;
use crate::failure::{Failure, Kind};
use crate::terminal;

/// The largest text that is taken from a file.
const LARGEST: u64 = 100 * 1024 * 1024;

/// Append an event to the journal.
///
/// Agents call it to say that something happened: `autoloop emit review.ready "the parser is done"`.
/// The words of the payload are joined by spaces. When it exits with 0, the event is stored and
/// survives a power cut.
///
/// The run, the iteration and the journal come from AUTOLOOP_RUN_ID, AUTOLOOP_ITERATION and
/// AUTOLOOP_JOURNAL_FILE, which the harness sets. Without them, the event belongs to the latest run
/// in .autoloop/journal.jsonl.
///
/// Exits with 3 when the event is not allowed now (AUTOLOOP_ALLOWED_EVENTS) or is one that only the
/// harness may write, with 2 when the topic or the payload cannot be what was meant, and with 1 when
/// the event could not be stored.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Take the payload from a file, of at most 100 MB.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// What happened: a word like `review.ready`.
    topic: OsString,
    /// What there is to say about it.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    payload: Vec<OsString>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let topic = topic(&args.topic)?;
    let env = settings::environment()?;
    let settings = settings::of_project_file(&env.project_dir_or_here(), world);
    let config = Config::from(&settings);
    let journal = settings::journal(settings::places(&env, &settings).journal, world, &config);
    let how = Append { expect: None, durability: settings::durability_of_events(&config) };

    let payload = payload(&args.payload)?;
    let spooled = args.file.as_deref().map(|path| spooled(path, world)).transpose()?;
    if spooled.is_some() && !payload.is_empty() {
        return Err(Failure::usage("the payload is given twice: as words and by --file")
            .hint("leave one of them out"));
    }
    let heading = |run| Heading {
        run,
        iteration: env.iteration.clone().unwrap_or_default(),
        now: world.clock.now(),
    };
    match admit(&topic, &env.allowed_events) {
        Admission::Accepted | Admission::Coordination => {
            let record = heading(run_id(&env, &journal)?).agent(topic.clone(), payload);
            journal.append(&[NewRecord { record, spooled }], how)?;
            // The event is stored, and the exit code says so, whether or not anybody reads this.
            let _ = writeln!(io::stdout(), "emitted {topic}");
            Ok(())
        }
        // It is refused whether or not the refusal can be put on record.
        Admission::Refused(refusal) => Err(refuse(&env, topic, refusal, &|invalid| {
            let heading = heading(run_id(&env, &journal)?);
            journal.append(&[invalid.record(&heading).into()], how)?;
            Ok(())
        })),
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
        .hint("--file takes a text with such bytes and replaces them")
    })
}

fn spooled(path: &Path, world: &World) -> Result<Spooled, Failure> {
    let failed =
        |error: io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    let text = world.disk.open(path, Access::Read).map_err(failed)?;
    let stat = text.stat().map_err(failed)?;
    if stat.kind != FileKind::Regular {
        return Err(Failure::usage(format!("{} is not a regular file", path.display()))
            .hint("write the text to a file first"));
    }
    if stat.len > LARGEST {
        let message =
            format!("{} has {} bytes; a payload has at most {LARGEST}", path.display(), stat.len);
        return Err(Failure::usage(message).hint("emit the path of the file instead of its text"));
    }
    Ok(Spooled { hole: Hole::Payload, path: path.to_owned(), text: Arc::from(text) })
}

/// The run that the event belongs to. Outside of a loop it is the latest one.
fn run_id(env: &Env, journal: &FileJournal) -> Result<String, Failure> {
    match &env.run_id {
        Some(run) => Ok(run.clone()),
        None => match journal.latest_run() {
            Ok(latest) => Ok(latest.0),
            Err(error) => Err(Failure::from(error)),
        },
    }
}

/// Tells the agent what it may say instead, after the refusal was put on record.
fn refuse(
    env: &Env,
    topic: Topic,
    refusal: Refusal,
    record: &dyn Fn(&EventInvalid) -> Result<(), Failure>,
) -> Failure {
    let invalid = InvalidEvent {
        emitted: topic,
        recent_event: Topic::new(env.recent_event.clone().unwrap_or_default()),
        suggested_roles: env.allowed_roles.clone(),
        allowed_events: env.allowed_events.clone(),
        refusal,
    };
    let recorded = record(&EventInvalid {
        recent_event: invalid.recent_event.to_string(),
        emitted: invalid.emitted.to_string(),
        suggested_roles: invalid.suggested_roles.join(","),
        allowed_events: invalid.allowed_events.join(","),
        reason: (refusal == Refusal::Reserved).then(|| "reserved".to_owned()),
    });
    let failure = Failure::new(Kind::Refused, invalid.to_string());
    match recorded {
        Ok(()) => failure,
        Err(error) => failure.hint(format!(
            "the refusal itself could not be put on record: {}",
            terminal::one_line(error.message(), 200)
        )),
    }
}
