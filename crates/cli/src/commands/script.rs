//! `autoloop __script`: plays the part of an agent. Started by `autoloop` only.

#![expect(clippy::disallowed_methods, reason = "plays an agent, which is a real process")]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use autoloop_core::script::{Action, Cue, Script};
use autoloop_runtime::files::read_text;
use autoloop_runtime::world::{Disk, World};

use super::settings;
use crate::failure::{Failure, Kind};

/// Play a scripted agent.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The script.
    file: PathBuf,
    /// The prompt, which a script does not read.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    rest: Vec<std::ffi::OsString>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let told = |error: String| Failure::usage(format!("{}: {error}", args.file.display()));
    let text = read_script(&args.file, &*world.disk).map_err(told)?;
    let script = Script::parse(&text).map_err(|error| told(error.to_string()))?;
    let env = settings::environment()?;
    let cue = Cue {
        iteration: env.iteration.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0),
        roles: &env.allowed_roles,
        is_review: env.review_mode.is_some(),
    };
    let project = env.project_dir_or_here();
    for action in script.actions(cue) {
        play(action, &project, world)?;
    }
    Ok(())
}

/// No script is longer.
const LONGEST: u64 = 16 * 1024 * 1024;

/// The text of a script, or why there is none.
pub(super) fn read_script(file: &Path, disk: &dyn Disk) -> Result<String, String> {
    match read_text(disk, file, LONGEST) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err("it does not exist".to_owned()),
        Err(why) => Err(why.to_string()),
    }
}

fn play(action: &Action, project: &Path, world: &World) -> Result<(), Failure> {
    match action {
        Action::Print(text) => writeln!(io::stdout(), "{text}")?,
        Action::Emit { topic, payload } => call(&["emit", topic, payload])?,
        Action::Remember(text) => call(&["memory", "add", "learning", text])?,
        Action::Write { path, text } => {
            let path = project.join(path);
            let dir = path.parent().unwrap_or(project);
            fs::create_dir_all(dir).and_then(|()| fs::write(&path, text)).map_err(cannot)?;
        }
        Action::Delete { path } => fs::remove_file(project.join(path)).map_err(cannot)?,
        Action::Sleep(time) => world.clock.sleep(*time),
        Action::Hang => loop {
            world.clock.sleep(Duration::from_secs(3600));
        },
        Action::Exit(code) => {
            io::stdout().flush()?;
            std::process::exit(*code);
        }
    }
    Ok(())
}

/// Calls this program as an agent would. What it says goes where ours goes; an event that is refused
/// is the script's business.
fn call(args: &[&str]) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(cannot)?;
    Command::new(program).args(args).status().map_err(cannot)?;
    Ok(())
}

fn cannot(error: io::Error) -> Failure {
    Failure::new(Kind::Failed, format!("the script cannot go on: {error}"))
}
