//! One line of the journal.
//!
//! A [`Record`] is the content of one line, in the shape in which it was written: the harness writes `fields`,
//! agents write a `payload` and a `source`. Unknown topics and keys are kept and shown, never dropped.
//! [`Glance::event`] gives the meaning of a record.
//!
//! There are two readers. [`Glance`] is lazy and allocates next to nothing: views use it. [`parse`] is strict and
//! reports errors: `verify` and callers that need a whole record use it.

mod event;
mod extract;
mod lazy;
mod line;
mod outcome;
mod recovery;
mod scan;
mod value;

pub use crate::review::SquadSubject;
pub use event::*;
pub use extract::Extract;
use lazy::Field;
pub use lazy::{Glance, Text};
pub use line::{BadLine, parse, print, print_around};
pub use outcome::{
    ChainOutcome, Changes, ExchangeOutcome, HeldBy, LoopEnd, Phase, Picked, Resolution, Side,
    SlotOutcome, SlotsEnd, SquadClaim, SquadEnd, SquadPhase, StopReason, Support, ViolationOutcome,
};
pub use recovery::{Piece, pieces};
pub use value::{Object, Value};

pub use crate::json::{Escaper, Unescaper, escape, unescape};
use crate::timestamp::Timestamp;
use crate::topic::Topic;

pub const FORMAT_VERSION: u64 = 1;

#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Empty for a record about the journal itself.
    pub run: String,
    /// As written; empty outside of an iteration.
    pub iteration: String,
    pub topic: Topic,
    pub body: Body,
    /// As written. Records of other writers may lack it.
    pub ts: Option<String>,
    /// Records of other writers may lack it.
    pub version: Option<u64>,
    /// The [proof](crate::provenance) that a harness wrote the record.
    pub seal: Option<String>,
    /// Unknown keys, and known ones with a value of an unexpected type.
    pub extra: Object,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    System(Object),
    /// Written on behalf of an agent.
    Agent {
        payload: String,
        /// `agent`, or `harness` for joined events.
        source: String,
    },
}

impl Body {
    fn agent(&self) -> Option<(&str, &str)> {
        match self {
            Body::System(_) => None,
            Body::Agent { payload, source } => Some((payload, source)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    pub run: String,
    pub iteration: String,
    pub now: Timestamp,
}

impl Heading {
    pub fn system(&self, topic: &str, fields: Object) -> Record {
        self.record(Topic::new(topic), Body::System(fields))
    }

    pub fn agent(&self, topic: Topic, payload: impl Into<String>) -> Record {
        self.record(topic, Body::Agent { payload: payload.into(), source: "agent".to_owned() })
    }

    fn record(&self, topic: Topic, body: Body) -> Record {
        Record {
            run: self.run.clone(),
            iteration: self.iteration.clone(),
            topic,
            body,
            ts: Some(self.now.to_string()),
            version: Some(FORMAT_VERSION),
            seal: None,
            extra: Object::new(),
        }
    }
}
