//! The settings: their keys, their sources and their values.
//!
//! [`Key`] is the table of everything that can be set. A [`Layer`] is one place that sets
//! something: a file, a variable or a flag. [`Settings::resolve`] puts layers on top of each other and
//! remembers for each value where it came from; what is wrong with a layer becomes a [`Problem`], with
//! the text and the bytes that are meant. Nothing here opens a file: the runtime finds the layers, and
//! [`crate::plan`] makes of the settings what a loop goes by.

mod agent_keys;
mod checks;
mod enums;
mod key;
mod layer;
mod problem;
mod settings;
pub mod shell_words;
mod show;
mod template;
mod value;

use std::time::Duration;

pub use agent_keys::AgentKeys;
pub use checks::Check;
pub use enums::{
    BackendKind, Effort, Isolation, ItemSource, Leftovers, LogLevel, PromptMode, Sandbox,
    SyncPolicy,
};
pub use key::{Key, Kind, Preset};
pub use layer::{Layer, Origin, Tables, VARIABLE};
pub use problem::{Place, Problem, Severity};
pub use settings::{Provenance, Reading, Settings};
pub use show::{Detail, as_json, as_toml};
pub use template::{Filled, UnknownPlaceholder, fill};
pub use value::Value;

pub(crate) use value::{Refusal, read_text};

pub const LONGEST: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    pub sync: SyncPolicy,
    /// How long to wait for another writer; zero is one attempt.
    pub lock_timeout: Duration,
}

impl Settings {
    pub fn journal(&self) -> JournalConfig {
        JournalConfig {
            sync: self.word(Key::JournalSync),
            lock_timeout: self.time(Key::JournalLockTimeout),
        }
    }
}

#[cfg(test)]
mod tests;
