//! A project on the disk: its settings, its topology and its prompts, read into one plan.
//!
//! A [`Project`] knows where to look and what the command line said; [`Project::load`] looks. It is
//! asked again before every iteration, so that what a person or a metareview changed in the meantime
//! holds from then on. Everything is read through the [`Disk`](crate::world::Disk) of the world.

mod commands;
mod discover;
mod load;
mod overrides;
mod places;
mod prompts;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::config::{Config, Problem, Settings};
use autoloop_core::plan::{Files, Plan};
use autoloop_core::topology::Topology;

pub use crate::files::{Unreadable, read_text};
pub use discover::discover;
pub use overrides::{Overrides, Unenforced};
pub use places::{LayerFile, SettingsFiles, Surroundings};
pub use prompts::{DEVELOPER_FILES, REVIEWER_FILES, SlotPrompt, SlotPrompts};

/// Where a loop is, and what was said about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// Where the work is done, and where the state directory is.
    pub dir: PathBuf,
    /// Where `autoloops.toml`, `topology.toml` and the prompts are: in the project itself, unless it
    /// runs a preset from somewhere else.
    pub loop_dir: PathBuf,
    /// The name of the preset, which chooses the overrides; with an empty one there are none.
    pub preset: String,
    /// What the command line said.
    pub overrides: Overrides,
    /// What the environment said.
    pub surroundings: Surroundings,
    /// The settings files that count, for a run that has begun; `None`, and those count that exist.
    pub settings_files: Option<SettingsFiles>,
}

/// Everything that a loop goes by, as it was on the disk at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Every setting, and where it came from.
    pub settings: Settings,
    /// Who there is, and who follows whom.
    pub topology: Topology,
    /// What follows from both.
    pub plan: Plan,
    /// Where things are kept, as absolute paths.
    pub files: Files,
    /// What the run is for, if the settings or `PROMPT.md` say.
    pub objective: Option<String>,
    /// The instructions for every iteration.
    pub harness: Option<String>,
    /// More instructions for the metareview.
    pub review_prompt: Option<String>,
    /// What works, but hardly as it was meant.
    pub warnings: Vec<Problem>,
    /// The prompts of the roles, in the order of the topology.
    role_prompts: Vec<(String, String)>,
}

/// What can be known before the files of a loop are in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Where things are kept, as absolute paths.
    pub files: Files,
    /// How the journal is written, and how runs are named.
    pub config: Config,
    /// The settings of all layers except the preset's own.
    pub settings: Settings,
    /// The plan that these settings make for a loop without roles.
    pub plan: Plan,
}

impl Loaded {
    /// The whole prompt of a role; empty if it has none.
    pub fn role_prompt(&self, role: &str) -> &str {
        let found = self.role_prompts.iter().find(|(id, _)| id == role);
        found.map_or("", |(_, prompt)| prompt)
    }
}

/// Why a project cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no such directory.
    #[error("there is no directory {}", .0.display())]
    NoDirectory(PathBuf),
    /// Something that is there cannot be read.
    #[error("cannot read {}: {why}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        why: Unreadable,
    },
    /// A file is named in the settings, and there is none.
    #[error("{what} names {}, and there is no such file", .path.display())]
    Missing {
        /// Who names it: a key or a variable.
        what: String,
        /// The file.
        path: PathBuf,
    },
    /// A name that would lead out of the directory of overrides.
    #[error("'{}' cannot be the name of a preset; it is part of the path of a file", .0.escape_debug())]
    BadPreset(String),
    /// A variable that should be text is something else.
    #[error("{name} is not valid UTF-8 (it reads '{}')", .value.to_string_lossy().escape_debug())]
    BadVariable {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: OsString,
    },
    /// What was read cannot be used. At least one of these is an error.
    #[error("{}", told(.0))]
    Problems(Vec<Problem>),
}

/// The errors, in one line each.
fn told(problems: &[Problem]) -> String {
    let errors = problems.iter().filter(|problem| problem.is_error());
    errors.map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl Project {
    /// A project that runs its own loop. The directory may be relative; messages show it as it was
    /// given.
    ///
    /// # Errors
    ///
    /// When the current directory is gone, so that a relative path leads nowhere.
    pub fn new(dir: &Path) -> io::Result<Project> {
        Project::with_preset(dir, dir)
    }

    /// A project that runs a preset from another directory. Of its own `autoloops.toml`, if it has
    /// one, only what is about the machine and the project counts: `backend`, `core` and `journal`.
    ///
    /// # Errors
    ///
    /// When the current directory is gone, so that a relative path leads nowhere.
    pub fn with_preset(dir: &Path, loop_dir: &Path) -> io::Result<Project> {
        let absolute = std::path::absolute(loop_dir)?;
        let is_own = absolute == std::path::absolute(dir)?;
        Ok(Project {
            dir: dir.to_owned(),
            loop_dir: if is_own { dir } else { loop_dir }.to_owned(),
            preset: name_of(&absolute),
            ..Project::default()
        })
    }

    /// A project that is about to run a preset whose files are not in place yet. It has an outline,
    /// and can be loaded as soon as `loop_dir` is set.
    pub fn before_preset(dir: &Path, preset: &str) -> Project {
        Project { dir: dir.to_owned(), preset: preset.to_owned(), ..Project::default() }
    }

    /// Whether the files of the loop are somewhere else than in the project.
    pub fn is_preset(&self) -> bool {
        self.loop_dir != self.dir
    }
}

/// What a directory is called; nothing if it has no name.
fn name_of(dir: &Path) -> String {
    // `..` has another name, which only the file system knows.
    let real = || dir.canonicalize().ok()?.file_name().map(ToOwned::to_owned);
    let name = dir.file_name().map(ToOwned::to_owned).or_else(real);
    name.unwrap_or_default().to_string_lossy().into_owned()
}
