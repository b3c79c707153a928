//! Where the journal is and how it is to be written, from the environment and `autoloops.toml`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use autoloop_core::config::{self, Config, Layer, Origin, Problem, Reading, Settings, SyncPolicy};
use autoloop_core::env::Env;
use autoloop_runtime::journal::{Durability, FileJournal, FileSettings};
use autoloop_runtime::project::{Surroundings, read_text};
use autoloop_runtime::world::World;

use crate::diagnostic;
use crate::failure::Failure;
use crate::terminal;

/// The AUTOLOOP_* variables of this process.
pub(crate) fn environment() -> Result<Env, Failure> {
    Env::read(|name| std::env::var_os(name)).map_err(|error| Failure::usage(error.to_string()))
}

/// What the environment says about settings.
pub(crate) fn surroundings() -> Result<Surroundings, Failure> {
    Surroundings::read(|name| std::env::var_os(name)).map_err(diagnostic::refuse)
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

/// The settings of a project, as far as a command needs them that has more urgent things to do than
/// to look everywhere: only `autoloops.toml` is read, and what cannot be understood in it is told of
/// and otherwise ignored. An event is worth more than a setting.
pub(crate) fn config_or_default(project: &Path, world: &World) -> Config {
    let path = project.join("autoloops.toml");
    let (config, problem) = match read_text(&*world.disk, &path, config::LONGEST as u64) {
        Ok(None) => return Config::default(),
        Ok(Some(text)) => {
            let layer = Layer::file(Origin::Project, path.display().to_string(), text);
            let Reading { settings, problems } = Settings::resolve(&[layer]);
            let error = problems.iter().find(|problem| problem.is_error());
            (Config::from(&settings), error.map(Problem::in_short))
        }
        Err(why) => (Config::default(), Some(why.to_string())),
    };
    if let Some(problem) = problem {
        let path = path.display();
        let warning = format!("autoloop: warning: {path}: {problem}; going on with the defaults\n");
        // A warning that cannot be shown is no reason to lose the event.
        let _ = io::stderr().write_all(terminal::harmless(&warning).as_bytes());
    }
    config
}
