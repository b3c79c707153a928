//! The run that started last.

use serde::{Deserialize, Serialize};

use crate::record::{Glance, LoopStart};
use crate::view::View;

/// The run of the last `loop.start`; empty where there is none. The journal can also be searched backward
/// for it, which is cheaper where no view was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatestRun(pub String);

impl LatestRun {
    /// The run that this record starts. A branch is a part of the run that opened it.
    pub fn begun_by(record: &Glance<'_>) -> Option<LatestRun> {
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
