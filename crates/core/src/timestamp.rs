//! Timestamps of records: RFC 3339, UTC, milliseconds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970, printed as `2026-11-15T21:12:06.031Z`. Core has no clock; timestamps
/// come from the clock of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "i64")]
pub struct Timestamp(i64);

/// Years 1 to 9999, the range that RFC 3339 can write.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_207_200_000;

impl Timestamp {
    /// Clamped to the years that RFC 3339 can write.
    pub fn from_millis(millis: i64) -> Self {
        Timestamp(millis.clamp(*RANGE.start(), *RANGE.end()))
    }

    /// The moment that is this much later.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(self.millis().saturating_add(millis))
    }

    /// The time since another one; zero where a clock was set back.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.millis() - earlier.millis()).unwrap_or(0))
    }

    pub fn millis(self) -> i64 {
        self.0
    }

    pub fn in_zone(self, zone: jiff::tz::TimeZone) -> jiff::Zoned {
        let moment = jiff::Timestamp::from_millisecond(self.0);
        moment.unwrap_or_default().to_zoned(zone)
    }
}

impl From<i64> for Timestamp {
    fn from(millis: i64) -> Self {
        Timestamp::from_millis(millis)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            // Unreachable by construction; a wrong time is still better than no record.
            Err(_) => f.write_str("1970-01-01T00:00:00.000Z"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time: {0:?}")]
pub struct InvalidTimestamp(String);

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        text.parse::<jiff::Timestamp>()
            .map(|moment| Timestamp::from_millis(moment.as_millisecond()))
            .map_err(|_| InvalidTimestamp(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prints_utc_with_milliseconds() {
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(
            Timestamp::from_millis(1_794_777_126_031).to_string(),
            "2026-11-15T21:12:06.031Z"
        );
        assert_eq!(Timestamp::from_millis(i64::MAX).to_string(), "9999-12-30T22:00:00.000Z");
    }

    #[test]
    fn reads_other_offsets_and_refuses_prose() {
        let stamp: Timestamp = "2026-11-15T22:12:06.031+01:00".parse().unwrap();
        assert_eq!(stamp, Timestamp::from_millis(1_794_777_126_031));
        assert!("yesterday".parse::<Timestamp>().is_err());
    }

    proptest! {
        #[test]
        fn round_trips(millis in RANGE) {
            let stamp = Timestamp::from_millis(millis);
            prop_assert_eq!(stamp.to_string().parse(), Ok(stamp));
        }
    }
}
