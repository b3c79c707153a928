//! A squad as tables: its groups with their loops, and its reviews.

mod loops;
mod reviews;

pub use loops::{render as render_loops, resolve_command};
pub use reviews::render as render_reviews;

use crate::record::{SquadPhase, SquadSubject, SquadTurn};

/// What an agent does in a turn, in a few words.
pub fn turn_name(turn: &SquadTurn) -> String {
    let again = if turn.attempt > 0 { " again" } else { "" };
    match turn.phase.known() {
        Some(SquadPhase::Revise) => format!("revision {}", turn.attempt),
        Some(SquadPhase::Review) => {
            review_name(turn.subject.as_ref().and_then(|it| it.known())) + again
        }
        Some(SquadPhase::Conflict) => format!("conflict resolution{again}"),
        _ => format!("{}{again}", turn.phase),
    }
}

/// What a review is about, in a few words.
pub fn review_name(subject: Option<SquadSubject>) -> String {
    let of = match subject {
        Some(SquadSubject::Enumerate) => " of the tasks",
        Some(SquadSubject::Plan) => " of the plan",
        Some(SquadSubject::Build) => " of the merged work",
        Some(SquadSubject::Progress) => return "checkpoint".to_owned(),
        Some(SquadSubject::Task) | None => "",
    };
    format!("review{of}")
}
