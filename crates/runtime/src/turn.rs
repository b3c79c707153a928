//! One turn of one agent: prompt file, job, output, and the records about it.
//!
//! Iterations, metareviews and the phases of slots differ in their prompts and records. An agent is started, and its end
//! is read, in the same way for all of them.

mod command;
mod failure;
mod output;
mod prompt_delivery;
mod report;
mod retry;
mod signals;

use std::ffi::OsString;
use std::path::Path;

use autoloop_core::agents::Adapter;
use autoloop_core::config::BackendKind;
use autoloop_core::env::Env;
use autoloop_core::plan::BackendPlan;

pub(crate) use command::job_without_run;
pub use command::{PLAY_SCRIPT, REPLAY};
pub(crate) use failure::{client_failure, failure};
pub(crate) use report::{LINE, millis, notes, recorded, said, said_last, tail, usage};

use prompt_delivery::{Delivery, LONGEST_ARGUMENT};
use retry::Retry;
pub(crate) use retry::{News, Waiting, client_error};

use crate::error::DriveError;
use crate::git::LOCATING_VARIABLES;
use crate::journal::Spooled;
use crate::layout::RunDir;
use crate::process::{self, Interrupts};
use crate::site::Site;
use crate::world::{Finished, Job, Spool, World};

#[derive(Clone, Debug)]
pub(crate) struct Turn<'t> {
    pub(crate) backend: &'t BackendPlan,
    pub(crate) prompt: &'t str,
    pub(crate) dir: &'t RunDir,
    /// The names of its files begin with it.
    pub(crate) name: String,
    /// The name of the file for standard output, if not made from `name`.
    pub(crate) stdout: Option<String>,
    pub(crate) place: Place<'t>,
    /// Its environment, without what belongs to the prompt.
    pub(crate) env: Env,
    /// Whether the harness has tools for it, which its client calls through an MCP server.
    pub(crate) has_tools: bool,
    /// A text that is searched in its output.
    pub(crate) look_for: Option<&'t str>,
}

/// Where an agent works.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'t> {
    Project(&'t Path),
    /// In its own worktree. Files that the settings name are those of the project.
    Worktree {
        dir: &'t Path,
        project: &'t Path,
    },
}

/// A turn that is ready to be run.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) job: Job,
    pub(crate) delivery: Delivery,
    backend: BackendPlan,
}

pub(crate) struct Ended {
    pub(crate) finished: Finished,
    spool: Option<Spool>,
}

impl Ended {
    pub(crate) fn not_started(finished: Finished) -> Self {
        Ended { finished, spool: None }
    }

    /// The output, where it is too long for memory.
    pub(crate) fn long_output(&self, world: &World) -> Option<Spooled> {
        output::spooled(self.spool.as_ref(), &self.finished, world)
    }
}

impl Turn<'_> {
    /// Writes the prompt into its file and prepares the job.
    pub(crate) fn prepare(self, site: &Site<'_>) -> Result<Launch, DriveError> {
        let Turn { backend, prompt, dir, name, place, .. } = self;
        let prompt_path = dir.prompt(&name);
        let written = site.world.disk.replace(&prompt_path, prompt.as_bytes());
        written.map_err(|source| DriveError::Write { path: prompt_path.clone(), source })?;
        let server = self.env.bin.as_deref().filter(|_| self.has_tools);
        let (job, delivery) =
            command::job(backend, site.program, place, server, prompt, &prompt_path);
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
        let vars = env.vars().into_iter().map(|(name, value)| (name.into(), value));
        let job = Job {
            env: job.env.into_iter().chain(vars).collect(),
            env_removed,
            dir: Some(work_dir.to_owned()),
            notes: Some(site.state_dir.shims()),
            spool: Some(Spool { stdout, stderr: dir.stderr(&name) }),
            look_for: self.look_for.unwrap_or_default().as_bytes().to_owned(),
            ..job
        };
        Ok(Launch { job, delivery, backend: backend.clone() })
    }
}

impl Launch {
    /// What the harness knows about the client, if anything.
    pub(crate) fn client(&self) -> Option<&'static Adapter> {
        self.backend.client()
    }

    /// How the prompt reaches the agent, for the journal.
    pub(crate) fn prompt_mode(&self) -> String {
        command::mode_name(self.delivery)
    }

    /// Runs the agent to its end, or until it is interrupted. While its client is unavailable it waits, and calls
    /// `report` before and after each wait.
    pub(crate) fn run(
        self,
        site: &Site<'_>,
        interrupts: &Interrupts,
        mut report: impl FnMut(&Waiting) -> Result<(), DriveError>,
    ) -> Result<Ended, DriveError> {
        let Launch { job, backend, .. } = self;
        let (world, spool) = (site.world, job.spool.clone());
        let retry = Retry { breakers: &site.breakers, backend: &backend, world, interrupts };
        let end = backend.time_left.map(|left| world.clock.elapsed().saturating_add(left));
        let turn = || {
            let mut job = job.clone();
            let left = end.map(|end| end.saturating_sub(world.clock.elapsed()));
            job.limits.deadline = job.limits.deadline.into_iter().chain(left).min();
            let finished = process::run(job, world, interrupts);
            signals::attributed(finished, interrupts, &*world.clock)
        };
        let finished = retry.run(turn, |waiting| {
            if waiting.is_news() {
                site.note(&waiting.to_string());
            }
            report(&waiting)
        })?;
        Ok(Ended { finished, spool })
    }
}

/// The prompt as an environment variable, for commands that read it there. A prompt that is too long for an argument or
/// contains a NUL is only in its file.
fn prompt_variable(prompt: &str, kind: BackendKind) -> Option<String> {
    let fits = prompt.len() <= LONGEST_ARGUMENT && !prompt.contains('\0');
    (kind == BackendKind::Command && fits).then(|| prompt.to_owned())
}
