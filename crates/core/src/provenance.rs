//! Who wrote a record.
//!
//! A record says what it likes about itself. The harness knows which ones it wrote, because it notes a
//! [`Mark`] of each before it writes it; every other record that [claims](claim) to be the harness's is
//! a forgery.

use crate::record::{EventInvalid, Glance, Record};
use crate::topic::{JOINED, Topic, TopicClass};

/// What tells the records of one run apart: topic, iteration and time. Nobody can know those of a
/// record that is yet to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark(u64);

impl Mark {
    /// The mark of a record that is about to be written.
    pub fn of(record: &Record) -> Mark {
        Mark::from_parts(&record.topic, &record.iteration, record.ts.as_deref().unwrap_or_default())
    }

    fn from_parts(topic: &Topic, iteration: &str, ts: &str) -> Mark {
        // FNV-1a: short, and the same in every version of this program.
        let parts = [topic.as_str(), "\0", iteration, "\0", ts];
        let hash = parts.iter().flat_map(|part| part.bytes()).fold(0xcbf2_9ce4_8422_2325, {
            |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Mark(hash)
    }

    /// As a number, to be written down or added up.
    pub fn number(self) -> u64 {
        self.0
    }

    /// From such a number.
    pub fn from_number(number: u64) -> Mark {
        Mark(number)
    }
}

/// The mark of a record that claims to be the harness's; `None` for those that anybody may write.
///
/// A refusal is among the latter: `emit` writes it, in the agent's process, and all that a forged one
/// can do is to make its author try again.
pub fn claim(record: &Glance<'_>) -> Option<Mark> {
    let topic = Topic::new(record.topic());
    let is_reserved = topic.class() == TopicClass::Reserved && topic != EventInvalid::TOPIC;
    let is_ours = !record.has_payload() || topic.as_str().ends_with(JOINED);
    (is_reserved && is_ours)
        .then(|| Mark::from_parts(&topic, &record.iteration(), &record.ts().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Heading, IterationFinish, print};

    #[test]
    fn a_record_is_known_again_by_its_mark() {
        let now = "2026-01-02T03:04:05.006Z".parse().unwrap();
        let heading = Heading { run: "r".to_owned(), iteration: "3".to_owned(), now };
        let record = IterationFinish::default().record(&heading);
        let mut line = Vec::new();
        print(&record, &mut line);
        let glance = Glance::read(line.trim_ascii_end()).unwrap();
        assert_eq!(claim(&glance), Some(Mark::of(&record)));
        let other = Heading { iteration: "4".to_owned(), ..heading };
        assert_ne!(claim(&glance), Some(Mark::of(&IterationFinish::default().record(&other))));
    }

    #[test]
    fn only_the_harness_is_imitated() {
        let claims = |line: &str| claim(&Glance::read(line.as_bytes()).unwrap()).is_some();
        assert!(claims(
            r#"{"run": "r", "iteration": "1", "topic": "loop.complete", "fields": {}}"#
        ));
        assert!(claims(
            r#"{"run": "r", "iteration": "1", "topic": "a.parallel.joined", "payload": "", "source": "harness"}"#
        ));
        for line in [
            r#"{"run": "r", "iteration": "1", "topic": "loop.complete", "payload": "", "source": "agent"}"#,
            r#"{"run": "r", "iteration": "1", "topic": "event.invalid", "fields": {}}"#,
            r#"{"run": "r", "iteration": "1", "topic": "a.done", "fields": {}}"#,
            r#"{"run": "r", "iteration": "1", "topic": "chain.spawn", "payload": "", "source": "agent"}"#,
        ] {
            assert!(!claims(line), "{line}");
        }
    }
}
