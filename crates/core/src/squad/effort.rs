//! What a level of effort means.

use crate::config::Effort;
use crate::record::SquadSubject;

/// How much a reviewer is asked to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    Shallow,
    Standard,
    Deep,
    Comprehensive,
}

impl Effort {
    /// How often the work of a loop, and a phase of the run, is revised before it is stuck.
    pub fn revisions(self) -> u64 {
        match self {
            Effort::Low => 2,
            Effort::Medium => 3,
            Effort::High => 4,
            Effort::Max => 5,
        }
    }

    /// After how many iterations of any loop all active ones are reviewed; `None` for never.
    pub fn checkpoint_interval(self) -> Option<u64> {
        match self {
            Effort::Low => None,
            Effort::Medium => Some(5),
            Effort::High => Some(3),
            Effort::Max => Some(1),
        }
    }

    pub fn depth(self) -> Depth {
        match self {
            Effort::Low => Depth::Shallow,
            Effort::Medium => Depth::Standard,
            Effort::High => Depth::Deep,
            Effort::Max => Depth::Comprehensive,
        }
    }

    /// Whether a review takes place whenever its subject is complete.
    pub fn reviews(self, subject: SquadSubject) -> bool {
        match subject {
            SquadSubject::Task | SquadSubject::Build => true,
            SquadSubject::Plan => self >= Effort::Medium,
            SquadSubject::Enumerate => self >= Effort::High,
            SquadSubject::Progress => self.checkpoint_interval().is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_effort() {
        let rows = [Effort::Low, Effort::Medium, Effort::High, Effort::Max].map(|effort| {
            let reviews = [SquadSubject::Enumerate, SquadSubject::Plan, SquadSubject::Build];
            let reviews = reviews.map(|subject| effort.reviews(subject));
            let interval = effort.checkpoint_interval();
            format!("{effort} {} {interval:?} {:?} {reviews:?}", effort.revisions(), effort.depth())
        });
        insta::assert_snapshot!(rows.join("\n"), @r"
        low 2 None Shallow [false, false, true]
        medium 3 Some(5) Standard [false, true, true]
        high 4 Some(3) Deep [true, true, true]
        max 5 Some(1) Comprehensive [true, true, true]
        ");
    }
}
