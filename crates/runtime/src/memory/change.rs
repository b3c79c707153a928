//! Changes of memory: add, remove and promote entries.

use autoloop_core::memory::{BadEntry, Entry, Fate, LONGEST_TEXT, Memory, Said};
use serde::{Deserialize, Serialize};

use super::tiers::not_stored;
use super::{Tier, Tiers};
use crate::failure::Failure;

const LOOK: &str = "`autoloop memory list` shows what there is";

/// A change of memory.
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
    /// All runs of the project.
    Project,
}

impl Tiers {
    /// Makes a change. Returns a message about it.
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
        match (run.fate(id), project.fate(id)) {
            (Fate::Live(_), _) | (Fate::Gone, Fate::Unknown) => Ok(Tier::Run),
            (_, Fate::Live(_) | Fate::Gone) => Ok(Tier::Project),
            (Fate::Unknown, Fate::Unknown) => {
                Err(Failure::failed(format!("there is no entry '{id}' in memory")).hint(LOOK))
            }
        }
    }

    /// Puts a tombstone on a live entry.
    fn bury(&self, tier: Tier, id: &str, reason: &str) -> Result<(), Failure> {
        let Some(file) = self.file(tier) else { return Err(not_there(Fate::Unknown, tier, id)) };
        let author = self.author(tier)?;
        let mut problem = None;
        file.add(&author, &mut |memory| match memory.fate(id) {
            Fate::Live(_) => {
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
        let entry = match memory.fate(id) {
            Fate::Live(entry) => entry,
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

fn not_there(fate: Fate<'_>, tier: Tier, id: &str) -> Failure {
    let complaint = match fate {
        Fate::Gone => Failure::failed(format!("'{id}' was removed from {tier} memory already")),
        _ => Failure::failed(format!("there is no entry '{id}' in {tier} memory")),
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
