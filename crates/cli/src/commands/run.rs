//! `autoloop run`: carries out a loop.

pub(super) mod resolve_args;
pub(crate) mod suggest;

use std::path::PathBuf;

use autoloop_core::coordinator::{self, Holder};
use autoloop_core::format::json_line;
use autoloop_core::run::{Ending, Run, Stage, StopReason};
use autoloop_core::views::usage::Usages;
use autoloop_core::wire_enum::Word;
use autoloop_runtime::drive::LoopDriver;
use autoloop_runtime::launch::{Launch, Launcher, chain_limits, existing_dir};
use autoloop_runtime::site::Progress;
use autoloop_runtime::world::World;
use serde_json::json;

use self::resolve_args::Words;
use super::progress::ProgressUi;
use super::session::{
    ReportArgs, ResumeArgs, Session, SettingArgs, not_finished, not_opened, not_started,
    resume_command, spent,
};
use super::{chain, settings};
use crate::failure::Failure;
use crate::{terminal, tui};

/// Run a loop until it completes, stops or fails.
///
/// The loop is a directory with `autoloops.toml` and, if it has roles, `topology.toml`; or a preset (see
/// `autoloop presets`), which works in the current project. Each iteration starts an agent with a prompt made from
/// the objective, the topology, the memory and the events so far. The run ends when the completion event is
/// emitted, the output contains the completion promise, the maximum number of iterations is reached, or the agent
/// fails.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory of the loop, or name of a preset.
    ///
    /// With --preset and --resume it is the project [default: the current project].
    #[arg(value_name = "DIR|PRESET")]
    dir: Option<PathBuf>,
    /// The objective.
    prompt: Vec<String>,
    /// Run this loop in the directory instead of the directory's own.
    ///
    /// It is the name of a preset, or a directory that contains a loop.
    #[arg(short, long, value_name = "PRESET|DIR", conflicts_with = "resume")]
    preset: Option<String>,
    /// Run several loops in sequence.
    ///
    /// The steps are presets, directories and chains of `chains.toml`, separated by commas.
    #[arg(long, value_name = "A,B,…", conflicts_with_all = ["preset", "resume"])]
    chain: Option<String>,
    #[command(flatten)]
    resume: ResumeArgs,
    #[command(flatten)]
    settings: SettingArgs,
    /// Do not warn about other active runs in the same directory.
    #[arg(long)]
    allow_concurrent: bool,
    #[command(flatten)]
    report: ReportArgs,
    /// Open the live view; without a terminal, progress lines are printed.
    #[arg(long, conflicts_with = "chain")]
    watch: bool,
    /// Additional arguments for the agent.
    #[arg(last = true, value_name = "ARGS")]
    more_args: Vec<String>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let overrides = args.settings.overrides(&args.more_args);
    if let Some(names) = &args.chain {
        let here = settings::default_project;
        let (dir, objective) =
            resolve_args::project_and_objective(args.dir.as_deref(), &args.prompt, here)?;
        let project = settings::chain_project(&dir, overrides)?;
        return chain::run_listed(names, project, objective, args.report, world);
    }
    let session = Session::start(args.resume.trust(), world)?;
    let (launcher, launch) = args.launch(&session)?;
    if !args.allow_concurrent {
        session.warn_of_concurrent_runs(&launch);
    }
    let live = (args.watch && tui::is_possible()).then_some(&launch.loaded);
    let ui = ProgressUi::new(args.report.detail(), live, world);
    let ended = carry_out(&session, &launcher, &launch, &|progress| ui.report(progress));
    ui.close();
    let run = ended?;
    print_result(&run, &launch, args.report.json, world)?;
    verdict(&run, &launch, &session)
}

impl Args {
    fn launch<'s>(&self, session: &'s Session<'_>) -> Result<(Launcher<'s>, Launch), Failure> {
        let words = Words {
            first: self.dir.as_deref(),
            rest: &self.prompt,
            preset: self.preset.as_deref(),
            here: settings::default_project,
        };
        let env = settings::settings_environment()?;
        let overrides = self.settings.overrides(&self.more_args);
        if let Some(name) = &self.resume.run {
            let (dir, run) = words.resolve_resumed(name)?;
            let mut project = settings::project(&existing_dir(&dir)?)?;
            project.overrides = overrides;
            let launcher = session.launcher(chain_limits(&project.dir, session.world));
            let launch = launcher.resume(coordinator::Kind::Loop, project, &run)?;
            return Ok((launcher, launch));
        }
        let mut request = words.resolve(&env)?;
        request.project.overrides = overrides;
        let launcher = session.launcher(chain_limits(&request.project.dir, session.world));
        let launch = launcher
            .begin(request)
            .map_err(|error| not_started(error, &suggest::command(&self.loop_words(), "")))?;
        Ok((launcher, launch))
    }

    /// The words that name the loop and the project, for an example with an objective behind them.
    fn loop_words(&self) -> Vec<String> {
        let preset = self.preset.iter().flat_map(|preset| ["-p".to_owned(), preset.clone()]);
        let first = self.dir.iter().map(|dir| dir.to_string_lossy().into_owned());
        std::iter::once("run".to_owned()).chain(preset).chain(first).collect()
    }
}

/// Carries a run out to its end, or until it is interrupted.
pub(super) fn carry_out(
    session: &Session<'_>,
    launcher: &Launcher<'_>,
    launch: &Launch,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Run, Failure> {
    let journal = launch.loaded.journal(session.world);
    let site = session.site(launch, &journal, progress);
    let drive = LoopDriver::open(site, launch, Some(launcher))
        .map_err(|error| not_opened(error, launch))?;
    drive.run().map_err(|error| not_finished(error, launch))
}

fn print_result(run: &Run, launch: &Launch, as_json: bool, world: &World) -> Result<(), Failure> {
    let reason = match &run.stage {
        Stage::Ended(Ending::Complete { reason } | Ending::Stop { reason }) => reason.as_str(),
        _ => "",
    };
    let status = run.status().with_holder(Holder::None);
    let usages = launch.loaded.journal(world).fold::<Usages>()?.view;
    let usage = usages.total(Some(&run.id));
    let text = match as_json {
        true => {
            let facts = json!({
                "run": run.id,
                "status": status.name(),
                "reason": reason,
                "detail": Some(&run.stop.detail).filter(|detail| !detail.is_empty()),
                "iterations": run.done,
                "usage": usage.known().map(|usage| usage.facts()),
                "journal": launch.loaded.files.journal.display().to_string(),
            });
            json_line(&facts) + "\n"
        }
        false => {
            let iterations = terminal::counted(run.done, "iteration");
            let spent = spent(&run.times.0, &run.times.1, usage);
            format!("run {}: {status} ({reason}) after {iterations}{spent}\n", run.id)
        }
    };
    Ok(terminal::print(&text)?)
}

/// Only a complete run exits with 0.
pub(super) fn verdict(run: &Run, launch: &Launch, session: &Session<'_>) -> Result<(), Failure> {
    match &run.stage {
        Stage::Ended(Ending::Complete { .. }) => Ok(()),
        Stage::Ended(Ending::Stop { reason }) if session.interrupts.first().is_none() => {
            Err(stopped(run, reason, launch))
        }
        _ => Err(session.unfinished(launch)),
    }
}

fn stopped(run: &Run, reason: &Word<StopReason>, launch: &Launch) -> Failure {
    let resume = resume_command(launch);
    let why = match run.stop.detail.as_str() {
        "" => reason.as_str(),
        detail => detail,
    };
    let failure = Failure::failed(format!("run '{}' {}: {why}", run.id, run.status()));
    let more = run.raised_limit();
    if !more.is_empty() {
        let what = if run.stop.raise.is_empty() { "more iterations" } else { "more" };
        return failure.hint(format!("allow {what} with `{resume}{more}`"));
    }
    failure.hint(where_to_look(run, launch)).hint(format!("resume it with `{resume}`"))
}

/// Where to find why the agent failed, or what to do where it could not be started.
fn where_to_look(run: &Run, launch: &Launch) -> String {
    let (last, dir) = (run.done, launch.dir());
    // An agent that printed nothing has no such file.
    let turn = format!("iteration-{last}");
    let [stdout, stderr] = [dir.stdout(&turn), dir.stderr(&turn)];
    let exit = run.turn.exit.as_ref();
    let could_not_start = exit.is_some_and(|exit| matches!(exit.code, 126 | 127));
    if could_not_start && !stdout.exists() && !stderr.exists() {
        return "install the agent, put its directory on PATH, make it executable, or name another with -b"
            .to_owned();
    }
    let printed = format!("show the output of the agent with `autoloop inspect output {last}`");
    match stderr.exists() {
        true => format!("{printed}; its standard error is in {}", stderr.display()),
        false => printed,
    }
}
