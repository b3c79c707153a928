//! The items that slots took, each once, however often it was taken.

use std::collections::BTreeMap;

use super::Progress;
use crate::slot::Outcome;
use crate::view::bytes::{Taker, put_number, put_text};

/// The items that slots took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Items {
    all: BTreeMap<String, Item>,
    passed: u64,
    failed: u64,
}

/// How an item stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Item {
    /// How its last slot ended, once it has.
    last: Settled,
    /// How the one before ended.
    before: Settled,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Settled {
    #[default]
    Not,
    Passed,
    Failed,
}

impl Items {
    /// A slot takes an item.
    pub(super) fn take(&mut self, id: String) {
        let item = self.all.entry(id).or_default();
        item.before = item.last;
        let last = std::mem::take(&mut item.last);
        self.count(last, Settled::Not);
    }

    /// Its slot ended. Where the agent did not take it after all, it is as it was.
    pub(super) fn settle(&mut self, id: &str, outcome: Option<Outcome>) {
        let Some(item) = self.all.get_mut(id) else { return };
        let settled = match outcome {
            Some(Outcome::Passed) => Settled::Passed,
            Some(Outcome::NoItem) => item.before,
            _ => Settled::Failed,
        };
        let last = std::mem::replace(&mut item.last, settled);
        if settled == Settled::Not {
            self.all.remove(id);
        }
        self.count(last, settled);
    }

    fn count(&mut self, last: Settled, now: Settled) {
        self.passed -= u64::from(last == Settled::Passed);
        self.failed -= u64::from(last == Settled::Failed);
        self.passed += u64::from(now == Settled::Passed);
        self.failed += u64::from(now == Settled::Failed);
    }

    /// How far that is.
    pub(super) fn tell(&self, progress: &mut Progress) {
        progress.taken = self.all.len() as u64;
        (progress.passed, progress.failed) = (self.passed, self.failed);
    }

    pub(super) fn save(&self, out: &mut Vec<u8>) {
        put_number(self.all.len() as u64, out);
        for (id, item) in &self.all {
            put_text(id, out);
            put_number(item.last as u64, out);
            put_number(item.before as u64, out);
        }
    }

    pub(super) fn load(taker: &mut Taker<'_>) -> Option<Items> {
        let settled = |number| match number {
            0 => Some(Settled::Not),
            1 => Some(Settled::Passed),
            2 => Some(Settled::Failed),
            _ => None,
        };
        let mut items = Items::default();
        for _ in 0..taker.count()? {
            let id = taker.text()?.to_owned();
            let (last, before) = (settled(taker.number()?)?, settled(taker.number()?)?);
            items.count(Settled::Not, last);
            if items.all.insert(id, Item { last, before }).is_some() {
                return None;
            }
        }
        Some(items)
    }
}
