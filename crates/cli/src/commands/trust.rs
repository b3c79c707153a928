//! What is believed about a run that is to be resumed.

use std::io::Write;

use autoloop_runtime::drive::{KeptRequest, Request};
use autoloop_runtime::layout::RunDir;
use autoloop_runtime::site::Trust;
use autoloop_runtime::world::World;

use crate::failure::Failure;
use crate::terminal;

/// The part of a command that resumes: whether the user vouches for the journal.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(in crate::commands) struct TrustArgs {
    /// Believe the records and flags of the run as they stand, also where nothing proves them.
    ///
    /// Without it, a record that claims to be written by the harness and has no valid seal is forged, and
    /// its step is repeated.
    #[arg(long, requires = "resume")]
    trust_journal: bool,
}

impl TrustArgs {
    pub(in crate::commands) fn trust(self) -> Trust {
        match self.trust_journal {
            true => Trust::Journal,
            false => Trust::Proven,
        }
    }
}

/// A run that is to be resumed.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct ResumedRun<'a> {
    /// Its directory.
    pub(in crate::commands) dir: &'a RunDir,
    /// Its id.
    pub(in crate::commands) run: &'a str,
    /// The command that resumes it.
    pub(in crate::commands) command: &'static str,
    pub(in crate::commands) trust: Trust,
}

/// What the run was begun with. A user is told where that had to be restored.
pub(in crate::commands) fn kept_request(
    resumed: ResumedRun<'_>,
    world: &World,
) -> Result<Request, Failure> {
    let ResumedRun { dir, run, command, trust } = resumed;
    match Request::of_run(dir, run, world, trust) {
        KeptRequest::Intact(request) => Ok(request),
        KeptRequest::Restored(request) => {
            let note = format!(
                "autoloop: {} was edited or removed: the flags that '{run}' was begun with are used\n",
                dir.flags().display()
            );
            // Standard error may be closed; the run can go on without the note.
            let _ = std::io::stderr().write_all(terminal::harmless(&note).as_bytes());
            Ok(request)
        }
        KeptRequest::Unproven => {
            let failure = Failure::failed(format!(
                "cannot resume '{run}': its records and flags cannot be proven to be its own"
            ));
            let failure = match (world.key(), world.secret.place()) {
                (None, Some(place)) => failure.hint(format!(
                    "make {} writable: the key that proves them is kept there",
                    place.parent().unwrap_or(place).display()
                )),
                _ => failure,
            };
            Err(failure.hint(format!(
                "`autoloop {command} --resume={run} --trust-journal` believes them as they stand"
            )))
        }
    }
}
