//! Finding the latest run without reading the whole journal.

use std::ops::ControlFlow;

use autoloop_core::views::latest_run::LatestRun;

use super::reader::{line_start, read_lines};
use super::sidecar::{Kept, SAVE_AFTER, Since};
use super::{FileJournal, Journal, ReadError};
use crate::world::DiskFile;

/// How much is looked at in one step backward.
const STEP: u64 = 1024 * 1024;

impl FileJournal {
    /// The run that began last, found by reading backward to the most recent `loop.start`.
    ///
    /// A long search is kept, so that the next one ends where this one began.
    pub fn latest_run(&self) -> Result<LatestRun, ReadError> {
        let Some((file, len)) = self.open_to_read()? else { return Ok(LatestRun::default()) };
        let failed = |error| ReadError::io(self.path(), error);
        // It names the run of an event that says none, and nothing is decided by it; so it may be older than the
        // journal.
        let kept: Option<Kept<LatestRun>> = self.kept(file.as_ref(), Since::Grown);
        let floor = kept.as_ref().map_or(0, |kept| kept.position.at);
        let end = line_start(file.as_ref(), len).map_err(failed)?;

        let mut begin = end;
        let mut latest = None;
        while latest.is_none() && begin > floor {
            let stop = begin;
            begin = step_back(file.as_ref(), stop, floor).map_err(failed)?;
            let mut visit = |line: &super::Line<'_>| {
                line.records(|record| {
                    if let Some(begun) = LatestRun::begun_by(record) {
                        latest = Some(begun);
                    }
                });
                ControlFlow::Continue(())
            };
            read_lines(file.as_ref(), begin..stop, &mut visit).map_err(failed)?;
        }
        let latest = latest.or(kept.map(|kept| kept.view)).unwrap_or_default();
        if end - begin >= SAVE_AFTER {
            self.keep(file.as_ref(), &latest, self.position(file.as_ref(), end)?);
        }
        Ok(latest)
    }
}

/// The beginning of a line about a step before `end`, but not before `floor`.
fn step_back(file: &dyn DiskFile, end: u64, floor: u64) -> std::io::Result<u64> {
    let begin = end.saturating_sub(STEP);
    if begin <= floor { Ok(floor) } else { Ok(line_start(file, begin)?.max(floor)) }
}
