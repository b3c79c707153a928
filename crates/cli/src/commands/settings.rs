//! The project of a command: its directory, its journal and its settings.

#![expect(clippy::disallowed_methods, reason = "reads the environment for all commands")]

use std::path::{Path, PathBuf};
use std::sync::Once;

use autoloop_core::config::{
    self, Key, Layer, Origin, Problem, Reading, Settings, SyncPolicy, Value,
};
use autoloop_core::env::Env;
use autoloop_core::plan::Files;
use autoloop_runtime::ipc::Client;
use autoloop_runtime::journal::{Durability, FileJournal, FileSettings, Journal};
use autoloop_runtime::launch::existing_dir;
use autoloop_runtime::layout::{self, StateDir};
use autoloop_runtime::project::{Environment, LoadError, Overrides, Project, discover, read_text};
use autoloop_runtime::world::World;

use crate::failure::Failure;
use crate::terminal;

/// The AUTOLOOP_* variables of this process. Where they do not name the project, it is the one that the
/// current directory belongs to.
pub(crate) fn environment() -> Result<Env, Failure> {
    let mut env = variables()?;
    let is_named =
        env.project_dir.is_some() || env.state_dir.is_some() || env.journal_file.is_some();
    if !is_named {
        env.project_dir = project_above();
    }
    Ok(env)
}

/// The AUTOLOOP_* variables as they are.
pub(crate) fn variables() -> Result<Env, Failure> {
    Env::read(|name| std::env::var_os(name)).map_err(|error| Failure::usage(error.to_string()))
}

/// The project in which a command starts a run, where no argument names one. For an agent it is the current
/// directory, which may be a worktree.
pub(crate) fn default_project() -> Result<PathBuf, Failure> {
    match variables()?.run_id {
        Some(_) => Ok(PathBuf::from(".")),
        None => Ok(environment()?.project_dir_or_here()),
    }
}

/// The directory of the project that an argument names, or the default one.
pub(crate) fn project_dir(dir: Option<&Path>) -> Result<PathBuf, Failure> {
    let dir = dir.map_or_else(default_project, |dir| Ok(dir.to_owned()))?;
    Ok(existing_dir(&dir)?)
}

/// The project that the current directory belongs to, if it is not the current directory itself. Prints it in a note.
fn project_above() -> Option<PathBuf> {
    static NOTED: Once = Once::new();
    let here = std::env::current_dir().ok()?.canonicalize().ok()?;
    let found = discovered(&here).filter(|found| *found != here)?;
    NOTED.call_once(|| {
        terminal::note(&format!("using the project in {}", found.display()));
    });
    Some(found)
}

/// The nearest project at or above a directory.
pub(crate) fn discovered(dir: &Path) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    discover(dir, home.as_deref())
}

/// The client of the harness, where this process is sandboxed and may not write itself.
pub(crate) fn client(env: &Env) -> Option<Client> {
    let ticket = env.ticket.clone().unwrap_or_default();
    env.door.as_ref().map(|path| Client::new(path, ticket))
}

pub(crate) fn settings_environment() -> Result<Environment, LoadError> {
    Environment::read(|name| std::env::var_os(name))
}

/// Makes git ignore the state directory and closes it to other users, after something was written to it. Errors are
/// ignored: the write succeeded, and the next command tries again.
pub(crate) fn protect(files: &Files, project: &Path) {
    let _ = layout::protect(&files.state_dir, project);
}

pub(crate) fn journal(path: PathBuf, world: &World, settings: &Settings) -> Box<dyn Journal> {
    let lock_timeout = settings.journal().lock_timeout;
    Box::new(FileJournal::new(path, world, FileSettings { lock_timeout }))
}

/// A project that a command shows or writes to.
pub(crate) struct Located {
    pub(crate) dir: PathBuf,
    /// Relative to the current directory.
    pub(crate) files: Files,
    /// Settings that are not valid have their defaults.
    pub(crate) settings: Settings,
}

impl Located {
    pub(crate) fn journal(&self, world: &World) -> Box<dyn Journal> {
        journal(self.files.journal.clone(), world, &self.settings)
    }

    pub(crate) fn durability(&self) -> Durability {
        durability_of_events(&self.settings)
    }

    /// The maximum number of characters of memory in a prompt; 0 for no limit.
    pub(crate) fn memory_budget(&self) -> usize {
        match self.settings.value(Key::MemoryBudget) {
            Value::Number(chars) => usize::try_from(*chars).unwrap_or(0),
            _ => 0,
        }
    }
}

/// Finds the project that an argument names, or else the one of the environment or the current directory.
///
/// Its files are those of `core.state_dir`, `core.journal_file` and `core.memory_file`. Where no argument names a
/// project, AUTOLOOP_STATE_DIR and AUTOLOOP_JOURNAL_FILE take precedence: the harness sets them for its agents.
/// Settings that cannot be read are only a warning, so that a run can be inspected without fixing them first.
pub(crate) fn locate(project: Option<&Path>, world: &World) -> Result<Located, Failure> {
    let (located, problem) = look_for(project, world)?;
    if let Some(problem) = problem {
        warn(&problem);
    }
    Ok(located)
}

/// The same, with the problem of the settings instead of a warning.
pub(crate) fn look_for(
    named: Option<&Path>,
    world: &World,
) -> Result<(Located, Option<String>), Failure> {
    let env = match named {
        None => environment()?,
        Some(dir) => Env { project_dir: Some(existing(dir)?.to_owned()), ..Env::default() },
    };
    let dir = env.project_dir_or_here();
    let (settings, problem) = match project(&dir).and_then(|it| it.settings(&*world.disk)) {
        Ok(Reading { settings, problems }) => {
            let error = problems.iter().find(|problem| problem.is_error());
            (settings, error.map(ToString::to_string))
        }
        Err(error) => (Settings::default(), Some(error.to_string())),
    };
    let files = places(&env, &settings);
    Ok((Located { dir, files, settings }, problem))
}

/// The files that the environment names, and else those of the settings.
pub(crate) fn places(env: &Env, settings: &Settings) -> Files {
    let dir = env.project_dir_or_here();
    let files = Files::of(settings);
    let mut files = if dir == Path::new(".") { files } else { files.under(&dir) };
    if let Some(state_dir) = &env.state_dir {
        files.journal = env.journal_path();
        if *settings.value(Key::MemoryFile) == Value::Unset {
            files.memory = StateDir::new(state_dir).memory();
        }
        files.state_dir = StateDir::new(state_dir);
    }
    if let Some(journal) = &env.journal_file {
        files.journal.clone_from(journal);
    }
    files
}

fn existing(project: &Path) -> Result<&Path, Failure> {
    if project.is_dir() {
        return Ok(project);
    }
    let what = if project.exists() { "is not a directory" } else { "does not exist" };
    Err(Failure::usage(format!("the project {} {what}", project.display()))
        .hint("name the directory that contains .autoloop"))
}

pub(crate) fn project(dir: &Path) -> Result<Project, LoadError> {
    // Without a current directory no project is found.
    let project = Project::new(dir).unwrap_or_default();
    Ok(Project { env: settings_environment()?, ..project })
}

/// The project of a chain, which has no loop of its own.
pub(crate) fn chain_project(dir: &Path, overrides: Overrides) -> Result<Project, LoadError> {
    let project = Project::before_preset(dir, "");
    Ok(Project { overrides, env: settings_environment()?, ..project })
}

fn warn(problem: &str) {
    terminal::note(&format!("warning: {problem}; using the defaults"));
}

pub(crate) fn durability_of_events(settings: &Settings) -> Durability {
    match settings.journal().sync {
        SyncPolicy::Always => Durability::Synced,
        SyncPolicy::Iteration | SyncPolicy::Never => Durability::Cached,
    }
}

/// The settings of `autoloops.toml` alone, for a command that has to be fast. A file that is not valid is only a
/// warning: an event must not be lost because of a setting.
pub(crate) fn of_project_file(project: &Path, world: &World) -> Settings {
    let path = project.join("autoloops.toml");
    let (settings, problem) = match read_text(&*world.disk, &path, config::LONGEST as u64) {
        Ok(None) => return Settings::default(),
        Ok(Some(text)) => {
            let layer = Layer::file(Origin::Project, path.display().to_string(), text);
            let Reading { settings, problems } = Settings::resolve(&[layer]);
            let error = problems.iter().find(|problem| problem.is_error());
            (settings, error.map(Problem::in_short))
        }
        Err(why) => (Settings::default(), Some(why.to_string())),
    };
    if let Some(problem) = problem {
        warn(&format!("{}: {problem}", path.display()));
    }
    settings
}
