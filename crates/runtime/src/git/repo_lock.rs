//! One at a time, across processes.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;

use super::GitError;
use crate::signals;
use crate::world::World;

/// Bringing work back takes a moment; nobody is to wait for ever for one that hangs.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between two looks at it; at first less, because most have it for a moment only.
const LONGEST_PAUSE: Duration = Duration::from_millis(5);
const FIRST_PAUSE: Duration = Duration::from_micros(200);

/// Takes a lock, and waits for whoever has it. It is given back when the last copy of the file is
/// closed, also those that children have.
pub(super) fn lock(path: &Path, world: &World) -> Result<Arc<File>, GitError> {
    let mut options = OpenOptions::new();
    // An agent may have put a link there, which is not followed, or a pipe, which is not waited for.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.create(true).append(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(path);
    let file = file.map_err(GitError::io("open", path))?;
    let begin = world.clock.elapsed();
    let mut pause = FIRST_PAUSE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Arc::new(file)),
            Err(TryLockError::Error(error)) => return Err(GitError::io("lock", path)(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let waited = world.clock.elapsed().saturating_sub(begin);
        if waited > PATIENCE || signals::requested() {
            return Err(GitError::Busy { path: path.to_owned(), waited });
        }
        world.clock.sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}
