//! `autoloop chain run`: carries a chain out, or goes on with one.

use std::path::{Path, PathBuf};

use autoloop_core::chain::{Chain, Definitions, StepDefinition};
use autoloop_core::config::SyncPolicy;
use autoloop_core::coordinator::Kind;
use autoloop_core::record::ChainStart;
use autoloop_runtime::drive::{ChainDrive, DriveError, Request};
use autoloop_runtime::journal::{Durability, Journal};
use autoloop_runtime::layout::RunDir;
use autoloop_runtime::project::{Outline, Overrides};
use autoloop_runtime::runs::{self, RunList};
use autoloop_runtime::site::{Site, Trust};
use autoloop_runtime::world::World;

use super::file;
use super::report::{Manner, conclude, verdict};
use super::steps::{Plan, Runner};
use crate::commands::run::resolve_args::{existing, place};
use crate::commands::run::suggest;
use crate::commands::run::{Reporter, claim_chain_id, listen};
use crate::commands::trust::{ResumedRun, TrustArgs, kept_request};
use crate::commands::{resume, settings};
use crate::diagnostic;
use crate::failure::Failure;
use crate::terminal;

/// Carry out a chain, or go on with one.
///
/// Every step is a run of its own and is told what the steps before it left. A step that reaches its
/// goal or its most iterations is followed by the next; any other end is the end of the chain.
///
/// Exits with 0 only when all steps ended well, with 1 when one did not, with 2 when the chain cannot be
/// meant as it is, with 4 when another process drives it, and with 128 and the number of the signal when
/// it was interrupted.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The name of a chain in `chains.toml`; with --resume, the project.
    #[arg(value_name = "NAME", required_unless_present = "resume")]
    name: Option<String>,
    /// The project [default: the current one].
    dir: Option<PathBuf>,
    /// What all steps are for.
    prompt: Vec<String>,
    /// Resume chain ID, or the latest chain that did not complete; a failed step is retried, and steps
    /// that ended well are not repeated.
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    resume: Option<String>,
    #[command(flatten)]
    trust: TrustArgs,
    /// Only say which steps there are.
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
    /// The agent of all steps: a command with its arguments.
    #[arg(short, long, value_name = "COMMAND")]
    backend: Option<String>,
    /// The most iterations of each step.
    #[arg(short = 'i', long, visible_alias = "iterations", value_name = "N")]
    max_iterations: Option<String>,
    /// Any setting of all steps, as `key=value`. Can be given more than once.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Continue although this version does not enforce a setting that limits the run
    #[arg(long)]
    ignore_unenforced: bool,
    /// Say more about what goes on.
    #[arg(short, long)]
    verbose: bool,
    /// Print how the chain ended as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let overrides = Overrides {
        backend: args.backend.clone(),
        max_iterations: args.max_iterations.clone(),
        set: args.set.clone(),
        more_args: Vec::new(),
        unenforced: args.ignore_unenforced.into(),
    }
    .typed_in(Path::new("."));
    let manner = Manner { verbose: args.verbose, json: args.json };
    if let Some(id) = &args.resume {
        if args.dir.is_some() {
            return Err(Failure::usage("a chain goes on with the objective that it has")
                .hint("with --resume, name the project and nothing else"));
        }
        let dir = match &args.name {
            Some(dir) => PathBuf::from(dir),
            None => settings::default_project()?,
        };
        return resume_chain(id, (existing(&dir)?, args.trust.trust()), overrides, (manner, world));
    }
    let name = args.name.as_deref().unwrap_or_default();
    let (dir, objective) = place(args.dir.as_deref(), &args.prompt, settings::default_project)?;
    let definitions = file::read(&dir, world)?;
    let steps = file::named(&definitions, name, &dir)?;
    let (limits, trust) = (definitions.budget, Trust::Proven);
    let plan = Plan { dir, objective, overrides, steps, limits, trust };
    plan.check(world)?;
    if args.dry_run {
        return Ok(terminal::print(&dry_run(name, &plan.steps))?);
    }
    let project = args.dir.as_deref().unwrap_or(Path::new(".")).to_string_lossy();
    plan.require_objective(&suggest::command(&["chain", "run", name, &project], ""), world)?;
    begin(name, plan, &definitions, (manner, world))
}

/// Carries out the steps that somebody listed.
pub(in crate::commands) fn run_listed(
    names: &str,
    (dir, objective): (PathBuf, Option<String>),
    overrides: Overrides,
    (manner, world): (Manner, &World),
) -> Result<(), Failure> {
    let definitions = file::read(&dir, world)?;
    let steps = definitions.listed(names).map_err(|fault| Failure::usage(fault.to_string()))?;
    let (limits, trust) = (definitions.budget, Trust::Proven);
    let plan = Plan { dir, objective, overrides, steps, limits, trust };
    plan.check(world)?;
    plan.require_objective(&suggest::command(&["run", "--chain", names], ""), world)?;
    begin(names, plan, &definitions, (manner, world))
}

fn dry_run(name: &str, steps: &[StepDefinition]) -> String {
    let line = |(place, step): (usize, &StepDefinition)| {
        let agent = step.backend.iter().chain(&step.settings).cloned().collect::<Vec<_>>();
        let agent = if agent.is_empty() { String::new() } else { format!("  {}", agent.join(" ")) };
        format!("{:>3}  {}{agent}\n", place + 1, step.preset)
    };
    let lines: String = steps.iter().enumerate().map(line).collect();
    format!("chain {name} would run:\n{lines}")
}

fn begin(
    name: &str,
    plan: Plan,
    definitions: &Definitions,
    (manner, world): (Manner, &World),
) -> Result<(), Failure> {
    let outline = outline(&plan, world)?;
    let journal = journal(&outline, world);
    let start = ChainStart {
        name: name.to_owned(),
        steps: names(&plan.steps),
        step_count: plan.steps.len() as u64,
        objective: plan.objective.clone(),
        parent_id: None,
    };
    let id = claim_chain_id(&outline, world)?;
    let site = Site::new(world, &*journal, &outline.files.state_dir);
    let request = request(&start);
    let drive = ChainDrive::begin(site, definitions.budget, durability(&outline), &id, start)?;
    let dir = outline.files.state_dir.run(Kind::Chain, &id);
    request.keep(&dir, id.as_str(), world)?;
    carry_out(drive, plan, &*journal, (manner, world))
}

fn resume_chain(
    id: &str,
    (dir, trust): (PathBuf, Trust),
    overrides: Overrides,
    (manner, world): (Manner, &World),
) -> Result<(), Failure> {
    let definitions = file::read(&dir, world)?;
    let limits = definitions.budget;
    let mut plan = Plan { dir, objective: None, overrides, steps: Vec::new(), limits, trust };
    let outline = outline(&plan, world)?;
    let journal = journal(&outline, world);
    let chain = chain_to_resume(id, (&outline, &*journal), (world, trust))?;
    let start = chain.start.clone().unwrap_or_default();
    plan.objective.clone_from(&start.objective);
    plan.steps = steps_of(&chain, &start.name, &definitions)?;
    plan.check(world)?;
    let site = Site { trust, ..Site::new(world, &*journal, &outline.files.state_dir) };
    let request = request(&start);
    let id = chain.id.parse()?;
    let drive = ChainDrive::resume(site, definitions.budget, durability(&outline), &id, start)?;
    let dir = chain_dir(&outline, &chain.id)?;
    request.keep(&dir, &chain.id, world)?;
    carry_out(drive, plan, &*journal, (manner, world))
}

/// The steps that a chain was begun with. What `chains.toml` says about their agents counts as it is now.
fn steps_of(
    chain: &Chain,
    name: &str,
    definitions: &Definitions,
) -> Result<Vec<StepDefinition>, Failure> {
    let recorded = chain.presets().join(",");
    let steps = match definitions.named(name) {
        Some(known) => definitions
            .expand(&known.name, &known.steps)
            .map_err(|bad| Failure::usage(bad.to_string()))?,
        None => definitions.listed(&recorded).map_err(|fault| Failure::usage(fault.to_string()))?,
    };
    match names(&steps) == recorded {
        true => Ok(steps),
        false => Err(Failure::usage(format!(
            "chain '{}' was begun with the steps {recorded}, and chains.toml now says {}",
            chain.id,
            names(&steps)
        ))
        .hint("put the steps back as they were, or begin a new chain")),
    }
}

/// What is kept about a chain for the day it is resumed. Its flags are those of the command that resumes it.
fn request(start: &ChainStart) -> Request {
    Request {
        objective: start.objective.clone(),
        preset: Some(start.name.clone()),
        steps: Some(start.steps.clone()),
        ..Request::default()
    }
}

/// A chain of which no beginning is proven, as it was asked for.
fn asked_for(id: &str, request: Request) -> Chain {
    let steps = request.steps.unwrap_or_default();
    let start = ChainStart {
        name: request.preset.unwrap_or_default(),
        step_count: steps.split(',').count() as u64,
        steps,
        objective: request.objective,
        parent_id: None,
    };
    Chain { start: Some(start), ..Chain::new(id) }
}

fn chain_dir(outline: &Outline, id: &str) -> Result<RunDir, DriveError> {
    Ok(outline.files.state_dir.run(Kind::Chain, &id.parse()?))
}

fn chain_to_resume(
    name: &str,
    (outline, journal): (&Outline, &dyn Journal),
    (world, trust): (&World, Trust),
) -> Result<Chain, Failure> {
    let state_dir = &outline.files.state_dir;
    let list = RunList::read(journal, state_dir, world)?;
    let site = Site { trust, ..Site::new(world, journal, state_dir) };
    let id = match name {
        "" => {
            let latest = runs::latest_resumable(&site, Kind::Chain)?;
            resume::latest(latest, (&list, Kind::Chain), journal.path())?
        }
        name => resume::named(&list, name, Kind::Chain)?,
    };
    match runs::state::<Chain>(&site, &id)? {
        Some(chain) if chain.start.is_none() => {
            let dir = chain_dir(outline, &id)?;
            let resumed = ResumedRun { dir: &dir, run: &id, command: "chain run", trust };
            kept_request(resumed, world).map(|request| asked_for(&id, request))
        }
        Some(chain) if chain.parent().is_some() => Err(not_alone(&chain)),
        Some(chain) if chain.status().can_resume() => Ok(chain),
        _ => Err(resume::completed(Kind::Chain, &id)),
    }
}

/// A chain that a run asked for goes on with its run, which is to be told how it ends.
fn not_alone(chain: &Chain) -> Failure {
    let parent = chain.parent().unwrap_or_default();
    Failure::usage(format!("chain '{}' belongs to run '{parent}', which asked for it", chain.id))
        .hint(format!(
            "resume both with `autoloop run --resume={parent}`, unless the run completed"
        ))
}

fn carry_out(
    drive: ChainDrive<'_>,
    plan: Plan,
    journal: &dyn Journal,
    (manner, world): (Manner, &World),
) -> Result<(), Failure> {
    let interrupts = listen()?;
    let dir = plan.dir.clone();
    let reporter = Reporter::new(manner.verbose, world);
    let mut runner = Runner {
        plan,
        world,
        interrupts: interrupts.clone(),
        tell: &|progress| reporter.tell(progress),
        ready: None,
        traces: None,
    };
    let chain = drive.run(&mut runner)?;
    conclude(&chain, journal, manner)?;
    verdict(&chain, &dir, &interrupts)
}

fn names(steps: &[StepDefinition]) -> String {
    steps.iter().map(|step| step.preset.as_str()).collect::<Vec<_>>().join(",")
}

fn outline(plan: &Plan, world: &World) -> Result<Outline, Failure> {
    plan.project()?.outline(&*world.disk).map_err(diagnostic::refuse)
}

fn journal(outline: &Outline, world: &World) -> Box<dyn Journal> {
    settings::journal(outline.files.journal.clone(), world, &outline.config)
}

fn durability(outline: &Outline) -> Durability {
    match outline.config.journal.sync {
        SyncPolicy::Always | SyncPolicy::Iteration => Durability::Synced,
        SyncPolicy::Never => Durability::Cached,
    }
}
