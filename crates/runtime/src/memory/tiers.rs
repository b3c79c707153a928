//! The two tiers of memory: of the project and of a run.

use std::fmt;
use std::path::Path;

use autoloop_core::memory::{Memory, Places};
use serde::{Deserialize, Serialize};

use super::{Author, MemoryFile};
use crate::failure::Failure;
use crate::journal::{AppendError, FileSettings, ReadError, Unsuitable};
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    Project,
    Run,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Tier::Project => "project",
            Tier::Run => "run",
        })
    }
}

/// The files of both tiers.
pub struct Tiers {
    pub(super) project: MemoryFile,
    pub(super) run: Option<MemoryFile>,
    source: String,
}

impl Tiers {
    pub fn at(places: Places, world: &World, settings: FileSettings) -> Tiers {
        let file = |path| MemoryFile::new(path, world, settings);
        let run = places.run.map(file);
        Tiers { project: file(places.project), run, source: String::new() }
    }

    /// Sets the source of what is added: an iteration of a run, a run, or none.
    #[must_use]
    pub fn for_author(mut self, run: Option<&str>, iteration: Option<&str>) -> Tiers {
        self.source = match (run, iteration) {
            (Some(run), Some(iteration)) => format!("{run}#{iteration}"),
            (Some(run), None) => run.to_owned(),
            (None, _) => String::new(),
        };
        self
    }

    pub fn file(&self, tier: Tier) -> Option<&MemoryFile> {
        match tier {
            Tier::Project => Some(&self.project),
            Tier::Run => self.run.as_ref(),
        }
    }

    /// The contents of a tier; empty where there is no file.
    pub fn read(&self, tier: Tier) -> Result<Memory, Failure> {
        match self.file(tier) {
            Some(file) => file.read().map_err(not_read),
            None => Ok(Memory::default()),
        }
    }

    /// The author of additions to a tier. It skips the ids of the other tier, so that an id means one entry.
    pub(super) fn author(&self, tier: Tier) -> Result<Author, Failure> {
        let other = match tier {
            Tier::Project => self.read(Tier::Run)?,
            Tier::Run => self.read(Tier::Project)?,
        };
        Ok(Author { source: self.source.clone(), first_number: other.next_number() })
    }
}

/// A failed addition. A memory file is written like a journal, but messages must not call it one.
pub(super) fn not_stored(error: AppendError) -> Failure {
    match error {
        AppendError::Unsuitable { path, why } => unsuitable("not stored: ", &path, why),
        AppendError::Locked { holder: None, .. } => Failure::failed(format!("not stored: {error}"))
            .hint("`lsof` on the file shows who has it open"),
        error => error.into(),
    }
}

fn not_read(error: ReadError) -> Failure {
    match error {
        ReadError::Unsuitable { path, why } => unsuitable("", &path, why),
        error => error.into(),
    }
}

fn unsuitable(what: &str, path: &Path, why: Unsuitable) -> Failure {
    let complaint =
        Failure::failed(format!("{what}{} {}", path.display(), why.told_of("memory file")));
    complaint.hint(match why {
        Unsuitable::HardLinks(_) => "`find -samefile` shows the other names; remove them",
        Unsuitable::Directory
        | Unsuitable::Symlink
        | Unsuitable::Special
        | Unsuitable::Hole { .. } => "move it away, or name another file in core.memory_file",
    })
}
