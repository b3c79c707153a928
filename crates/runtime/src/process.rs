//! A job run to its end, and what there is to do before and after it.
//!
//! The world's spawner does the work: it watches over the process, ends it at its deadline, and keeps
//! what it prints. [`run`] passes [`Interrupts`] on to it, and waits.

mod capture;
mod interrupts;
mod job_note;
pub(crate) mod pipes;
mod prompt_delivery;
mod spool;
mod sweep;
mod working_dir;

pub(crate) use capture::Capture;
pub use interrupts::Interrupts;
pub(crate) use job_note::Note;
pub use prompt_delivery::{Delivery, Detour, LONGEST_ARGUMENT, PromptMode, delivery};
pub(crate) use spool::Spooling;
pub(crate) use sweep::kill_marked;
pub use sweep::{LeftOver, Swept, left_over, sweep};
pub use working_dir::set_pwd;

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::world::{Ending, Entropy, Finished, Job, NeverStarted, Obstacle, Report, World};

/// The variable that marks all processes of a job.
pub const TOKEN: &str = "AUTOLOOP_SLOT_TOKEN";

/// A mark for processes that no others have.
pub fn token(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    bytes.iter().fold(String::new(), |mut token, byte| {
        let _ = write!(token, "{byte:02x}");
        token
    })
}

/// Runs a job to its end. Whatever goes wrong is in how it ended.
///
/// The first interrupt asks the job to end and kills it after its grace; the second kills it at once.
/// Interrupts that came before the job count too.
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
    let _passed_on = interrupts.pass_on(running.signals.clone());
    let finished = running.reports.iter().find_map(|report| match report {
        Report::Started(_) => None,
        Report::Finished(finished) => Some(*finished),
    });
    finished.unwrap_or_else(|| {
        Finished::new(Ending::Lost("nobody told how the process ended".to_owned()))
    })
}

/// The number behind an error, also where only its kind is known, as in a simulation.
fn errno(error: &std::io::Error) -> i32 {
    let not_found = rustix::io::Errno::NOENT.raw_os_error();
    let by_kind = if error.kind() == std::io::ErrorKind::NotFound { not_found } else { 0 };
    error.raw_os_error().unwrap_or(by_kind)
}

/// Lets this process have as many files open as the system allows it: every job takes some.
pub(crate) fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, jobs that find no room say so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
