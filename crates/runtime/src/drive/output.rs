//! The output of a job on its way into the journal: a short one through memory, a long one from a file.

use std::path::PathBuf;
use std::sync::Arc;

use autoloop_core::record::Hole;

use crate::journal::Spooled;
use crate::world::{Access, DiskFile, Ending, Finished, Spool, World};

/// Escaped, a text takes up to six times its length, and it is put on record twice: what is longer
/// than this many bytes is copied piece by piece.
const SHORT: u64 = 64 * 1024;

/// Where a long output is copied from; `None` for one that is short, or of which only the answer counts.
///
/// A file that ends before the output did is of no use: in its place stands one with the beginning and
/// the end of the output, and a line between them that says how much is missing. Where there is no
/// file, because the disk is full or the agent deleted it, the same is taken from memory.
pub(super) fn spooled(
    spool: Option<&Spool>,
    finished: &Finished,
    world: &World,
) -> Option<Spooled> {
    let output = &finished.stdout;
    let is_said = matches!(finished.ending, Ending::Exited(_)) && finished.answer.is_none();
    let spool = spool.filter(|_| is_said && output.bytes > SHORT)?;
    let path = match output.spooled == output.bytes {
        true => spool.stdout.clone(),
        false => {
            let path = excerpt(spool);
            world.disk.replace(&path, output.text().as_bytes()).ok()?;
            path
        }
    };
    let text = world.disk.open(&path, Access::Read).ok()?;
    let is_whole = |text: &dyn DiskFile| text.stat().is_ok_and(|stat| stat.len == output.bytes);
    if path == spool.stdout && !is_whole(&*text) {
        return None;
    }
    Some(Spooled { hole: Hole::Output, path, text: Arc::from(text) })
}

fn excerpt(spool: &Spool) -> PathBuf {
    spool.stdout.with_extension("excerpt")
}
