//! `autoloop squad`: builds a specification with parallel loops.

mod clean;
mod resolve;
mod spec;

use std::path::{Path, PathBuf};

use autoloop_core::chain::Budget;
use autoloop_core::config::Effort;
use autoloop_core::coordinator::Kind;
use autoloop_core::format::Format;
use autoloop_core::record::SquadEnd;
use autoloop_core::squad::{LoopState, Squad, SquadRun};
use autoloop_core::views::squad::render_loops;
use autoloop_core::views::usage::Usages;
use autoloop_runtime::drive::{SquadDriver, SquadOrder};
use autoloop_runtime::launch::Launch;
use autoloop_runtime::project::{Overrides, Project};
use autoloop_runtime::site::Progress;
use autoloop_runtime::world::World;
use clap::Subcommand;
use clap::builder::PossibleValuesParser;

use super::progress::{Detail, ProgressUi};
use super::session::{
    ResumeArgs, Session, budget_setting, model_setting, not_finished, not_opened, project_argument,
    resume_command, spent,
};
use super::settings;
use crate::failure::Failure;
use crate::{terminal, tui};

/// Build a specification with parallel loops, each with its own reviewer.
///
/// An agent writes the list of tasks, another one puts them into groups. The tasks of a group are built in parallel,
/// each by a loop in a git worktree of its own; the harness runs the checks of the project on its work, and a reviewer
/// judges it. When all loops of a group have passed, their work is merged, and the next group begins. With --plan the
/// tasks and groups are given, and the first two phases are skipped.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Debug, Subcommand)]
enum What {
    Resolve(resolve::Args),
    Clean(clean::Args),
}

#[derive(Debug, clap::Args)]
struct Flags {
    /// Specification: a file, or the text itself; with --plan optional.
    #[arg(value_name = "SPEC")]
    spec: Option<String>,
    /// Project directory [default: the current project].
    dir: Option<PathBuf>,
    /// Plan with tasks and groups in a TOML file; skips the phases that write them.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// How much is reviewed and how often it may be revised [overrides: squad.effort].
    #[arg(long, value_name = "LEVEL", value_parser = PossibleValuesParser::new(Effort::WORDS))]
    effort: Option<String>,
    /// Maximum number of loops that work at once [overrides: squad.max_loops].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_loops: Option<u32>,
    /// Maximum number of iterations of each loop [overrides: squad.max_iterations].
    #[arg(short = 'i', long, value_name = "N")]
    max_iterations: Option<u32>,
    /// Print the plan and stop; the squad can be resumed to build it.
    #[arg(long)]
    dry_run: bool,
    /// Client like `codex` or `codex:MODEL`, or a command line, for all agents [overrides: backend.command].
    #[arg(short, long, value_name = "AGENT")]
    backend: Option<String>,
    /// Model of the client [overrides: backend.model].
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Client or command line of the builders [overrides: squad.builder].
    #[arg(long, value_name = "AGENT")]
    builder: Option<String>,
    /// Client or command line of the reviewers [overrides: squad.reviewer].
    #[arg(long, value_name = "AGENT")]
    reviewer: Option<String>,
    /// Client or command line that writes tasks and plan [overrides: squad.planner].
    #[arg(long, value_name = "AGENT")]
    planner: Option<String>,
    /// Maximum cost in dollars [overrides: limits.max_cost_usd].
    #[arg(long, value_name = "DOLLARS")]
    budget: Option<String>,
    /// Set any setting; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Ignore settings that limit a run and are not enforced by this version.
    #[arg(long)]
    ignore_unenforced: bool,
    /// Do not warn about other active runs in the same directory.
    #[arg(long)]
    allow_concurrent: bool,
    #[command(flatten)]
    resume: ResumeArgs,
    #[command(flatten)]
    report: Report,
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct Report {
    /// Print progress lines instead of opening the live view.
    #[arg(long)]
    no_watch: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match &args.what {
        Some(What::Resolve(args)) => resolve::run(args, world),
        Some(What::Clean(args)) => clean::run(args, world),
        None => args.flags.run(world),
    }
}

impl Flags {
    fn run(&self, world: &World) -> Result<(), Failure> {
        let (launch, order, session);
        match self.resume.run.as_deref() {
            Some(name) => {
                session = Session::start(self.resume.trust(), world)?;
                let (dir, name) = self.resumed(name);
                let project = self.project(dir.as_deref())?;
                let launcher = session.launcher(Budget::default());
                launch = launcher.resume(Kind::Squad, project, &name)?;
                order = SquadOrder::Continue;
            }
            None => {
                let (spec, dir) = spec::read(self, world)?;
                if let (true, Some(plan)) = (self.dry_run, &spec.plan) {
                    return Ok(terminal::print(&spec::printed(&plan.tasks, &plan.groups))?);
                }
                session = Session::start(self.resume.trust(), world)?;
                let project = self.project(dir.as_deref())?;
                launch = session.launcher(Budget::default()).begin_of(Kind::Squad, project)?;
                order = SquadOrder::Begin(spec);
            }
        }
        if !self.allow_concurrent {
            session.warn_of_concurrent_runs(&launch);
        }
        let run = if self.dry_run { SquadRun::Plan } else { SquadRun::Build };
        carry_on(&session, &launch, order, run, self.report)
    }

    /// The directory and the run that `--resume` means: after it, a word that is not a directory is a run.
    fn resumed(&self, name: &str) -> (Option<PathBuf>, String) {
        let place = self.dir.clone().or_else(|| self.spec.as_ref().map(PathBuf::from));
        match place {
            Some(word) if name.is_empty() && !word.exists() => (None, word.display().to_string()),
            place => (place, name.to_owned()),
        }
    }

    fn project(&self, dir: Option<&Path>) -> Result<Project, Failure> {
        let dir = settings::project_dir(dir)?;
        let mut project = settings::project(&dir)?;
        project.overrides = self.overrides();
        Ok(project)
    }

    /// The flags as settings, which are validated and shown like all others.
    fn overrides(&self) -> Overrides {
        let flags = [
            ("effort", self.effort.clone()),
            ("max_loops", self.max_loops.map(|count| count.to_string())),
            ("max_iterations", self.max_iterations.map(|count| count.to_string())),
            ("builder", self.builder.clone()),
            ("reviewer", self.reviewer.clone()),
            ("planner", self.planner.clone()),
        ];
        let set = flags
            .into_iter()
            .filter_map(|(key, value)| value.map(|value| format!("squad.{key}={value}")));
        let model = model_setting(self.model.as_deref());
        let budget = budget_setting(self.budget.as_deref());
        let overrides = Overrides {
            backend: self.backend.clone(),
            set: self.set.iter().cloned().chain(set).chain(model).chain(budget).collect(),
            unenforced: self.ignore_unenforced.into(),
            ..Overrides::default()
        };
        overrides.typed_in(Path::new("."))
    }
}

/// Carries a squad on, prints how it ended, and fails unless it reached its goal.
fn carry_on(
    session: &Session<'_>,
    launch: &Launch,
    order: SquadOrder,
    run: SquadRun,
    report: Report,
) -> Result<(), Failure> {
    let world = session.world;
    let wants_view = !report.no_watch && !report.json && tui::is_possible();
    let ui = ProgressUi::new(Detail::Brief, wants_view.then_some(&launch.loaded), world);
    let ended = carry_out(session, launch, order, run, &|progress| ui.report(progress));
    ui.close();
    let squad = ended?;
    print_result(&squad, launch, report.json, world)?;
    conclude(&squad, launch, session)
}

/// Carries a squad on until it ends or is interrupted.
pub(super) fn carry_out(
    session: &Session<'_>,
    launch: &Launch,
    order: SquadOrder,
    run: SquadRun,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Squad, Failure> {
    let journal = launch.loaded.journal(session.world);
    let site = session.site(launch, &journal, progress);
    let driver = SquadDriver::open(site, launch, run).map_err(|error| not_opened(error, launch))?;
    driver.run(order).map_err(|error| not_finished(error, launch))
}

fn print_result(
    squad: &Squad,
    launch: &Launch,
    as_json: bool,
    world: &World,
) -> Result<(), Failure> {
    let usages = launch.loaded.journal(world).fold::<Usages>()?.view;
    let usage = usages.total(Some(&squad.id));
    let is_planned = squad.finish.as_ref().is_some_and(|end| end.outcome == SquadEnd::Planned);
    let text = match as_json {
        true => render_loops(squad, squad.status(), Format::Json),
        false if is_planned => spec::printed(&squad.tasks, &squad.groups),
        false => {
            let (began, ended) = &squad.times;
            format!("squad {}: {}{}\n", squad.id, squad.summary(), spent(began, ended, usage))
        }
    };
    Ok(terminal::print(&text)?)
}

/// Exits with 0 only if all tasks are merged, and the merged work passed its review.
pub(super) fn conclude(
    squad: &Squad,
    launch: &Launch,
    session: &Session<'_>,
) -> Result<(), Failure> {
    let Some(finish) = &squad.finish else { return Err(session.unfinished(launch)) };
    let resume = resume_command(launch);
    let failed = || {
        let why = match finish.reason.as_str() {
            "" => finish.outcome.to_string(),
            reason => reason.to_owned(),
        };
        Failure::failed(format!("squad '{}' {}: {why}", squad.id, squad.status()))
    };
    match finish.outcome.known() {
        Some(SquadEnd::Completed) => Ok(()),
        Some(SquadEnd::Planned) => {
            terminal::note(&format!("build it with `{resume}`"));
            Ok(())
        }
        Some(SquadEnd::Interrupted) => Err(session.unfinished(launch)),
        Some(SquadEnd::Blocked) => {
            let blocked = squad.loops.iter().filter(|it| it.state.is_blocked());
            let dir = project_argument(&launch.project.dir);
            let hint = |failure: Failure, id: &str| {
                failure.hint(format!(
                    "resolve it with `autoloop squad resolve {id}{dir} --retry`, `--skip` or `--accept \"reason\"`"
                ))
            };
            Err(blocked.fold(failed(), |failure, it| hint(failure, &it.id)))
        }
        Some(SquadEnd::MergeRefused) => {
            Err(failed()
                .hint(format!("commit or remove those changes, then merge with `{resume}`")))
        }
        _ => {
            let raise = finish.raise.as_ref().map(|raise| format!(" {raise}")).unwrap_or_default();
            let merged = squad.loops.iter().filter(|it| it.state == LoopState::Merged).count();
            let kept = match merged {
                0 => String::new(),
                merged => format!("{} merged; ", terminal::counted(merged as u64, "task")),
            };
            Err(failed().hint(format!("{kept}carry on with `{resume}{raise}`")))
        }
    }
}
