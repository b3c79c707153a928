//! Which run began last.

use crate::record::{Glance, LoopStart};
use crate::view::View;
use crate::view::bytes::{Taker, put_text};

/// The run of the most recent `loop.start`; empty when there was none.
///
/// As a view it is folded forward like every other. The journal can also be searched backward for the
/// same answer, which is cheaper when nothing was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatestRun(pub String);

impl LatestRun {
    /// The run that this record begins, if it begins one. An agent can emit no such record, and one
    /// written by hand in an agent's shape does not count.
    pub fn begun_by(record: &Glance<'_>) -> Option<LatestRun> {
        // A branch is a part of the run that opened it.
        let begins = record.topic() == LoopStart::TOPIC
            && !record.has_payload()
            && record.field("parent").is_none();
        begins.then(|| LatestRun(record.run().into_owned()))
    }
}

impl View for LatestRun {
    const NAME: &'static str = "latest-run";
    const VERSION: u32 = 2;

    fn apply(&mut self, record: &Glance<'_>) {
        if let Some(latest) = LatestRun::begun_by(record) {
            *self = latest;
        }
    }

    fn save(&self, out: &mut Vec<u8>) {
        put_text(&self.0, out);
    }

    fn load(bytes: &[u8]) -> Option<Self> {
        let mut taker = Taker::new(bytes);
        let run = taker.text()?.to_owned();
        taker.is_done().then_some(LatestRun(run))
    }
}
