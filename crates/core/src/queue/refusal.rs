//! Why a request to the queue is refused.

use super::{Claim, LONGEST_CLAIM, LONGEST_NAME, LONGEST_TEXT, LONGEST_TITLE, Priority};
use crate::record::QueueAdded;
use crate::{duration, text};

/// The longest path of dependencies that is shown completely.
const LONGEST_PATH: usize = 6;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("unknown task '{}'", shown(.id))]
    Unknown { id: String },
    #[error("duplicate task id '{}'", shown(.id))]
    Taken { id: String },
    #[error("{id} is claimed by {}{until}", shown(.owner))]
    Held { id: String, owner: String, until: String },
    #[error("{id} is closed")]
    Closed { id: String },
    #[error("{id} is not closed")]
    NotClosed { id: String },
    #[error("{id} is not claimed")]
    NotClaimed { id: String },
    #[error("{id} waits for {}", .waits_for.join(", "))]
    Blocked { id: String, waits_for: Vec<String> },
    #[error("{} of {id} is no longer valid: {}", numbered(*.fence), now_of(.owner.as_deref()))]
    Lost { id: String, fence: u64, owner: Option<String> },
    #[error("{id} already waits for {after}")]
    After { id: String, after: String },
    #[error("{id} does not wait for '{}'", shown(.after))]
    NotAfter { id: String, after: String },
    #[error("{id} cannot wait for itself")]
    Itself { id: String },
    /// Two tasks would wait for each other; `path` leads from the other task to this one.
    #[error("{id} cannot wait for {}: {}", .path.first().map_or("it", String::as_str), print_path(.path))]
    Cycle { id: String, path: Vec<String> },
    #[error("the title is empty: expected one line that says what to do")]
    NoTitle,
    #[error("the {what} has {bytes} bytes: the limit is {most}")]
    TooLong { what: &'static str, bytes: usize, most: usize },
    #[error("invalid priority {number}: expected 0 (most urgent) to {}", Priority::LEAST)]
    NoPriority { number: u64 },
    #[error("{id} cannot be claimed for longer than {}", duration::print(LONGEST_CLAIM))]
    Endless { id: String },
    #[error("invalid task id '{}': expected one word of at most {LONGEST_NAME} bytes", shown(.id))]
    BadId { id: String },
    #[error("invalid owner '{}': expected one word of at most {LONGEST_NAME} bytes", shown(.owner))]
    BadOwner { owner: String },
}

impl Refusal {
    pub fn is_mistake(&self) -> bool {
        use Refusal::{BadId, BadOwner, Endless, Itself, NoPriority, NoTitle, TooLong};
        matches!(
            self,
            NoTitle
                | TooLong { .. }
                | NoPriority { .. }
                | BadId { .. }
                | BadOwner { .. }
                | Endless { .. }
                | Itself { .. }
        )
    }

    pub(super) fn held(claim: &Claim) -> Refusal {
        let until = claim.until.map(|until| format!(" until {until}")).unwrap_or_default();
        Refusal::Held { id: claim.item.clone(), owner: claim.owner.clone(), until }
    }

    pub(super) fn of_texts(added: &QueueAdded) -> Result<(), Refusal> {
        let QueueAdded { task, title, description, acceptance, priority, .. } = added;
        Refusal::of_task(task, title, description.as_deref(), acceptance.as_deref())?;
        match priority.and_then(Priority::new) {
            Some(_) => Ok(()),
            None => Err(Refusal::NoPriority { number: priority.unwrap_or_default() }),
        }
    }

    /// Checks the id and the texts of a task, of the queue or of a plan.
    pub(crate) fn of_task(
        id: &str,
        title: &str,
        description: Option<&str>,
        acceptance: Option<&str>,
    ) -> Result<(), Refusal> {
        // Ids are arguments of commands, and lists of ids are separated by commas.
        if !is_name(id) || id.starts_with('-') || id.contains(',') {
            return Err(Refusal::BadId { id: id.to_owned() });
        }
        if title.trim().is_empty() {
            return Err(Refusal::NoTitle);
        }
        for (what, bytes, most) in [
            ("title", title.len(), LONGEST_TITLE),
            ("description", description.map_or(0, str::len), LONGEST_TEXT),
            ("text of the acceptance criteria", acceptance.map_or(0, str::len), LONGEST_TEXT),
        ] {
            if bytes > most {
                return Err(Refusal::TooLong { what, bytes, most });
            }
        }
        Ok(())
    }

    pub(super) fn of_owner(owner: &str) -> Result<(), Refusal> {
        match is_name(owner) {
            true => Ok(()),
            false => Err(Refusal::BadOwner { owner: owner.to_owned() }),
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_odd = |c: char| c.is_control() || c.is_whitespace();
    !text.is_empty() && text.len() <= LONGEST_NAME && !text.contains(is_odd)
}

fn shown(text: &str) -> String {
    text::clipped_line(text, 60)
}

fn print_path(path: &[String]) -> String {
    match path {
        [first, .., last] if path.len() > LONGEST_PATH => {
            format!("{first} waits for {last} through {} others", path.len() - 2)
        }
        [first, rest @ ..] => format!("{first} waits for {}", rest.join(", which waits for ")),
        [] => String::new(),
    }
}

fn numbered(fence: u64) -> String {
    if fence == 0 { "the claim".to_owned() } else { format!("claim {fence}") }
}

fn now_of(owner: Option<&str>) -> String {
    match owner {
        Some(owner) => format!("{} has claimed it", shown(owner)),
        None => "it was released".to_owned(),
    }
}
