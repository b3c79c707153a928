//! `autoloop chain`: several loops in sequence.

use std::path::{Path, PathBuf};

use autoloop_core::chain::{
    Chain, ChainStep, DEEPEST, Definition, Definitions, StepDefinition, Tree,
};
use autoloop_core::coordinator::{Holder, Status};
use autoloop_core::format::json_text;
use autoloop_core::limits::Limit;
use autoloop_core::table;
use autoloop_core::views::usage::Usages;
use autoloop_core::wire_enum::Word;
use autoloop_runtime::drive::ChainDriver;
use autoloop_runtime::journal::Journal;
use autoloop_runtime::launch::{
    ChainLaunch, Launch, Launcher, StepLauncher as _, chain_named, read_chains,
};
use autoloop_runtime::project::Project;
use autoloop_runtime::runs::chains;
use autoloop_runtime::site::{Progress, Trust};
use autoloop_runtime::world::World;
use clap::Subcommand;
use serde_json::{Value, json};

use super::progress::ProgressUi;
use super::run::{resolve_args, suggest};
use super::session::{
    ReportArgs, ResumeArgs, Session, SettingArgs, not_finished, not_opened, not_started,
    resume_command, spent,
};
use super::settings;
use crate::diagnostic;
use crate::failure::Failure;
use crate::terminal;

/// Run several loops in sequence.
///
/// The chains of a project are in its `chains.toml`. Each step is a run of its own; its prompt contains the results of
/// the earlier steps, and all steps have the same objective.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// List the chains of a project.
    List {
        /// Project directory [default: the current project]
        dir: Option<PathBuf>,
        /// Print the chains and their limits as JSON
        #[arg(long)]
        json: bool,
    },
    Run(Box<RunArgs>),
}

/// Run a chain, or resume one.
///
/// A step that completes or reaches its maximum number of iterations is followed by the next one; any other result
/// ends the chain.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Name of a chain in `chains.toml`; with --resume, the project.
    #[arg(value_name = "NAME", required_unless_present = "resume")]
    name: Option<String>,
    /// Project directory [default: the current project].
    dir: Option<PathBuf>,
    /// The objective of all steps.
    prompt: Vec<String>,
    #[command(flatten)]
    resume: ResumeArgs,
    /// Print the steps without running them.
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
    #[command(flatten)]
    settings: SettingArgs,
    #[command(flatten)]
    report: ReportArgs,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match args {
        Args::List { dir, json } => list(dir.as_deref(), *json, world),
        Args::Run(args) => run_chain(args, world),
    }
}

fn list(dir: Option<&Path>, as_json: bool, world: &World) -> Result<(), Failure> {
    let dir = settings::project_dir(dir)?;
    let Definitions { chains, budget } = definitions(&dir, world)?;
    let steps = |chain: &Definition| -> Vec<String> {
        chain.steps.iter().map(|step| step.preset.clone()).collect()
    };
    let text = if as_json {
        let chain = |chain: &Definition| json!({ "name": chain.name, "steps": steps(chain) });
        let chains: Value = chains.iter().map(chain).collect();
        json_text(&json!({ "chains": chains, "budget": budget }))
    } else if chains.is_empty() {
        format!("no chains in {}\n", dir.join("chains.toml").display())
    } else {
        let row = |chain: &Definition| [chain.name.clone(), steps(chain).join(", ")];
        table::print(chains.iter().map(row).collect())
    };
    Ok(terminal::print(&text)?)
}

/// Reads `chains.toml` and prints its warnings.
fn definitions(dir: &Path, world: &World) -> Result<Definitions, Failure> {
    let (definitions, warnings) = read_chains(dir, world)?;
    diagnostic::show(&warnings);
    Ok(definitions)
}

fn run_chain(args: &RunArgs, world: &World) -> Result<(), Failure> {
    let overrides = args.settings.overrides(&[]);
    let session = Session::start(args.resume.trust(), world)?;
    if let Some(id) = &args.resume.run {
        if args.dir.is_some() {
            return Err(Failure::usage("a chain is resumed with its original objective")
                .hint("with --resume, name the project and nothing else"));
        }
        let dir = settings::project_dir(args.name.as_deref().map(Path::new))?;
        let definitions = definitions(&dir, world)?;
        let project = settings::chain_project(&dir, overrides)?;
        let launcher = session.launcher(definitions.budget);
        let chain = launcher.resume_chain(project, id, &definitions)?;
        return carry_out(&session, &launcher, &chain, args.report);
    }
    let name = args.name.as_deref().unwrap_or_default();
    let here = settings::default_project;
    let (dir, objective) =
        resolve_args::project_and_objective(args.dir.as_deref(), &args.prompt, here)?;
    let definitions = definitions(&dir, world)?;
    let steps = chain_named(&definitions, name, &dir)?;
    let project = settings::chain_project(&dir, overrides)?;
    let launcher = session.launcher(definitions.budget);
    if args.dry_run {
        launcher.check(&project, &steps)?;
        return Ok(terminal::print(&dry_run(name, &steps))?);
    }
    let place = args.dir.as_deref().unwrap_or(Path::new(".")).to_string_lossy();
    let example = suggest::command(&["chain", "run", name, &place], "");
    let chain = launcher
        .begin_chain(name, project, objective, steps)
        .map_err(|error| not_started(error, &example))?;
    carry_out(&session, &launcher, &chain, args.report)
}

/// Runs the steps of `run --chain`.
pub(super) fn run_listed(
    names: &str,
    project: Project,
    objective: Option<String>,
    report: ReportArgs,
    world: &World,
) -> Result<(), Failure> {
    let definitions = definitions(&project.dir, world)?;
    let steps = definitions.listed(names).map_err(|fault| Failure::usage(fault.to_string()))?;
    let session = Session::start(Trust::Proven, world)?;
    let launcher = session.launcher(definitions.budget);
    let example = suggest::command(&["run", "--chain", names], "");
    let chain = launcher
        .begin_chain(names, project, objective, steps)
        .map_err(|error| not_started(error, &example))?;
    carry_out(&session, &launcher, &chain, report)
}

fn dry_run(name: &str, steps: &[StepDefinition]) -> String {
    let lines = steps.iter().zip(1..).map(|(step, number)| {
        let agent: Vec<String> = step.backend.iter().chain(&step.settings).cloned().collect();
        let agent = if agent.is_empty() { String::new() } else { format!("  {}", agent.join(" ")) };
        format!("{number:>3}  {}{agent}\n", step.preset)
    });
    format!("chain {name} would run:\n{}", lines.collect::<String>())
}

fn carry_out(
    session: &Session<'_>,
    launcher: &Launcher<'_>,
    chain: &ChainLaunch,
    report: ReportArgs,
) -> Result<(), Failure> {
    let launch = &chain.launch;
    let journal = launch.loaded.journal(session.world);
    let ui = ProgressUi::new(report.detail(), None, session.world);
    let progress = |progress: Progress<'_>| ui.report(progress);
    let site = session.site(launch, &journal, &progress);
    let drive = ChainDriver::open(site, chain, launcher, launcher.limits)
        .map_err(|error| not_opened(error, launch))?;
    let ended = drive.run().map_err(|error| not_finished(error, launch))?;
    print_result(&ended, &journal, report.json)?;
    verdict(&ended, launch, session)
}

fn print_result(chain: &Chain, journal: &dyn Journal, as_json: bool) -> Result<(), Failure> {
    let usages = journal.fold::<Usages>()?.view;
    let text = match as_json {
        true => {
            let chains = chains(journal)?;
            json_text(&json(chain, Tree::new(&chains, &Chain::status, &usages), &usages, 0))
        }
        false => format!(
            "chain {}: {} ({}) after {} of {} steps{}\n",
            chain.id,
            status(chain),
            chain.outcome.as_ref().map_or("no end", Word::as_str),
            chain.ended(),
            chain.presets().len(),
            spent(&chain.times.0, &chain.times.1, usages.total(Some(&chain.id))),
        ),
    };
    Ok(terminal::print(&text)?)
}

/// The status of a chain that no process carries out any more.
fn status(chain: &Chain) -> Status {
    chain.status().with_holder(Holder::None)
}

/// The JSON of a chain, with the chains that its steps requested.
fn json(chain: &Chain, tree: Tree<'_>, usages: &Usages, depth: usize) -> Value {
    let usage = |run: &str| usages.total(Some(run)).known().map(|usage| usage.facts());
    let steps = chain.steps.iter().map(|step| {
        let run = step.run.as_deref();
        let below = run.filter(|_| depth < DEEPEST).into_iter().flat_map(|run| tree.below(run));
        json!({
            "step": step.number,
            "preset": step.preset,
            "run": run,
            "stop_reason": step.stop_reason.as_ref().map(Word::as_str),
            "detail": step.detail,
            "usage": run.and_then(usage),
            "chains": below.map(|below| json(below, tree, usages, depth + 1)).collect::<Value>(),
        })
    });
    json!({
        "chain": chain.id,
        "name": chain.start.as_ref().map(|start| &start.name),
        "status": status(chain).name(),
        "outcome": chain.outcome.as_ref().map(Word::as_str),
        "usage": usage(&chain.id),
        "steps": steps.collect::<Value>(),
    })
}

/// Only a chain whose steps all completed or reached their limits exits with 0.
fn verdict(chain: &Chain, launch: &Launch, session: &Session<'_>) -> Result<(), Failure> {
    let id = &chain.id;
    let Some(outcome) = &chain.outcome else { return Err(session.unfinished(launch)) };
    if chain.status() == Status::Completed {
        return Ok(());
    }
    let is_failed = |step: &&ChainStep| step.stop_reason.is_some() && !step.is_success();
    let failed = chain.steps.last().filter(is_failed);
    let failure = Failure::failed(match failed {
        Some(step) => {
            let (number, preset, why) = (step.number, &step.preset, step.state());
            format!("chain '{id}' ended with {outcome}: step {number} ({preset}): {why}")
        }
        None => format!("chain '{id}' ended with {outcome}"),
    });
    let limits = [Limit::Cost, Limit::Tokens, Limit::Runtime].map(Limit::stop_reason);
    let reason = failed.and_then(|step| step.stop_reason.as_ref());
    let is_limit = limits.iter().any(|limit| reason.is_some_and(|reason| *reason == *limit));
    let first = if is_limit { "raise the limit and " } else { "" };
    Err(failure.hint(format!("{first}resume it with `{}`", resume_command(launch))))
}
