//! Where the journal is and how it is to be written, from the environment and `autoloops.toml`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use autoloop_core::config::{self, Config, SyncPolicy};
use autoloop_core::env::Env;
use autoloop_runtime::journal::{Durability, FileJournal, FileSettings};
use autoloop_runtime::world::{Access, FileKind, World};

use crate::failure::Failure;
use crate::terminal;

/// The AUTOLOOP_* variables of this process.
pub(crate) fn environment() -> Result<Env, Failure> {
    Env::read(|name| std::env::var_os(name)).map_err(|error| Failure::usage(error.to_string()))
}

/// Opens the journal at a path.
pub(crate) fn journal(path: PathBuf, world: &World, config: &Config) -> FileJournal {
    let settings = FileSettings { lock_timeout: config.journal.lock_timeout };
    FileJournal::new(path, world, settings)
}

/// The journal that a person asks about: of a project, else the one that the environment names.
pub(crate) fn journal_path(project: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(project) = project else { return Ok(environment()?.journal_path()) };
    if !project.is_dir() {
        let what = if project.exists() { "is not a directory" } else { "does not exist" };
        return Err(Failure::usage(format!("the project {} {what}", project.display()))
            .hint("name the directory that holds .autoloop"));
    }
    let env = Env { project_dir: Some(project.to_owned()), ..Env::default() };
    Ok(env.journal_path())
}

/// What an agent's event has to survive.
pub(crate) fn durability_of_events(config: &Config) -> Durability {
    match config.journal.sync {
        SyncPolicy::Always => Durability::Synced,
        SyncPolicy::Iteration | SyncPolicy::Never => Durability::Cached,
    }
}

/// The settings of a project. A file that cannot be understood is told of and otherwise ignored: an
/// event is worth more than a setting.
pub(crate) fn config_or_default(project: &Path, world: &World) -> Config {
    let path = project.join("autoloops.toml");
    match read_config(&path, world) {
        Ok(config) => config,
        Err(problem) => {
            let warning = format!(
                "autoloop: warning: {}: {problem}; going on with the defaults\n",
                path.display()
            );
            // A warning that cannot be shown is no reason to lose the event.
            let _ = io::stderr().write_all(terminal::harmless(&warning).as_bytes());
            Config::default()
        }
    }
}

fn read_config(path: &Path, world: &World) -> Result<Config, String> {
    let told = |error: io::Error| error.to_string();
    let file = match world.disk.open(path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Config::default()),
        Err(error) => return Err(told(error)),
    };
    if file.stat().map_err(told)?.kind != FileKind::Regular {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    let mut block = [0; 8 * 1024];
    // Once there is more than the parser takes, it can tell.
    while bytes.len() <= config::LONGEST {
        match file.read_at(&mut block, bytes.len() as u64) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&block[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(told(error)),
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    Config::parse(&text).map_err(|error| error.to_string())
}
