//! The items that slots took, each once, however often it was taken.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Progress;
use crate::record::SlotOutcome;

/// The items that slots took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, Item>")]
pub(super) struct Items {
    all: BTreeMap<String, Item>,
    #[serde(skip)]
    passed: u64,
    #[serde(skip)]
    failed: u64,
}

/// How an item stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Item {
    /// How its last slot ended, once it has.
    last: Settled,
    /// How the one before ended.
    before: Settled,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Settled {
    #[default]
    Not,
    Passed,
    Failed,
}

impl From<BTreeMap<String, Item>> for Items {
    fn from(all: BTreeMap<String, Item>) -> Self {
        let count = |how| all.values().filter(|item| item.last == how).count() as u64;
        let (passed, failed) = (count(Settled::Passed), count(Settled::Failed));
        Items { all, passed, failed }
    }
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
    pub(super) fn settle(&mut self, id: &str, outcome: Option<SlotOutcome>) {
        let Some(item) = self.all.get_mut(id) else { return };
        let settled = match outcome {
            Some(SlotOutcome::Passed) => Settled::Passed,
            Some(SlotOutcome::NoItem) => item.before,
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
}
