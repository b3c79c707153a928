//! One line of the journal.
//!
//! A [`Record`] is everything that one line says, in the shape in which it was written: the harness
//! writes `fields`, agents write a `payload` and a `source`. Topics and keys that this version does
//! not know are kept and shown, never dropped. What a record means is another question, answered by
//! [`Glance::event`].
//!
//! Reading has two speeds. [`Glance`] looks only at what is asked for and allocates next to nothing:
//! views use it. [`parse`] takes a line apart and says what is wrong with it: `verify`, and whoever
//! needs a whole record.

mod event;
mod extract;
mod lazy;
mod line;
mod number;
mod outcome;
mod recovery;
mod scan;
mod text;
mod value;

pub use event::*;
pub use extract::Extract;
pub use lazy::Glance;
pub use line::{BadLine, Hole, parse, print, print_around};
pub use number::{NotANumber, Number};
pub use outcome::{
    ChainOutcome, Changes, HeldBy, Phase, Picked, SlotOutcome, SlotsEnd, StopReason,
};
pub use recovery::{Piece, pieces};
use text::Field;
pub use text::Text;
pub use value::{Object, Value};

pub use crate::json::{Escaper, Unescaper, escape, unescape};
use crate::timestamp::Timestamp;
use crate::topic::Topic;

/// The version of the format that this program writes.
pub const FORMAT_VERSION: u64 = 1;

/// Everything one line of the journal says.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The run it belongs to; empty for what concerns the journal as a whole.
    pub run: String,
    /// The iteration, as written; empty outside of one.
    pub iteration: String,
    /// What happened.
    pub topic: Topic,
    /// The rest, in one of two shapes.
    pub body: Body,
    /// When, as written. Records of other writers may lack it.
    pub ts: Option<String>,
    /// The format version. Records of other writers may lack it.
    pub version: Option<u64>,
    /// The [proof](crate::provenance) that a harness wrote it, as written. Only records of a harness have one.
    pub seal: Option<String>,
    /// Keys that this version does not know, or whose value is of an unexpected type.
    pub extra: Object,
}

/// The two shapes of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Written by the harness: named fields.
    System(Object),
    /// Written on behalf of an agent: free text.
    Agent {
        /// The text.
        payload: String,
        /// Who said it; `agent`, or `harness` for joined events.
        source: String,
    },
}

/// Where and when a record is written: what is the same for all records of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The run.
    pub run: String,
    /// The iteration; empty outside of one.
    pub iteration: String,
    /// The moment.
    pub now: Timestamp,
}

impl Heading {
    /// A record of the harness.
    pub fn system(&self, topic: &str, fields: Object) -> Record {
        self.record(Topic::new(topic), Body::System(fields))
    }

    /// A record of an agent.
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

impl Record {
    /// A field of a system record.
    pub fn field(&self, name: &str) -> Option<&Value> {
        match &self.body {
            Body::System(fields) => {
                fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
            }
            Body::Agent { .. } => None,
        }
    }

    /// All fields of a system record that are no structures, in order, as text.
    pub fn each_field(&self, mut tell: impl FnMut(&str, String)) {
        if let Body::System(fields) = &self.body {
            for (name, value) in fields {
                value.to_text().into_iter().for_each(|text| tell(name, text));
            }
        }
    }

    /// When, if the record says so in a way that can be understood.
    pub fn stamp(&self) -> Option<Timestamp> {
        self.ts.as_deref()?.parse().ok()
    }
}
