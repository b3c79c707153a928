//! The common part of commands that carry out runs: flags, interrupts, warnings, and the command that resumes a run.

#![expect(
    clippy::disallowed_methods,
    reason = "agents call this program by its path, and messages show paths relative to the current directory"
)]

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use autoloop_core::chain::Budget;
use autoloop_core::config::shell_words::join;
use autoloop_core::coordinator;
use autoloop_core::duration;
use autoloop_core::run::SomeRun;
use autoloop_core::timestamp::Timestamp;
use autoloop_core::views::usage::Sum;
use autoloop_runtime::drive::DriveError;
use autoloop_runtime::journal::Journal;
use autoloop_runtime::launch::{Launch, LaunchError, Launcher, Opening};
use autoloop_runtime::process::Interrupts;
use autoloop_runtime::project::Overrides;
use autoloop_runtime::runs::concurrent_runs;
use autoloop_runtime::signals;
use autoloop_runtime::site::{Breakers, Progress, Site, Trust};
use autoloop_runtime::world::World;

use super::progress::Detail;
use crate::failure::{Failure, Kind};
use crate::terminal;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct SettingArgs {
    /// Client like `codex` or `codex:MODEL`, or a command line [overrides: backend.command].
    #[arg(short, long, value_name = "AGENT")]
    backend: Option<String>,
    /// Model of the client [overrides: backend.model].
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Maximum number of iterations [overrides: event_loop.max_iterations].
    #[arg(short = 'i', long, visible_alias = "iterations", value_name = "N")]
    max_iterations: Option<String>,
    /// Maximum cost in dollars [overrides: limits.max_cost_usd].
    #[arg(long, value_name = "DOLLARS")]
    budget: Option<String>,
    /// Set any setting; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Ignore settings that limit a run and are not enforced by this version.
    #[arg(long)]
    ignore_unenforced: bool,
}

impl SettingArgs {
    pub(super) fn overrides(&self, more_args: &[String]) -> Overrides {
        let model = model_setting(self.model.as_deref());
        let budget = budget_setting(self.budget.as_deref());
        let flags = Overrides {
            backend: self.backend.clone(),
            max_iterations: self.max_iterations.clone(),
            set: self.set.iter().cloned().chain(model).chain(budget).collect(),
            more_args: more_args.to_vec(),
            unenforced: self.ignore_unenforced.into(),
        };
        flags.typed_in(Path::new("."))
    }
}

/// The setting that `--model` stands for.
pub(super) fn model_setting(model: Option<&str>) -> Option<String> {
    model.map(|model| format!("backend.model={model}"))
}

/// The setting that `--budget` stands for.
pub(super) fn budget_setting(dollars: Option<&str>) -> Option<String> {
    dollars.map(|dollars| format!("limits.max_cost_usd={dollars}"))
}

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

/// What a command prints about a run.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// Print all events of each iteration, and how its agent exited
    #[arg(short, long)]
    verbose: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl ReportArgs {
    pub(super) fn detail(self) -> Detail {
        if self.verbose { Detail::Verbose } else { Detail::Brief }
    }
}

pub(super) struct Session<'a> {
    pub(super) world: &'a World,
    program: PathBuf,
    trust: Trust,
    /// Requests to stop since the command was started.
    pub(super) interrupts: Interrupts,
}

impl<'a> Session<'a> {
    pub(super) fn start(trust: Trust, world: &'a World) -> Result<Self, Failure> {
        let interrupts = Interrupts::default();
        signals::listen(&interrupts)
            .map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
        let program = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
        Ok(Session { world, program, trust, interrupts })
    }

    /// Starts runs, which may request chains within these limits.
    pub(super) fn launcher(&self, limits: Budget) -> Launcher<'_> {
        Launcher { world: self.world, program: &self.program, trust: self.trust, limits }
    }

    pub(super) fn site<'s>(
        &'s self,
        launch: &'s Launch,
        journal: &'s dyn Journal,
        progress: &'s (dyn Fn(Progress<'_>) + Sync),
    ) -> Site<'s> {
        Site {
            breakers: Breakers::default(),
            world: self.world,
            journal,
            state_dir: &launch.loaded.files.state_dir,
            interrupts: self.interrupts.clone(),
            program: &self.program,
            trust: self.trust,
            progress,
        }
    }

    pub(super) fn warn_of_concurrent_runs(&self, launch: &Launch) {
        let others = concurrent_runs(&launch.loaded.files.state_dir, &*self.world.disk);
        let resumed = |run: &str| launch.opening == Opening::Resume && run == launch.id.as_str();
        for (run, process) in others.iter().filter(|(run, _)| !resumed(run)) {
            let warning = format!(
                "warning: run '{run}' (process {process}) is active in this directory, and both change the same files\n  hint: wait for it, or pass --allow-concurrent"
            );
            // A run starts whether or not the warning can be printed.
            let _ = writeln!(io::stderr(), "{}", terminal::harmless(&warning));
        }
    }

    /// The failure of a run that was interrupted or did not end.
    pub(super) fn unfinished(&self, launch: &Launch) -> Failure {
        let (noun, id) = (noun(launch), &launch.id);
        let failure = match self.interrupts.first() {
            Some(signal) => {
                let signal = u8::try_from(signal).unwrap_or(u8::MAX);
                Failure::new(Kind::Interrupted(signal), format!("{noun} '{id}' was interrupted"))
            }
            None => Failure::failed(format!("{noun} '{id}' did not end")),
        };
        failure.hint(format!("resume it with `{}`", resume_command(launch)))
    }
}

fn noun(launch: &Launch) -> &'static str {
    if launch.kind == coordinator::Kind::Chain { "chain" } else { "run" }
}

/// The command that resumes a run, as typed in the current directory.
pub(super) fn resume_command(launch: &Launch) -> String {
    launch.kind.resume_command(launch.id.as_str()) + &project_argument(&launch.project.dir)
}

/// The same for a recorded run of the project in `dir`.
pub(super) fn resume_recorded(run: &SomeRun, dir: &Path) -> Option<String> {
    Some(run.resume_command()? + &project_argument(dir))
}

/// A space and the path of the project; empty where it is the current directory.
pub(super) fn project_argument(dir: &Path) -> String {
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
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

/// The end of the last line about a run: the time between its first and its last record, and what its agents used;
/// empty where no client reports it.
pub(super) fn spent(began: &str, ended: &str, usage: Sum) -> String {
    let Some(usage) = usage.known() else { return String::new() };
    let stamp = |text: &str| text.parse::<Timestamp>().ok();
    let time = stamp(began).and_then(|began| Some(stamp(ended)?.since(began)));
    let time = time.map(|time| format!(" in {}", duration::print_short(time)));
    format!("{}: {usage}", time.unwrap_or_default())
}

/// The failure of a run that could not begin or be resumed.
pub(super) fn not_opened(error: DriveError, launch: &Launch) -> Failure {
    launch.discard();
    match launch.opening {
        Opening::Begin => error.into(),
        Opening::Resume => not_finished(error, launch),
    }
}

/// The failure of a run that has begun, with the command that resumes it once the cause is removed.
pub(super) fn not_finished(error: DriveError, launch: &Launch) -> Failure {
    let failure = Failure::from(error);
    match failure.kind() {
        Kind::Busy => failure,
        _ => failure.hint(format!("then resume it with `{}`", resume_command(launch))),
    }
}

/// The failure of a run that could not be started, with an example where it lacks an objective.
pub(super) fn not_started(error: DriveError, example: &str) -> Failure {
    let cause = match &error {
        DriveError::Step { source, .. } => source,
        error => error,
    };
    match cause {
        DriveError::Launch(error @ LaunchError::NoObjective(_)) => {
            Failure::usage(error.to_string())
                .hint(format!("name the objective: {example}"))
                .hint("or set event_loop.prompt or event_loop.prompt_file")
        }
        _ => error.into(),
    }
}
