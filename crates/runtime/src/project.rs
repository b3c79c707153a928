//! A project on the disk: its settings, its topology and its prompts, read into one plan.
//!
//! A [`Project`] names the directories and what the command line and the environment set; [`Project::load`] reads the
//! files. They are read again before every iteration, so that changes by the user or by a metareview take effect.
//! Everything is read through the [`Disk`](crate::world::Disk) of the world.

mod commands;
mod discover;
mod load;
mod overrides;
mod places;
mod prompts;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::config::{Key, Problem, Settings};
use autoloop_core::plan::{Files, Plan};
use autoloop_core::topology::Topology;

pub use crate::files::{Unreadable, read_text};
use crate::journal::{FileJournal, FileSettings};
use crate::world::World;
pub use discover::discover;
pub use load::Sources;
pub(crate) use load::Text;
pub use overrides::{Overrides, Unenforced};
pub use places::{Environment, LayerFile, SettingsFiles};
pub use prompts::{DEVELOPER_FILES, REVIEWER_FILES, SlotPrompt, SlotPrompts};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// The directory in which agents work, and which contains the state directory.
    pub dir: PathBuf,
    /// The directory of `autoloops.toml`, `topology.toml` and the prompts: `dir`, unless a preset is run.
    pub loop_dir: PathBuf,
    /// The name of the preset, which selects files of overrides; empty for none.
    pub preset: String,
    pub overrides: Overrides,
    pub env: Environment,
    /// The settings files that a run began with; `None` before it begins, when all that exist are read.
    pub settings_files: Option<SettingsFiles>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub settings: Settings,
    pub topology: Topology,
    pub plan: Plan,
    /// Absolute paths.
    pub files: Files,
    /// The objective of the settings or of `PROMPT.md`.
    pub objective: Option<String>,
    pub harness: Option<String>,
    pub review_prompt: Option<String>,
    pub warnings: Vec<Problem>,
    /// The id and the prompt of each role, in the order of the topology.
    role_prompts: Vec<(String, String)>,
}

impl Loaded {
    /// The prompt of a role; empty if it has none.
    pub fn role_prompt(&self, role: &str) -> &str {
        let found = self.role_prompts.iter().find(|(id, _)| id == role);
        found.map_or("", |(_, prompt)| prompt)
    }

    /// A setting and where it comes from, for messages.
    pub(crate) fn named(&self, key: Key) -> String {
        format!("{key} ({})", self.settings.provenance(key))
    }

    pub fn journal(&self, world: &World) -> FileJournal {
        let lock_timeout = self.settings.journal().lock_timeout;
        FileJournal::new(self.files.journal.clone(), world, FileSettings { lock_timeout })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("no such directory: {}", .0.display())]
    NoDirectory(PathBuf),
    #[error("cannot read {}: {why}", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        why: Unreadable,
    },
    /// `what` is the key or the variable that names the file.
    #[error("{what} names a missing file: {}", .path.display())]
    Missing { what: String, path: PathBuf },
    /// The name would lead out of the directory of overrides.
    #[error("invalid preset name '{}': it must be usable in the path of a file", .0.escape_debug())]
    BadPreset(String),
    #[error("{name} is not valid UTF-8 (it reads '{}')", .value.to_string_lossy().escape_debug())]
    BadVariable { name: &'static str, value: OsString },
    /// At least one of these is an error.
    #[error("{}", error_lines(.0))]
    Problems(Vec<Problem>),
}

fn error_lines(problems: &[Problem]) -> String {
    let errors = problems.iter().filter(|problem| problem.is_error());
    errors.map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl Project {
    /// A project that runs its own loop. The directory may be relative, and messages show it as given; that fails
    /// where the current directory was removed.
    pub fn new(dir: &Path) -> io::Result<Project> {
        Project::with_preset(dir, dir)
    }

    /// A project that runs a preset from another directory. Of its own `autoloops.toml` only `backend`,
    /// `core` and `journal` count.
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

    /// A project that is about to run a preset whose files are not in place yet. It has an
    /// [outline](Project::outline), and can be loaded as soon as `loop_dir` is set.
    pub fn before_preset(dir: &Path, preset: &str) -> Project {
        Project { dir: dir.to_owned(), preset: preset.to_owned(), ..Project::default() }
    }

    /// Whether the files of the loop are in another directory than the project.
    pub fn is_preset(&self) -> bool {
        self.loop_dir != self.dir
    }
}

/// The name of a directory; empty if it has none.
fn name_of(dir: &Path) -> String {
    // The name of `..` is known to the file system only.
    let real = || dir.canonicalize().ok()?.file_name().map(ToOwned::to_owned);
    let name = dir.file_name().map(ToOwned::to_owned).or_else(real);
    name.unwrap_or_default().to_string_lossy().into_owned()
}
