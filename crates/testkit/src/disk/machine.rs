//! The machine around the files: its power, its processes, their locks, and the only way in which a
//! call reaches the files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::SimClock;

use super::SimDisk;
use super::errno::{self, fail};
use super::faults::{Calls, Fate, Faults, Moment, Op};
use super::tree::{Inode, Node, Tree};

/// What other processes do between two calls of ours.
pub(super) type Others = Box<dyn FnMut(Op, &SimDisk) + Send>;

/// What all views of one disk share.
pub(super) struct Machine {
    state: Mutex<State>,
    /// Taken out while it acts, so that its own calls do not call it again.
    others: Mutex<Option<Others>>,
    pub(super) clock: SimClock,
}

impl Machine {
    pub(super) fn new(tree: Tree, clock: SimClock) -> Self {
        let state = State { tree, ..State::default() };
        Machine { state: Mutex::new(state), others: Mutex::default(), clock }
    }

    /// The state, for access without faults.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_others(&self, others: Others) {
        *self.others.lock().unwrap_or_else(PoisonError::into_inner) = Some(others);
    }

    /// Lets other processes act. No lock is held meanwhile, because they make calls themselves.
    pub(super) fn let_others_act(&self, op: Op, disk: &SimDisk) {
        let slot = || self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut others) = slot().take() else { return };
        others(op, disk);
        // Unless they have replaced themselves.
        slot().get_or_insert(others);
    }
}

/// The state of a machine.
#[derive(Default)]
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) faults: Faults,
    pub(super) calls: Calls,
    pub(super) appended: u64,
    power: Power,
    killed: BTreeSet<u32>,
    locks: BTreeMap<Inode, Owner>,
    handles: u64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Power {
    #[default]
    On,
    Off,
}

/// One open file of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) handle: u64,
    pub(super) process: u32,
}

impl State {
    /// Whether a process can still make calls.
    pub(super) fn check_alive(&self, process: u32) -> io::Result<()> {
        if !self.is_on() {
            return Err(io::Error::other("the simulated machine is dead"));
        }
        if self.killed.contains(&process) {
            return Err(io::Error::other(format!("process {process} is dead")));
        }
        Ok(())
    }

    /// Carries out one call of a process, unless a fault prevents it.
    pub(super) fn call<T>(
        &mut self,
        op: Op,
        process: u32,
        effect: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        self.check_alive(process)?;
        self.calls.count(op);
        match self.faults.strike(op) {
            Fate::Lives => effect(self),
            Fate::Fails(errno) => fail(errno),
            Fate::Dies(moment) => {
                if moment == Moment::AfterEffect {
                    // The caller is dead and gets no result.
                    let _ = effect(self);
                }
                self.die(process)
            }
        }
    }

    pub(super) fn append(&mut self, inode: Inode, bytes: &[u8], process: u32) -> io::Result<usize> {
        let room = self.room();
        if room == 0 && !bytes.is_empty() {
            return fail(errno::ENOSPC);
        }
        let (taken, fate) = self.faults.take(bytes.len().min(room));
        match self.tree.node_mut(inode) {
            Node::File(content) => content.append(&bytes[..taken]),
            // Into a pipe without a reader.
            Node::Special => {}
            Node::Dir(_) | Node::Symlink(_) => return fail(errno::EBADF),
        }
        self.appended += taken as u64;
        if fate == Fate::Lives { Ok(taken) } else { self.die(process) }
    }

    /// The bytes that still fit on the disk.
    pub(super) fn room(&self) -> usize {
        let left = self.faults.capacity.map(|capacity| capacity.saturating_sub(self.tree.used()));
        left.and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX)
    }

    pub(super) fn is_on(&self) -> bool {
        self.power == Power::On
    }

    pub(super) fn turn_off(&mut self) {
        self.power = Power::Off;
    }

    fn die<T>(&mut self, process: u32) -> io::Result<T> {
        self.turn_off();
        self.check_alive(process)?;
        unreachable!("no process is alive without power")
    }

    pub(super) fn kill(&mut self, process: u32) {
        self.killed.insert(process);
        self.locks.retain(|_, owner| owner.process != process);
    }

    pub(super) fn new_owner(&mut self, process: u32) -> Owner {
        self.handles += 1;
        Owner { handle: self.handles, process }
    }

    pub(super) fn try_lock(&mut self, inode: Inode, owner: Owner) -> bool {
        *self.locks.entry(inode).or_insert(owner) == owner
    }

    pub(super) fn unlock(&mut self, inode: Inode, owner: Owner) {
        if self.locks.get(&inode) == Some(&owner) {
            self.locks.remove(&inode);
        }
    }

    pub(super) fn lock_holder(&self, inode: Inode) -> Option<u32> {
        self.locks.get(&inode).map(|owner| owner.process)
    }
}
