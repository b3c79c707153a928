//! Which records a harness wrote.
//!
//! A record of the harness carries a seal, `"seal": "<number>:<tag>"`: its number among the records of its run, and
//! a keyed BLAKE3 digest of both. [`Provenance`] accepts a record as the harness's own if the tag is valid and the
//! number is new. Any other record that [claims](is_claimed) to be the harness's is forged.

use std::collections::HashMap;

use crate::record::{ChainSpawned, EventInvalid, Glance, Record, print};
use crate::text;
use crate::topic::{JOINED, Topic, TopicClass};

/// The reason of `event.invalid` for a forged record.
pub const FORGED: &str = "forged";

/// This field may not be in memory when a record is sealed: it is copied from a file while the
/// record is written.
const SPOOLED: &str = "output";

/// How many characters of a field or a payload a seal covers. A reader that shortens long texts
/// keeps at least as many.
const COVERED: usize = 4 * 1024;

#[derive(Clone, Copy)]
pub struct RunKey([u8; 32]);

impl RunKey {
    pub fn new(user: &[u8; 32], run: &str) -> RunKey {
        let mut digest = Digest(blake3::Hasher::new_keyed(user));
        digest.add(&["autoloop run key", run]);
        RunKey(*digest.0.finalize().as_bytes())
    }

    pub fn seal(&self, number: u64, record: &mut Record) {
        record.seal = None;
        let mut line = Vec::new();
        print(record, &mut line);
        let printed = Glance::read(line.trim_ascii_end()).ok();
        record.seal = printed.map(|record| format!("{number}:{}", self.tag(number, &record)));
    }

    /// The number of a record, if its tag is valid.
    fn number(&self, record: &Glance<'_>) -> Option<u64> {
        let seal = record.seal()?;
        let (number, tag) = seal.split_once(':')?;
        let parsed = number.parse().ok()?;
        (self.tag(parsed, record) == tag && parsed.to_string() == number).then_some(parsed)
    }

    /// Covers everything but the rest of long texts.
    fn tag(&self, number: u64, record: &Glance<'_>) -> String {
        let mut digest = Digest(blake3::Hasher::new_keyed(&self.0));
        let number = number.to_string();
        let ts = record.ts().unwrap_or_default();
        digest.add(&[&number, &record.run(), &record.topic(), &record.iteration(), &ts]);
        match (record.payload(), record.source()) {
            (Some(payload), source) => {
                let source = source.unwrap_or_default();
                digest.add(&["payload", text::head(&payload, COVERED), &source]);
            }
            (None, _) => {
                digest.add(&["fields"]);
                record.each_field(|name, text| match name {
                    SPOOLED => digest.add(&[name]),
                    name => digest.add(&[name, text::head(&text, COVERED)]),
                });
            }
        }
        format!("{:032x}", digest.half())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    Missing,
    /// The tag does not match the record.
    Broken,
    /// The number is not new: the record was copied or moved.
    Old,
    /// Valid and new.
    New {
        /// How many records before it are missing.
        skipped: u64,
    },
}

#[derive(Clone, Debug)]
pub enum Unsealed {
    /// Those with these [marks](Mark), each as often as noted, by a harness that did not seal.
    Noted(HashMap<Mark, u32>),
    /// All that claim to be: the user trusts the journal.
    Claimed,
    /// All that claim to be, until the first sealed record: for views of runs that an older harness
    /// may have written.
    ClaimedBeforeSeal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    Seal,
    /// A rule for [unsealed](Unsealed) records.
    Unsealed,
}

/// Tells a harness's own records of one run from all others. It checks each record of the run once,
/// in order.
#[derive(Clone)]
pub struct Provenance {
    key: Option<RunKey>,
    next: u64,
    unsealed: Unsealed,
}

impl Provenance {
    /// Without a key no seal is valid.
    pub fn new(key: Option<RunKey>, unsealed: Unsealed) -> Provenance {
        Provenance { key, next: 0, unsealed }
    }

    pub fn next_number(&self) -> u64 {
        self.next
    }

    pub fn check(&mut self, record: &Glance<'_>) -> Seal {
        if record.seal().is_none() {
            return Seal::Missing;
        }
        match self.key.and_then(|key| key.number(record)) {
            None => Seal::Broken,
            Some(number) if number < self.next => Seal::Old,
            Some(number) => {
                let skipped = number - self.next;
                self.next = number.saturating_add(1);
                Seal::New { skipped }
            }
        }
    }

    /// Why the next record is the harness's own; `None` if it is not.
    pub fn own(&mut self, record: &Glance<'_>) -> Option<Proof> {
        if let Seal::New { .. } = self.check(record) {
            if let Unsealed::ClaimedBeforeSeal = self.unsealed {
                self.unsealed = Unsealed::Noted(HashMap::new());
            }
            return Some(Proof::Seal);
        }
        // Refusals claim nothing, since `emit` writes them too, but some are the harness's.
        let is_candidate = is_claimed(record) || record.topic() == EventInvalid::TOPIC;
        let is_own = is_candidate
            && match &mut self.unsealed {
                Unsealed::Claimed | Unsealed::ClaimedBeforeSeal => true,
                Unsealed::Noted(marks) if marks.is_empty() => false,
                Unsealed::Noted(marks) => match marks.get_mut(&Mark::of(record)) {
                    Some(count @ 1..) => {
                        *count -= 1;
                        true
                    }
                    _ => false,
                },
            };
        is_own.then_some(Proof::Unsealed)
    }

    /// Seals records that are about to be written; an existing seal is replaced.
    pub fn seal<'r>(&self, records: impl Iterator<Item = &'r mut Record>) {
        let Some(key) = self.key else { return };
        (self.next..).zip(records).for_each(|(number, record)| key.seal(number, record));
    }
}

/// A digest of topic, iteration, time, and short fields or the payload, by which records were told
/// apart before they were sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark(pub u128);

impl Mark {
    /// The fields that are left out.
    const LONG: [&str; 4] = ["output", "output_tail", "prompt", "diff"];

    pub fn of(record: &Glance<'_>) -> Mark {
        let mut digest = Digest(blake3::Hasher::new());
        digest.add(&[&record.topic(), &record.iteration(), &record.ts().unwrap_or_default()]);
        record.each_field(|name, text| {
            if !Mark::LONG.contains(&name) {
                digest.add(&[name, text::head(&text, COVERED)]);
            }
        });
        if let Some(payload) = record.payload() {
            digest.add(&["payload", text::head(&payload, COVERED)]);
        }
        Mark(digest.half())
    }
}

/// A digest of several texts.
struct Digest(blake3::Hasher);

impl Digest {
    /// The lengths separate the texts.
    fn add(&mut self, texts: &[&str]) {
        for text in texts {
            self.0.update(&(text.len() as u64).to_le_bytes());
            self.0.update(text.as_bytes());
        }
    }

    fn half(self) -> u128 {
        let mut half = [0; 16];
        self.0.finalize_xof().fill(&mut half);
        u128::from_be_bytes(half)
    }
}

/// Whether a record claims to be the harness's. Any process may write the others. A refusal is
/// among these: `emit` writes it, in the agent's process, and a forged one only makes the agent try
/// again.
pub fn is_claimed(record: &Glance<'_>) -> bool {
    let topic = Topic::new(record.topic());
    let is_reserved = match topic.class() {
        TopicClass::Reserved => topic != EventInvalid::TOPIC,
        // An agent asks for a chain under the topic by which the harness grants it.
        TopicClass::Coordination => topic == ChainSpawned::TOPIC,
        TopicClass::Agent => false,
    };
    let is_ours = !record.has_payload() || topic.as_str().ends_with(JOINED);
    is_reserved && is_ours
}

/// Whether only the harness may write such a record, so that it is forged unless the harness did.
/// Agents write events with a payload, and refusals.
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
    use crate::record::{Heading, IterationFinish};

    const KEY: [u8; 32] = [7; 32];

    fn heading() -> Heading {
        let now = "2026-01-02T03:04:05.006Z".parse().unwrap();
        Heading { run: "r".to_owned(), iteration: "3".to_owned(), now }
    }

    fn line(record: &Record) -> String {
        let mut line = Vec::new();
        print(record, &mut line);
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    /// Records of one harness, sealed from a number on.
    fn sealed(number: u64, mut records: Vec<Record>) -> Vec<String> {
        let key = RunKey::new(&KEY, "r");
        (number..).zip(&mut records).for_each(|(number, record)| key.seal(number, record));
        records.iter().map(line).collect()
    }

    fn finish(exit_code: i32) -> Record {
        IterationFinish { exit_code: exit_code.into(), ..Default::default() }.record(&heading())
    }

    fn proven() -> Provenance {
        let key = Some(RunKey::new(&KEY, "r"));
        Provenance::new(key, Unsealed::Noted(HashMap::new()))
    }

    fn check(provenance: &mut Provenance, line: &str) -> Seal {
        provenance.check(&Glance::read(line.as_bytes()).unwrap())
    }

    #[test]
    fn a_sealed_record_counts_once_and_in_order() {
        let lines = sealed(0, vec![finish(1), finish(2), finish(3)]);
        let mut provenance = proven();
        assert_eq!(check(&mut provenance, &lines[0]), Seal::New { skipped: 0 });
        assert_eq!(check(&mut provenance, &lines[0]), Seal::Old);
        assert_eq!(check(&mut provenance, &lines[2]), Seal::New { skipped: 1 });
        assert_eq!(check(&mut provenance, &lines[1]), Seal::Old);
        assert_eq!(provenance.next_number(), 3);
        assert_eq!(check(&mut provenance, &line(&finish(1))), Seal::Missing);
        let mut next = [finish(4)];
        provenance.seal(next.iter_mut());
        assert_eq!(check(&mut provenance, &line(&next[0])), Seal::New { skipped: 0 });
    }

    #[test]
    fn a_seal_fits_no_other_record_number_run_or_key() {
        let line = sealed(5, vec![finish(7)]).remove(0);
        assert!(matches!(check(&mut proven(), &line), Seal::New { skipped: 5 }));
        for (from, to) in [
            (r#""exit_code": "7""#, r#""exit_code": "8""#),
            (r#""run": "r""#, r#""run": "s""#),
            (r#""iteration": "3""#, r#""iteration": "4""#),
            ("iteration.finish", "backend.finish"),
            (":05.006Z", ":05.007Z"),
            (r#""exit_code""#, r#""exit""#),
            (r#""seal": "5:"#, r#""seal": "6:"#),
            (r#""seal": "5:"#, r#""seal": "05:"#),
            (r#""seal": "5:"#, r#""seal": ":"#),
        ] {
            let other = line.replace(from, to);
            assert_ne!(other, line, "{from}");
            assert_eq!(check(&mut proven(), &other), Seal::Broken, "{other}");
        }
        let none = Unsealed::Noted(HashMap::new());
        for key in [None, Some(RunKey::new(&KEY, "s")), Some(RunKey::new(&[8; 32], "r"))] {
            let mut other = Provenance::new(key, none.clone());
            assert_eq!(check(&mut other, &line), Seal::Broken);
        }
    }

    #[test]
    fn the_beginning_of_a_long_text_is_covered_and_a_copied_output_is_not() {
        let long = "ä".repeat(COVERED);
        let ours = heading().agent(Topic::new("a.parallel.joined"), long.clone() + " and so on");
        let line = sealed(0, vec![ours]).remove(0);
        let fits = |line: &str| check(&mut proven(), line) == Seal::New { skipped: 0 };
        assert!(fits(&line) && fits(&line.replace(" and so on", "...")));
        assert!(!fits(&line.replacen('ä', "a", 1)));
        assert!(!fits(&line.replace(r#""source": "agent""#, r#""source": "harness""#)));
        let finish = IterationFinish::default();
        let line = sealed(0, vec![finish.record(&heading())]).remove(0);
        assert!(fits(&line.replace(r#""output": """#, r#""output": "copied from a file""#)));
    }

    #[test]
    fn unsealed_records_count_by_their_marks_or_by_trust() {
        let (unsealed, sealed) = (line(&finish(1)), sealed(0, vec![finish(1)]).remove(0));
        let unsealed = Glance::read(unsealed.as_bytes()).unwrap();
        let sealed = Glance::read(sealed.as_bytes()).unwrap();
        let key = Some(RunKey::new(&KEY, "r"));
        let noted = Unsealed::Noted([(Mark::of(&unsealed), 1)].into());
        let mut provenance = Provenance::new(key, noted);
        assert_eq!(provenance.own(&unsealed), Some(Proof::Unsealed));
        assert_eq!(provenance.own(&unsealed), None, "a copy");
        assert_eq!(provenance.own(&sealed), Some(Proof::Seal));
        let mut trusting = Provenance::new(key, Unsealed::Claimed);
        for _ in 0..2 {
            assert_eq!(trusting.own(&unsealed), Some(Proof::Unsealed));
        }
        let mut view = Provenance::new(key, Unsealed::ClaimedBeforeSeal);
        assert_eq!(view.own(&unsealed), Some(Proof::Unsealed));
        assert_eq!(view.own(&sealed), Some(Proof::Seal));
        assert_eq!(view.own(&unsealed), None);
        let event = line(&heading().agent(Topic::new("a.done"), ""));
        assert_eq!(trusting.own(&Glance::read(event.as_bytes()).unwrap()), None);
    }

    #[test]
    fn only_the_harness_is_imitated() {
        let claims = |line: &str| {
            let record = Glance::read(line.as_bytes()).unwrap();
            let is_claim = is_claimed(&record);
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
