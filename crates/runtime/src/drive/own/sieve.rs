//! Which records are a harness's own.

use std::collections::HashMap;

use autoloop_core::provenance::{Mark, claim};
use autoloop_core::record::{EventInvalid, Glance};

use crate::drive::notebook::Noted;

/// Lets the records through that are proven to be a harness's, or all that claim to be where a user trusts them.
/// A copy of a record of ours is not ours: the first one is.
#[derive(Clone)]
pub(in crate::drive) struct Sieve(Option<HashMap<Mark, u32>>);

impl Sieve {
    pub(in crate::drive) fn new(noted: Noted) -> Sieve {
        match noted {
            Noted::Trusted => Sieve(None),
            Noted::Proven(marks) => {
                let mut sieve = Sieve(Some(HashMap::new()));
                sieve.expect(marks);
                sieve
            }
        }
    }

    /// Lets these through as well.
    pub(super) fn expect(&mut self, marks: impl IntoIterator<Item = Mark>) {
        if let Some(left) = &mut self.0 {
            marks.into_iter().for_each(|mark| *left.entry(mark).or_default() += 1);
        }
    }

    /// Lets these not through any more: they have been.
    pub(in crate::drive) fn spend(&mut self, marks: &[Mark]) {
        marks.iter().for_each(|mark| {
            self.take(*mark);
        });
    }

    /// The mark of a record of the harness. Refusals are not the harness's alone, since `emit` writes them
    /// too, so they claim nothing; but some are.
    pub(in crate::drive) fn own(&mut self, record: &Glance<'_>) -> Option<Mark> {
        let mark = match record.topic() == EventInvalid::TOPIC {
            true => Mark::of_written(record),
            false => claim(record)?,
        };
        self.take(mark)
    }

    fn take(&mut self, mark: Mark) -> Option<Mark> {
        if let Some(left) = &mut self.0 {
            let count = left.get_mut(&mark)?;
            *count -= 1;
            if *count == 0 {
                left.remove(&mark);
            }
        }
        Some(mark)
    }
}
