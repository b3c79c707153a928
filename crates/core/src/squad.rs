//! A squad: parallel loops that build the tasks of a plan, each with its own reviewer.
//!
//! [`Squad`] is the fold of the records of one run.

use crate::coordinator::{Fold, Kind, Status};
use crate::record::{Event, Glance, SquadFinish};
use crate::wire_enum::Word;

pub use crate::config::Effort;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Squad {
    pub id: String,
    /// `None` without a `squad.start`.
    pub start: Option<Start>,
    /// `None` before the end.
    pub finish: Option<SquadFinish>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub spec: String,
    pub effort: Word<Effort>,
    pub max_loops: u64,
    pub base: String,
    pub is_planned: bool,
}

impl Squad {
    pub fn status(&self) -> Status {
        let end = self.finish.as_ref().map(|finish| finish.outcome.known());
        end.map_or(Status::Running, |end| end.map_or(Status::Failed, Status::of_squad))
    }
}

impl Fold for Squad {
    const KIND: Kind = Kind::Squad;

    fn new(id: &str) -> Self {
        Squad { id: id.to_owned(), ..Squad::default() }
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        match record.event() {
            Event::SquadStart(start) => {
                self.start = Some(Start {
                    spec: start.spec.read().into_owned(),
                    effort: start.effort,
                    max_loops: start.max_loops,
                    base: start.base,
                    is_planned: start.planned == Some(true),
                });
            }
            Event::SquadResume(_) => self.finish = None,
            Event::SquadFinish(finish) => self.finish = Some(finish),
            _ => {}
        }
    }
}
