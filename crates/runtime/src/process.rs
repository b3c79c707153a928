//! Runs a job to its end, and cleans up after a crash.
//!
//! The world's spawner supervises the process, ends it at its deadline, and captures its output. [`run`] forwards
//! [`Interrupts`] to it, and waits.

#![expect(clippy::disallowed_methods, reason = "spools and notes belong to real processes")]

mod capture;
mod interrupts;
mod job_note;
pub(crate) mod pipes;
mod spool;
mod sweep;

pub(crate) use capture::Capture;
pub use interrupts::Interrupts;
pub(crate) use job_note::Note;
pub(crate) use spool::Spooling;
pub(crate) use sweep::kill_marked;
pub use sweep::{CrashedJob, Swept, crashed_jobs, sweep};

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::world::{Ending, Entropy, Finished, Job, NeverStarted, Obstacle, World};

/// The variable that marks all processes of a job.
pub const TOKEN: &str = "AUTOLOOP_SLOT_TOKEN";

/// A unique mark for the processes of a job.
pub fn token(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs a job to its end. Every failure is in how it ended.
///
/// The first interrupt asks the job to end and kills it after its grace; the second kills it at once. Interrupts from
/// before the start count too.
pub fn run(job: Job, world: &World, interrupts: &Interrupts) -> Finished {
    let program = PathBuf::from(&job.program);
    let running = match world.spawner.spawn(job) {
        Ok(running) => running,
        Err(error) => {
            return Finished::new(Ending::NeverStarted(NeverStarted {
                errno: errno(&error),
                message: format!("cannot start '{}': {error}", program.display()),
                obstacle: Obstacle::Surroundings,
            }));
        }
    };
    let _subscription = interrupts.subscribe(running.signals.clone());
    let lost = || Ending::Lost("the end of the process was not reported".to_owned());
    running.finished.recv().unwrap_or_else(|_| Finished::new(lost()))
}

/// The number of an error, also where only its kind is known, as in a simulation.
fn errno(error: &std::io::Error) -> i32 {
    let not_found = rustix::io::Errno::NOENT.raw_os_error();
    let by_kind = if error.kind() == std::io::ErrorKind::NotFound { not_found } else { 0 };
    error.raw_os_error().unwrap_or(by_kind)
}

/// Raises the limit of open files as far as the system allows: every job takes some.
pub(crate) fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, jobs that run out of descriptors report it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Sets `PWD` of a child to the directory it works in and removes `OLDPWD`.
///
/// A child would otherwise inherit both from the shell that `autoloop` was started in, and some agents
/// work in the directory that `PWD` names.
pub fn set_pwd(command: &mut Command, dir: &Path) {
    match dir.canonicalize() {
        Ok(dir) => command.env("PWD", dir),
        Err(_) => command.env_remove("PWD"),
    };
    command.env_remove("OLDPWD");
}
