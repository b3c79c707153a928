//! What records mean: one type per topic that the specification names.
//!
//! [`Record::event`] never fails and never guesses. A topic that is not in these tables, or a known
//! topic without a field that it must have, is [`Event::Other`]: kept and shown, but nothing is
//! concluded from it.

mod chain;
mod coordination;
mod queue;
mod run;
mod slot;
mod table;
mod wave;
mod wire;

use super::{Body, Record};
use crate::payload::Payload;
use crate::topic::{Topic, TopicClass};

pub use chain::*;
pub use coordination::Coordination;
pub use queue::*;
pub use run::*;
pub use slot::*;
pub use wave::*;
pub use wire::{Seconds, Tokens};

/// Lists the events of the harness that there are.
macro_rules! meanings {
    ($( $name:ident, )*) => {
        /// What a record means.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Event {
            $(
                #[doc = concat!("See [`", stringify!($name), "`].")]
                $name($name),
            )*
            /// An agent said something about its work, in the seven topics that bypass routing.
            Coordination(Coordination),
            /// An agent (or the harness, joining a wave) emitted an event that may route.
            Routing {
                /// The event.
                topic: Topic,
                /// What was said with it.
                payload: String,
                /// Who is said to have said it.
                source: String,
            },
            /// Nothing that this version knows.
            Other,
        }

        impl Record {
            /// What the record means.
            pub fn event(&self) -> Event {
                match (&self.body, self.topic.as_str()) {
                    (Body::Agent { payload, source }, _) => self.agent_event(payload, source),
                    $( (_, $name::TOPIC) => $name::read(self).map_or(Event::Other, Event::$name), )*
                    _ => Event::Other,
                }
            }
        }
    };
}

meanings! {
    LoopStart,
    LoopResume,
    LoopComplete,
    LoopStop,
    IterationStart,
    IterationFinish,
    BackendStart,
    BackendFinish,
    BackendUsage,
    ReviewStart,
    ReviewFinish,
    ReviewViolation,
    LoopReverted,
    EventInvalid,
    JournalRepaired,
    WaveStart,
    WaveBranchStart,
    WaveBranchFinish,
    WaveBranchMerge,
    WaveJoinStart,
    WaveJoinFinish,
    WaveTimeout,
    WaveFailed,
    WaveInvalid,
    ChainStart,
    ChainResume,
    ChainStepStart,
    ChainStepFinish,
    ChainComplete,
    ChainSpawned,
    ChainSpawnFinish,
    ChainInvalid,
    SlotRunStart,
    SlotRunPrompts,
    SlotRunResume,
    SlotStart,
    SlotPhase,
    SlotImplement,
    SlotReview,
    SlotFix,
    SlotMerge,
    SlotFinish,
    SlotsIterationFinish,
    SlotRunFinish,
    QueueAdded,
    QueueClaimed,
    QueueRenewed,
    QueueReleased,
    QueueClosed,
    QueueReopened,
    QueueLinked,
    QueueUnlinked,
}

impl Record {
    fn agent_event(&self, payload: &str, source: &str) -> Event {
        match self.topic.class() {
            TopicClass::Coordination => {
                Coordination::read(self.topic.as_str(), &Payload::parse(payload))
                    .map_or(Event::Other, Event::Coordination)
            }
            TopicClass::Agent | TopicClass::Reserved => Event::Routing {
                topic: self.topic.clone(),
                payload: payload.to_owned(),
                source: source.to_owned(),
            },
        }
    }
}
