//! `autoloop run`: drives a loop to its end.

pub(super) mod preflight;
mod progress_ui;
mod report;
pub(super) mod resolve_args;
mod run_request;
pub(crate) mod suggest;
mod tool;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use autoloop_core::config::Config;
use autoloop_core::coordinator;
use autoloop_core::plan::Files;
use autoloop_core::run::{Ending, Run, Stage, StopReason};
use autoloop_core::run_id::RunId;
use autoloop_core::wire_enum::Word;
use autoloop_runtime::drive::{Drive, DriveError};
use autoloop_runtime::journal::{Journal, ReadError};
use autoloop_runtime::layout::RunDir;
use autoloop_runtime::process::{Interrupts, sweep};
use autoloop_runtime::project::Overrides;
use autoloop_runtime::runs::concurrent_runs;
use autoloop_runtime::signals;
use autoloop_runtime::site::{Progress, Site};
use autoloop_runtime::world::{CRASH_GRACE, World};

use self::preflight::Preview;
use self::progress_ui::Audience;
pub(super) use self::report::Reporter;
pub(super) use self::resolve_args::Old;
use self::resolve_args::Words;
pub(super) use self::run_request::{
    Errand, WRITABLE, Which, claim_chain_id, claim_slots_id, project_for,
};
pub(super) use self::tool::install as install_tool;
use super::trust::TrustArgs;
use super::{chain, resume, settings};
use crate::diagnostic;
use crate::failure::{Failure, Kind};
use crate::terminal;

/// Run a loop until it completes, stops or fails.
///
/// The loop is a directory with `autoloops.toml` and, if it has roles, `topology.toml`; or a preset (see
/// `autoloop presets`), which works in the current project. Each iteration starts an agent with a prompt made from
/// the objective, the topology, the memory and the events so far. The run ends when the completion event is
/// emitted, the output contains the completion promise, the maximum number of iterations is reached, or the agent
/// fails.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory of the loop, or name of a preset [default with --preset and --resume: the current
    /// project].
    #[arg(value_name = "DIR|PRESET")]
    dir: Option<PathBuf>,
    /// The objective.
    prompt: Vec<String>,
    /// The loop to run in the directory, in place of the directory's own: the name of a preset, or a
    /// directory that holds a loop.
    #[arg(short, long, value_name = "PRESET|DIR", conflicts_with = "resume")]
    preset: Option<String>,
    /// Several loops, one after another, in place of one: presets, directories and chains of
    /// `chains.toml`, separated by commas.
    #[arg(long, value_name = "A,B,…", conflicts_with_all = ["preset", "resume"])]
    chain: Option<String>,
    /// Resume RUN, or the latest run that did not complete, with its original flags; a failed iteration
    /// is retried.
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    resume: Option<String>,
    #[command(flatten)]
    trust: TrustArgs,
    /// The agent: a command with its arguments, in place of `backend.command`.
    #[arg(short, long, value_name = "COMMAND")]
    backend: Option<String>,
    /// The most iterations, in place of `event_loop.max_iterations`.
    #[arg(short = 'i', long, visible_alias = "iterations", value_name = "N")]
    max_iterations: Option<String>,
    /// Any setting, as `key=value`. Can be given more than once.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Continue although this version does not enforce a setting that limits the run
    #[arg(long)]
    ignore_unenforced: bool,
    /// Do not warn about other active runs in the same directory
    #[arg(long)]
    allow_concurrent: bool,
    /// Say of every iteration all that was emitted and refused, and how the agent ended.
    #[arg(short, long)]
    verbose: bool,
    /// Print how the run ended as JSON.
    #[arg(long)]
    json: bool,
    /// Show the live view while the run goes on, as `autoloop watch` does. Without a terminal the usual
    /// lines are printed.
    #[arg(long, conflicts_with = "chain")]
    watch: bool,
    /// More arguments for the agent.
    #[arg(last = true, value_name = "ARGS")]
    more_args: Vec<String>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    if let Some(names) = &args.chain {
        let place =
            resolve_args::place(args.dir.as_deref(), &args.prompt, settings::default_project)?;
        let manner = chain::Manner { verbose: args.verbose, json: args.json };
        return chain::run_listed(names, place, overrides(args), (manner, world));
    }
    let errand = errand(args, world)?;
    if !args.allow_concurrent {
        let resumed = match &errand.run {
            Which::Old { id, .. } => Some(id),
            Which::New { .. } => None,
        };
        warn_of_others(&errand.load(world)?.files, resumed, world);
    }
    let audience = Audience::new(args, &errand, world);
    let ended = carry_out(&errand, world, &|progress| audience.tell(progress));
    audience.leave();
    let ended = ended?;
    report::conclude(&ended.run, &*ended.journal, args.json)?;
    verdict(&ended)
}

/// Warns about runs that other processes carry out in the same directory, except the one to be resumed.
pub(super) fn warn_of_others(files: &Files, resumed: Option<&RunId>, world: &World) {
    let others = concurrent_runs(&files.state_dir, &*world.disk);
    for (run, process) in
        others.iter().filter(|(run, _)| Some(run.as_str()) != resumed.map(RunId::as_str))
    {
        let warning = format!(
            "warning: run '{run}' (process {process}) is active in this directory, and both change the same files\n  hint: wait for it, or pass --allow-concurrent"
        );
        // A run starts whether or not the warning can be printed.
        let _ = writeln!(io::stderr(), "{}", terminal::harmless(&warning));
    }
}

/// A run that was carried out.
pub(super) struct Ended {
    pub(super) run: Run,
    pub(super) journal: Box<dyn Journal>,
    interrupts: Interrupts,
    /// Where the files of the run are.
    dir: RunDir,
    /// The command that resumes the run.
    resume: String,
}

/// The same, as far as the run itself goes.
pub(super) struct Driven {
    pub(super) run: Run,
    journal: Box<dyn Journal>,
    dir: RunDir,
}

/// Carries a run out to its end, or until it is interrupted.
pub(super) fn carry_out(
    errand: &Errand,
    world: &World,
    tell: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Ended, Failure> {
    let interrupts = listen()?;
    let Driven { run, journal, dir } = drive(errand, (world, &interrupts), tell)?;
    let resume = resume::command_of(coordinator::Kind::Loop, &run.id, &errand.project.dir);
    Ok(Ended { run, journal, interrupts, dir, resume })
}

/// Requests to stop, from here on.
pub(super) fn listen() -> Result<Interrupts, Failure> {
    let interrupts = Interrupts::default();
    signals::listen(&interrupts)
        .map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
    Ok(interrupts)
}

/// Drives a run to its end, or until somebody asks to stop.
pub(super) fn drive(
    errand: &Errand,
    (world, interrupts): (&World, &Interrupts),
    tell: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Driven, Failure> {
    let loaded = errand.load(world)?;
    diagnostic::show(&loaded.warnings);
    // What a harness that was killed left running must not write into the run that goes on.
    let _ = sweep(&loaded.files.state_dir.shims(), CRASH_GRACE);
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    tool::install(&loaded.files, &errand.project.dir, &program)?;

    let config = Config::from(&loaded.settings);
    let journal = settings::journal(loaded.files.journal.clone(), world, &config);
    let site = Site {
        interrupts: interrupts.clone(),
        program: &program,
        trust: errand.trust,
        progress: tell,
        ..Site::new(world, &*journal, &loaded.files.state_dir)
    };
    let (project, read) = (&errand.project, loaded.clone());
    let drive = match &errand.run {
        Which::Old { id, objective } => Drive::resume(site, project, read, id, objective.clone()),
        Which::New { id, objective } => Drive::begin(site, project, read, id, objective.clone()),
    };
    let spawner = chain::Spawner {
        dir: errand.project.dir.clone(),
        overrides: errand.project.overrides.clone(),
        limits: errand.limits.unwrap_or_else(|| chain::limits(&errand.project.dir, world)),
        world,
    };
    let resumable = |error| with_resume(drive_failure(error), errand);
    let drive = match &errand.run {
        Which::Old { .. } => drive.map_err(resumable),
        Which::New { .. } => drive.map_err(drive_failure),
    };
    let drive = drive?.with_loops(&spawner);
    errand.keep_request(&loaded.files, world)?;
    let run = drive.run().map_err(resumable)?;
    let dir = loaded.files.state_dir.run(coordinator::Kind::Loop, errand.run.id());
    Ok(Driven { run, journal, dir })
}

fn overrides(args: &Args) -> Overrides {
    Overrides {
        backend: args.backend.clone(),
        max_iterations: args.max_iterations.clone(),
        set: args.set.clone(),
        more_args: args.more_args.clone(),
        unenforced: args.ignore_unenforced.into(),
    }
    .typed_in(Path::new("."))
}

/// What can be done about a program that does not exist.
const NO_AGENT: &str =
    "install it, put its directory on PATH, make it executable, or name another agent";

/// The failure of a run that has begun, with the command that resumes it once the cause is removed.
fn with_resume(failure: Failure, errand: &Errand) -> Failure {
    match errand.resume_command() {
        Some(command) if failure.kind() != Kind::Busy => {
            failure.hint(format!("then resume it with `{command}`"))
        }
        _ => failure,
    }
}

/// What was asked for.
fn errand(args: &Args, world: &World) -> Result<Errand, Failure> {
    let overrides = overrides(args);
    let first = args.dir.as_deref();
    let preset = args.preset.as_deref();
    let here = settings::default_project;
    let words = Words { first, rest: &args.prompt, preset, here };
    if let Some(name) = &args.resume {
        let old = resolve_args::taken_up(words, name)?;
        return Errand::resume(&old, overrides, (world, args.trust.trust()));
    }
    let choice = resolve_args::decide(words, &settings::surroundings()?)?;
    let project = project_for(&choice, overrides.clone())?;
    let preview = Preview::of(&choice, &project, world)?;
    preview
        .require_objective(&choice, &project, world)
        .map_err(|lack| lack.with_example(&suggest::command(&typed(args), "")))?;
    preview.require_agents(&project.dir, world)?;
    Errand::begin(choice, overrides, world)
}

/// The words that name the loop and the project, for an example with an objective behind them.
fn typed(args: &Args) -> Vec<String> {
    let preset = args.preset.iter().flat_map(|preset| ["-p".to_owned(), preset.clone()]);
    let first = args.dir.iter().map(|dir| dir.to_string_lossy().into_owned());
    std::iter::once("run".to_owned()).chain(preset).chain(first).collect()
}

/// The exit code tells the truth: only a complete run ends with 0.
pub(super) fn verdict(ended: &Ended) -> Result<(), Failure> {
    let run = &ended.run;
    match (&run.stage, ended.interrupts.first()) {
        (Stage::Ended(Ending::Complete { .. }), _) => Ok(()),
        (_, Some(signal)) => {
            let signal = u8::try_from(signal).unwrap_or(u8::MAX);
            Err(Failure::new(
                Kind::Interrupted(signal),
                format!("run '{}' was interrupted", run.id),
            )
            .hint(format!("resume it with `{}`", ended.resume)))
        }
        (Stage::Ended(Ending::Stop { reason }), None) => Err(stopped(reason, ended)),
        (_, None) => Err(Failure::failed(format!("run '{}' did not end", run.id))
            .hint(format!("resume it with `{}`", ended.resume))),
    }
}

fn stopped(reason: &Word<StopReason>, ended: &Ended) -> Failure {
    let Ended { run, resume, .. } = ended;
    let why = run.failure().map_or_else(|| reason.to_string(), ToString::to_string);
    let failure = Failure::failed(format!("run '{}' {}: {why}", run.id, run.status()));
    let more = run.raised_limit();
    if !more.is_empty() {
        return failure.hint(format!("allow more iterations with `{resume}{more}`"));
    }
    failure.hint(next_after(ended)).hint(format!("resume it with `{resume}`"))
}

/// Where to find why the agent failed, or what to do where it could not be started.
fn next_after(Ended { run, dir, .. }: &Ended) -> String {
    let last = run.done;
    let printed = format!("`autoloop inspect output {last}` shows what the agent printed");
    // An agent that said nothing has no such file.
    let turn = format!("iteration-{last}");
    let [stdout, stderr] = [dir.stdout(&turn), dir.stderr(&turn)];
    let exit = run.turn.exit.as_ref();
    let could_not_start = exit.is_some_and(|exit| matches!(exit.code, 126 | 127));
    if could_not_start && !stdout.exists() && !stderr.exists() {
        return "install the agent, put its directory on PATH, make it executable, or name another with -b"
            .to_owned();
    }
    match stderr.exists() {
        true => format!("{printed}, {} what it said on standard error", stderr.display()),
        false => printed,
    }
}

pub(super) fn drive_failure(error: DriveError) -> Failure {
    match error {
        DriveError::Busy { .. } | DriveError::BusyChain { .. } => Failure::new(Kind::Busy, error.to_string())
            .hint("wait for it, or end that process; the journal shows how far it is"),
        DriveError::Load(error) => diagnostic::refuse(error),
        DriveError::Append(error) => error.into(),
        DriveError::Read(error @ ReadError::Changed { .. }) => Failure::from(error)
            .hint("another process truncated, replaced or edited the journal during the run"),
        DriveError::Read(error) => error.into(),
        DriveError::Sandbox(_) => Failure::usage(error.to_string())
            .hint("set review.sandbox = \"auto\", which puts back what a review may not change, or review.enabled = false"),
        DriveError::NoTrees(_) => Failure::usage(error.to_string())
            .hint("with parallel.isolation = \"shared\" branches work in the tree of the project"),
        DriveError::NoWorktrees(_) | DriveError::OtherSource { .. } => {
            Failure::usage(error.to_string())
        }
        DriveError::NoAgent { .. } => Failure::usage(error.to_string()).hint(NO_AGENT),
        DriveError::Queue(error) => error.into(),
        DriveError::BadRunId(_) => Failure::usage(error.to_string()),
        DriveError::Git(_) | DriveError::Write { .. } | DriveError::NoRoom(_) => Failure::failed(error.to_string()),
        DriveError::Chains(_) => Failure::usage(error.to_string())
            .hint("correct the file"),
        DriveError::Step(error) => match error.downcast::<Failure>() {
            Ok(failure) => *failure,
            Err(error) => Failure::failed(error.to_string()),
        },
    }
}
