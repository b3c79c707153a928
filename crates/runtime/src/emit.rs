//! Events of agents: appended, or refused with a record of the refusal.

#![expect(
    clippy::disallowed_methods,
    reason = "the values of secret variables are masked in payloads"
)]

use std::borrow::Cow;
use std::sync::Arc;

use autoloop_core::record::{EventInvalid, Heading};
use autoloop_core::routing::{Admission, InvalidEvent, Refusal, admit};
use autoloop_core::secrets::{masked, secret_values};
use autoloop_core::text;
use autoloop_core::topic::Topic;
use autoloop_core::topology::Route;
use autoloop_core::wave::{self, Parallel};

use crate::failure::Failure;
use crate::journal::{Append, Durability, Journal, NewRecord, Spooled};
use crate::world::Clock;

pub const LARGEST_PAYLOAD: u64 = 100 * 1024 * 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    pub run: Option<String>,
    /// Empty outside of an iteration.
    pub iteration: String,
    pub recent_event: String,
    pub route: Route,
    pub parallel: Parallel,
}

#[derive(Clone, Debug)]
pub struct Event {
    pub topic: Topic,
    pub payload: String,
    /// The rest of a payload that is too long for memory.
    pub spooled: Option<Spooled>,
}

pub struct Emitter {
    pub caller: Caller,
    pub journal: Arc<dyn Journal>,
    pub durability: Durability,
    pub clock: Arc<dyn Clock>,
}

/// What an agent says, with the values of the secret variables of this process masked.
pub(crate) fn without_secrets(text: &str) -> Cow<'_, str> {
    masked(text, secrets())
}

fn secrets() -> Vec<Vec<u8>> {
    let variables: Vec<_> = std::env::vars_os().collect();
    secret_values(&variables)
}

impl Emitter {
    /// Appends an event that is admitted; of one that is not, appends the refusal and fails. Returns a message.
    pub fn emit(&self, event: Event) -> Result<String, Failure> {
        let Event { topic, payload, spooled } = event;
        let secrets = secrets();
        let payload = masked(&payload, secrets.clone()).into_owned();
        let spooled = spooled.map(|spooled| Spooled { secrets: Some(secrets), ..spooled });
        match admit(&topic, &self.caller.route.events, &self.caller.parallel) {
            Admission::Accepted | Admission::Coordination => {
                let said = format!("emitted {topic}");
                let record = self.heading()?.agent(topic, payload);
                self.append(NewRecord { record, spooled })?;
                Ok(said)
            }
            // Only the harness writes `wave.invalid`, so the request itself is appended.
            Admission::Refused(Refusal::WavesOff) if !self.caller.iteration.is_empty() => {
                let record = self.heading()?.agent(topic.clone(), payload);
                self.append(NewRecord { record, spooled })?;
                Err(Failure::refused(self.refusal_text(topic, Refusal::WavesOff)))
            }
            Admission::Refused(refusal) => Err(self.refuse(topic, refusal)),
        }
    }

    fn refuse(&self, topic: Topic, refusal: Refusal) -> Failure {
        let caller = &self.caller;
        let invalid = EventInvalid {
            recent_event: caller.recent_event.clone(),
            emitted: topic.to_string(),
            suggested_roles: caller.route.roles.join(","),
            allowed_events: caller.route.events.join(","),
            reason: match refusal {
                Refusal::Reserved => Some("reserved".to_owned()),
                Refusal::WavesOff => Some(wave::DISABLED.to_owned()),
                Refusal::NotAllowed => None,
            },
        };
        let recorded = self
            .heading()
            .and_then(|heading| self.append(NewRecord::from(invalid.record(&heading))));
        let failure = Failure::refused(self.refusal_text(topic, refusal));
        match recorded {
            Ok(()) => failure,
            Err(error) => failure.hint(format!(
                "the refusal could not be recorded: {}",
                text::clip(&text::one_line(&error.message), 200)
            )),
        }
    }

    fn refusal_text(&self, topic: Topic, refusal: Refusal) -> String {
        let caller = &self.caller;
        InvalidEvent {
            emitted: topic,
            recent_event: Topic::new(caller.recent_event.as_str()),
            suggested_roles: caller.route.roles.clone(),
            allowed_events: caller.route.events.clone(),
            refusal,
        }
        .to_string()
    }

    fn append(&self, record: NewRecord) -> Result<(), Failure> {
        self.journal.append(&[record], Append { expect: None, durability: self.durability })?;
        Ok(())
    }

    /// Outside of a loop, an event belongs to the latest run.
    fn heading(&self) -> Result<Heading, Failure> {
        let run = match &self.caller.run {
            Some(run) => run.clone(),
            None => self.journal.latest_run()?.0,
        };
        let iteration = self.caller.iteration.clone();
        Ok(Heading { run, iteration, now: self.clock.now() })
    }
}
