//! Errors of starting and carrying out runs as failures with hints.

use autoloop_core::coordinator::Kind as Coordinator;
use autoloop_runtime::drive::DriveError;
use autoloop_runtime::journal::ReadError;
use autoloop_runtime::launch::LaunchError;
use autoloop_runtime::project::LoadError;
use autoloop_runtime::runs::LookupError;

use crate::diagnostic;
use crate::failure::{Failure, Kind};

/// The maximum number of ids that a hint lists.
const MAX_IDS: usize = 10;
const BUSY: &str = "wait for it, or end that process; the journal shows its progress";
const WRITABLE: &str = "make the state directory writable";

impl From<DriveError> for Failure {
    fn from(error: DriveError) -> Self {
        let message = error.to_string();
        match error {
            DriveError::Launch(error) => error.into(),
            DriveError::Load(error) => error.into(),
            DriveError::Append(error) => error.into(),
            DriveError::Queue(error) => error.into(),
            DriveError::Read(error @ ReadError::Changed { .. }) => Failure::from(error)
                .hint("another process truncated, replaced or edited the journal during the run"),
            DriveError::Read(error) => error.into(),
            DriveError::Step { number, source } => {
                Failure::from(*source).hint(format!("this is step {number}"))
            }
            DriveError::Busy { .. } => {
                Failure::new(Kind::Busy, message).hint(BUSY)
            }
            DriveError::Sandbox(_) => Failure::usage(message).hint(
                "set review.sandbox = \"auto\" to restore what a reviewer changes, or turn reviews off",
            ),
            DriveError::NoTrees(_) => Failure::usage(message)
                .hint("set parallel.isolation = \"shared\" to run branches in the project itself"),
            DriveError::NoWorktrees(_) => Failure::usage(message)
                .hint("pass `--isolation shared` to run all slots in the project itself"),
            DriveError::OtherSource { ref began, .. } => Failure::usage(message).hint(format!(
                "pass `--source {}`, or start a new run with `autoloop slots`",
                began.to_string().escape_debug()
            )),
            DriveError::BadRunId(_) => Failure::usage(message),
            DriveError::Git(_) | DriveError::Write { .. } | DriveError::NoRoom(_)
                if error.is_full_disk() =>
            {
                Failure::failed(message).hint("make room on the disk")
            }
            DriveError::Write { .. } => Failure::failed(message).hint(WRITABLE),
            DriveError::Git(_) | DriveError::NoRoom(_) => Failure::failed(message),
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        diagnostic::refuse(error)
    }
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        let kind = match &error {
            LaunchError::Running { .. } => Kind::Busy,
            error if error.is_usage() => Kind::Usage,
            _ => Kind::Failed,
        };
        let failure = Failure::new(kind, error.to_string());
        match error {
            LaunchError::Load(error) => error.into(),
            LaunchError::Lookup { kind, source } => Failure::from(source).hint(begin(kind)),
            LaunchError::UnknownPreset { meant, .. } => {
                let failure = match meant {
                    Some(name) => failure.hint(format!("did you mean '{name}'?")),
                    None => failure,
                };
                failure.hint(
                    "list the presets with `autoloop presets`, or name the directory of a loop",
                )
            }
            LaunchError::NoLoop(_) => failure
                .hint("name the directory of a loop, or a preset that `autoloop presets` lists"),
            LaunchError::PresetTooLarge(_) => {
                failure.hint("move files that are not part of the loop to another directory")
            }
            LaunchError::NoAgent { .. } => failure.hint(
                "install it, put its directory on PATH, make it executable, or name another agent",
            ),
            LaunchError::Copy { .. } => failure.hint(WRITABLE),
            LaunchError::PresetGone { preset, .. } => {
                failure.hint(format!("start a new run with `autoloop run -p {preset} …`"))
            }
            LaunchError::OtherKind { id, found, .. } => {
                failure.hint(format!("resume it with `{}`", found.resume_command(&id)))
            }
            LaunchError::Running { .. } => failure.hint(BUSY),
            LaunchError::NothingToResume { kind, .. } | LaunchError::Completed { kind, .. } => {
                failure.hint(begin(kind))
            }
            LaunchError::Unproven { kind, run, key_dir } => {
                let failure = match key_dir {
                    Some(dir) => failure.hint(format!(
                        "make {} writable: the key that proves them is kept there",
                        dir.display()
                    )),
                    None => failure,
                };
                let resume = kind.resume_command(&run);
                failure.hint(format!("trust them as they are with `{resume} --trust-journal`"))
            }
            LaunchError::UnknownChain { meant: Some(name), .. } => {
                failure.hint(format!("did you mean '{name}'?"))
            }
            LaunchError::UnknownChain { meant: None, .. } => failure.hint(
                "list the chains with `autoloop chain list`, or name steps with `autoloop run --chain a,b`",
            ),
            LaunchError::StepsChanged { .. } => {
                failure.hint("restore the steps in chains.toml, or start a new chain")
            }
            LaunchError::PartOfRun { parent, .. } => failure.hint(format!(
                "resume both with `autoloop run --resume={parent}`, unless the run completed"
            )),
            LaunchError::Steps(_)
            | LaunchError::NoStep(_)
            | LaunchError::ChainsOff
            | LaunchError::NotFound { .. }
            | LaunchError::NoObjective(_) => failure,
        }
    }
}

fn begin(kind: Coordinator) -> &'static str {
    match kind {
        Coordinator::Loop => "start a new run with `autoloop run DIR`",
        Coordinator::Chain => "start a new chain with `autoloop chain run NAME`",
        Coordinator::Slots => "start a new run with `autoloop slots`",
    }
}

impl From<LookupError> for Failure {
    fn from(error: LookupError) -> Self {
        let message = error.to_string();
        match error {
            LookupError::Unknown { meant: Some(id), .. } => {
                Failure::failed(message).hint(format!("did you mean '{id}'?"))
            }
            LookupError::Unknown { meant: None, .. } => {
                Failure::failed(message).hint("list all runs with `autoloop loops --all`")
            }
            LookupError::Read(error) => error.into(),
            LookupError::Empty { .. } => Failure::failed(message).hint(begin(Coordinator::Loop)),
            LookupError::Ambiguous { ids, .. } => {
                let more = match ids.len().saturating_sub(MAX_IDS) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let shown = &ids[..ids.len().min(MAX_IDS)];
                Failure::usage(message)
                    .hint(format!("name one of them: {}{more}", shown.join(", ")))
            }
        }
    }
}
