//! A file system in memory that loses unsynced data, fills up, fails and crashes as a test plans
//! it.
//!
//! Every file and directory is kept twice: as processes see it (the page cache) and as it is on the
//! disk. [`DiskFile::sync`] and [`Disk::sync_dir`] copy the one to the other. [`SimDisk::crash`]
//! returns the disk after a power cut, [`SimDisk::reopen`] the disk after the death of all
//! processes: everything except their locks.
//!
//! In a call the other processes act first ([`SimDisk::interleave`]), the caller must be alive, the
//! plan of [`Faults`] is applied, and then the call takes effect.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_runtime::world::{Access, Disk, DiskFile, FileStat, Watch};

use crate::clock::SimClock;
use crate::seed::Dice;

mod content;
mod errno;
mod faults;
mod handle;
mod machine;
mod names;
mod probe;
mod tree;
mod watch;

pub use faults::{Calls, Faults, Moment, Op};

use errno::fail;
use handle::SimFile;
use machine::{Machine, State};
use tree::{LastLink, Node, Tree};
use watch::SimWatch;

/// A simulated disk, as one process sees it. Clones are the same process on the same disk.
#[derive(Clone)]
pub struct SimDisk {
    machine: Arc<Machine>,
    process: u32,
}

impl SimDisk {
    /// An empty disk with a root directory, seen by process 1. Watches wait on `clock`.
    pub fn new(clock: SimClock) -> Self {
        SimDisk::holding(Tree::default(), clock)
    }

    fn holding(tree: Tree, clock: SimClock) -> Self {
        SimDisk { machine: Arc::new(Machine::new(tree, clock)), process: 1 }
    }

    /// The same disk, as another process sees it.
    #[must_use]
    pub fn as_process(&self, process: u32) -> SimDisk {
        SimDisk { machine: Arc::clone(&self.machine), process }
    }

    /// The process whose view this is.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Ends a process: its locks are released and all its later calls fail. What it wrote stays.
    pub fn kill_process(&self, process: u32) {
        self.machine.state().kill(process);
    }

    /// Sets the faults from now on, replacing any earlier plan.
    pub fn set_faults(&self, faults: Faults) {
        self.machine.state().faults = faults;
    }

    /// Changes the size of the disk and keeps the other faults; `None` is unlimited.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.machine.state().faults.capacity = bytes;
    }

    /// Lets `others` act before every call from now on, but not before their own calls. They get
    /// the kind of the call and the view of the process that makes it.
    pub fn interleave(&self, others: impl FnMut(Op, &SimDisk) + Send + 'static) {
        self.machine.set_others(Box::new(others));
    }

    /// Cuts the power, unless the machine has crashed already, and returns the disk that the next
    /// start finds: everything synced, and a random part of the rest. This disk is dead from now
    /// on; the returned one has no faults, no locks and no others.
    #[must_use]
    pub fn crash(&self, dice: &mut Dice) -> SimDisk {
        let tree = {
            let mut state = self.machine.state();
            state.turn_off();
            state.tree.after_power_cut(dice)
        };
        SimDisk::holding(tree, self.machine.clock.clone())
    }

    /// Ends all processes but not the machine: the next start finds all bytes and names, synced or
    /// not, as durable as they were. Otherwise like [`SimDisk::crash`].
    #[must_use]
    pub fn reopen(&self) -> SimDisk {
        let tree = {
            let mut state = self.machine.state();
            state.turn_off();
            state.tree.clone()
        };
        SimDisk::holding(tree, self.machine.clock.clone())
    }

    /// The only way for a call to reach the files.
    fn call<T>(&self, op: Op, effect: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        // Calls of a dead process fail, and no other process acts meanwhile.
        self.machine.state().check_alive(self.process)?;
        self.machine.let_others_act(op, self);
        self.machine.state().call(op, self.process, effect)
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let (inode, owner) = self.call(Op::Open, |state| {
            let inode = match access {
                // Like the real disk, which follows links when it only reads.
                Access::Read => state.tree.find(path, LastLink::Follow)?,
                Access::ReadNoFollow => {
                    let inode = state.tree.find(path, LastLink::Keep)?;
                    if let Node::Symlink(_) = state.tree.node(inode) {
                        return fail(errno::ELOOP);
                    }
                    inode
                }
                Access::Append => state.tree.open_to_append(path)?,
            };
            Ok((inode, state.new_owner(self.process)))
        })?;
        Ok(Box::new(SimFile { disk: self.clone(), inode, access, owner }))
    }

    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        self.call(Op::Stat, |state| {
            let inode = state.tree.find(path, LastLink::Keep)?;
            Ok(state.tree.stat(inode))
        })
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.call(Op::CreateDir, |state| state.tree.create_dir(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.call(Op::SyncDir, |state| {
            let inode = state.tree.find(path, LastLink::Follow)?;
            match state.tree.node_mut(inode) {
                Node::Dir(names) => names.sync(),
                Node::File(content) => content.sync(),
                Node::Symlink(_) | Node::Special => return fail(errno::EINVAL),
            }
            Ok(())
        })
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.call(Op::Replace, |state| {
            // The old file is there until the new one has its name, so both need room.
            if bytes.len() > state.room() {
                return fail(errno::ENOSPC);
            }
            state.tree.replace(path, bytes)
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.call(Op::List, |state| state.tree.list(dir))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Op::Rename, |state| state.tree.rename_new(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(Op::Remove, |state| state.tree.remove_file(path))
    }

    fn watch(&self, path: &Path) -> io::Result<Box<dyn Watch>> {
        let watch = SimWatch::new(self.clone(), PathBuf::from(path))?;
        Ok(Box::new(watch))
    }
}

#[cfg(test)]
mod tests;
