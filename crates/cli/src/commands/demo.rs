//! `autoloop demo`: a run with scripted agents in a temporary project.

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
use autoloop_runtime::launch::RunRequest;
use autoloop_runtime::site::Trust;
use autoloop_runtime::world::World;

use self::project::Project;
use self::summary::Summary;
use super::run::{carry_out, verdict};
use super::session::Session;
use crate::failure::Failure;
use crate::terminal;

/// Run a loop with scripted agents in a temporary project.
///
/// A planner, a builder and a critic write a small program. The builder emits an event that is not allowed and is
/// refused, a metareview improves the loop, the critic rejects the work once, and the run completes. Prints a summary
/// of the journal, and the commands that show more. Needs no agent and no network.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, world: &World) -> Result<(), Failure> {
    let project = Project::create(world)?;
    print(&opening(&project))?;
    // The settings of the user are not read: they may name an agent that costs money.
    let session = Session::start(Trust::Proven, world)?;
    let launcher = session.launcher(Budget::default());
    let launch = launcher.begin(RunRequest::of_loop(&project.dir, &project.dir)?)?;
    // The summary is read from the journal afterwards.
    let run = carry_out(&session, &launcher, &launch, &|_| {})?;
    let summary = Summary::of(&launch.loaded.journal(world), &run.id)?;
    print(&terminal::harmless(&summary.render()))?;
    verdict(&run, &launch, &session)?;
    print(&closing(&project))
}

fn opening(project: &Project) -> String {
    let what = match &project.git_error {
        None => "Temporary git project".to_owned(),
        Some(error) => format!("Temporary project ({error})"),
    };
    format!(
        "{what}:\n  {}\nThree scripted agents work in it, without network.\n",
        project.dir.display()
    )
}

/// The commands that show more.
fn closing(project: &Project) -> String {
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
        ("Delete the project", format!("rm -r {dir}")),
    ];
    let has_git = project.git_error.is_none();
    rows.retain(|(_, command)| has_git || !command.starts_with("git"));
    let rows = rows.iter().map(|(what, command)| format!("  {what}:\n    {command}\n"));
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
