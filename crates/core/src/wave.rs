//! Waves: an agent requests work on several objectives at once, each by a branch, and the run continues when all
//! branches have ended.
//!
//! [`Wave`] is the state of one; [`next`] decides what it needs. A wave is part of the run that requested it, and
//! its branches are runs of their own.

mod state;
mod step;

pub use state::{Branch, JoinProgress, Outcome, Request, Wave, Waves};
pub use step::{BranchOrder, Join, MergeOrder, WaveStep, next};

use std::collections::BTreeSet;

use crate::topic::{Topic, TopicClass};
use crate::wire_enum::words;

pub const PARALLEL: &str = ".parallel";
/// The base of a request that refers to no event.
pub const EXPLORE: &str = "explore";
/// The beginning of the reason where a wave needs worktrees and they are not available.
pub const NO_WORKTREE: &str = "no_worktree";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Parallel {
    #[default]
    Off,
    /// For any event but the one that completes the run.
    On { completion_event: String },
}

/// The reason of a `wave.invalid` where waves are off.
pub const DISABLED: &str = "parallelism disabled";
/// The same for the agent.
pub const OFF: &str = "waves are off in this run (parallel.enabled)";

/// The event that a request for a wave refers to; `None` for any other topic. `explore` refers to
/// none.
pub fn base_of(topic: &str) -> Option<&str> {
    topic.strip_suffix(PARALLEL).filter(|base| !base.is_empty())
}

impl Parallel {
    /// Whether a wave may be requested for this event, if the event itself is allowed. Requests
    /// cannot be nested.
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

pub fn joined_topic(trigger: &str) -> String {
    format!("{trigger}.joined")
}

pub fn refused(topic: &str, reason: &str) -> String {
    let why = match reason {
        "active_wave_exists" => "another wave was requested in the same turn".to_owned(),
        DISABLED => OFF.to_owned(),
        reason if reason.starts_with(NO_WORKTREE) => {
            let why = reason[NO_WORKTREE.len()..].trim_start_matches([':', ' ']);
            format!("branches cannot have worktrees of their own: {why}")
        }
        reason => BadList::from_word(reason).map_or(reason, |bad| bad.message()).to_owned(),
    };
    format!("the wave '{}' was not opened: {why}", topic.escape_debug())
}

/// The maximum length of a list, in bytes. A reader that shortens long payloads keeps more than
/// this, so no list is taken for a shorter one.
const LONGEST: usize = 10_000;

words! {
    BadList {
        Empty = "empty_branch_list",
        NotAList = "invalid_branch_list",
        TooMany = "too_many_branches",
        Repeated = "duplicate_branches",
        TooLong = "branch_list_too_long",
    }
}

impl BadList {
    fn message(self) -> &'static str {
        match self {
            BadList::Empty => "it contains no objective",
            BadList::NotAList => "a line does not begin with '- ', '* ' or a number and a dot",
            BadList::TooMany => "it has more items than parallel.max_branches allows",
            BadList::Repeated => "it has a duplicate objective",
            BadList::TooLong => {
                "it is longer than 10,000 bytes; write long objectives to files and name them"
            }
        }
    }
}

/// Reads a list of at most `most` different objectives: bullets or numbers, one per line.
pub fn objectives(text: &str, most: u64) -> Result<Vec<String>, BadList> {
    if text.len() > LONGEST {
        return Err(BadList::TooLong);
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let items = lines.map(item).collect::<Option<Vec<&str>>>().ok_or(BadList::NotAList)?;
    let distinct: BTreeSet<&str> = items.iter().copied().collect();
    match items.len() {
        0 => Err(BadList::Empty),
        count if count as u64 > most => Err(BadList::TooMany),
        count if count > distinct.len() => Err(BadList::Repeated),
        _ => Ok(items.into_iter().map(str::to_owned).collect()),
    }
}

fn item(line: &str) -> Option<&str> {
    let numbered = || {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        (rest.len() < line.len()).then(|| rest.strip_prefix(". "))?
    };
    let said = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).or_else(numbered)?;
    let said = said.trim();
    (!said.is_empty()).then_some(said)
}

#[cfg(test)]
mod tests;
