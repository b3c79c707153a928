//! The arguments that resume a run, and the command that resumes one.

#![expect(
    clippy::disallowed_methods,
    reason = "messages show paths as seen from the current directory"
)]

use std::env;
use std::path::Path;

use autoloop_core::config::shell_words::join;
use autoloop_core::coordinator::Kind;
use autoloop_core::run::SomeRun;
use autoloop_runtime::runs::LookupError;
use autoloop_runtime::site::Trust;

use crate::failure::Failure;

/// The arguments of a command that resumes.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ResumeArgs {
    /// Resume RUN, or the latest unfinished run, with its original flags.
    ///
    /// Failed work is retried; finished iterations, steps and phases are not repeated. Flags given now take
    /// precedence.
    #[arg(long = "resume", id = "resume", value_name = "RUN", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    pub(super) run: Option<String>,
    /// Trust records and flags of the resumed run that have no valid seal.
    ///
    /// Without it, a record of the harness without a valid seal is treated as forged, and its step is repeated.
    #[arg(long, requires = "resume")]
    trust_journal: bool,
}

impl ResumeArgs {
    pub(super) fn trust(&self) -> Trust {
        if self.trust_journal { Trust::Journal } else { Trust::Proven }
    }
}

/// The command that resumes a run of the project in `dir`, as typed in the current directory.
pub(super) fn command(run: &SomeRun, dir: &Path) -> Option<String> {
    Some(run.resume_command()? + &project_argument(dir))
}

/// The same by the coordinator and the id of the run.
pub(super) fn command_of(kind: Kind, id: &str, dir: &Path) -> String {
    kind.resume_command(id) + &project_argument(dir)
}

/// A space and the project as seen from here; empty where it is the current directory.
pub(super) fn project_argument(dir: &Path) -> String {
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

/// The failure of a command that needs a run where none has begun.
pub(super) fn no_run(journal: &Path) -> Failure {
    LookupError::Empty { journal: journal.display().to_string() }.into()
}
