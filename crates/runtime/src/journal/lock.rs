//! Waiting for the lock, but not for ever.

use std::path::Path;
use std::time::Duration;

use super::AppendError;
use crate::world::{Clock, DiskFile};

/// How often the processor is offered to others before the first pause. A lock is held for some tens
/// of microseconds, unless a giant record is written, and a pause takes longer than it says.
const OFFERS: usize = 8;
/// The first pause.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// Takes the lock. A holder that was stopped, or that does not let go, is named after `timeout`: the
/// system's own blocking call would wait for it for ever.
pub(super) fn lock(
    file: &dyn DiskFile,
    path: &Path,
    clock: &dyn Clock,
    timeout: Duration,
) -> Result<(), AppendError> {
    let begin = clock.elapsed();
    let mut pause = FIRST_PAUSE;
    let mut offers = OFFERS;
    loop {
        if file.try_lock().map_err(|error| AppendError::io(path, "lock", error))? {
            return Ok(());
        }
        let waited = clock.elapsed().saturating_sub(begin);
        if waited >= timeout {
            let holder = file.lock_holder();
            return Err(AppendError::Locked { path: path.to_owned(), waited, holder });
        }
        if offers > 0 {
            offers -= 1;
            std::thread::yield_now();
            continue;
        }
        clock.sleep(pause.min(timeout - waited));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
