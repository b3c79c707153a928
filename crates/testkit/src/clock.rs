//! A clock whose time passes only when a test advances it or a process sleeps.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use autoloop_core::timestamp::Timestamp;
use autoloop_runtime::world::Clock;

/// Virtual time. Clones show the same time; sleeping on one moves it for all.
#[derive(Clone, Debug)]
pub struct SimClock {
    start: Timestamp,
    elapsed: Arc<Mutex<Duration>>,
}

impl SimClock {
    /// A clock that shows `start` until time passes.
    pub fn starting(start: Timestamp) -> Self {
        SimClock { start, elapsed: Arc::default() }
    }

    /// Lets this much time pass, at once.
    pub fn advance(&self, time: Duration) {
        let mut elapsed = self.elapsed.lock().unwrap_or_else(PoisonError::into_inner);
        *elapsed = elapsed.saturating_add(time);
    }
}

impl Default for SimClock {
    /// Starts at the first moment of 2026.
    fn default() -> Self {
        SimClock::starting(Timestamp::from_millis(1_767_225_600_000))
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(self.start.millis().saturating_add(passed))
    }

    fn elapsed(&self) -> Duration {
        *self.elapsed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, time: Duration) {
        self.advance(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_only_by_sleeping_and_for_all_clones() {
        let clock = SimClock::default();
        let other = clock.clone();
        assert_eq!(clock.now().to_string(), "2026-01-01T00:00:00.000Z");
        assert_eq!(clock.elapsed(), Duration::ZERO);
        clock.sleep(Duration::from_secs(3600));
        other.advance(Duration::from_micros(1500));
        assert_eq!(clock.now().to_string(), "2026-01-01T01:00:00.001Z");
        assert_eq!(other.elapsed(), Duration::from_micros(3_600_001_500));
    }

    #[test]
    fn eternity_does_not_overflow() {
        let clock = SimClock::default();
        clock.sleep(Duration::MAX);
        clock.sleep(Duration::MAX);
        assert_eq!(clock.now(), Timestamp::from_millis(i64::MAX));
    }
}
