//! The bytes of one file: as every process sees them, and as a power cut may leave them.

use crate::seed::Dice;

/// The unit in which a disk writes. A file can have its new length before its last page.
const PAGE: usize = 4096;

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    cached: Vec<u8>,
    durable: Vec<u8>,
    /// The changes since the last sync, oldest first: `durable` plus these is `cached`.
    pending: Vec<Change>,
    /// The number of changes, for watches.
    version: u64,
}

#[derive(Clone, Debug)]
enum Change {
    Append(Vec<u8>),
    Resize(usize),
}

impl Content {
    /// A file that is entirely on the disk.
    pub(super) fn settled(bytes: &[u8]) -> Self {
        Content { cached: bytes.to_vec(), durable: bytes.to_vec(), ..Content::default() }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn cached(&self) -> &[u8] {
        &self.cached
    }

    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.version += 1;
        self.cached.extend_from_slice(bytes);
        match self.pending.last_mut() {
            Some(Change::Append(last)) => last.extend_from_slice(bytes),
            _ => self.pending.push(Change::Append(bytes.to_vec())),
        }
    }

    /// Truncates the file, or extends it with NUL bytes.
    pub(super) fn resize(&mut self, len: usize) {
        self.version += 1;
        self.cached.resize(len, 0);
        self.pending.push(Change::Resize(len));
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            change.apply(&mut self.durable);
        }
    }

    /// The synced bytes and a prefix of the changes since, the last of them perhaps in part,
    /// sometimes with NUL bytes where the last page was not written.
    pub(super) fn after_power_cut(&self, dice: &mut Dice) -> Content {
        let whole = match dice.below(3) {
            0 => self.pending.len(),
            _ => dice.index(self.pending.len() + 1),
        };
        let mut bytes = self.durable.clone();
        // Below this length every byte is synced and unchanged.
        let mut safe = bytes.len();
        for change in &self.pending[..whole] {
            change.apply(&mut bytes);
            safe = safe.min(bytes.len());
        }
        if let Some(Change::Append(torn)) = self.pending.get(whole) {
            bytes.extend_from_slice(&torn[..dice.index(torn.len() + 1)]);
        }
        if bytes.len() > safe && dice.chance(1, 6) {
            let last_page = (bytes.len() - 1) / PAGE * PAGE;
            bytes[last_page.max(safe)..].fill(0);
        }
        Content::settled(&bytes)
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Append(more) => bytes.extend_from_slice(more),
            Change::Resize(len) => bytes.resize(*len, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::seed::Seed;

    fn left_by_power_cuts(content: &Content) -> BTreeSet<Vec<u8>> {
        let mut dice = Seed(11).dice();
        (0..500).map(|_| content.after_power_cut(&mut dice).cached().to_vec()).collect()
    }

    fn all(texts: &[&str]) -> BTreeSet<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    #[test]
    fn a_power_cut_leaves_synced_bytes_and_any_part_of_the_others() {
        let mut content = Content::default();
        content.append(b"ab");
        content.sync();
        content.append(b"c");
        content.append(b"d");
        assert_eq!(content.durable(), b"ab");
        assert_eq!(left_by_power_cuts(&content), all(&["ab", "abc", "abcd", "ab\0", "ab\0\0"]));
    }

    #[test]
    fn nothing_is_lost_after_a_sync() {
        let mut content = Content::default();
        content.append(b"abc");
        content.resize(1);
        content.append(b"x");
        content.sync();
        assert_eq!(content.cached(), b"ax");
        assert_eq!(left_by_power_cuts(&content), all(&["ax"]));
    }

    #[test]
    fn a_cut_is_durable_by_a_sync_only() {
        let mut content = Content::settled(b"abc");
        content.resize(1);
        assert_eq!(content.cached(), b"a");
        assert_eq!(left_by_power_cuts(&content), all(&["a", "abc"]));
        content.append(b"x");
        assert_eq!(left_by_power_cuts(&content), all(&["abc", "a", "ax", "a\0"]));
    }

    #[test]
    fn only_the_last_page_can_be_left_unwritten() {
        let mut content = Content::default();
        content.append(&[b'x'; PAGE + 5]);
        let nul = left_by_power_cuts(&content).into_iter().find(|bytes| bytes.contains(&0));
        let bytes = nul.expect("one cut in six leaves an unwritten page");
        let first = bytes.iter().position(|&byte| byte == 0).unwrap();
        assert_eq!(first, (bytes.len() - 1) / PAGE * PAGE);
        assert!(bytes[first..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn the_state_after_a_power_cut_is_durable() {
        let mut content = Content::default();
        content.append(b"abc");
        let left = content.after_power_cut(&mut Seed(3).dice());
        assert_eq!(left.cached(), left.durable());
        assert_eq!(left_by_power_cuts(&left).len(), 1);
    }
}
