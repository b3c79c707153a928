//! An event of an agent: appended, or refused with the refusal on record.

use std::sync::Arc;

use autoloop_core::record::{EventInvalid, Heading};
use autoloop_core::routing::{Admission, InvalidEvent, Refusal, admit};
use autoloop_core::text;
use autoloop_core::topic::Topic;
use autoloop_core::topology::Route;
use autoloop_core::wave::{self, Parallel};

use crate::complaint::Complaint;
use crate::journal::{Append, Durability, Journal, NewRecord, Spooled};
use crate::world::Clock;

/// The largest payload that an event may have, in bytes.
pub const LARGEST_PAYLOAD: u64 = 100 * 1024 * 1024;

/// Who speaks, and what may be said now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Speaker {
    /// The run; the latest in the journal when nobody says which.
    pub run: Option<String>,
    /// The iteration; empty outside of one.
    pub iteration: String,
    /// The event that the speaker was to answer.
    pub recent_event: String,
    /// Who was to speak, and what is allowed.
    pub route: Route,
    /// Whether waves may be asked for.
    pub parallel: Parallel,
}

/// What is said.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happened.
    pub topic: Topic,
    /// What there is to say about it.
    pub payload: String,
    /// More of it, too long to be held in memory.
    pub spooled: Option<Spooled>,
}

/// Puts the events of one speaker on record.
pub struct Emitter {
    /// Who speaks.
    pub speaker: Speaker,
    /// Where events go.
    pub journal: Arc<dyn Journal>,
    /// What they have to survive.
    pub durability: Durability,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

impl Emitter {
    /// Appends an event that is admitted, and says so; of one that is not, appends the refusal.
    ///
    /// # Errors
    ///
    /// When it is not admitted, whether or not the refusal could be put on record, and when it could
    /// not be stored.
    pub fn emit(&self, event: Event) -> Result<String, Complaint> {
        let Event { topic, payload, spooled } = event;
        match admit(&topic, &self.speaker.route.events, &self.speaker.parallel) {
            Admission::Accepted | Admission::Coordination => {
                let said = format!("emitted {topic}");
                let record = self.heading()?.agent(topic, payload);
                self.append(NewRecord { record, spooled })?;
                Ok(said)
            }
            // Only the harness writes `wave.invalid`, so the request itself goes on record.
            Admission::Refused(Refusal::WavesOff) if !self.speaker.iteration.is_empty() => {
                let record = self.heading()?.agent(topic.clone(), payload);
                self.append(NewRecord { record, spooled })?;
                Err(Complaint::refused(self.told(topic, Refusal::WavesOff)))
            }
            Admission::Refused(refusal) => Err(self.refuse(topic, refusal)),
        }
    }

    /// Tells the agent what it may say instead, after the refusal was put on record.
    fn refuse(&self, topic: Topic, refusal: Refusal) -> Complaint {
        let speaker = &self.speaker;
        let invalid = EventInvalid {
            recent_event: speaker.recent_event.clone(),
            emitted: topic.to_string(),
            suggested_roles: speaker.route.roles.join(","),
            allowed_events: speaker.route.events.join(","),
            reason: match refusal {
                Refusal::Reserved => Some("reserved".to_owned()),
                Refusal::WavesOff => Some(wave::DISABLED.to_owned()),
                Refusal::NotAllowed => None,
            },
        };
        let recorded = self
            .heading()
            .and_then(|heading| self.append(NewRecord::from(invalid.record(&heading))));
        let complaint = Complaint::refused(self.told(topic, refusal));
        match recorded {
            Ok(()) => complaint,
            Err(error) => complaint.hint(format!(
                "the refusal itself could not be put on record: {}",
                text::clip(&text::one_line(&error.message), 200)
            )),
        }
    }

    fn told(&self, topic: Topic, refusal: Refusal) -> String {
        let speaker = &self.speaker;
        InvalidEvent {
            emitted: topic,
            recent_event: Topic::new(speaker.recent_event.as_str()),
            suggested_roles: speaker.route.roles.clone(),
            allowed_events: speaker.route.events.clone(),
            refusal,
        }
        .to_string()
    }

    fn append(&self, record: NewRecord) -> Result<(), Complaint> {
        self.journal.append(&[record], Append { expect: None, durability: self.durability })?;
        Ok(())
    }

    /// Outside of a loop, an event belongs to the latest run.
    fn heading(&self) -> Result<Heading, Complaint> {
        let run = match &self.speaker.run {
            Some(run) => run.clone(),
            None => self.journal.latest_run()?.0,
        };
        let iteration = self.speaker.iteration.clone();
        Ok(Heading { run, iteration, now: self.clock.now() })
    }
}
