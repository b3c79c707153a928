//! `autoloop run`: drives a loop to its end.

mod report;
mod tool;

use std::path::{Path, PathBuf};

use autoloop_core::config::Config;
use autoloop_core::run::{Ending, Run, Runs, Stage};
use autoloop_core::run_id::{RunId, RunIdSeed};
use autoloop_runtime::drive::{Drive, DriveError, Scene};
use autoloop_runtime::journal::{FileJournal, ReadError};
use autoloop_runtime::process::{Interrupts, notes_dir, sweep};
use autoloop_runtime::project::{Loaded, Overrides, Project, Surroundings};
use autoloop_runtime::signals;
use autoloop_runtime::world::World;

use self::report::Reporter;
use super::settings;
use crate::diagnostic;
use crate::failure::{Failure, Kind};

/// Drive a loop to its end.
///
/// The directory holds `autoloops.toml` and, if the loop has roles, `topology.toml`. In every iteration
/// an agent is started with a prompt made from the objective, the topology, the memory and what happened
/// so far. The run ends when the completion event was emitted, when the output holds the completion
/// promise, when the most iterations are done, or when the agent fails.
///
/// Exits with 0 only when the run is complete, with 1 when it ended otherwise, with 2 when the files of
/// the loop cannot be used, with 4 when another process drives the run, and with 128 and the number of
/// the signal when it was interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of the loop [default with --resume: this one].
    #[arg(required_unless_present = "resume")]
    dir: Option<PathBuf>,
    /// What the run is for.
    prompt: Vec<String>,
    /// Go on with a run that was cut off or stopped: the one named, or the latest that was cut off or
    /// interrupted.
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    resume: Option<String>,
    /// The agent: a command with its arguments, in place of `backend.command`.
    #[arg(short, long, value_name = "COMMAND")]
    backend: Option<String>,
    /// The most iterations, in place of `event_loop.max_iterations`.
    #[arg(short = 'i', long, visible_alias = "iterations", value_name = "N")]
    max_iterations: Option<String>,
    /// Any setting, as `key=value`. Can be given more than once.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Say more about what goes on.
    #[arg(short, long)]
    verbose: bool,
    /// Print how the run ended as JSON.
    #[arg(long)]
    json: bool,
    /// More arguments for the agent.
    #[arg(last = true, value_name = "ARGS")]
    more_args: Vec<String>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let project = project(args)?;
    let loaded = project.load(&*world.disk).map_err(diagnostic::refuse)?;
    diagnostic::show(&loaded.warnings);
    let interrupts = Interrupts::default();
    signals::listen(&interrupts)
        .map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
    // What a harness that was killed left running must not write into the run that goes on.
    let _ = sweep(&notes_dir(&loaded.files.state_dir));
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    tool::install(&loaded.files, &project.dir, &program)?;

    let config = Config::from(&loaded.settings);
    let journal = settings::journal(loaded.files.journal.clone(), world, &config);
    let mut reporter = Reporter::new(args.verbose);
    let mut tell = |progress: autoloop_runtime::drive::Progress<'_>| reporter.tell(progress);
    let scene = Scene {
        world,
        project: &project,
        journal: &journal,
        interrupts: &interrupts,
        program,
        tell: &mut tell,
    };
    let drive = match &args.resume {
        Some(name) => Drive::resume(scene, &run_to_resume(&journal, name)?),
        None => Drive::begin(scene, &new_run_id(&journal, &loaded, world)?, objective(args)),
    };
    let ended = drive.and_then(Drive::run).map_err(drive_failure)?;
    report::conclude(&ended, &journal, args.json)?;
    verdict(&ended, &interrupts)
}

fn project(args: &Args) -> Result<Project, Failure> {
    let dir = args.dir.as_deref().unwrap_or(Path::new("."));
    if !dir.is_dir() {
        return Err(Failure::usage(format!("there is no directory {}", dir.display()))
            .hint("name the directory that holds autoloops.toml"));
    }
    let failed =
        |error: std::io::Error| Failure::failed(format!("cannot find {}: {error}", dir.display()));
    let dir = dir.canonicalize().map_err(failed)?;
    let mut project = Project::new(&dir).map_err(failed)?;
    project.overrides = Overrides {
        backend: args.backend.clone(),
        max_iterations: args.max_iterations.clone(),
        set: args.set.clone(),
        more_args: args.more_args.clone(),
    };
    project.surroundings =
        Surroundings::read(|name| std::env::var_os(name)).map_err(diagnostic::refuse)?;
    Ok(project)
}

fn objective(args: &Args) -> Option<String> {
    (!args.prompt.is_empty()).then(|| args.prompt.join(" "))
}

/// An id that no run in the journal has.
fn new_run_id(journal: &FileJournal, loaded: &Loaded, world: &World) -> Result<RunId, Failure> {
    let runs = journal.fold::<Runs>()?.view;
    let seed = RunIdSeed {
        random: world.entropy.number(),
        now: world.clock.now(),
        runs_so_far: runs.iter().filter(|run| run.start.is_some()).count() as u64,
    };
    Ok(loaded.plan.run_id_format.make(&seed, &|id| runs.get(id).is_some()))
}

fn run_to_resume(journal: &FileJournal, name: &str) -> Result<String, Failure> {
    // A run may have ended with a record that lacks nothing but its newline.
    journal.repair()?;
    let runs = journal.fold::<Runs>()?.view;
    let nothing =
        |message: String| Err(Failure::failed(message).hint("`autoloop run DIR` begins a new run"));
    if name.is_empty() {
        return match runs.latest_unfinished() {
            Some(run) => Ok(run.id.clone()),
            None => nothing(format!("there is no unfinished run in {}", journal.path().display())),
        };
    }
    match runs.get(name).map(|run| &run.stage) {
        None => nothing(format!("there is no run '{name}' in {}", journal.path().display())),
        Some(Stage::Ended(Ending::Complete { .. })) => nothing(format!("run '{name}' is complete")),
        Some(_) => Ok(name.to_owned()),
    }
}

/// The exit code tells the truth: only a complete run ends with 0.
fn verdict(run: &Run, interrupts: &Interrupts) -> Result<(), Failure> {
    match (&run.stage, interrupts.first()) {
        (Stage::Ended(Ending::Complete { .. }), _) => Ok(()),
        (_, Some(signal)) => {
            let signal = u8::try_from(signal).unwrap_or(u8::MAX);
            Err(Failure::new(
                Kind::Interrupted(signal),
                format!("run '{}' was interrupted", run.id),
            )
            .hint("`autoloop run --resume` goes on with it"))
        }
        (Stage::Ended(Ending::Stop { reason }), None) => {
            Err(Failure::failed(format!("run '{}' stopped: {reason}", run.id)))
        }
        (_, None) => Err(Failure::failed(format!("run '{}' did not end", run.id))),
    }
}

fn drive_failure(error: DriveError) -> Failure {
    match error {
        DriveError::Busy { .. } => Failure::new(Kind::Busy, error.to_string())
            .hint("wait for it, or end that process; the journal shows how far it is"),
        DriveError::Load(error) => diagnostic::refuse(error),
        DriveError::Append(error) => error.into(),
        DriveError::Read(error @ ReadError::Changed { .. }) => Failure::from(error)
            .hint("somebody cut, replaced or edited the journal while the run went on"),
        DriveError::Read(error) => error.into(),
        DriveError::BadRunId(_) => Failure::usage(error.to_string()),
        DriveError::Write { .. } => Failure::failed(error.to_string()),
    }
}
