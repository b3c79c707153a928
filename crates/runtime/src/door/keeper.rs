//! What the harness does for whoever comes to its door.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use autoloop_core::record::Hole;
use autoloop_core::topic::Topic;

use crate::complaint::Complaint;
use crate::emit::{Emitter, Event};
use crate::journal::Spooled;
use crate::memory::{Change, Tiers};
use crate::world::DiskFile;

/// What the harness knows about the agent that it started, and where it writes for it.
pub struct Keeper {
    /// Who speaks, what may be said, and the journal that it goes to.
    pub emitter: Emitter,
    /// The memory of the run and of the project.
    pub memory: Tiers,
}

/// A payload that has arrived.
pub(super) enum Heard {
    /// In memory.
    Short(String),
    /// In a file without a name.
    Long(File),
}

impl Keeper {
    pub(super) fn emit(
        &self,
        topic: &str,
        payload: Heard,
        dir: &Path,
    ) -> Result<String, Complaint> {
        let topic = checked(topic)?;
        let (payload, spooled) = match payload {
            Heard::Short(text) => (text, None),
            Heard::Long(file) => {
                let text: Arc<dyn DiskFile> = Arc::from(Box::<dyn DiskFile>::from(file));
                (String::new(), Some(Spooled { hole: Hole::Payload, path: dir.to_owned(), text }))
            }
        };
        self.emitter.emit(Event { topic, payload, spooled })
    }

    pub(super) fn change(&self, change: Change) -> Result<String, Complaint> {
        self.memory.change(change)
    }
}

/// The visitor has looked at its topic already, if it is our program.
pub(super) fn checked(topic: &str) -> Result<Topic, Complaint> {
    Topic::check(topic).map_err(|error| Complaint::usage(error.to_string()))
}
