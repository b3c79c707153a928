//! Typed events: one type per topic of the harness.
//!
//! [`Glance::event`] never fails. An unknown topic is [`Event::Other`]: kept and shown, but nothing is
//! concluded from it. A field that is missing or cannot be read has the default of its type, because
//! journals of older versions and of other writers lack some.

mod chain;
mod coordination;
mod queue;
mod run;
mod slot;
mod wave;
mod wire;

use super::Glance;
use crate::topic::{Topic, TopicClass};

pub use chain::*;
pub use coordination::Coordination;
pub use queue::*;
pub use run::*;
pub use slot::*;
pub use wave::*;
pub use wire::{ExitCode, Seconds, Tokens};

/// Declares [`Event`] with a variant per event of the harness.
macro_rules! event_enum {
    ($( $name:ident $(<$long:lifetime>)?, )*) => {
        /// The meaning of a record.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Event<'a> {
            $( $name($name $(<$long>)?), )*
            /// An agent's bookkeeping, in one of the seven topics that bypass routing.
            Coordination(Coordination),
            /// An event that may route, of an agent or of the harness that joins a wave.
            Routing(Topic),
            /// A topic that this version does not know.
            Other,
        }

        impl Glance<'_> {
            pub fn event(&self) -> Event<'_> {
                match self.topic().as_ref() {
                    topic if self.has_payload() => self.agent_event(topic),
                    $( $name::TOPIC => Event::$name($name::read(self)), )*
                    topic => Coordination::read(topic, self).map_or(Event::Other, Event::Coordination),
                }
            }
        }
    };
}

event_enum! {
    LoopStart,
    LoopResume,
    LoopComplete,
    LoopStop,
    IterationStart<'a>,
    IterationFinish<'a>,
    BackendStart,
    BackendFinish<'a>,
    BackendUsage,
    BackendParked,
    BackendResumed,
    ReviewStart<'a>,
    ReviewFinish<'a>,
    ReviewViolation,
    LoopReverted,
    EventInvalid,
    JournalRepaired,
    WaveStart,
    WaveBranchStart,
    WaveBranchFinish<'a>,
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
    ChainSpawnFinish<'a>,
    ChainInvalid,
    SlotRunStart,
    SlotRunPrompts,
    SlotRunResume,
    SlotStart,
    SlotPhase,
    SlotImplement<'a>,
    SlotReview<'a>,
    SlotFix<'a>,
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

impl Glance<'_> {
    fn agent_event(&self, topic: &str) -> Event<'_> {
        let topic = Topic::new(topic);
        match topic.class() {
            TopicClass::Coordination => {
                Coordination::read(topic.as_str(), self).map_or(Event::Other, Event::Coordination)
            }
            TopicClass::Agent | TopicClass::Reserved => Event::Routing(topic),
        }
    }
}
