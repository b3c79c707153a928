//! One turn of one agent: prompt file, job, output, and what the records say about it.
//!
//! Iterations, metareviews and the phases of slots differ in what they ask and in what they record. How an
//! agent is started, and how its end is read, is the same for all of them.

mod command;
mod failure;
mod output;
mod prompt_delivery;
mod report;
mod signals;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::config::BackendKind;
use autoloop_core::env::Env;
use autoloop_core::plan::BackendPlan;

pub(crate) use command::program_of;
pub use command::{PLAY_SCRIPT, REPLAY};
pub(crate) use failure::failure;
pub(crate) use report::{LINE, millis, notes, recorded, said, tail, usage};

use prompt_delivery::{Delivery, LONGEST_ARGUMENT};

use crate::git::LOCATING_VARIABLES;
use crate::journal::Spooled;
use crate::layout::{RunDir, StateDir};
use crate::process::{self, Interrupts};
use crate::world::{Finished, Job, Spool, World};

/// What an agent is started for.
#[derive(Clone, Debug)]
pub(crate) struct Turn<'t> {
    pub(crate) backend: &'t BackendPlan,
    pub(crate) prompt: &'t str,
    /// The directory of its files.
    pub(crate) dir: &'t RunDir,
    /// What their names begin with.
    pub(crate) name: String,
    /// The name of the file for standard output, where it is not made from `name`.
    pub(crate) stdout: Option<String>,
    pub(crate) place: Place<'t>,
    /// Its environment, without what belongs to the prompt.
    pub(crate) env: Env,
    /// A text to look for in its output.
    pub(crate) look_for: Option<&'t str>,
}

/// Where an agent works.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'t> {
    /// In the project itself.
    Project(&'t Path),
    /// In a worktree of its own. Files that the settings name are those of the project.
    Worktree { dir: &'t Path, project: &'t Path },
}

/// The file of a prompt could not be written.
#[derive(Debug)]
pub(crate) struct PromptError {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

/// A turn that is ready to be run.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) job: Job,
    pub(crate) delivery: Delivery,
}

/// How a turn ended.
pub(crate) struct Ended {
    pub(crate) finished: Finished,
    spool: Option<Spool>,
}

impl Ended {
    /// A turn that was not begun.
    pub(crate) fn unbegun(finished: Finished) -> Self {
        Ended { finished, spool: None }
    }

    /// The output, where it is too long to be held in memory.
    pub(crate) fn long_output(&self, world: &World) -> Option<Spooled> {
        output::spooled(self.spool.as_ref(), &self.finished, world)
    }
}

impl Turn<'_> {
    /// Writes the prompt into its file and prepares the job.
    ///
    /// # Errors
    ///
    /// When the prompt cannot be written.
    pub(crate) fn prepare(
        self,
        program: &Path,
        state_dir: &StateDir,
        world: &World,
    ) -> Result<Launch, PromptError> {
        let Turn { backend, prompt, dir, name, place, .. } = self;
        let prompt_path = dir.prompt(&name);
        world
            .disk
            .replace(&prompt_path, prompt.as_bytes())
            .map_err(|source| PromptError { path: prompt_path.clone(), source })?;
        let (job, delivery) = command::job(backend, (program, place), (prompt, &prompt_path));
        let env = Env {
            prompt: prompt_variable(prompt, backend.kind),
            prompt_path: Some(prompt_path),
            ..self.env
        };
        let (work_dir, env_removed) = match place {
            Place::Project(project) => (project, Vec::new()),
            Place::Worktree { dir, .. } => (dir, LOCATING_VARIABLES.map(OsString::from).into()),
        };
        let stdout = self.stdout.map_or_else(|| dir.stdout(&name), |name| dir.join(name));
        let job = Job {
            env: env.vars().into_iter().map(|(name, value)| (name.into(), value)).collect(),
            env_removed,
            dir: Some(work_dir.to_owned()),
            notes: Some(state_dir.shims()),
            spool: Some(Spool { stdout, stderr: dir.stderr(&name) }),
            look_for: self.look_for.unwrap_or_default().as_bytes().to_owned(),
            ..job
        };
        Ok(Launch { job, delivery })
    }
}

impl Launch {
    /// How the prompt reaches the agent, as the journal says it.
    pub(crate) fn prompt_mode(&self) -> String {
        command::mode_name(self.delivery)
    }

    /// Runs the agent to its end, or until the harness is asked to stop.
    pub(crate) fn run(self, world: &World, interrupts: &Interrupts) -> Ended {
        let spool = self.job.spool.clone();
        let finished = process::run(self.job, world, interrupts);
        let finished = signals::attributed(finished, interrupts, &*world.clock);
        Ended { finished, spool }
    }
}

/// The prompt as a variable, for commands that take it from there. One that is too long for an argument,
/// or contains a NUL, is too long or impossible for a variable as well: it is in its file.
fn prompt_variable(prompt: &str, kind: BackendKind) -> Option<String> {
    let fits = prompt.len() <= LONGEST_ARGUMENT && !prompt.contains('\0');
    (kind == BackendKind::Command && fits).then(|| prompt.to_owned())
}
