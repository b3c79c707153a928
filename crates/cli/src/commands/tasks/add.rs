//! `autoloop tasks add`: one more thing to be done.

use std::path::{Path, PathBuf};

use autoloop_core::env::Env;
use autoloop_core::queue::{LONGEST_TEXT, New, Priority};
use autoloop_runtime::project::read_text;
use autoloop_runtime::queue::Builtin;
use autoloop_runtime::world::World;

use super::words::words;
use super::{Changed, tell};
use crate::failure::Failure;

/// Add a task, and print its id.
///
/// The words of the title are joined by spaces. Description and acceptance criteria are what whoever
/// does it is told, and what a reviewer measures the work by; longer ones come from files. When it
/// exits with 0, the task is stored and survives a power cut. An agent at work may add tasks too, and
/// they say which run they come from.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What is to be done, in a line.
    #[arg(required = true)]
    title: Vec<String>,
    /// What is to be done, at length: up to 256 KiB.
    #[arg(long, value_name = "TEXT", conflicts_with = "description_file", allow_hyphen_values = true, value_parser = words)]
    description: Option<String>,
    /// Take the description from a file.
    #[arg(long, value_name = "FILE")]
    description_file: Option<PathBuf>,
    /// How to tell that it is done: up to 256 KiB.
    #[arg(long, value_name = "TEXT", conflicts_with = "acceptance_file", allow_hyphen_values = true, value_parser = words)]
    acceptance: Option<String>,
    /// Take the acceptance criteria from a file.
    #[arg(long, value_name = "FILE")]
    acceptance_file: Option<PathBuf>,
    /// How urgent it is, from 0, the most urgent, to 4.
    #[arg(long, value_name = "0-4", default_value = "2", value_parser = priority)]
    priority: Priority,
    /// A task that has to be closed before; may be given several times.
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    /// Print an object with the id.
    #[arg(long)]
    json: bool,
}

fn priority(text: &str) -> Result<Priority, &'static str> {
    text.parse().ok().and_then(Priority::new).ok_or("it goes from 0, the most urgent, to 4")
}

pub(super) fn run(
    args: &Args,
    queue: &Builtin<'_>,
    (env, world): (&Env, &World),
) -> Result<(), Failure> {
    let text = |given: &Option<String>, file: &Option<PathBuf>| match file {
        Some(path) => of_file(path, world).map(Some),
        None => Ok(given.clone()),
    };
    let id = queue.add(&New {
        title: args.title.join(" ").trim().to_owned(),
        description: text(&args.description, &args.description_file)?,
        acceptance: text(&args.acceptance, &args.acceptance_file)?,
        priority: args.priority,
        after: args.after.clone(),
        by: source(env),
    })?;
    let json = args.json.then_some(Changed { id: &id });
    tell(&id, json)
}

/// The run and the iteration that a task comes from, if an agent adds it.
fn source(env: &Env) -> Option<String> {
    let run = env.run_id.as_ref()?;
    Some(match &env.iteration {
        Some(iteration) => format!("{run}#{iteration}"),
        None => run.clone(),
    })
}

fn of_file(path: &Path, world: &World) -> Result<String, Failure> {
    let cannot = |why: String| Failure::usage(format!("cannot take {}: {why}", path.display()));
    match read_text(&*world.disk, path, LONGEST_TEXT as u64) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(cannot("there is no such file".to_owned())),
        Err(why) => Err(cannot(why.to_string())),
    }
}
