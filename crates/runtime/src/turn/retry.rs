//! Waits while a client is unavailable, and then gives it the same prompt again.
//!
//! Turns of one client share a breaker, so a run with many slots asks a provider that refuses them once per wait, not
//! once per slot.

use std::fmt;
use std::time::Duration;

use autoloop_core::agents::{Answer, Breaker, ClientError, Opened, Outcome, Permit, Stream, Usage};
use autoloop_core::duration;
use autoloop_core::failure::last_line;
use autoloop_core::plan::BackendPlan;
use autoloop_core::record::{BackendParked, BackendResumed, Heading, Record};

use crate::breakers::Breakers;
use crate::process::Interrupts;
use crate::world::{Cause, Clock, Ending, Exit, Finished, World};

/// How often a waiting turn looks for requests to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// What a turn that waits has to report.
#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    Parked(BackendParked, News),
    Resumed(BackendResumed, News),
}

/// Whether it is news that a client is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    New,
    /// Another turn has reported it.
    Known,
}

impl Waiting {
    /// Whether it is shown, besides being on record: many turns wait for one client together.
    pub(crate) fn is_news(&self) -> bool {
        let (Waiting::Parked(_, news) | Waiting::Resumed(_, news)) = self;
        *news == News::New
    }

    /// `slot` is `None` for a turn of a loop.
    /// The same in a turn of a squad.
    #[must_use]
    pub(crate) fn in_turn(self, turn: u64) -> Waiting {
        let turn = Some(turn);
        match self {
            Waiting::Parked(it, news) => Waiting::Parked(BackendParked { turn, ..it }, news),
            Waiting::Resumed(it, news) => Waiting::Resumed(BackendResumed { turn, ..it }, news),
        }
    }

    pub(crate) fn record(&self, slot: Option<u64>, heading: &Heading) -> Record {
        match self {
            Waiting::Parked(it, _) => BackendParked { slot, ..it.clone() }.record(heading),
            Waiting::Resumed(it, _) => BackendResumed { slot, ..it.clone() }.record(heading),
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waiting::Parked(BackendParked { client, class, detail, wait_ms, until, .. }, _) => {
                let wait = duration::print(Duration::from_secs(wait_ms.div_ceil(1_000)));
                write!(
                    f,
                    "{client} is unavailable ({class}): {detail}; waiting {wait}, until {until}"
                )
            }
            Waiting::Resumed(BackendResumed { client, .. }, _) => {
                write!(f, "asking {client} again")
            }
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
    /// Runs a turn until it ends in another way than by a transient failure, or it was waited long
    /// enough. `report` is called before and after each wait. The usage is that of all attempts.
    pub(crate) fn run<E>(
        &self,
        mut turn: impl FnMut() -> Finished,
        mut report: impl FnMut(Waiting) -> Result<(), E>,
    ) -> Result<Finished, E> {
        let clock = &*self.world.clock;
        let arrived = clock.elapsed();
        let mut parked: Option<News> = None;
        let mut spent: Option<Usage> = None;
        loop {
            let now = clock.elapsed();
            let began = match self.with(|breaker| breaker.ask(now)) {
                Permit::Go => now,
                Permit::GiveUp(error) => return Ok(refused(error, spent)),
                Permit::Wait(left, error) => {
                    if parked.is_none() {
                        parked = Some(News::Known);
                        report(self.parked(&error, left, News::Known))?;
                    }
                    if !sleep(clock, left, self.interrupts) {
                        return Ok(interrupted(spent));
                    }
                    continue;
                }
            };
            if let Some(news) = parked {
                let waited = clock.elapsed().saturating_sub(arrived);
                let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                let client = self.backend.client_name().to_owned();
                let resumed = Waiting::Resumed(
                    BackendResumed { client, waited_ms, slot: None, turn: None },
                    news,
                );
                report(resumed).inspect_err(|_| self.with(|breaker| breaker.ended(began)))?;
            }
            let mut finished = turn();
            if let Some(answer) = &mut finished.answer {
                answer.usage = spent.into_iter().chain(answer.usage).reduce(Usage::sum);
                spent = answer.usage;
            }
            let error = client_error(&finished, self.backend);
            let Some(mut error) = error.filter(|error| error.class.is_transient()) else {
                self.with(|breaker| match (finished.cause, &finished.ending) {
                    (Cause::Itself, Ending::Exited(_)) => breaker.succeeded(began),
                    _ => breaker.ended(began),
                });
                return Ok(finished);
            };
            if let Some(at) = &error.retry_at {
                let wait = at.wait(&clock.local(at.zone.as_deref()));
                error.retry_after = error.retry_after.or(wait);
            }
            let jitter = self.world.entropy.number() as f64 / u64::MAX as f64;
            let open = |breaker: &mut Breaker| {
                breaker.failed(began, clock.elapsed(), &error, jitter, self.backend.waits)
            };
            let (wait, news) = match self.with(open) {
                // It would have waited.
                _ if self.interrupts.are_raised() => {
                    return Ok(Finished { cause: Cause::Interrupt, ..finished });
                }
                Opened::Anew(wait) => (wait, News::New),
                Opened::Already(wait) => (wait, News::Known),
                Opened::GivenUp => return Ok(finished),
            };
            parked = Some(news);
            report(self.parked(&error, wait, news))?;
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Breaker) -> T) -> T {
        self.breakers.with(self.backend.client_name(), change)
    }

    fn parked(&self, error: &ClientError, wait: Duration, news: News) -> Waiting {
        let parked = BackendParked {
            client: self.backend.client_name().to_owned(),
            class: error.class.into(),
            detail: last_line(&error.message),
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            until: self.world.clock.now().plus(wait).to_string(),
            slot: None,
            turn: None,
        };
        Waiting::Parked(parked, news)
    }
}

/// The end of a turn that was not begun, because its client has been unavailable for too long.
fn refused(error: ClientError, usage: Option<Usage>) -> Finished {
    let answer = Answer { outcome: Outcome::Failed(error), usage, ..Answer::default() };
    Finished { answer: Some(answer), ..Finished::new(Ending::Exited(Exit::Code(1))) }
}

/// The end of a turn that was interrupted before it began.
fn interrupted(usage: Option<Usage>) -> Finished {
    let terminated = rustix::process::Signal::TERM.as_raw();
    let ending = Ending::Exited(Exit::Signal(terminated));
    let answer = Answer { outcome: Outcome::Aborted, usage, ..Answer::default() };
    let answer = usage.map(|_| answer);
    Finished { cause: Cause::Interrupt, answer, ..Finished::new(ending) }
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
    match finished.answer.as_ref().map(|answer| &answer.outcome) {
        Some(Outcome::Failed(error)) => Some(error.clone()),
        // The client had its answer; what is on standard error is about something else.
        Some(Outcome::Done | Outcome::CutShort) => None,
        _ => Some(ClientError::from(last_line(&finished.stderr.end()).as_str())),
    }
}
