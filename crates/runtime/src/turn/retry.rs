//! Waits while a client is unavailable, and then gives it the same prompt again.
//!
//! Turns of one client share a breaker, so a run with many slots asks a provider that refuses them once per wait, not
//! once per slot.

use std::fmt;
use std::time::Duration;

use autoloop_core::agents::{Breaker, ClientError, Outcome, Permit, Stream, Usage};
use autoloop_core::duration;
use autoloop_core::failure::last_line;
use autoloop_core::plan::BackendPlan;
use autoloop_core::record::{BackendParked, BackendResumed, Heading, Record};

use crate::breakers::Breakers;
use crate::process::Interrupts;
use crate::world::{Cause, Clock, Ending, Finished, World};

/// How often a waiting turn looks for requests to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// What a turn that waits has to report.
#[derive(Debug)]
pub(crate) enum Waiting {
    Parked(BackendParked),
    Resumed(BackendResumed),
}

impl Waiting {
    /// `slot` is `None` for a turn of a loop.
    pub(crate) fn record(&self, slot: Option<u64>, heading: &Heading) -> Record {
        match self {
            Waiting::Parked(it) => BackendParked { slot, ..it.clone() }.record(heading),
            Waiting::Resumed(it) => BackendResumed { slot, ..it.clone() }.record(heading),
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waiting::Parked(BackendParked { client, class, detail, wait_ms, until, .. }) => {
                let wait = duration::print(Duration::from_secs(wait_ms.div_ceil(1_000)));
                write!(
                    f,
                    "{client} is unavailable ({class}): {detail}; waiting {wait}, until {until}"
                )
            }
            Waiting::Resumed(BackendResumed { client, .. }) => write!(f, "asking {client} again"),
        }
    }
}

/// One turn of a client that may have to be repeated.
pub(crate) struct Retry<'p> {
    pub(crate) breakers: &'p Breakers,
    pub(crate) backend: &'p BackendPlan,
    pub(crate) world: &'p World,
    pub(crate) interrupts: &'p Interrupts,
}

impl Retry<'_> {
    /// Runs a turn until it ends in another way than by a transient failure, or the timeout has passed. `report` is called
    /// before and after each wait. The usage is that of all attempts.
    pub(crate) fn run<E>(
        &self,
        mut turn: impl FnMut() -> Finished,
        mut report: impl FnMut(Waiting) -> Result<(), E>,
    ) -> Result<Finished, E> {
        let clock = &*self.world.clock;
        let began = clock.elapsed();
        let mut parked = false;
        let mut spent: Option<Usage> = None;
        loop {
            if !self.wait_for_permit() {
                self.breakers.with(&self.backend.command, Breaker::stop_trying);
            } else if parked {
                let waited = clock.elapsed().saturating_sub(began);
                let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                let client = self.backend.command.clone();
                report(Waiting::Resumed(BackendResumed { client, waited_ms, slot: None }))?;
            }
            let mut finished = turn();
            if let Some(answer) = &mut finished.answer {
                answer.usage = spent.into_iter().chain(answer.usage).reduce(Usage::sum);
                spent = answer.usage;
            }
            let is_transient =
                |error: &ClientError| error.class.is_transient() && !self.interrupts.are_raised();
            let Some(mut error) = client_error(&finished, self.backend).filter(is_transient) else {
                self.breakers.with(&self.backend.command, |breaker| match finished.cause {
                    Cause::Itself => breaker.close(),
                    Cause::Interrupt | Cause::Deadline => breaker.stop_trying(),
                });
                return Ok(finished);
            };
            if let Some(at) = &error.retry_at {
                let wait = at.wait(&clock.local(at.zone.as_deref()));
                error.retry_after = error.retry_after.or(wait);
            }
            let jitter = self.world.entropy.number() as f64 / u64::MAX as f64;
            let open = |breaker: &mut Breaker| {
                breaker.open(clock.elapsed(), &error, jitter, self.backend.waits)
            };
            let Some(wait) = self.breakers.with(&self.backend.command, open) else {
                return Ok(finished);
            };
            parked = true;
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            report(Waiting::Parked(BackendParked {
                client: self.backend.command.clone(),
                class: error.class.into(),
                detail: last_line(&error.message),
                wait_ms,
                until: clock.now().plus(wait).to_string(),
                slot: None,
            }))?;
        }
    }

    /// Waits until a turn may begin; returns whether it may, and not because of a request to stop.
    fn wait_for_permit(&self) -> bool {
        let clock = &*self.world.clock;
        loop {
            match self.breakers.with(&self.backend.command, |breaker| breaker.ask(clock.elapsed()))
            {
                Permit::Go => return true,
                Permit::Wait(left) => {
                    if !sleep(clock, left, self.interrupts) {
                        return false;
                    }
                }
            }
        }
    }
}

/// Sleeps unless there is a request to stop; returns whether it slept to the end.
fn sleep(clock: &dyn Clock, time: Duration, interrupts: &Interrupts) -> bool {
    let end = clock.elapsed().saturating_add(time);
    while let Some(left) = end.checked_sub(clock.elapsed()).filter(|left| !left.is_zero()) {
        if interrupts.are_raised() {
            return false;
        }
        clock.sleep(left.min(POLL_INTERVAL));
    }
    !interrupts.are_raised()
}

/// The error of a failed turn, as a known client reports it: in its stream, or else in its last line on standard error.
/// What other programs print may mean anything.
pub(crate) fn client_error(finished: &Finished, backend: &BackendPlan) -> Option<ClientError> {
    let is_failed = finished.exit_code() != 0 && finished.cause == Cause::Itself;
    let is_client = backend.kind.adapter().is_some() || backend.stream() != Stream::Plain;
    if !is_failed || !is_client || !matches!(finished.ending, Ending::Exited(_)) {
        return None;
    }
    Some(match finished.answer.as_ref().map(|answer| &answer.outcome) {
        Some(Outcome::Failed(error)) => error.clone(),
        _ => ClientError::from(last_line(&finished.stderr.end()).as_str()),
    })
}
