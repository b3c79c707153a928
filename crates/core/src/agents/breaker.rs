//! The circuit breaker of a client: after a transient failure it is not asked again too soon.
//!
//! All turns of one client share a breaker. A transient failure opens it: until a moment that the client names, or by
//! exponential back-off with jitter. When that moment has come, one turn is let through to try; the others follow when
//! it has succeeded, or has worked for so long that the client must have answered. Only that turn decides: the others
//! that are under way began before the failure and say nothing about the client as it is now.
//!
//! Waiting has a limit, counted since the last success. When it is used up, turns that wait end with the failure.

use std::time::Duration;

use super::ClientError;

const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);
/// A client may name a shorter time, and repeat it for hours.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
/// How often a turn looks whether another one that tries has ended.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Clients that retry requests themselves give up within this time.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5 * 60);

/// How long an unavailable client is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The first wait, if the client names none.
    pub first: Duration,
    /// All waits since the first failure.
    pub most: Duration,
}

/// Moments are times of a clock that never goes backward. A turn is known by the moment at which it was let through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    /// Failures since the last success.
    failures: u32,
    /// When the first of them happened.
    since: Duration,
    /// When it may be tried again.
    until: Duration,
    /// The last failure.
    error: ClientError,
    /// The turn that tries.
    trying: Option<Duration>,
    has_given_up: bool,
}

/// Whether a turn may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Permit {
    Go,
    /// Because of this failure.
    Wait(Duration, ClientError),
    /// It was waited long enough.
    GiveUp(ClientError),
}

/// What a transient failure of a turn leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Opened {
    /// All turns wait for so long.
    Anew(Duration),
    /// They do already, for so much longer.
    Already(Duration),
    GivenUp,
}

impl Breaker {
    /// Asks for a turn. The first to ask after the time is up tries for all.
    pub fn ask(&mut self, now: Duration) -> Permit {
        if self.failures == 0 {
            return Permit::Go;
        }
        match self.until.checked_sub(now).filter(|left| !left.is_zero()) {
            Some(_) if self.has_given_up => return Permit::GiveUp(self.error.clone()),
            Some(left) => return Permit::Wait(left, self.error.clone()),
            None => {}
        }
        match self.trying {
            Some(began) if now.saturating_sub(began) < ANSWERS_WITHIN => {
                return Permit::Wait(POLL_INTERVAL, self.error.clone());
            }
            Some(_) => *self = Breaker::default(),
            None => self.trying = Some(now),
        }
        Permit::Go
    }

    /// A turn ended in another way than by a transient failure, so the client answers.
    pub fn succeeded(&mut self, began: Duration) {
        if self.trying == Some(began) {
            *self = Breaker::default();
        }
    }

    /// A turn ended without telling anything about the client, as after an interrupt: another may try.
    pub fn ended(&mut self, began: Duration) {
        if self.trying == Some(began) {
            self.trying = None;
        }
    }

    /// A turn failed and the failure passes by itself. `jitter` is from 0 to 1.
    pub fn failed(
        &mut self,
        began: Duration,
        now: Duration,
        error: &ClientError,
        jitter: f64,
        waits: Waits,
    ) -> Opened {
        let is_first = self.failures == 0;
        if is_first {
            self.since = now;
        }
        let waited = now.saturating_sub(self.since);
        let left = waits.most.saturating_sub(waited);
        let named = error.retry_after.map(|named| named.max(SHORTEST_WAIT));
        if !is_first && self.trying != Some(began) {
            if self.has_given_up {
                return Opened::GivenUp;
            }
            if let Some(named) = named {
                self.until = self.until.max(now.saturating_add(named.min(left)));
            }
            return Opened::Already(self.until.saturating_sub(now));
        }
        self.trying = None;
        self.error = error.clone();
        let wait = named.unwrap_or_else(|| backoff(waits.first, self.failures, jitter));
        self.failures = self.failures.saturating_add(1);
        self.has_given_up = left.is_zero();
        // Turns of other work may try again later.
        let wait = if self.has_given_up { waited.min(LONGEST_WAIT) } else { wait.min(left) };
        self.until = now.saturating_add(wait);
        if self.has_given_up { Opened::GivenUp } else { Opened::Anew(wait) }
    }
}

/// Doubles with every failure; from half of it to all of it, so that several machines do not ask at once.
fn backoff(first: Duration, failures: u32, jitter: f64) -> Duration {
    let whole = first.saturating_mul(2u32.saturating_pow(failures)).min(LONGEST_WAIT);
    whole.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::agents::ErrorClass;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn waits(most: Duration) -> Waits {
        Waits { first: seconds(15), most }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn error(retry_after: Option<u64>) -> ClientError {
        ClientError {
            class: ErrorClass::RateLimit,
            message: "slow down".to_owned(),
            retry_after: retry_after.map(seconds),
            retry_at: None,
        }
    }

    /// Lets a turn through at a moment and has it fail there; the time to wait.
    fn fail(
        breaker: &mut Breaker,
        now: Duration,
        named: Option<u64>,
        max_wait: Duration,
    ) -> Opened {
        assert_eq!(breaker.ask(now), Permit::Go);
        breaker.failed(now, now, &error(named), 1.0, waits(max_wait))
    }

    #[test]
    fn waits_double_up_to_a_limit_and_start_again_after_a_success() {
        let mut breaker = Breaker::default();
        let mut now = seconds(100);
        for wait in [15, 30, 60, 120, 240, 480, 900, 900, 900].map(seconds) {
            assert_eq!(fail(&mut breaker, now, None, HOUR * 99), Opened::Anew(wait));
            now += wait;
        }
        assert_eq!(breaker.ask(now), Permit::Go);
        breaker.succeeded(now);
        let half = breaker.failed(now, now, &error(None), 0.0, waits(HOUR));
        assert_eq!(half, Opened::Anew(Duration::from_millis(7_500)));
    }

    #[test]
    fn the_time_that_the_client_names_counts() {
        let mut breaker = Breaker::default();
        let opened = fail(&mut breaker, seconds(5), Some(70), HOUR);
        assert_eq!(opened, Opened::Anew(seconds(70)));
        assert_eq!(breaker.ask(seconds(10)), Permit::Wait(seconds(65), error(Some(70))));
        let opened = fail(&mut Breaker::default(), seconds(5), Some(0), HOUR);
        assert_eq!(opened, Opened::Anew(SHORTEST_WAIT));
    }

    #[test]
    fn one_turn_tries_for_all() {
        let mut breaker = Breaker::default();
        let _ = fail(&mut breaker, seconds(0), Some(10), HOUR);
        let wait = || Permit::Wait(POLL_INTERVAL, error(Some(10)));
        assert_eq!(breaker.ask(seconds(10)), Permit::Go);
        assert_eq!(breaker.ask(seconds(11)), wait());
        breaker.ended(seconds(10));
        assert_eq!(breaker.ask(seconds(12)), Permit::Go);
        breaker.succeeded(seconds(12));
        assert_eq!([breaker.ask(seconds(13)), breaker.ask(seconds(13))], [Permit::Go, Permit::Go]);
    }

    #[test]
    fn a_try_that_works_for_long_has_its_answer() {
        let mut breaker = Breaker::default();
        let _ = fail(&mut breaker, seconds(0), Some(10), HOUR);
        assert_eq!(breaker.ask(seconds(10)), Permit::Go);
        let long = seconds(10) + ANSWERS_WITHIN;
        assert!(matches!(breaker.ask(long - seconds(1)), Permit::Wait(POLL_INTERVAL, _)));
        assert_eq!([breaker.ask(long), breaker.ask(long)], [Permit::Go, Permit::Go]);
    }

    #[test]
    fn turns_from_before_the_failure_change_nothing() {
        let mut breaker = Breaker::default();
        for began in [1, 2, 3].map(seconds) {
            assert_eq!(breaker.ask(began), Permit::Go);
        }
        let _ = breaker.failed(seconds(2), seconds(4), &error(Some(10)), 0.0, waits(HOUR));
        breaker.succeeded(seconds(1));
        assert!(matches!(breaker.ask(seconds(5)), Permit::Wait(..)));
        assert_eq!(breaker.ask(seconds(14)), Permit::Go);
        breaker.ended(seconds(1));
        breaker.succeeded(seconds(1));
        let late = breaker.failed(seconds(3), seconds(15), &error(Some(20)), 0.0, waits(HOUR));
        assert_eq!(late, Opened::Already(seconds(20)));
        assert!(matches!(breaker.ask(seconds(34)), Permit::Wait(..)));
        // The one that tries still decides.
        assert!(matches!(breaker.ask(seconds(36)), Permit::Wait(POLL_INTERVAL, _)));
        breaker.succeeded(seconds(14));
        assert_eq!(breaker.ask(seconds(36)), Permit::Go);
    }

    #[test]
    fn waiting_has_an_end_for_all() {
        let mut breaker = Breaker::default();
        assert_eq!(fail(&mut breaker, seconds(0), Some(9_999), HOUR), Opened::Anew(HOUR));
        assert_eq!(fail(&mut breaker, HOUR, None, HOUR), Opened::GivenUp);
        assert_eq!(breaker.ask(HOUR + seconds(1)), Permit::GiveUp(error(None)));
        // Later, one may try again.
        assert_eq!(fail(&mut breaker, HOUR + LONGEST_WAIT, None, HOUR), Opened::GivenUp);
        let later = HOUR + LONGEST_WAIT * 2;
        assert_eq!(breaker.ask(later), Permit::Go);
        breaker.succeeded(later);
        assert_eq!(breaker, Breaker::default());
        // Without waiting at all, every turn is let through.
        let zero = Duration::ZERO;
        assert_eq!(fail(&mut breaker, seconds(0), None, zero), Opened::GivenUp);
        assert_eq!(breaker.ask(seconds(0)), Permit::Go);
    }

    proptest! {
        #[test]
        fn nothing_is_let_through_while_it_is_open(
            steps in prop::collection::vec((0..400u64, prop::option::of(0..900u64), 0.0..1.0f64), 1..60),
        ) {
            let mut breaker = Breaker::default();
            let (mut now, mut until) = (Duration::ZERO, Duration::ZERO);
            for (passed, named, jitter) in steps {
                now += seconds(passed);
                match breaker.ask(now) {
                    Permit::Go => {
                        prop_assert!(now >= until);
                        match breaker.failed(now, now, &error(named), jitter, waits(HOUR)) {
                            Opened::Anew(wait) => until = now + wait,
                            Opened::Already(_) => prop_assert!(false, "it was the one that tried"),
                            Opened::GivenUp => break,
                        }
                        prop_assert!(until <= HOUR + LONGEST_WAIT + now);
                    }
                    Permit::Wait(left, _) => prop_assert!(now + left >= until),
                    Permit::GiveUp(_) => prop_assert!(false, "nothing was given up"),
                }
            }
        }
    }
}
