//! The two tiers of memory, of the project and of a run, and the changes of them: add, remove and promote entries.

use std::fmt;
use std::path::Path;

use autoloop_core::memory::{BadEntry, Entry, IdState, LONGEST_TEXT, Memory, Places, Said};
use serde::{Deserialize, Serialize};

use super::{Author, MemoryFile};
use crate::failure::Failure;
use crate::journal::{AppendError, FileSettings, ReadError, Unsuitable};
use crate::world::World;

const LOOK: &str = "list all entries with `autoloop memory list`";

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

pub struct Tiers {
    project: MemoryFile,
    run: Option<MemoryFile>,
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

    pub fn read(&self, tier: Tier) -> Result<Memory, Failure> {
        match self.file(tier) {
            Some(file) => file.read().map_err(not_read),
            None => Ok(Memory::default()),
        }
    }

    /// The author of additions to a tier. It skips the ids of the other tier, so that an id means one entry.
    fn author(&self, tier: Tier) -> Result<Author, Failure> {
        let other = match tier {
            Tier::Project => self.read(Tier::Run)?,
            Tier::Run => self.read(Tier::Project)?,
        };
        Ok(Author { source: self.source.clone(), first_number: other.next_number() })
    }
}

/// A failed addition. A memory file is written like a journal, but messages must not call it one.
fn not_stored(error: AppendError) -> Failure {
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
        Failure::failed(format!("{what}{} {}", path.display(), why.message("memory file")));
    complaint.hint(match why {
        Unsuitable::HardLinks(_) => "`find -samefile` shows the other names; remove them",
        Unsuitable::Directory
        | Unsuitable::Symlink
        | Unsuitable::Special
        | Unsuitable::Hole { .. } => "move it away, or name another file in core.memory_file",
    })
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    Add {
        said: Said,
        reach: Reach,
    },
    Remove {
        id: String,
        /// Where it is; `None` prefers the run.
        tier: Option<Tier>,
        reason: String,
    },
    /// Moves an entry of the run to the project.
    Promote {
        id: String,
    },
}

/// Which runs an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// The current run, if there is one. Preferences are for all runs in any case.
    Usual,
    Project,
}

impl Tiers {
    pub fn change(&self, change: Change) -> Result<String, Failure> {
        match change {
            Change::Add { said, reach } => self.remember(said, reach),
            Change::Remove { id, tier, reason } => {
                let tier = match tier {
                    Some(tier) => tier,
                    None => self.tier_of(&id)?,
                };
                let reason: String = reason.chars().take(LONGEST_TEXT).collect();
                self.bury(tier, &id, &reason)?;
                Ok(format!("removed {id} from {tier} memory"))
            }
            Change::Promote { id } => self.promote(&id),
        }
    }

    fn remember(&self, said: Said, reach: Reach) -> Result<String, Failure> {
        let said = said.checked()?;
        let is_for_all = reach == Reach::Project || matches!(said, Said::Preference { .. });
        let (tier, file) = match &self.run {
            Some(file) if !is_for_all => (Tier::Run, file),
            _ => (Tier::Project, &self.project),
        };
        let author = self.author(tier)?;
        let mut said = Some(said);
        let entry = file.add(&author, &mut |_| said.take()).map_err(not_stored)?;
        let id = entry.map(|entry| entry.id).unwrap_or_default();
        Ok(format!("added {id} to {tier} memory"))
    }

    /// Where an entry is; in the run, if both tiers have one of this id.
    fn tier_of(&self, id: &str) -> Result<Tier, Failure> {
        let (project, run) = (self.read(Tier::Project)?, self.read(Tier::Run)?);
        match (run.id_state(id), project.id_state(id)) {
            (IdState::Live(_), _) | (IdState::Gone, IdState::Unknown) => Ok(Tier::Run),
            (_, IdState::Live(_) | IdState::Gone) => Ok(Tier::Project),
            (IdState::Unknown, IdState::Unknown) => {
                Err(Failure::failed(format!("no entry '{id}' in memory")).hint(LOOK))
            }
        }
    }

    /// Puts a tombstone on a live entry.
    fn bury(&self, tier: Tier, id: &str, reason: &str) -> Result<(), Failure> {
        let Some(file) = self.file(tier) else { return Err(not_there(IdState::Unknown, tier, id)) };
        let author = self.author(tier)?;
        let mut problem = None;
        file.add(&author, &mut |memory| match memory.id_state(id) {
            IdState::Live(_) => {
                Some(Said::Tombstone { target: id.to_owned(), reason: reason.to_owned() })
            }
            fate => {
                problem = Some(not_there(fate, tier, id));
                None
            }
        })
        .map_err(not_stored)?;
        problem.map_or(Ok(()), Err)
    }

    fn promote(&self, id: &str) -> Result<String, Failure> {
        let memory = self.read(Tier::Run)?;
        let entry = match memory.id_state(id) {
            IdState::Live(entry) => entry,
            fate => return Err(not_there(fate, Tier::Run, id)),
        };
        // The copy comes first: a crash in between leaves the entry in both tiers, never in none.
        let mut author = self.author(Tier::Project)?;
        author.source = format!("promoted {id} {}", entry.source).trim_end().to_owned();
        let mut known = None;
        let added = self.project.add(&author, &mut |project| {
            known = copy_of(project, entry, &author.source).map(|copy| copy.id.clone());
            known.is_none().then(|| entry.said.clone())
        });
        let added = added.map_err(not_stored)?;
        let new = known.or(added.map(|entry| entry.id)).unwrap_or_default();
        self.bury(Tier::Run, id, &format!("promoted to the project as {new}"))?;
        Ok(format!("promoted {id} to project memory as {new}"))
    }
}

/// The copy that an interrupted attempt left in the project.
fn copy_of<'a>(project: &'a Memory, entry: &Entry, source: &str) -> Option<&'a Entry> {
    project.live().into_iter().find(|copy| copy.said == entry.said && copy.source == source)
}

fn not_there(fate: IdState<'_>, tier: Tier, id: &str) -> Failure {
    let complaint = match fate {
        IdState::Gone => Failure::failed(format!("'{id}' was removed from {tier} memory already")),
        _ => Failure::failed(format!("no entry '{id}' in {tier} memory")),
    };
    complaint.hint(LOOK)
}

impl From<BadEntry> for Failure {
    fn from(bad: BadEntry) -> Self {
        let complaint = Failure::usage(bad.to_string());
        match bad.hint() {
            Some(hint) => complaint.hint(hint),
            None => complaint,
        }
    }
}
