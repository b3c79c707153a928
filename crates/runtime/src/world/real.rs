//! The world as the operating system presents it.

#![expect(clippy::disallowed_methods, reason = "this is the real world")]

mod disk;
#[cfg(target_os = "linux")]
mod inotify;

pub use disk::RealDisk;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use autoloop_core::timestamp::Timestamp;
use jiff::Zoned;
use jiff::tz::TimeZone;

use crate::world::{Clock, Entropy};

/// The clock of the machine. Its monotonic side counts from the moment it was made.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |m| -m),
        };
        Timestamp::from_millis(millis)
    }

    fn local(&self, zone: Option<&str>) -> Zoned {
        let named = zone.and_then(|zone| TimeZone::get(zone).ok());
        self.now().in_zone(named.unwrap_or_else(TimeZone::system))
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

#[derive(Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::rand::getrandom(
                &mut bytes[filled..],
                rustix::rand::GetRandomFlags::empty(),
            ) {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                // Only a kernel without the call can answer otherwise, and such a kernel cannot
                // run this binary.
                Err(errno) => panic!("the kernel has no random numbers: {errno}"),
            }
        }
    }
}
