//! The run that a command resumes, and the command that resumes a run.

use std::env;
use std::io::{self, Write};
use std::path::Path;

use autoloop_core::config::shell_words::join;
use autoloop_core::coordinator::Kind;
use autoloop_core::run::SomeRun;
use autoloop_runtime::runs::{Latest, LookupError, RunList};

use crate::failure::{self, Failure};
use crate::terminal;

/// The most candidates that are named.
const NAMED: usize = 10;

/// The command that resumes a run of the project in `dir`, as it can be typed where this one was.
pub(super) fn command(run: &SomeRun, dir: &Path) -> Option<String> {
    Some(run.resume_command()? + &place(dir))
}

/// The same for a run of which only the coordinator and the id are known.
pub(super) fn command_of(kind: Kind, id: &str, dir: &Path) -> String {
    kind.resume_command(id) + &place(dir)
}

/// How a project is named from here, behind a space; nothing where it is this directory.
fn place(dir: &Path) -> String {
    let here = env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let place = match dir.strip_prefix(&here) {
        Ok(below) if below.as_os_str().is_empty() => return String::new(),
        Ok(below) if below.as_os_str().as_encoded_bytes().starts_with(b"-") => {
            format!("./{}", below.display())
        }
        Ok(below) => below.display().to_string(),
        Err(_) => dir.display().to_string(),
    };
    format!(" {}", join([place.as_str()]))
}

/// The run that a name means, which has to be one of a coordinator.
pub(super) fn named(list: &RunList, name: &str, kind: Kind) -> Result<String, Failure> {
    let run = list.find(name).map_err(|error| Failure::from(error).hint(begin(kind)))?;
    match run.kind() {
        Some(other) if other != kind => {
            let hint = format!("resume it with `{}`", other.resume_command(run.id()));
            let message = format!("'{}' is {}, not {}", run.id(), noun(other), noun(kind));
            Err(Failure::failed(message).hint(hint))
        }
        _ => Ok(run.id().to_owned()),
    }
}

fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Loop => "a run of a loop",
        Kind::Chain => "a chain",
        Kind::Slots => "a run of slots",
    }
}

fn begin(kind: Kind) -> &'static str {
    match kind {
        Kind::Loop => "start a new run with `autoloop run DIR`",
        Kind::Chain => "start a new chain with `autoloop chain run NAME`",
        Kind::Slots => "start a new run with `autoloop slots`",
    }
}

/// The latest run that can be resumed. The user is told which later ones are running.
pub(super) fn latest(
    found: Latest,
    (list, kind): (&RunList, Kind),
    journal: &Path,
) -> Result<String, Failure> {
    let Latest { run, running } = found;
    if let Some(run) = run {
        for (later, process) in running {
            let note =
                format!("autoloop: '{later}' is running in process {process}; resuming '{run}'\n");
            // The run is resumed whether or not the note can be printed.
            let _ = io::stderr().write_all(terminal::harmless(&note).as_bytes());
        }
        return Ok(run);
    }
    let nothing = format!("no {} to resume in {}", word(kind), journal.display());
    if let Some((run, process)) = running.first() {
        let message = format!("{nothing}: '{run}' is running in process {process}");
        return Err(Failure::new(failure::Kind::Busy, message)
            .hint("wait for it, or end that process; the journal shows how far it is"));
    }
    let is_meant = |run: &&SomeRun| run.kind() == Some(kind) && run.stands_alone();
    let why = match list.runs.iter().rfind(is_meant) {
        Some(run) => format!("the latest {}, '{}', completed", word(kind), run.id()),
        None => format!("no {} was started there", word(kind)),
    };
    Err(Failure::failed(format!("{nothing}: {why}")).hint(begin(kind)))
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Loop => "run",
        Kind::Chain => "chain",
        Kind::Slots => "run of slots",
    }
}

/// The failure of a run that has completed.
pub(super) fn completed(kind: Kind, id: &str) -> Failure {
    let what = if kind == Kind::Chain { "chain" } else { "run" };
    Failure::failed(format!("{what} '{id}' completed: there is nothing to resume"))
        .hint(begin(kind))
}

/// Nothing was ever started.
pub(super) fn no_run(journal: &Path) -> Failure {
    Failure::failed(format!("no run has begun in {} yet", journal.display()))
        .hint("`autoloop run DIR` begins one")
}

impl From<LookupError> for Failure {
    fn from(error: LookupError) -> Self {
        let message = error.to_string();
        match error {
            LookupError::Unknown { meant: Some(id), .. } => {
                Failure::failed(message).hint(format!("did you mean '{id}'?"))
            }
            LookupError::Unknown { meant: None, .. } => {
                Failure::failed(message).hint("`autoloop loops --all` lists every run")
            }
            LookupError::Read(error) => error.into(),
            LookupError::Empty { .. } => {
                Failure::failed(message).hint("`autoloop run DIR` begins one")
            }
            LookupError::Ambiguous { ids, .. } => {
                let more = match ids.len().saturating_sub(NAMED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let shown = &ids[..ids.len().min(NAMED)];
                Failure::usage(message)
                    .hint(format!("name one of them: {}{more}", shown.join(", ")))
            }
        }
    }
}
