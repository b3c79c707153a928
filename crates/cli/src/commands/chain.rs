//! `autoloop chain`: several loops in sequence.

use std::path::{Path, PathBuf};

use autoloop_core::chain::{
    Budget, Chain, ChainStep, DEEPEST, Definition, Definitions, StepDefinition, Tree,
};
use autoloop_core::coordinator::{Holder, Status};
use autoloop_core::format::json_text;
use autoloop_core::table;
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
use serde::Serialize;

use super::progress::{Detail, ProgressUi};
use super::resume::ResumeArgs;
use super::run::{resolve_args, suggest};
use super::session::{Session, SettingArgs, not_finished, not_opened, not_started, resume_command};
use super::settings;
use crate::diagnostic;
use crate::failure::Failure;
use crate::terminal;

/// Run several loops in sequence.
///
/// The chains of a project are in its `chains.toml`. Each step is a run of its own; its prompt contains the results of
/// the earlier steps, and all steps have the same objective.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    List(ListArgs),
    Run(RunArgs),
}

/// List the chains of a project.
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Project directory [default: the current project].
    dir: Option<PathBuf>,
    /// Print the chains and their limits as JSON.
    #[arg(long)]
    json: bool,
}

/// Run a chain, or resume one.
///
/// A step that completes or reaches its maximum number of iterations is followed by the next one; any other result
/// ends the chain.
#[derive(Debug, clap::Args)]
struct RunArgs {
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
    /// Print all events of each iteration, and how its agent exited.
    #[arg(short, long)]
    verbose: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match &args.what {
        What::List(args) => list(args, world),
        What::Run(args) => run_chain(args, world),
    }
}

fn list(args: &ListArgs, world: &World) -> Result<(), Failure> {
    let dir = settings::project_dir(args.dir.as_deref())?;
    let Definitions { chains, budget } = definitions(&dir, world)?;
    if args.json {
        return Ok(terminal::print(&list_json(&chains, budget))?);
    }
    if chains.is_empty() {
        let file = dir.join("chains.toml");
        return Ok(terminal::print(&format!("there are no chains in {}\n", file.display()))?);
    }
    let row = |chain: &Definition| {
        let steps: Vec<&str> = chain.steps.iter().map(|step| step.preset.as_str()).collect();
        [chain.name.clone(), steps.join(", ")]
    };
    Ok(terminal::print(&table::print(chains.iter().map(row).collect()))?)
}

fn list_json(chains: &[Definition], budget: Budget) -> String {
    #[derive(Serialize)]
    struct Listed<'a> {
        chains: Vec<ListedChain<'a>>,
        budget: Budget,
    }
    #[derive(Serialize)]
    struct ListedChain<'a> {
        name: &'a str,
        steps: Vec<&'a str>,
    }
    let chains = chains.iter().map(|Definition { name, steps, .. }| {
        let steps = steps.iter().map(|step| &*step.preset).collect();
        ListedChain { name, steps }
    });
    json_text(&Listed { chains: chains.collect(), budget })
}

/// Reads `chains.toml` and prints its warnings.
fn definitions(dir: &Path, world: &World) -> Result<Definitions, Failure> {
    let (definitions, warnings) = read_chains(dir, world)?;
    diagnostic::show(&warnings);
    Ok(definitions)
}

fn run_chain(args: &RunArgs, world: &World) -> Result<(), Failure> {
    let detail = if args.verbose { Detail::Verbose } else { Detail::Brief };
    let overrides = args.settings.overrides(&[]);
    if let Some(id) = &args.resume.run {
        if args.dir.is_some() {
            return Err(Failure::usage("a chain is resumed with its original objective")
                .hint("with --resume, name the project and nothing else"));
        }
        let dir = settings::project_dir(args.name.as_deref().map(Path::new))?;
        let definitions = definitions(&dir, world)?;
        let project = settings::chain_project(&dir, overrides)?;
        let session = Session::start(args.resume.trust(), world)?;
        let launcher = session.launcher(definitions.budget);
        let chain = launcher.resume_chain(project, id, &definitions)?;
        return carry_out(&session, &launcher, &chain, detail, args.json);
    }
    let name = args.name.as_deref().unwrap_or_default();
    let here = settings::default_project;
    let (dir, objective) =
        resolve_args::project_and_objective(args.dir.as_deref(), &args.prompt, here)?;
    let definitions = definitions(&dir, world)?;
    let steps = chain_named(&definitions, name, &dir)?;
    let project = settings::chain_project(&dir, overrides)?;
    let session = Session::start(Trust::Proven, world)?;
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
    carry_out(&session, &launcher, &chain, detail, args.json)
}

/// Runs the steps of `run --chain`.
pub(super) fn run_listed(
    names: &str,
    project: Project,
    objective: Option<String>,
    detail: Detail,
    as_json: bool,
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
    carry_out(&session, &launcher, &chain, detail, as_json)
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
    detail: Detail,
    as_json: bool,
) -> Result<(), Failure> {
    let launch = &chain.launch;
    let journal = launch.loaded.journal(session.world);
    let ui = ProgressUi::new(detail, None, session.world);
    let progress = |progress: Progress<'_>| ui.report(progress);
    let site = session.site(launch, &journal, &progress);
    let drive = ChainDriver::open(site, chain, launcher, launcher.limits)
        .map_err(|error| not_opened(error, launch))?;
    let ended = drive.run().map_err(|error| not_finished(error, launch))?;
    print_result(&ended, &journal, as_json)?;
    verdict(&ended, launch, session)
}

fn print_result(chain: &Chain, journal: &dyn Journal, as_json: bool) -> Result<(), Failure> {
    let text = match as_json {
        true => json_text(&Facts::of(chain, Tree::new(&chains(journal)?, &Chain::status), 0)),
        false => format!(
            "chain {}: {} ({}) after {} of {} steps\n",
            chain.id,
            status(chain),
            chain.outcome.as_ref().map_or("no end", Word::as_str),
            chain.ended(),
            chain.presets().len()
        ),
    };
    Ok(terminal::print(&text)?)
}

/// The status of a chain that no process carries out any more.
fn status(chain: &Chain) -> Status {
    chain.status().with_holder(Holder::None)
}

/// The JSON of a chain, with the chains that its steps requested.
#[derive(Serialize)]
struct Facts<'a> {
    chain: &'a str,
    name: Option<&'a str>,
    status: &'static str,
    outcome: Option<&'a str>,
    steps: Vec<StepFacts<'a>>,
}

#[derive(Serialize)]
struct StepFacts<'a> {
    step: u64,
    preset: &'a str,
    run: Option<&'a str>,
    stop_reason: Option<&'a str>,
    detail: Option<&'a str>,
    chains: Vec<Facts<'a>>,
}

impl<'a> Facts<'a> {
    fn of(chain: &'a Chain, tree: Tree<'a>, depth: usize) -> Facts<'a> {
        let steps = chain.steps.iter().map(|step| {
            let run = step.run.as_deref();
            let below = run.filter(|_| depth < DEEPEST).into_iter().flat_map(|run| tree.below(run));
            StepFacts {
                step: step.number,
                preset: &step.preset,
                run,
                stop_reason: step.stop_reason.as_ref().map(Word::as_str),
                detail: step.detail.as_deref(),
                chains: below.map(|below| Facts::of(below, tree, depth + 1)).collect(),
            }
        });
        Facts {
            chain: &chain.id,
            name: chain.start.as_ref().map(|start| &*start.name),
            status: status(chain).name(),
            outcome: chain.outcome.as_ref().map(Word::as_str),
            steps: steps.collect(),
        }
    }
}

/// Only a chain whose steps all completed or reached their limits exits with 0.
fn verdict(chain: &Chain, launch: &Launch, session: &Session<'_>) -> Result<(), Failure> {
    let id = &chain.id;
    let Some(outcome) = &chain.outcome else { return Err(session.unfinished(launch)) };
    if chain.status() == Status::Completed {
        return Ok(());
    }
    let is_failed = |step: &&ChainStep| step.stop_reason.is_some() && !step.is_well();
    let failure = Failure::failed(match chain.steps.last().filter(is_failed) {
        Some(step) => {
            let (number, preset, why) = (step.number, &step.preset, step.state());
            format!("chain '{id}' ended with {outcome}: step {number} ({preset}): {why}")
        }
        None => format!("chain '{id}' ended with {outcome}"),
    });
    Err(failure.hint(format!("resume it with `{}`", resume_command(launch))))
}
