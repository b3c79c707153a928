//! Why a step of the queue is not possible, told to a person.

use super::{Claim, LONGEST_CLAIM, LONGEST_NAME, LONGEST_TEXT, LONGEST_TITLE, Priority};
use crate::record::QueueAdded;
use crate::{duration, text};

/// So many tasks that wait for each other are named.
const LONGEST_WAY: usize = 6;

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such task.
    #[error("there is no task '{}'", shown(.id))]
    Unknown {
        /// What was asked for.
        id: String,
    },
    /// There is such a task already.
    #[error("there is a task '{}' already", shown(.id))]
    Taken {
        /// The task.
        id: String,
    },
    /// Somebody else has it.
    #[error("{id} is claimed by {}{until}", shown(.owner))]
    Held {
        /// The task.
        id: String,
        /// Who has it.
        owner: String,
        /// Until when, as a phrase; empty where nobody knows.
        until: String,
    },
    /// It is done already.
    #[error("{id} is closed")]
    Closed {
        /// The task.
        id: String,
    },
    /// It is not done yet.
    #[error("{id} is not closed")]
    NotClosed {
        /// The task.
        id: String,
    },
    /// Nobody has it.
    #[error("{id} is not claimed by anybody")]
    NotClaimed {
        /// The task.
        id: String,
    },
    /// Others have to be done first.
    #[error("{id} waits for {}", .waits_for.join(", "))]
    Blocked {
        /// The task.
        id: String,
        /// Those others.
        waits_for: Vec<String>,
    },
    /// The claim is over: it expired, and the task was given to somebody else, or given back.
    #[error("{} of {id} is over: {}", numbered(*.fence), now_of(.owner.as_deref()))]
    Lost {
        /// The task.
        id: String,
        /// The number of the claim; 0 where claims have none.
        fence: u64,
        /// Who had it last.
        owner: Option<String>,
    },
    /// It waits for that one already.
    #[error("{id} waits for {after} already")]
    After {
        /// The task.
        id: String,
        /// The other.
        after: String,
    },
    /// It does not wait for that one.
    #[error("{id} does not wait for '{}'", shown(.after))]
    NotAfter {
        /// The task.
        id: String,
        /// The other.
        after: String,
    },
    /// It would wait for itself.
    #[error("{id} cannot wait for itself")]
    Itself {
        /// The task.
        id: String,
    },
    /// Two tasks would wait for each other.
    #[error("{id} cannot wait for {}: {}", .way.first().map_or("it", String::as_str), told_way(.way))]
    Cycle {
        /// The task.
        id: String,
        /// How the other waits for it: the other, the one that it waits for, and so on up to the task.
        way: Vec<String>,
    },
    /// A task without a title.
    #[error("the title is empty; say in a line what is to be done")]
    NoTitle,
    /// More text than a task may have.
    #[error("the {what} has {bytes} bytes, and {most} is the most")]
    TooLong {
        /// Which text.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
    /// No such priority.
    #[error("priority {number} is none; it goes from 0, the most urgent, to {}", Priority::LEAST)]
    NoPriority {
        /// What was asked for.
        number: u64,
    },
    /// A claim that would hardly ever end.
    #[error("{id} cannot be claimed for longer than {}", duration::print(LONGEST_CLAIM))]
    Endless {
        /// The task.
        id: String,
    },
    /// Not a name for a task. Those of the queue are `t-1` and so on; this is for what others write.
    #[error("'{}' is no name for a task; it is a word of at most {LONGEST_NAME} bytes", shown(.id))]
    BadId {
        /// What was given.
        id: String,
    },
    /// Not a name for somebody.
    #[error("'{}' is no name for an owner; it is a word of at most {LONGEST_NAME} bytes", shown(.owner))]
    BadOwner {
        /// What was given.
        owner: String,
    },
}

impl Refusal {
    /// Whether it was asked for in a way that cannot be meant, so that it would be refused at any time.
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

    /// What is wrong with what a task says about itself.
    pub(super) fn of_texts(added: &QueueAdded) -> Result<(), Refusal> {
        // Commands are given it, and lists of names are separated by commas.
        if !is_name(&added.task) || added.task.starts_with('-') || added.task.contains(',') {
            return Err(Refusal::BadId { id: added.task.clone() });
        }
        if added.title.trim().is_empty() {
            return Err(Refusal::NoTitle);
        }
        if added.priority.and_then(Priority::new).is_none() {
            return Err(Refusal::NoPriority { number: added.priority.unwrap_or_default() });
        }
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        for (what, bytes, most) in [
            ("title", added.title.len(), LONGEST_TITLE),
            ("description", length(&added.description), LONGEST_TEXT),
            ("text of the acceptance criteria", length(&added.acceptance), LONGEST_TEXT),
        ] {
            if bytes > most {
                return Err(Refusal::TooLong { what, bytes, most });
            }
        }
        Ok(())
    }

    /// What is wrong with the name of an owner.
    pub(super) fn of_owner(owner: &str) -> Result<(), Refusal> {
        match is_name(owner) {
            true => Ok(()),
            false => Err(Refusal::BadOwner { owner: owner.to_owned() }),
        }
    }
}

/// Whether a text is one word of a usual length.
fn is_name(text: &str) -> bool {
    let is_odd = |c: char| c.is_control() || c.is_whitespace();
    !text.is_empty() && text.len() <= LONGEST_NAME && !text.contains(is_odd)
}

/// A word from outside, in a message.
fn shown(text: &str) -> String {
    text::clip(&text::one_line(text), 60).into_owned()
}

/// How one task waits for another, in words.
fn told_way(way: &[String]) -> String {
    match way {
        [first, .., last] if way.len() > LONGEST_WAY => {
            format!("{first} waits for {last} by way of {} others", way.len() - 2)
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
        Some(owner) => format!("it was given to {}", shown(owner)),
        None => "it was given back".to_owned(),
    }
}
