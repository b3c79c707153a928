//! The circuit breaker of a client: after a transient failure it is not asked again too soon.
//!
//! All turns of one client share a breaker. A transient failure opens it: until a moment that the client names, or by
//! exponential back-off with jitter. When that moment has come, one turn is let through to try; the others follow when
//! it has succeeded. Waiting has a limit, counted since the last success.

use std::time::Duration;

use super::ClientError;

const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);
/// How often a turn looks whether another one that tries has ended.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long an unavailable client is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The first wait, if the client names none.
    pub first: Duration,
    /// All waits since the first failure.
    pub most: Duration,
}

/// Moments are times of a clock that never goes backward.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    /// Failures since the last success.
    failures: u32,
    /// When the first of them happened.
    since: Duration,
    /// When it may be tried again.
    until: Duration,
    is_trying: bool,
}

/// Whether a turn may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Permit {
    Go,
    Wait(Duration),
}

impl Breaker {
    /// Asks for a turn. The first caller after the timeout tries for all.
    pub fn ask(&mut self, now: Duration) -> Permit {
        match self.until.checked_sub(now).filter(|left| !left.is_zero()) {
            _ if self.failures == 0 => Permit::Go,
            Some(left) => Permit::Wait(left),
            None if self.is_trying => Permit::Wait(POLL_INTERVAL),
            None => {
                self.is_trying = true;
                Permit::Go
            }
        }
    }

    /// A turn ended in another way than by a transient failure, so the client answers.
    pub fn close(&mut self) {
        *self = Breaker::default();
    }

    /// A turn ended without telling anything about the client, as after an interrupt: another may try.
    pub fn stop_trying(&mut self) {
        self.is_trying = false;
    }

    /// A turn failed and the failure passes by itself. Returns the time to wait, or `None` if they are used up.
    /// `jitter` is from 0 to 1.
    pub fn open(
        &mut self,
        now: Duration,
        error: &ClientError,
        jitter: f64,
        waits: Waits,
    ) -> Option<Duration> {
        self.is_trying = false;
        let is_open = self.failures > 0 && self.until > now;
        if self.failures == 0 {
            self.since = now;
        }
        let left = waits.most.checked_sub(now.saturating_sub(self.since))?;
        if left.is_zero() {
            return None;
        }
        // Turns that were under way when the first one failed add nothing.
        if !is_open {
            let wait =
                error.retry_after.unwrap_or_else(|| backoff(waits.first, self.failures, jitter));
            self.failures = self.failures.saturating_add(1);
            self.until = now.saturating_add(wait.min(left));
        } else if let Some(named) = error.retry_after {
            self.until = self.until.max(now.saturating_add(named.min(left)));
        }
        Some(self.until.saturating_sub(now))
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

    #[test]
    fn waits_double_up_to_a_limit_and_start_again_after_a_success() {
        let mut breaker = Breaker::default();
        let mut now = seconds(100);
        let mut seen = Vec::new();
        for _ in 0..9 {
            assert_eq!(breaker.ask(now), Permit::Go);
            let wait = breaker.open(now, &error(None), 1.0, waits(HOUR * 99)).unwrap();
            seen.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(seen, [15, 30, 60, 120, 240, 480, 900, 900, 900]);
        breaker.close();
        assert_eq!(
            breaker.open(now, &error(None), 0.0, waits(HOUR)),
            Some(Duration::from_millis(7_500))
        );
    }

    #[test]
    fn the_time_that_the_client_names_counts() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.open(seconds(5), &error(Some(70)), 0.3, waits(HOUR)), Some(seconds(70)));
        assert_eq!(breaker.ask(seconds(10)), Permit::Wait(seconds(65)));
    }

    #[test]
    fn one_turn_tries_for_all() {
        let mut breaker = Breaker::default();
        let _ = breaker.open(seconds(0), &error(Some(10)), 0.0, waits(HOUR));
        assert_eq!(breaker.ask(seconds(10)), Permit::Go);
        assert_eq!(breaker.ask(seconds(10)), Permit::Wait(POLL_INTERVAL));
        breaker.stop_trying();
        assert_eq!(breaker.ask(seconds(10)), Permit::Go);
        breaker.close();
        assert_eq!([breaker.ask(seconds(10)), breaker.ask(seconds(10))], [Permit::Go; 2]);
    }

    #[test]
    fn patience_has_an_end() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.open(seconds(0), &error(Some(9_999)), 0.0, waits(HOUR)), Some(HOUR));
        assert_eq!(breaker.open(HOUR, &error(None), 0.0, waits(HOUR)), None);
        assert_eq!(
            Breaker::default().open(seconds(0), &error(None), 0.0, waits(Duration::ZERO)),
            None
        );
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
                        match breaker.open(now, &error(named), jitter, waits(HOUR)) {
                            Some(wait) => until = now + wait,
                            None => break,
                        }
                        prop_assert!(until <= HOUR + LONGEST_WAIT + now);
                    }
                    Permit::Wait(left) => prop_assert!(now + left >= until),
                }
            }
        }
    }
}
