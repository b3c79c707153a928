//! `autoloop slots prompts`: shows the prompts of slots, or writes the built-in ones.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use autoloop_core::prompt::slot::{DEVELOPER, REVIEWER};
use autoloop_runtime::launch::presets::LoopFile;
use autoloop_runtime::project::{DEVELOPER_FILES, REVIEWER_FILES, SlotPrompt};
use autoloop_runtime::world::World;

use crate::commands::settings;
use crate::failure::Failure;
use crate::terminal;

/// Show the prompts of developers and reviewers, and their files.
///
/// With --write the built-in prompts are written to `.ai_agents/prompts/developer.md` and
/// `.ai_agents/prompts/reviewer.md` of the project. Existing files are not changed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Project directory [default: the current project].
    dir: Option<PathBuf>,
    /// Write the built-in prompts to the project.
    #[arg(long)]
    write: bool,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let dir = settings::project_dir(args.dir.as_deref())?;
    let text = match args.write {
        true => write(&dir)?,
        false => show(&dir, world)?,
    };
    Ok(terminal::print(&text)?)
}

fn show(dir: &Path, world: &World) -> Result<String, Failure> {
    let project = settings::project(dir)?;
    let loaded = project.load(&*world.disk)?;
    let prompts = project.slot_prompts(&loaded, &*world.disk)?;
    let shown = |who: &str, prompt: &SlotPrompt| {
        let from = match &prompt.path {
            Some(path) => path.display().to_string(),
            None => "built in".to_owned(),
        };
        format!("# {who} ({from})\n\n{}\n", prompt.text.trim_end())
    };
    let developer = shown("developer", &prompts.developer);
    let reviewer = match &prompts.reviewer {
        Some(prompt) => shown("reviewer", prompt),
        None => "# reviewer (none: nothing is reviewed)\n".to_owned(),
    };
    Ok(format!("{developer}\n{reviewer}"))
}

/// Writes the prompts that do not exist.
fn write(dir: &Path) -> Result<String, Failure> {
    let mut report = String::new();
    for (name, text) in [(DEVELOPER_FILES[0], DEVELOPER), (REVIEWER_FILES[0], REVIEWER)] {
        let what = match LoopFile::text(name, text).write_new(dir) {
            Ok(()) => "wrote",
            Err(error) if error.kind() == ErrorKind::AlreadyExists => "kept",
            Err(error) => {
                let path = dir.join(name);
                let message = format!("cannot write {}: {error}", path.display());
                return Err(Failure::failed(message));
            }
        };
        report.push_str(&format!("{what} {name}\n"));
    }
    Ok(report)
}
