//! `autoloop demo`: a whole run, in a project that can be thrown away.

#![expect(
    clippy::disallowed_methods,
    reason = "creates a temporary project and runs this program in it"
)]

mod project;
mod summary;

use std::io::{self, Write};
use std::path::Path;

use autoloop_core::chain::Budget;
use autoloop_runtime::launch::RunRequest;
use autoloop_runtime::site::Trust;
use autoloop_runtime::world::World;

use self::project::{Repository, Stage};
use self::summary::Story;
use super::run::{carry_out, verdict};
use super::session::Session;
use crate::failure::Failure;
use crate::terminal;

/// Watch a whole run with scripted agents, in a project to be thrown away.
///
/// A planner, a builder and a critic make a small program. The builder says something that it may not
/// and is refused, a metareview improves the loop, the critic rejects the work once, and the run
/// completes with evidence. Then the journal tells what happened, and you get the commands that show
/// more. No agent has to be installed, and nothing leaves this machine.
///
/// Exits with 0 only when the run is complete.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, world: &World) -> Result<(), Failure> {
    let stage = Stage::set(world)?;
    say(&opening(&stage))?;
    // The settings of the user are not read: they may name an agent that costs money.
    let session = Session::start(Trust::Proven, world)?;
    let launcher = session.launcher(Budget::default());
    let launch = launcher.begin(RunRequest::of_loop(&stage.dir, &stage.dir)?)?;
    // The progress is read from the journal afterwards.
    let run = carry_out(&session, &launcher, &launch, &|_| {})?;
    let story = Story::of(&launch.loaded.journal(world), &run.id)?;
    say(&terminal::harmless(&story.render()))?;
    verdict(&run, &launch, &session)?;
    say(&closing(&stage))
}

fn opening(stage: &Stage) -> String {
    let what = match &stage.repository {
        Repository::Made => "A git project to throw away".to_owned(),
        Repository::NoGit => {
            "A project to throw away (git is not installed, so it is a plain directory)".to_owned()
        }
        Repository::Failed(why) => format!("A project to throw away (without git: {why})"),
    };
    format!(
        "{what}:\n  {}\nThree scripted agents work in it; nothing leaves this machine.\n",
        stage.dir.display()
    )
}

/// The commands that show what happened, each with what it shows.
fn closing(stage: &Stage) -> String {
    let dir = quoted(&stage.dir);
    let test = quoted(&stage.dir.join("slug_test.sh"));
    let autoloop = how_to_call_us();
    let mut rows = vec![
        ("what every agent printed", format!("{autoloop} inspect scratchpad {dir}")),
        ("every record, the refusal among them", format!("{autoloop} inspect journal {dir}")),
        ("what the builder was told after it", format!("{autoloop} inspect prompt 3 {dir}")),
        ("what the metareview improved", format!("git -C {dir} diff harness.md")),
        ("what the critic remembers", format!("{autoloop} inspect memory {dir}")),
        ("what each turn came to", format!("{autoloop} inspect metrics {dir}")),
        ("whether what they made works", format!("sh {test}")),
        ("the loop once more; change it, if you like", format!("{autoloop} run {dir}")),
        ("the directory is yours to delete", format!("rm -r {dir}")),
    ];
    rows.retain(|(_, command)| stage.repository == Repository::Made || !command.starts_with("git"));
    let rows = rows.iter().map(|(what, command)| format!("  {what}:\n    {command}\n"));
    format!("See for yourself\n{}", rows.collect::<String>().trim_end())
}

fn say(text: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stdout(), "{text}")?)
}

/// This program, as it can be typed from here.
fn how_to_call_us() -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let program = std::env::current_exe().unwrap_or_else(|_| "autoloop".into());
    let is_known = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|dir| dir.join("autoloop") == program)
    });
    match program.strip_prefix(here) {
        _ if is_known => "autoloop".to_owned(),
        Ok(inside) if inside.components().count() > 1 => quoted(inside),
        _ => quoted(&program),
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    match path.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c)) {
        true => path,
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}
