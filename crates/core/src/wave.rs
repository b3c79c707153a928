//! Waves: an agent asks for several objectives to be worked on at once, each by a branch, and goes on
//! when all of them have ended.
//!
//! [`Wave`] is what is on record about one; [`next`] says what it needs next. A wave is part of the run
//! that opened it, and its branches are runs of their own.

mod list;
mod merge;
mod state;
mod step;

pub use list::{BadList, objectives};
pub use state::{Branch, Outcome, Request, Told, Wave, Waves};
pub use step::{BranchOrder, Join, MergeOrder, WaveStep, next};

use crate::topic::{Topic, TopicClass};

/// What topics end with that ask for a wave.
pub const PARALLEL: &str = ".parallel";
/// The base of the request that needs no event: look into several things, and come back.
pub const EXPLORE: &str = "explore";
/// What the reason begins with where a wave needs working trees and there can be none.
pub const NO_WORKTREE: &str = "no_worktree";

/// Whether waves may be asked for, and what binds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Parallel {
    /// They may not.
    #[default]
    Off,
    /// They may, for any event but the one that completes the run.
    On {
        /// That event.
        completion_event: String,
    },
}

/// The reason of a `wave.invalid` where waves are off.
pub const DISABLED: &str = "parallelism disabled";
/// What the agent is told about it.
pub const OFF: &str = "waves are off in this run (parallel.enabled)";

/// The event that a request for a wave is about; `None` for any other topic. `explore` stands for none
/// in particular.
pub fn base_of(topic: &str) -> Option<&str> {
    topic.strip_suffix(PARALLEL).filter(|base| !base.is_empty())
}

impl Parallel {
    /// Whether a wave may be asked for about this event, if the event itself may be said. A request for
    /// a wave is no such event.
    pub fn admit(&self, base: &str) -> bool {
        match self {
            Parallel::Off => false,
            Parallel::On { completion_event } => {
                base != completion_event
                    && base_of(base).is_none()
                    && Topic::new(base).class() == TopicClass::Agent
            }
        }
    }
}

/// The event that the harness emits when the branches have ended.
pub fn joined_topic(trigger: &str) -> String {
    format!("{trigger}.joined")
}

/// What an agent is told about a wave that was refused.
pub fn refused(topic: &str, reason: &str) -> String {
    let why = match reason {
        "active_wave_exists" => "another wave was asked for in the same turn".to_owned(),
        DISABLED => OFF.to_owned(),
        reason if reason.starts_with(NO_WORKTREE) => {
            let why = reason[NO_WORKTREE.len()..].trim_start_matches([':', ' ']);
            format!("branches cannot have working trees of their own: {why}")
        }
        reason => BadList::ALL
            .into_iter()
            .find(|bad| bad.reason() == reason)
            .map_or_else(|| reason.to_owned(), |bad| bad.to_string()),
    };
    format!("the wave '{}' was not opened: {why}", topic.escape_debug())
}

#[cfg(test)]
mod tests;
