//! The two tiers of memory, and who adds to them.

use std::fmt;

use autoloop_core::memory::{Memory, Places};
use serde::{Deserialize, Serialize};

use super::fault::not_read;
use super::{Author, MemoryFile};
use crate::complaint::Complaint;
use crate::journal::FileSettings;
use crate::world::World;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// The memory of the project.
    Project,
    /// The memory of a run.
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
    /// The tiers at these places.
    pub fn at(places: Places, world: &World, settings: FileSettings) -> Tiers {
        let file = |path| MemoryFile::new(path, world, settings);
        let run = places.run.map(file);
        Tiers { project: file(places.project), run, source: String::new() }
    }

    /// The same, for somebody who adds to them: an agent in an iteration of a run, a run as such, or
    /// nobody in particular.
    #[must_use]
    pub fn for_author(mut self, run: Option<&str>, iteration: Option<&str>) -> Tiers {
        self.source = match (run, iteration) {
            (Some(run), Some(iteration)) => format!("{run}#{iteration}"),
            (Some(run), None) => run.to_owned(),
            (None, _) => String::new(),
        };
        self
    }

    /// The file of a tier, if there is one.
    pub fn file(&self, tier: Tier) -> Option<&MemoryFile> {
        match tier {
            Tier::Project => Some(&self.project),
            Tier::Run => self.run.as_ref(),
        }
    }

    /// What is in a tier; nothing where there is no file.
    ///
    /// # Errors
    ///
    /// When there is one that cannot be read.
    pub fn read(&self, tier: Tier) -> Result<Memory, Complaint> {
        match self.file(tier) {
            Some(file) => file.read().map_err(not_read),
            None => Ok(Memory::default()),
        }
    }

    /// Who adds to a tier. Names that the other tier has are left to it, as far as can be seen: so a
    /// name means one entry.
    pub(super) fn author(&self, tier: Tier) -> Result<Author, Complaint> {
        let other = match tier {
            Tier::Project => self.read(Tier::Run)?,
            Tier::Run => self.read(Tier::Project)?,
        };
        Ok(Author { source: self.source.clone(), first_number: other.next_number() })
    }
}
