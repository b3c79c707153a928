//! The writes to a disk, and the disks that a power cut may leave of them.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use autoloop_testkit::Dice;

/// What a disk stores whole or not at all.
const SECTOR: usize = 512;
/// The middle of the superblock. ext4 writes it in place and counts on its two sectors being stored
/// together: torn there, it is mounted only after a person has called `e2fsck`, and of that no journal
/// on it can be blamed.
const NEVER_TORN: usize = 1024 + SECTOR;

/// Something that happened to the disk, or an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Bytes came in. Until the next flush they may be stored or not.
    Write {
        /// Where to.
        offset: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// All that came in before is stored. Of a write that was not answered yet when the flush was asked
    /// for, that is one of the two things that may happen.
    Flush,
    /// The writer was told that these records are durable.
    Acknowledged(Range<usize>),
}

/// A disk and all that happened to it.
pub(crate) struct Recording {
    /// What was on it in the beginning.
    pub(crate) base: Vec<u8>,
    /// What happened, in order.
    pub(crate) events: Vec<Event>,
}

/// A power cut: when, and what was stored by then.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// How many events had happened.
    at: usize,
    /// How many events had happened at the last flush.
    flushed: usize,
    /// The writes since then that were stored nevertheless.
    stored: Vec<usize>,
    /// How many bytes of the last of them were stored, if not all.
    torn: Option<usize>,
}

impl Recording {
    /// That many cuts, no two of which leave the same disk to the same expectations.
    pub(crate) fn cuts(&self, count: usize, dice: &mut Dice) -> Vec<Cut> {
        let mut cuts = Vec::new();
        let mut seen = HashSet::new();
        // Far more throws than are needed, unless there are not that many cuts.
        for _ in 0..count * 100 {
            if cuts.len() == count {
                break;
            }
            let at = dice.index(self.events.len() + 1);
            let cut = self.cut(at, dice);
            let stored: Vec<usize> = self.stored(&cut).collect();
            if seen.insert((stored, cut.torn, self.acknowledged(&cut).len())) {
                cuts.push(cut);
            }
        }
        cuts
    }

    /// A cut after that many events.
    fn cut(&self, at: usize, dice: &mut Dice) -> Cut {
        let is_flush = |event: &Event| matches!(event, Event::Flush);
        let flushed = self.events[..at].iter().rposition(is_flush).map_or(0, |flush| flush + 1);
        let mut stored: Vec<usize> = self.writes(flushed..at).collect();
        let mut torn = None;
        match dice.index(4) {
            0 => stored.clear(),
            1 => stored.truncate(dice.index(stored.len() + 1)),
            2 => stored.retain(|_| dice.chance(1, 2)),
            _ => {
                stored.truncate(dice.index(stored.len()) + 1);
                torn = stored.last().and_then(|&last| self.tear(last, dice));
            }
        }
        Cut { at, flushed, stored, torn }
    }

    /// A place between two sectors of a write, if there is one.
    fn tear(&self, write: usize, dice: &mut Dice) -> Option<usize> {
        let Event::Write { offset, bytes } = &self.events[write] else { return None };
        let sectors = bytes.len().div_ceil(SECTOR);
        let torn = (1 + dice.index(sectors.checked_sub(1)?)) * SECTOR;
        (torn < bytes.len() && offset + torn != NEVER_TORN).then_some(torn)
    }

    /// The writes in a range of events.
    fn writes(&self, range: Range<usize>) -> impl Iterator<Item = usize> {
        range.filter(|&index| matches!(self.events[index], Event::Write { .. }))
    }

    /// All writes that were stored before the cut.
    fn stored(&self, cut: &Cut) -> impl Iterator<Item = usize> {
        self.writes(0..cut.flushed).chain(cut.stored.iter().copied())
    }

    /// The records that were acknowledged before the cut.
    pub(crate) fn acknowledged(&self, cut: &Cut) -> BTreeSet<usize> {
        let records = |event: &Event| match event {
            Event::Acknowledged(records) => records.clone(),
            Event::Write { .. } | Event::Flush => 0..0,
        };
        self.events[..cut.at].iter().flat_map(records).collect()
    }

    /// The disk after the cut.
    pub(crate) fn disk(&self, cut: &Cut) -> Vec<u8> {
        let mut disk = self.base.clone();
        let last = cut.stored.last().copied();
        for index in self.stored(cut) {
            if let Event::Write { offset, bytes } = &self.events[index] {
                let torn = cut.torn.filter(|_| Some(index) == last);
                let bytes = &bytes[..torn.unwrap_or(bytes.len())];
                disk[*offset..*offset + bytes.len()].copy_from_slice(bytes);
            }
        }
        disk
    }

    /// How often something happened.
    pub(crate) fn count(&self, is_counted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| is_counted(event)).count()
    }
}

#[cfg(test)]
mod tests {
    use autoloop_testkit::Seed;

    use super::*;

    fn write(offset: usize, byte: u8) -> Event {
        Event::Write { offset, bytes: vec![byte; 2 * SECTOR] }
    }

    /// One write is flushed and acknowledged, and two come behind it. The middle of the second is the
    /// middle of a superblock.
    fn recording() -> Recording {
        Recording {
            base: vec![0; 6 * SECTOR],
            events: vec![
                write(0, 1),
                Event::Flush,
                Event::Acknowledged(0..2),
                write(2 * SECTOR, 2),
                write(4 * SECTOR, 3),
            ],
        }
    }

    /// The byte in each sector.
    fn sectors(disk: &[u8]) -> Vec<u8> {
        disk.chunks(SECTOR).map(|sector| sector[0]).collect()
    }

    #[test]
    fn every_disk_that_a_cut_can_leave_is_left_by_some_cut() {
        let recording = recording();
        let cuts = recording.cuts(1000, &mut Seed(1).dice());
        let disks: BTreeSet<(Vec<u8>, usize)> = cuts
            .iter()
            .map(|cut| (sectors(&recording.disk(cut)), recording.acknowledged(cut).len()))
            .collect();
        let disk = |sectors: [u8; 6], acknowledged| (sectors.to_vec(), acknowledged);
        let expected = [
            disk([0, 0, 0, 0, 0, 0], 0),
            disk([1, 0, 0, 0, 0, 0], 0),
            disk([1, 1, 0, 0, 0, 0], 0),
            disk([1, 1, 0, 0, 0, 0], 2),
            disk([1, 1, 0, 0, 3, 3], 2),
            disk([1, 1, 2, 2, 0, 0], 2),
            disk([1, 1, 2, 2, 3, 0], 2),
            disk([1, 1, 2, 2, 3, 3], 2),
        ];
        assert_eq!(disks, BTreeSet::from(expected));
        assert_eq!(cuts.len(), 8, "no cut is worth a second look");
    }

    #[test]
    fn the_same_seed_cuts_at_the_same_places() {
        let cuts = |seed| format!("{:?}", recording().cuts(5, &mut Seed(seed).dice()));
        assert_eq!(cuts(7), cuts(7));
        assert_ne!(cuts(7), cuts(8));
    }
}
