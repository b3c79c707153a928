//! A moment that a client names by the clock on the wall, as in `try again at 9:45 PM`.

use std::time::Duration;

use jiff::civil::{self, Date};
use jiff::{Span, Zoned};
use serde::{Deserialize, Serialize};

/// A moment that has passed by less than this is now: the text has no seconds.
const JUST_NOW: Duration = Duration::from_secs(5 * 60);
/// A date that is further back than this is one of the next year.
const LONG_AGO: Duration = Duration::from_secs(180 * 24 * 3600);
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// A time of day, on the next day that has it unless a day is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallTime {
    hour: i8,
    minute: i8,
    day: Option<Day>,
    /// The time zone that is named, as in `(Europe/Berlin)`.
    pub zone: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Day {
    month: i8,
    day: i8,
}

impl WallTime {
    /// Reads the moment that the text of an error names: `try again at 9:45 PM`, `try again at Nov 20th, 2026 9:45 PM`,
    /// `resets 3pm (Europe/Berlin)`.
    pub(super) fn read(message: &str) -> Option<WallTime> {
        const BEFORE: [&str; 4] = ["try again at ", "resets at ", "reset at ", "resets "];
        let message = message.to_lowercase();
        let rest = BEFORE.iter().find_map(|words| Some(message.split_once(words)?.1))?;
        let mut words = rest.split([' ', ',']).filter(|word| !word.is_empty()).peekable();
        let day = words.peek().and_then(|word| month(word)).and_then(|month| {
            words.next();
            let day = words.next()?.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            Some(Day { month, day: day.parse().ok()? })
        });
        let is_skipped = |word: &&str| *word == "at" || is_year(word);
        while words.next_if(is_skipped).is_some() {}
        let word = words.next()?.trim_end_matches('.');
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let half = match &word[digits.len()..] {
            "" => words.next_if(|word| matches!(word.trim_end_matches('.'), "am" | "pm")),
            half => Some(half),
        };
        let (hour, minute) = match (digits.split_once(':'), half) {
            (Some(parts), _) => parts,
            (None, Some(_)) => (digits, "0"),
            (None, None) => return None,
        };
        let (hour, minute): (i8, i8) = (hour.parse().ok()?, minute.parse().ok()?);
        let hour = match half.map(|half| half.trim_end_matches('.')) {
            None => hour,
            Some("am") if (1..=12).contains(&hour) => hour % 12,
            Some("pm") if (1..=12).contains(&hour) => hour % 12 + 12,
            Some(_) => return None,
        };
        civil::Time::new(hour, minute, 0, 0).ok()?;
        let zone = words.next().and_then(|word| word.strip_prefix('(')?.split_once(')'));
        let zone = zone.map(|(zone, _)| zone.to_owned());
        Some(WallTime { hour, minute, day, zone })
    }

    /// How long it is until then; `None` if it is now or the day is past.
    pub fn wait(&self, now: &Zoned) -> Option<Duration> {
        let on = |date: Date| {
            let at = date.at(self.hour, self.minute, 0, 0);
            at.to_zoned(now.time_zone().clone()).ok()
        };
        let until = |moment: &Zoned| Duration::try_from(now.duration_until(moment)).ok();
        let since = |moment: &Zoned| Duration::try_from(moment.duration_until(now)).ok();
        let (first, later) = match self.day {
            Some(Day { month, day }) => {
                (Date::new(now.year(), month, day).ok()?, Span::new().years(1))
            }
            None => (now.date(), Span::new().days(1)),
        };
        let moment = on(first)?;
        let patience = if self.day.is_some() { LONG_AGO } else { JUST_NOW };
        match until(&moment).filter(|left| !left.is_zero()) {
            Some(left) => Some(left),
            None if since(&moment)? < patience => None,
            None => until(&on(first.checked_add(later).ok()?)?),
        }
    }
}

fn month(word: &str) -> Option<i8> {
    let place = MONTHS.iter().position(|month| word.starts_with(month))?;
    i8::try_from(place + 1).ok()
}

fn is_year(word: &str) -> bool {
    word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(message: &str, now: &str) -> String {
        let now: Zoned = now.parse().unwrap();
        match WallTime::read(message) {
            None => "no time".to_owned(),
            Some(at) => match (at.wait(&now), at.zone) {
                (None, _) => "now".to_owned(),
                (Some(wait), zone) => {
                    format!("{}s {}", wait.as_secs(), zone.unwrap_or_default()).trim().to_owned()
                }
            },
        }
    }

    #[test]
    fn the_moment_that_a_client_names_is_read() {
        let now = "2026-11-18T21:00:00+01:00[+01:00]";
        for (message, expected) in [
            ("You\u{2019}ve hit your usage limit. Visit x, or try again at 9:45 PM.", "2700s"),
            ("try again at 8:45 PM.", "85500s"),
            ("try again at 8:58 PM", "now"),
            ("try again at 12:00 am", "10800s"),
            ("try again at Nov 20th, 2026 9:00 PM.", "172800s"),
            ("try again at Nov 17th, 2026 9:00 PM.", "now"),
            ("try again at Jan 2nd, 2027 9:00 PM.", "3888000s"),
            ("limit reached \u{2219} resets 11pm", "7200s"),
            ("You've hit your limit \u{b7} resets 3am (Europe/Berlin)", "21600s europe/berlin"),
            ("resets Nov 19, 9pm (UTC)", "86400s utc"),
            ("resets at 22:30", "5400s"),
            ("try again at 25:00", "no time"),
            ("try again at 13pm", "no time"),
            ("try again at 9", "no time"),
            ("try again at Nov 31, 9pm", "now"),
            ("try again at some time", "no time"),
            ("try again at ", "no time"),
            ("the counter resets every day", "no time"),
        ] {
            assert_eq!(wait(message, now), expected, "{message}");
        }
    }
}
