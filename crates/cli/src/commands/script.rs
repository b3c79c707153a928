//! `autoloop __script`: a scripted agent. Started by `autoloop` only.

#![expect(clippy::disallowed_methods, reason = "acts as an agent, which is a real process")]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use autoloop_core::env::Env;
use autoloop_core::script::{Action, Cue, Script};
use autoloop_runtime::files::read_text;
use autoloop_runtime::world::{Disk, World};

use super::{emit, mcp, memory, settings};
use crate::failure::Failure;

/// Act as a scripted agent.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Script file
    file: PathBuf,
    /// Prompt, which a script does not read
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    rest: Vec<std::ffi::OsString>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let invalid = |error: String| Failure::usage(format!("{}: {error}", args.file.display()));
    let text = read_script(&args.file, &*world.disk).map_err(invalid)?;
    let script = Script::parse(&text).map_err(|error| invalid(error.to_string()))?;
    let env = settings::environment()?;
    let cue = Cue {
        iteration: env.iteration.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0),
        roles: &env.allowed_roles,
        is_review: env.review_mode.is_some(),
        phase: env.phase.as_deref().unwrap_or_default(),
        task: env.task_id.as_deref().unwrap_or_default(),
    };
    for action in script.actions(cue) {
        play(action, &env, world)?;
    }
    Ok(())
}

/// Maximum size of a script, in bytes.
const LONGEST: u64 = 16 * 1024 * 1024;

pub(super) fn read_script(file: &Path, disk: &dyn Disk) -> Result<String, String> {
    match read_text(disk, file, LONGEST) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err("it does not exist".to_owned()),
        Err(why) => Err(why.to_string()),
    }
}

fn play(action: &Action, env: &Env, world: &World) -> Result<(), Failure> {
    match action {
        Action::Print(text) => writeln!(io::stdout(), "{text}")?,
        // A refused event is not a failure of the script.
        Action::Emit { topic, payload } => {
            let args =
                emit::Args { topic: topic.into(), file: None, payload: vec![payload.into()] };
            report(emit::run(&args, world));
        }
        Action::Remember(text) => report(memory::learn(text, world)),
        Action::Call { tool, arguments } => {
            let mut arguments = arguments.clone();
            for (name, value) in
                [("$AUTOLOOP_LOOP_ID", &env.loop_id), ("$AUTOLOOP_TASK_ID", &env.task_id)]
            {
                arguments = arguments.replace(name, value.as_deref().unwrap_or_default());
            }
            report(mcp::call(tool, &arguments));
        }
        Action::Run(command) => {
            let done = Command::new("sh").args(["-c", command]).status().map_err(cannot)?;
            if !done.success() {
                return Err(Failure::failed(format!("the script failed: `{command}`: {done}")));
            }
        }
        Action::Write { path, text } => {
            let dir = Path::new(path).parent().unwrap_or(Path::new(""));
            fs::create_dir_all(dir).and_then(|()| fs::write(path, text)).map_err(cannot)?;
        }
        Action::Delete { path } => fs::remove_file(path).map_err(cannot)?,
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

fn report(done: Result<(), Failure>) {
    if let Err(failure) = done {
        failure.report();
    }
}

fn cannot(error: io::Error) -> Failure {
    Failure::failed(format!("the script failed: {error}"))
}
