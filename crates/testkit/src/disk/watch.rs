//! Waiting for a file to change, in virtual time.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use autoloop_runtime::world::Watch;

use super::SimDisk;
use super::faults::Op;
use super::machine::State;
use super::tree::{Inode, LastLink, Node};

/// The time to notice a change; not zero, so that a deadline comes nearer even if the file changes
/// all the time.
const NOTICE: Duration = Duration::from_millis(1);

/// A watch on a name.
pub(super) struct SimWatch {
    disk: SimDisk,
    path: PathBuf,
    seen: Option<Seen>,
}

/// The file that had the name, and its number of changes.
type Seen = (Inode, u64);

impl SimWatch {
    pub(super) fn new(disk: SimDisk, path: PathBuf) -> io::Result<Self> {
        let seen = disk.call(Op::Watch, |state| Ok(look(state, &path)))?;
        Ok(SimWatch { disk, path, seen })
    }
}

impl Watch for SimWatch {
    /// Other processes have acted before it looks; if they did not change the file, the whole time
    /// passes.
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
