//! `autoloop demo`: a loop or a squad with scripted agents in a temporary project.

#![expect(
    clippy::disallowed_methods,
    reason = "creates a temporary project and runs this program in it"
)]

mod project;
mod summary;

use std::io::{self, Write};
use std::path::Path;

use autoloop_core::chain::Budget;
use autoloop_core::config::shell_words;
use autoloop_core::coordinator::Kind;
use autoloop_core::squad::{GivenPlan, SquadRun};
use autoloop_runtime::drive::{SquadOrder, SquadSpec};
use autoloop_runtime::launch::RunRequest;
use autoloop_runtime::site::Trust;
use autoloop_runtime::world::World;

use self::project::{LOOP, Project, SQUAD};
use self::summary::Summary;
use super::run::{carry_out, verdict};
use super::session::Session;
use super::squad;
use crate::failure::Failure;
use crate::terminal;

/// Run a loop with scripted agents in a temporary project.
///
/// A planner, a builder and a critic write a small program. The builder emits an event that is not allowed and is
/// refused, a metareview improves the loop, the critic rejects the work once, and the run completes. Prints a summary
/// of the journal, and the commands that show more. Needs no agent and no network.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Clone, Copy, Debug, clap::Subcommand)]
enum What {
    /// Run a squad with scripted agents in a temporary project
    ///
    /// Two loops change the same line of a program. A reviewer rejects the work of one of them, which is revised; an
    /// agent resolves the conflict, and both are merged. Needs git.
    Squad,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match args.what {
        None => run_loop(world),
        Some(What::Squad) => run_squad(world),
    }
}

fn run_loop(world: &World) -> Result<(), Failure> {
    let project = Project::create(LOOP, world)?;
    print(&opening(&project, "Three scripted agents work in it, without network."))?;
    // The settings of the user are not read: they may name an agent that costs money.
    let session = Session::start(Trust::Proven, world)?;
    let launcher = session.launcher(Budget::default());
    let launch = launcher.begin(RunRequest::of_loop(&project.dir, &project.dir)?)?;
    // The summary is read from the journal afterwards.
    let run = carry_out(&session, &launcher, &launch, &|_| {})?;
    let summary = Summary::of(&launch.loaded.journal(world), &run.id)?;
    print(&terminal::harmless(&summary.render()))?;
    verdict(&run, &launch, &session)?;
    print(&closing(&project, loop_commands(&project)))
}

fn run_squad(world: &World) -> Result<(), Failure> {
    let project = Project::create(SQUAD, world)?;
    if let Some(error) = &project.git_error {
        return Err(Failure::failed(format!("the demo of a squad needs a git project: {error}"))
            .hint("run the demo of a loop with `autoloop demo`"));
    }
    print(&opening(&project, "Scripted builders and reviewers work in it, without network."))?;
    let session = Session::start(Trust::Proven, world)?;
    let launcher = session.launcher(Budget::default());
    let request = RunRequest::of_loop(&project.dir, &project.dir)?;
    let launch = launcher.begin_of(Kind::Squad, request.project)?;
    let text = |name: &str| SQUAD.iter().find(|(path, _)| *path == name).map_or("", |it| it.1);
    let plan = GivenPlan::read(text("plan.toml")).map_err(|_| Failure::bug())?;
    let spec = SquadSpec { text: text("spec.md").to_owned(), plan: Some(plan) };
    let squad =
        squad::carry_out(&session, &launch, SquadOrder::Begin(spec), SquadRun::Build, &|_| {})?;
    let summary = Summary::of_squad(&launch.loaded.journal(world), &squad)?;
    print(&terminal::harmless(&summary.render()))?;
    squad::conclude(&squad, &launch, &session)?;
    print(&closing(&project, squad_commands(&project)))
}

fn opening(project: &Project, agents: &str) -> String {
    let what = match &project.git_error {
        None => "Temporary git project".to_owned(),
        Some(error) => format!("Temporary project ({error})"),
    };
    format!("{what}:\n  {}\n{agents}\n", project.dir.display())
}

/// A command, and what it shows.
type Shown = (&'static str, String);

fn loop_commands(project: &Project) -> Vec<Shown> {
    let dir = quoted(&project.dir);
    let test = quoted(&project.dir.join("slug_test.sh"));
    let autoloop = this_program();
    let mut rows = vec![
        ("Show the output of every agent", format!("{autoloop} inspect scratchpad {dir}")),
        ("List all records", format!("{autoloop} inspect journal {dir}")),
        ("Show the prompt after the refusal", format!("{autoloop} inspect prompt 3 {dir}")),
        ("Show the changes of the metareview", format!("git -C {dir} diff harness.md")),
        ("Show the memory of the critic", format!("{autoloop} inspect memory {dir}")),
        ("Show the result of each iteration", format!("{autoloop} inspect metrics {dir}")),
        ("Test the program", format!("sh {test}")),
        ("Run the loop again", format!("{autoloop} run {dir}")),
    ];
    let has_git = project.git_error.is_none();
    rows.retain(|(_, command)| has_git || !command.starts_with("git"));
    rows
}

fn squad_commands(project: &Project) -> Vec<Shown> {
    let dir = quoted(&project.dir);
    let hello = quoted(&project.dir.join("hello.sh"));
    let autoloop = this_program();
    let query = "'select task_id, passed, interpreted_intent from loop_reviews'";
    vec![
        ("Show the loops", format!("{autoloop} inspect squad {dir}")),
        ("Show the reviews with their issues", format!("{autoloop} inspect reviews {dir}")),
        ("Query them", format!("{autoloop} store sql {query} {dir}")),
        ("Show the run in the live view", format!("{autoloop} watch latest {dir}")),
        ("List all records", format!("{autoloop} inspect journal {dir}")),
        ("Show the merges", format!("git -C {dir} log --graph --oneline")),
        ("Run the program", format!("sh {hello} Ann")),
        ("Remove the worktrees", format!("{autoloop} squad clean {dir}")),
    ]
}

/// The commands that show more.
fn closing(project: &Project, mut commands: Vec<Shown>) -> String {
    commands.push(("Delete the project", format!("rm -r {}", quoted(&project.dir))));
    let rows = commands.iter().map(|(what, command)| format!("  {what}:\n    {command}\n"));
    format!("Next commands\n{}", rows.collect::<String>().trim_end())
}

fn print(text: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stdout(), "{text}")?)
}

/// This program, as it is typed in the current directory.
fn this_program() -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let program = std::env::current_exe().unwrap_or_else(|_| "autoloop".into());
    let is_on_path = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|dir| dir.join("autoloop") == program)
    });
    match program.strip_prefix(here) {
        _ if is_on_path => "autoloop".to_owned(),
        Ok(inside) if inside.components().count() > 1 => quoted(inside),
        _ => quoted(&program),
    }
}

fn quoted(path: &Path) -> String {
    shell_words::join([&*path.display().to_string()])
}
