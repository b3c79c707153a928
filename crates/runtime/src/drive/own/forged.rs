//! What others wrote in the name of a harness.

use autoloop_core::provenance::{FORGED, is_harness_only};
use autoloop_core::record::{EventInvalid, Glance, Heading, Record};

/// So many are named to a person.
const NAMED: usize = 10;

/// What was forged and not told of yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Forgeries {
    /// The topics, in order.
    untold: Vec<String>,
}

impl Forgeries {
    /// Looks at a record that the harness did not write.
    pub(super) fn look_at(&mut self, record: &Glance<'_>) {
        if is_harness_only(record) {
            self.untold.push(record.topic().into_owned());
        }
    }

    /// Looks at one that it did: the first of several of a topic was told of first.
    pub(super) fn look_at_own(&mut self, record: &Glance<'_>) {
        let is_refusal = record.topic() == EventInvalid::TOPIC;
        if !is_refusal || record.field("reason").as_deref() != Some(FORGED) {
            return;
        }
        let emitted = record.field("emitted").unwrap_or_default();
        if let Some(place) = self.untold.iter().position(|topic| *topic == emitted) {
            self.untold.remove(place);
        }
    }

    /// The records that tell of them.
    pub(super) fn refusals(&self, heading: &Heading) -> Vec<Record> {
        let refusal = |topic: &String| EventInvalid {
            emitted: topic.clone(),
            reason: Some(FORGED.to_owned()),
            ..EventInvalid::default()
        };
        self.untold.iter().map(|topic| refusal(topic).record(heading)).collect()
    }

    /// Says that all of them are on record, and what a person should know of them.
    pub(super) fn told(&mut self) -> Option<String> {
        forged_note(&std::mem::take(&mut self.untold))
    }
}

/// What a person should know about records that were ignored.
pub(in crate::drive) fn forged_note(topics: &[String]) -> Option<String> {
    match topics {
        [] => None,
        [topic] => Some(format!("ignored forged record {topic}: only the harness may write it")),
        topics => {
            let named = topics[..topics.len().min(NAMED)].join(", ");
            let rest = match topics.len().saturating_sub(NAMED) {
                0 => String::new(),
                rest => format!(" and {rest} more"),
            };
            let count = topics.len();
            Some(format!(
                "ignored {count} forged records: only the harness may write {named}{rest}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_told_what_it_was() {
        let told = |count: usize| {
            let untold = (1..=count).map(|number| format!("slot.{number}")).collect();
            let mut forgeries = Forgeries { untold };
            let told = forgeries.told();
            assert_eq!(forgeries.told(), None);
            told.unwrap_or_default()
        };
        assert_eq!(told(0), "");
        insta::assert_snapshot!(told(1), @"ignored forged record slot.1: only the harness may write it");
        insta::assert_snapshot!(told(2), @"ignored 2 forged records: only the harness may write slot.1, slot.2");
        assert!(told(12).ends_with(" slot.1, slot.2, slot.3, slot.4, slot.5, slot.6, slot.7, slot.8, slot.9, slot.10 and 2 more"));
    }
}
