//! Which run began last.

use serde::{Deserialize, Serialize};

use crate::record::{Glance, LoopStart};
use crate::view::View;

/// The run of the most recent `loop.start`; empty when there was none.
///
/// As a view it is folded forward like every other. The journal can also be searched backward for the
/// same answer, which is cheaper when nothing was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatestRun(pub String);

impl LatestRun {
    /// The run that this record begins, if it begins one. An agent can emit no such record, and one
    /// written by hand in an agent's shape does not count.
    pub fn begun_by(record: &Glance<'_>) -> Option<LatestRun> {
        // A branch is a part of the run that opened it.
        let is_branch = LoopStart::of(record)?.parent.is_some();
        (!is_branch).then(|| LatestRun(record.run().into_owned()))
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
}
