//! What the harness does for a client.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use autoloop_core::topic::Topic;

use crate::emit::{Emitter, Event};
use crate::failure::Failure;
use crate::journal::Spooled;
use crate::memory::{Change, Tiers};
use crate::world::DiskFile;

/// What the harness knows about the agent that it started, and where it writes for it.
pub struct Handler {
    /// The agent, the events that it may emit, and the journal that they go to.
    pub emitter: Emitter,
    /// The memory of the run and of the project.
    pub memory: Tiers,
}

/// A payload that has arrived.
pub(super) enum Received {
    /// In memory.
    Short(String),
    /// In a file without a name.
    Long(File),
}

impl Handler {
    pub(super) fn emit(
        &self,
        topic: &str,
        payload: Received,
        dir: &Path,
    ) -> Result<String, Failure> {
        let topic = checked(topic)?;
        let (payload, spooled) = match payload {
            Received::Short(text) => (text, None),
            Received::Long(file) => {
                let text: Arc<dyn DiskFile> = Arc::from(Box::<dyn DiskFile>::from(file));
                (String::new(), Some(Spooled { path: dir.to_owned(), text }))
            }
        };
        self.emitter.emit(Event { topic, payload, spooled })
    }

    pub(super) fn change(&self, change: Change) -> Result<String, Failure> {
        self.memory.change(change)
    }
}

/// A client that is this program has checked its topic already.
pub(super) fn checked(topic: &str) -> Result<Topic, Failure> {
    Topic::check(topic).map_err(|error| Failure::usage(error.to_string()))
}
