//! How long something may take, as settings write it: `30s`, `1m30s`, `500ms`, `1.5h`.
//!
//! Parts from the largest unit to the smallest, each unit once, no spaces. A part may have decimals as
//! long as a whole number of milliseconds comes out.

use std::time::Duration;

use crate::text;

/// From the largest to the smallest, in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A hundred years: longer is a mistake, and still far from an overflow of clocks.
pub const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDuration {
    #[error("'{}' is not a duration; write one like 30s, 1m30s, 500ms or 1.5h", shown(.0))]
    Syntax(String),
    #[error(
        "'{number}' has no unit; write {number}s for seconds or {number}ms for milliseconds",
        number = shown(.0)
    )]
    NoUnit(String),
    /// Not a whole number of milliseconds.
    #[error("'{}' is finer than a millisecond; write one like 30s, 1m30s, 500ms or 1.5h", shown(.0))]
    TooFine(String),
    #[error("'{}' is too long: the limit is a hundred years (36500d)", shown(.0))]
    TooLong(String),
}

/// Parses a duration of at most [`LONGEST`], in whole milliseconds.
pub fn parse(text: &str) -> Result<Duration, BadDuration> {
    let bad = |fault: Fault| fault(text.to_owned());
    let mut millis = 0_u64;
    let mut units = UNITS.iter();
    let mut rest = text;
    while !rest.is_empty() || text.is_empty() {
        let (number, behind) = split_where(rest, |c| !c.is_ascii_digit() && c != '.');
        let (unit, behind) = split_where(behind, |c| !c.is_ascii_lowercase());
        if unit.is_empty() && number == text && is_number(number) {
            return Err(bad(BadDuration::NoUnit));
        }
        // The search continues behind the last unit, which keeps the order.
        let known = units.find(|(name, _)| *name == unit).filter(|_| is_number(number));
        let (_, scale) = known.ok_or_else(|| bad(BadDuration::Syntax))?;
        let part = scaled(number, *scale).map_err(bad)?;
        millis = millis.checked_add(part).ok_or_else(|| bad(BadDuration::TooLong))?;
        rest = behind;
    }
    Some(Duration::from_millis(millis))
        .filter(|d| *d <= LONGEST)
        .ok_or_else(|| bad(BadDuration::TooLong))
}

pub fn print(duration: Duration) -> String {
    let mut millis = duration.as_millis();
    let mut text = String::new();
    for (unit, scale) in UNITS {
        let count = millis / u128::from(scale);
        millis %= u128::from(scale);
        if count > 0 {
            text += &format!("{count}{unit}");
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Prints a duration in its two largest units, at most down to seconds.
pub fn print_short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let unit = match seconds {
        0..3_600 => 1,
        3_600..86_400 => 60,
        _ => 3_600,
    };
    print(Duration::from_secs(seconds - seconds % unit))
}

/// Digits, optionally with a fraction.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.split_once('.') {
        None => digits(text),
        Some((whole, decimals)) => digits(whole) && digits(decimals),
    }
}

type Fault = fn(String) -> BadDuration;

fn scaled(number: &str, scale: u64) -> Result<u64, Fault> {
    let (too_fine, too_long): (Fault, Fault) = (BadDuration::TooFine, BadDuration::TooLong);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().map_err(|_| too_long)?;
    let decimals = decimals.trim_end_matches('0');
    let part = match u32::try_from(decimals.len()) {
        Ok(0) => 0,
        // A day has 2^10 * 3^3 * 5^5 milliseconds, so with more than ten decimals nothing comes out
        // even; with ten, the product stays below 10^18.
        Ok(places @ 1..=10) => {
            let product = decimals.parse::<u64>().map_err(|_| too_fine)? * scale;
            let divisor = 10_u64.pow(places);
            if !product.is_multiple_of(divisor) {
                return Err(too_fine);
            }
            product / divisor
        }
        _ => return Err(too_fine),
    };
    whole.checked_mul(scale).and_then(|whole| whole.checked_add(part)).ok_or(too_long)
}

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

fn shown(text: &str) -> String {
    text::shown(text, 40)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn times_are_told_in_their_two_largest_units() {
        for (seconds, told) in [
            (0, "0s"),
            (59, "59s"),
            (3_599, "59m59s"),
            (3_661, "1h1m"),
            (90_061, "1d1h"),
            (86_400 * 40, "40d"),
        ] {
            assert_eq!(print_short(Duration::from_secs(seconds)), told);
        }
    }
    #[test]
    fn reads_durations() {
        for (text, millis) in [
            ("0s", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1m", 60_000),
            ("90m", 5_400_000),
            ("1.5h", 5_400_000),
            ("1.50h", 5_400_000),
            ("1.000000000000000000000000h", 3_600_000),
            ("12h", 43_200_000),
            ("3d", 259_200_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("1h5ms", 3_600_005),
            ("0.001s", 1),
            ("0.333h", 1_198_800),
            ("0.0009765625d", 84_375),
            ("007s", 7_000),
            ("36500d", 3_153_600_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in [
            "", "s", "soon", "-5s", "+5s", "5 s", " 5s", "5s ", "1m 30s", "30s1m", "5s5s", "1ms1s",
            "5S", "5sec", "5us", "1.s", ".5s", "1.2.3s", "1,5s", "1e3s", "5s3", "٣s", "1d\n", ".",
            "..",
        ] {
            assert_eq!(parse(text), Err(BadDuration::Syntax(text.to_owned())), "{text:?}");
        }
        for text in ["500", "0", "1.5"] {
            assert_eq!(parse(text), Err(BadDuration::NoUnit(text.to_owned())), "{text:?}");
        }
        for text in
            ["1.5ms", "0.0001s", "1.23456789h", "0.00000000001d", "0.99999999999999999999999d"]
        {
            assert_eq!(parse(text), Err(BadDuration::TooFine(text.to_owned())), "{text:?}");
        }
        for text in [
            "36501d",
            "36500d1ms",
            "18446744073709551615ms",
            "18446744073709551616ms",
            "18446744073709551615d",
            "213503982334d2000000000000h",
            "99999999999999999999999999999999d",
        ] {
            assert_eq!(parse(text), Err(BadDuration::TooLong(text.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn says_what_to_write() {
        insta::assert_snapshot!(message("so\non"), @r"'so\non' is not a duration; write one like 30s, 1m30s, 500ms or 1.5h");
        insta::assert_snapshot!(message("500"), @"'500' has no unit; write 500s for seconds or 500ms for milliseconds");
        insta::assert_snapshot!(message("1.5ms"), @"'1.5ms' is finer than a millisecond; write one like 30s, 1m30s, 500ms or 1.5h");
        insta::assert_snapshot!(message("40000d"), @"'40000d' is too long: the limit is a hundred years (36500d)");
        insta::assert_snapshot!(message(&"x".repeat(99)), @"'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…' is not a duration; write one like 30s, 1m30s, 500ms or 1.5h");
    }

    #[test]
    fn prints_the_shortest_parts() {
        for (millis, text) in [
            (0, "0s"),
            (1, "1ms"),
            (30_000, "30s"),
            (90_500, "1m30s500ms"),
            (5_400_000, "1h30m"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(print(Duration::from_millis(millis)), text);
        }
        assert_eq!(print(Duration::from_micros(1_999)), "1ms");
        // 2^64 - 1 seconds are 213503982334601 days, 7 hours and 15 seconds.
        assert_eq!(print(Duration::MAX), "213503982334601d7h15s999ms");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read(millis in 0..=3_153_600_000_000_u64) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&print(duration)), Ok(duration));
        }

        #[test]
        fn decimals_are_exact(whole in 0..1_000_u64, decimals in 0..1_000_u64) {
            let expected = Duration::from_millis(whole * 1_000 + decimals);
            prop_assert_eq!(parse(&format!("{whole}.{decimals:03}s")), Ok(expected));
        }

        #[test]
        fn nothing_panics_and_what_is_read_is_bounded(text in "[0-9.dhms]{0,30}|\\PC{0,12}") {
            if let Ok(duration) = parse(&text) {
                prop_assert!(duration <= LONGEST);
                prop_assert_eq!(parse(&print(duration)), Ok(duration));
            }
        }
    }
}
