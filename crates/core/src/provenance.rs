//! Who wrote a record.
//!
//! A record says what it likes about itself. The harness knows which ones it wrote, because it notes a
//! [`Mark`] of each before it writes it; every other record that [claims](claim) to be the harness's is
//! a forgery.

use crate::excerpt;
use crate::record::{Body, ChainSpawned, EventInvalid, Glance, Record};
use crate::topic::{JOINED, Topic, TopicClass};

/// The reason of a refusal of what only the harness may write.
pub const FORGED: &str = "forged";

/// Fields that may be long, or are not in memory when a record is written.
const LONG: [&str; 4] = ["output", "output_tail", "prompt", "diff"];

/// So many characters of a field or of a payload are looked at. A reader shows at least as many of one that is
/// too long to be held.
const MARKED: usize = 4 * 1024;

/// A digest of what tells the records of one run apart: topic, iteration, time, and all short fields or the
/// payload. No other record with the same mark can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark(u128);

impl Mark {
    /// The mark of a record that is about to be written.
    pub fn of(record: &Record) -> Mark {
        let mut mark = Marking::default();
        mark.add(&[record.topic.as_str(), &record.iteration, record.ts.as_deref().unwrap_or("")]);
        record.each_field(|name, text| mark.add_field(name, &text));
        if let Body::Agent { payload, .. } = &record.body {
            mark.add_field("payload", payload);
        }
        mark.finish()
    }

    /// The mark of a record that was written.
    pub fn of_written(record: &Glance<'_>) -> Mark {
        let mut mark = Marking::default();
        mark.add(&[&record.topic(), &record.iteration(), &record.ts().unwrap_or_default()]);
        record.each_field(|name, text| mark.add_field(name, &text));
        if let Some(payload) = record.payload() {
            mark.add_field("payload", &payload);
        }
        mark.finish()
    }

    /// As a number, to be stored.
    pub fn number(self) -> u128 {
        self.0
    }

    /// From such a number.
    pub fn from_number(number: u128) -> Mark {
        Mark(number)
    }
}

/// A mark while it is being made.
#[derive(Default)]
struct Marking(blake3::Hasher);

impl Marking {
    fn add_field(&mut self, name: &str, text: &str) {
        if !LONG.contains(&name) {
            self.add(&[name, excerpt::head(text, MARKED)]);
        }
    }

    /// The lengths keep two texts from running into each other.
    fn add(&mut self, texts: &[&str]) {
        for text in texts {
            self.0.update(&(text.len() as u64).to_le_bytes());
            self.0.update(text.as_bytes());
        }
    }

    /// The first half of the digest.
    fn finish(self) -> Mark {
        let mut half = [0; 16];
        self.0.finalize_xof().fill(&mut half);
        Mark(u128::from_be_bytes(half))
    }
}

/// The mark of a record that claims to be the harness's; `None` for those that anybody may write.
///
/// A refusal is among the latter: `emit` writes it, in the agent's process, and all that a forged one
/// can do is to make its author try again.
pub fn claim(record: &Glance<'_>) -> Option<Mark> {
    let topic = Topic::new(record.topic());
    let is_reserved = match topic.class() {
        TopicClass::Reserved => topic != EventInvalid::TOPIC,
        // An agent asks for a chain under the topic by which the harness grants it.
        TopicClass::Coordination => topic == ChainSpawned::TOPIC,
        TopicClass::Agent => false,
    };
    let is_ours = !record.has_payload() || topic.as_str().ends_with(JOINED);
    (is_reserved && is_ours).then(|| Mark::of_written(record))
}

/// Whether only the harness may write such a record, so that it is forged unless the harness did. What
/// agents write is an event with a payload, or a refusal.
pub fn is_harness_only(record: &Glance<'_>) -> bool {
    let topic = Topic::new(record.topic());
    match topic.class() {
        TopicClass::Agent | TopicClass::Coordination => !record.has_payload(),
        TopicClass::Reserved => record.has_payload() || topic != EventInvalid::TOPIC,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Heading, IterationFinish, print};

    #[test]
    fn a_record_is_known_again_by_its_mark() {
        let now = "2026-01-02T03:04:05.006Z".parse().unwrap();
        let heading = Heading { run: "r".to_owned(), iteration: "3".to_owned(), now };
        let record = IterationFinish { exit_code: 7.into(), ..Default::default() }.record(&heading);
        let mut line = Vec::new();
        print(&record, &mut line);
        let glance = Glance::read(line.trim_ascii_end()).unwrap();
        assert_eq!(claim(&glance), Some(Mark::of(&record)));
        let other = Heading { iteration: "4".to_owned(), ..heading.clone() };
        for other in [
            IterationFinish { exit_code: 7.into(), ..Default::default() }.record(&other),
            IterationFinish { exit_code: 8.into(), ..Default::default() }.record(&heading),
        ] {
            assert_ne!(claim(&glance), Some(Mark::of(&other)));
        }
    }

    #[test]
    fn a_long_record_is_known_again_by_its_beginning() {
        let now = "2026-01-02T03:04:05.006Z".parse().unwrap();
        let heading = Heading { run: "r".to_owned(), iteration: "1".to_owned(), now };
        let mark = |text: &str| Mark::of(&heading.agent(Topic::new("a"), text));
        let long = "ä".repeat(MARKED);
        assert_eq!(mark(&format!("{long} and so on")), mark(&format!("{long}...")));
        assert_ne!(mark(&long), mark(&long.replacen('ä', "a", 1)));
    }

    #[test]
    fn an_event_of_the_harness_is_not_taken_for_another_of_the_same_moment() {
        let mark = |rest: &str| {
            let line = format!(
                r#"{{"run": "r", "iteration": "1", "topic": "a.parallel.joined", {rest}, "ts": "2026-01-02T03:04:05.006Z"}}"#
            );
            claim(&Glance::read(line.as_bytes()).unwrap()).unwrap()
        };
        let ours = mark(r#""payload": "r-wave-1", "source": "harness""#);
        assert_ne!(ours, mark(r#""payload": "", "source": "agent""#));
        assert_ne!(ours, mark(r#""fields": {}"#));
        let now = "2026-01-02T03:04:05.006Z".parse().unwrap();
        let heading = Heading { run: "r".to_owned(), iteration: "1".to_owned(), now };
        let record = heading.agent(Topic::new("a.parallel.joined"), "r-wave-1");
        assert_eq!(ours, Mark::of(&record));
    }

    #[test]
    fn only_the_harness_is_imitated() {
        let claims = |line: &str| {
            let record = Glance::read(line.as_bytes()).unwrap();
            let is_claim = claim(&record).is_some();
            assert!(!is_claim || is_harness_only(&record), "{line}");
            is_claim
        };
        assert!(claims(
            r#"{"run": "r", "iteration": "1", "topic": "loop.complete", "fields": {}}"#
        ));
        assert!(claims(
            r#"{"run": "r", "iteration": "1", "topic": "a.parallel.joined", "payload": "", "source": "harness"}"#
        ));
        assert!(claims(r#"{"run": "r", "iteration": "1", "topic": "chain.spawn", "fields": {}}"#));
        for line in [
            r#"{"run": "r", "iteration": "1", "topic": "loop.complete", "payload": "", "source": "agent"}"#,
            r#"{"run": "r", "iteration": "1", "topic": "event.invalid", "fields": {}}"#,
            r#"{"run": "r", "iteration": "1", "topic": "a.done", "fields": {}}"#,
            r#"{"run": "r", "iteration": "1", "topic": "chain.spawn", "payload": "", "source": "agent"}"#,
        ] {
            assert!(!claims(line), "{line}");
        }
    }

    #[test]
    fn agents_write_events_and_refusals() {
        for (topic, with_payload, without) in [
            ("a.done", false, true),
            ("chain.spawn", false, true),
            ("slice.verified", false, true),
            ("event.invalid", true, false),
            ("slot.finish", true, true),
            ("queue.task.closed", true, true),
            ("a.parallel.joined", true, true),
        ] {
            let is_harness_only = |rest: &str| {
                let line =
                    format!(r#"{{"run": "r", "iteration": "1", "topic": "{topic}", {rest}}}"#);
                is_harness_only(&Glance::read(line.as_bytes()).unwrap())
            };
            let both = [r#""payload": "", "source": "agent""#, r#""fields": {}"#];
            assert_eq!(both.map(is_harness_only), [with_payload, without], "{topic}");
        }
    }
}
