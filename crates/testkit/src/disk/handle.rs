//! One open file of a simulated process.

use std::io;

use autoloop_runtime::world::{Access, DiskFile, FileStat};

use super::SimDisk;
use super::errno::{self, fail};
use super::faults::Op;
use super::machine::Owner;
use super::tree::{Inode, Node};

/// An open file. It stays the same file when its name is given to another.
pub(super) struct SimFile {
    pub(super) disk: SimDisk,
    pub(super) inode: Inode,
    pub(super) access: Access,
    pub(super) owner: Owner,
}

impl DiskFile for SimFile {
    fn stat(&self) -> io::Result<FileStat> {
        self.disk.call(Op::Stat, |state| Ok(state.tree.stat(self.inode)))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.disk.call(Op::Lock, |state| Ok(state.try_lock(self.inode, self.owner)))
    }

    fn unlock(&self) -> io::Result<()> {
        self.disk.call(Op::Unlock, |state| {
            state.unlock(self.inode, self.owner);
            Ok(())
        })
    }

    fn lock_holder(&self) -> Option<u32> {
        let state = self.disk.machine.state();
        state.check_alive(self.owner.process).ok()?;
        state.lock_holder(self.inode)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.call(Op::Read, |state| {
            let bytes = match state.tree.node(self.inode) {
                Node::File(content) => content.cached(),
                Node::Dir(_) => return fail(errno::EISDIR),
                Node::Symlink(_) | Node::Special => return fail(errno::ESPIPE),
            };
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let count = buffer.len().min(bytes.len() - start);
            buffer[..count].copy_from_slice(&bytes[start..start + count]);
            Ok(count)
        })
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.call(Op::Append, |state| match self.access {
            Access::Read | Access::ReadNoFollow => fail(errno::EBADF),
            Access::Append => state.append(self.inode, bytes, self.owner.process),
        })
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.disk.call(Op::Cut, |state| {
            match (self.access, state.tree.node_mut(self.inode), usize::try_from(len)) {
                (Access::Append, Node::File(content), Ok(len)) => content.resize(len),
                _ => return fail(errno::EINVAL),
            }
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.call(Op::Sync, |state| {
            match state.tree.node_mut(self.inode) {
                Node::File(content) => content.sync(),
                Node::Dir(names) => names.sync(),
                Node::Symlink(_) | Node::Special => return fail(errno::EINVAL),
            }
            Ok(())
        })
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.machine.state().unlock(self.inode, self.owner);
    }
}
