//! The faults of a simulated disk, planned ahead.

use std::collections::BTreeMap;

use crate::seed::Dice;

/// The kinds of calls that a disk gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Opening a file.
    Open,
    /// Stat of a name or of an open file.
    Stat,
    /// Trying to take a lock.
    Lock,
    /// Releasing a lock. Dropping the file is no call.
    Unlock,
    /// Reading.
    Read,
    /// Appending to a file.
    Append,
    /// Truncating a file.
    Cut,
    /// Syncing a file.
    Sync,
    /// Syncing a directory.
    SyncDir,
    /// Creating a directory.
    CreateDir,
    /// Replacing a whole file.
    Replace,
    /// Listing a directory.
    List,
    /// Moving a file to a new name.
    Rename,
    /// Removing a file.
    Remove,
    /// Starting to watch a file, or waiting for it to change.
    Watch,
}

/// Whether a fault comes before or after the effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nothing has happened yet.
    BeforeEffect,
    /// It has happened, but the caller gets no result.
    AfterEffect,
}

/// A plan of faults. Calls and bytes are counted from the moment that it is set, and the first call
/// is number 1.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    die_after_bytes: Option<u64>,
    die_at_sync: Option<(u64, Moment)>,
    die_at_call: Option<u64>,
    failing: Vec<(Op, u64, i32)>,
    short_writes: Option<Dice>,
    pub(super) capacity: Option<u64>,
    seen: Calls,
    appended: u64,
}

impl Faults {
    /// No faults.
    pub fn none() -> Self {
        Faults::default()
    }

    /// The machine crashes when the `n`-th byte of all appends is in the cache, in the middle of
    /// its append; with 0, when the first append starts.
    #[must_use]
    pub fn die_after_bytes(self, n: u64) -> Self {
        Faults { die_after_bytes: Some(n), ..self }
    }

    /// The machine crashes at the `k`-th sync of a file or a directory.
    #[must_use]
    pub fn die_at_sync(self, k: u64, moment: Moment) -> Self {
        Faults { die_at_sync: Some((k, moment)), ..self }
    }

    /// The machine crashes at the `k`-th call of any kind, before it has an effect.
    #[must_use]
    pub fn die_at_call(self, k: u64) -> Self {
        Faults { die_at_call: Some(k), ..self }
    }

    /// The total size of all files is limited.
    #[must_use]
    pub fn capacity(self, bytes: u64) -> Self {
        Faults { capacity: Some(bytes), ..self }
    }

    /// The `k`-th call of this kind fails with this error number and has no effect. Can be
    /// repeated.
    #[must_use]
    pub fn fail_call(mut self, op: Op, k: u64, errno: i32) -> Self {
        self.failing.push((op, k, errno));
        self
    }

    /// Appends write only a random part of their bytes.
    #[must_use]
    pub fn short_writes(self, dice: Dice) -> Self {
        Faults { short_writes: Some(dice), ..self }
    }

    /// The fate of the next call.
    pub(super) fn strike(&mut self, op: Op) -> Fate {
        self.seen.count(op);
        if self.die_at_call == Some(self.seen.total()) {
            return Fate::Dies(Moment::BeforeEffect);
        }
        if let (Op::Sync | Op::SyncDir, Some((k, moment))) = (op, self.die_at_sync)
            && k == self.seen.syncs()
        {
            return Fate::Dies(moment);
        }
        let nth = self.seen.of(op);
        let failing = self.failing.iter().find(|&&(kind, k, _)| (kind, k) == (op, nth));
        failing.map_or(Fate::Lives, |&(_, _, errno)| Fate::Fails(errno))
    }

    /// How many of `len` bytes an append writes, and whether the machine crashes after them.
    pub(super) fn take(&mut self, len: usize) -> (usize, Fate) {
        let part = match &mut self.short_writes {
            Some(dice) if len > 0 => 1 + dice.index(len),
            _ => len,
        };
        let left = self.die_after_bytes.map(|limit| limit.saturating_sub(self.appended));
        let (taken, fate) = match left.map(|left| usize::try_from(left).unwrap_or(usize::MAX)) {
            Some(left) if left <= part && len > 0 => (left, Fate::Dies(Moment::AfterEffect)),
            _ => (part, Fate::Lives),
        };
        self.appended += taken as u64;
        (taken, fate)
    }
}

/// The fate of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Lives,
    Fails(i32),
    Dies(Moment),
}

/// How often a disk was called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls(BTreeMap<Op, u64>);

impl Calls {
    /// Calls of one kind.
    pub fn of(&self, op: Op) -> u64 {
        self.0.get(&op).copied().unwrap_or(0)
    }

    /// Calls of all kinds: the number of places for [`Faults::die_at_call`].
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Syncs of files and directories: the number of places for [`Faults::die_at_sync`].
    pub fn syncs(&self) -> u64 {
        self.of(Op::Sync) + self.of(Op::SyncDir)
    }

    pub(super) fn count(&mut self, op: Op) {
        *self.0.entry(op).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    const DIES: Fate = Fate::Dies(Moment::AfterEffect);

    #[test]
    fn a_call_is_struck_by_its_number() {
        let mut faults = Faults::none().fail_call(Op::Stat, 2, 5).fail_call(Op::Open, 1, 13);
        let fates = [Op::Stat, Op::Open, Op::Stat, Op::Stat, Op::Open].map(|op| faults.strike(op));
        let lives = Fate::Lives;
        assert_eq!(fates, [lives, Fate::Fails(13), Fate::Fails(5), lives, lives]);

        let mut faults = Faults::none().die_at_call(2);
        assert_eq!(faults.strike(Op::Read), Fate::Lives);
        assert_eq!(faults.strike(Op::Lock), Fate::Dies(Moment::BeforeEffect));
    }

    #[test]
    fn syncs_of_both_kinds_are_counted_together() {
        let mut faults = Faults::none().die_at_sync(2, Moment::AfterEffect);
        let fates = [Op::Sync, Op::Append, Op::SyncDir].map(|op| faults.strike(op));
        assert_eq!(fates, [Fate::Lives, Fate::Lives, DIES]);
    }

    #[test]
    fn bytes_are_counted_over_all_appends() {
        let mut faults = Faults::none().die_after_bytes(5);
        assert_eq!(faults.take(3), (3, Fate::Lives));
        assert_eq!(faults.take(0), (0, Fate::Lives));
        assert_eq!(faults.clone().take(2), (2, DIES));
        assert_eq!(faults.take(3), (2, DIES));
        assert_eq!(Faults::none().die_after_bytes(0).take(1), (0, DIES));
    }

    #[test]
    fn short_writes_always_get_on() {
        let mut faults = Faults::none().short_writes(Seed(4).dice());
        let mut parts: Vec<_> = (0..100).map(|_| faults.take(3).0).collect();
        parts.sort_unstable();
        parts.dedup();
        assert_eq!(parts, [1, 2, 3]);
        assert_eq!(faults.take(0).0, 0);
    }
}
