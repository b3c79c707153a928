//! The records of the end of an iteration: its output, and what was not allowed in it.

use autoloop_core::failure::TurnFailure;
use autoloop_core::provenance::FORGED;
use autoloop_core::record::{
    Amount, BackendFinish, ChainSpawned, EventInvalid, Heading, IterationFinish, WaveInvalid,
};
use autoloop_core::routing::{Admission, InvalidEvent, Refusal, admit};
use autoloop_core::topic::Topic;
use autoloop_core::topology::Route;
use autoloop_core::wave::{DISABLED, Parallel, refused as refused_wave};

use super::Foreign;
use crate::journal::{NewRecord, Spooled};
use crate::turn::said;
use crate::world::Finished;

/// Readers of the journal are shown an output whole up to this many bytes.
const LONG_OUTPUT: u64 = 64 * 1024;

/// The records of the end of an iteration, in the order of the specification: the backend, its usage and what was not
/// allowed, the iteration. `output` is set where it is too long to be held in memory, and `tree` where no new event was
/// emitted.
pub(super) fn end_records(
    finished: &Finished,
    failure: Option<&TurnFailure>,
    output: Option<&Spooled>,
    tree: Option<String>,
    between: Vec<NewRecord>,
    heading: &Heading,
) -> Vec<NewRecord> {
    let text = if output.is_some() { String::new() } else { said(finished) };
    let (exit_code, timed_out) = (finished.exit_code(), finished.timed_out());
    let is_long = finished.stdout.bytes > LONG_OUTPUT;
    let interrupted = failure.filter(|failure| failure.is_interrupt()).map(|_| true);
    let detail = failure.and_then(TurnFailure::cause);
    let backend = BackendFinish {
        exit_code: exit_code.into(),
        timed_out,
        output: text.as_str().into(),
        interrupted,
        detail: detail.clone(),
    };
    let iteration = IterationFinish {
        exit_code: exit_code.into(),
        timed_out: Some(timed_out),
        elapsed_s: Some(Amount(finished.elapsed.as_secs())),
        output: text.as_str().into(),
        promised: (finished.found_at.is_some() && is_long).then_some(true),
        interrupted,
        detail,
        tree,
    };
    let with_output = |record| NewRecord { record, spooled: output.cloned() };
    let mut records = vec![with_output(backend.record(heading))];
    records.extend(between);
    records.push(with_output(iteration.record(heading)));
    records
}

/// The emitted events that the topology does not allow, whatever `emit` accepted, and forged records.
pub(super) fn invalid_events(
    recent_event: &str,
    route: &Route,
    parallel: &Parallel,
    foreign: &Foreign,
    heading: &Heading,
) -> Vec<NewRecord> {
    let invalid = |emitted: &str, reason: Option<&str>| EventInvalid {
        recent_event: recent_event.to_owned(),
        emitted: emitted.to_owned(),
        suggested_roles: route.roles.join(","),
        allowed_events: route.events.join(","),
        reason: reason.map(str::to_owned),
    };
    let refusal = Admission::Refused(Refusal::NotAllowed);
    let is_refused = |topic: &&Topic| admit(topic, &route.events, parallel) == refusal;
    let refused =
        foreign.events.iter().filter(is_refused).map(|topic| invalid(topic.as_str(), None));
    let forged = foreign.forged.iter().map(|topic| invalid(topic, Some(FORGED)));
    refused.chain(forged).map(|invalid| invalid.record(heading).into()).collect()
}

pub(super) fn invalid_waves(
    recent_event: &str,
    route: &Route,
    parallel: &Parallel,
    foreign: &Foreign,
    heading: &Heading,
) -> Vec<NewRecord> {
    let off = Admission::Refused(Refusal::WavesOff);
    let requested =
        foreign.events.iter().filter(|topic| admit(topic, &route.events, parallel) == off);
    let invalid = requested.map(|topic| WaveInvalid {
        trigger_topic: topic.to_string(),
        reason: DISABLED.to_owned(),
        opening_recent_event: recent_event.to_owned(),
        ..WaveInvalid::default()
    });
    invalid.map(|invalid| invalid.record(heading).into()).collect()
}

/// A refusal, for the next prompt.
pub(super) fn refusal_text(invalid: &EventInvalid) -> String {
    let list =
        |text: &str| text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let refusal = match invalid.reason.as_deref() {
        Some(FORGED) => Refusal::Reserved,
        Some(reason) if invalid.emitted == ChainSpawned::TOPIC => {
            return format!("the chain was not started: {reason}");
        }
        // Of a wave.
        Some(reason) => return refused_wave(&invalid.emitted, reason),
        None => Refusal::NotAllowed,
    };
    InvalidEvent {
        emitted: Topic::new(invalid.emitted.clone()),
        recent_event: Topic::new(invalid.recent_event.clone()),
        suggested_roles: list(&invalid.suggested_roles),
        allowed_events: list(&invalid.allowed_events),
        refusal,
    }
    .to_string()
}
