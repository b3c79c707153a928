//! Waiting for a file to change, in virtual time.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use autoloop_runtime::world::Watch;

use super::SimDisk;
use super::faults::Op;
use super::machine::State;
use super::tree::{Inode, LastLink, Node};

/// What it takes to notice a change; not nothing, so that a deadline comes nearer even when the
/// file never rests.
const NOTICE: Duration = Duration::from_millis(1);

/// A watch on a name.
pub(super) struct SimWatch {
    disk: SimDisk,
    path: PathBuf,
    seen: Option<Seen>,
}

/// Which file had the name, and how often it had been changed.
type Seen = (Inode, u64);

impl SimWatch {
    pub(super) fn new(disk: SimDisk, path: PathBuf) -> io::Result<Self> {
        let seen = disk.call(Op::Watch, |state| Ok(look(state, &path)))?;
        Ok(SimWatch { disk, path, seen })
    }
}

impl Watch for SimWatch {
    /// Others have acted by the time it looks; if they left the file alone, all the time passes.
    fn changed(&mut self, timeout: Duration) -> io::Result<()> {
        let now = self.disk.call(Op::Watch, |state| Ok(look(state, &self.path)))?;
        let changed = std::mem::replace(&mut self.seen, now) != now;
        let passed = if changed { timeout.min(NOTICE) } else { timeout };
        self.disk.machine.clock.advance(passed);
        Ok(())
    }
}

fn look(state: &State, path: &Path) -> Option<Seen> {
    let inode = state.tree.find(path, LastLink::Keep).ok()?;
    match state.tree.node(inode) {
        Node::File(content) => Some((inode, content.version())),
        Node::Dir(_) | Node::Symlink(_) | Node::Special => Some((inode, 0)),
    }
}
