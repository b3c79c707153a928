//! The names in one directory: as every process sees them, and as a power cut may leave them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use crate::seed::Dice;

use super::tree::{Inode, View};

/// The contents of a directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    cached: BTreeMap<OsString, Inode>,
    durable: BTreeMap<OsString, Inode>,
}

impl Names {
    pub(super) fn get(&self, name: &OsStr, view: View) -> Option<Inode> {
        match view {
            View::Cached => self.cached.get(name).copied(),
            View::Durable => self.durable.get(name).copied(),
        }
    }

    /// All visible names.
    pub(super) fn list(&self) -> Vec<OsString> {
        self.cached.keys().cloned().collect()
    }

    /// The inodes of all visible names.
    pub(super) fn inodes(&self) -> impl Iterator<Item = Inode> {
        self.cached.values().copied()
    }

    pub(super) fn put(&mut self, name: &OsStr, inode: Inode) {
        self.cached.insert(name.to_owned(), inode);
    }

    /// Adds a name that is entirely on the disk.
    pub(super) fn settle(&mut self, name: &OsStr, inode: Inode) {
        self.put(name, inode);
        self.durable.insert(name.to_owned(), inode);
    }

    pub(super) fn remove(&mut self, name: &OsStr) {
        self.cached.remove(name);
    }

    pub(super) fn sync(&mut self) {
        self.durable = self.cached.clone();
    }

    /// The synced names; of each change since, randomly all or nothing. POSIX guarantees no order
    /// between two names, so none is kept here.
    pub(super) fn after_power_cut(&self, dice: &mut Dice) -> Names {
        let mut left = Names::default();
        let names: BTreeSet<_> = self.cached.keys().chain(self.durable.keys()).collect();
        for name in names {
            let (new, old) = (self.cached.get(name), self.durable.get(name));
            let arrived = new == old || dice.chance(1, 2);
            if let Some(&inode) = if arrived { new } else { old } {
                left.settle(name, inode);
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    /// What the power cuts left of one name.
    fn fates(names: &Names, name: &str) -> BTreeSet<Option<Inode>> {
        let mut dice = Seed(5).dice();
        let name = OsStr::new(name);
        let fate = |dice: &mut Dice| names.after_power_cut(dice).get(name, View::Cached);
        (0..100).map(|_| fate(&mut dice)).collect()
    }

    #[test]
    fn a_name_is_safe_only_after_a_sync() {
        let mut names = Names::default();
        names.put(OsStr::new("a"), 7);
        assert_eq!(fates(&names, "a"), BTreeSet::from([None, Some(7)]));
        names.sync();
        assert_eq!(fates(&names, "a"), BTreeSet::from([Some(7)]));
    }

    #[test]
    fn a_replaced_name_is_the_old_or_the_new_file_and_never_neither() {
        let mut names = Names::default();
        names.settle(OsStr::new("a"), 7);
        names.put(OsStr::new("a"), 8);
        assert_eq!(fates(&names, "a"), BTreeSet::from([Some(7), Some(8)]));
    }

    #[test]
    fn a_removed_name_may_come_back() {
        let mut names = Names::default();
        names.settle(OsStr::new("a"), 7);
        names.remove(OsStr::new("a"));
        assert_eq!(names.get(OsStr::new("a"), View::Cached), None);
        assert_eq!(fates(&names, "a"), BTreeSet::from([None, Some(7)]));
    }
}
