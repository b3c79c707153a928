//! The brackets that are open.

/// What was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bracket {
    Object,
    List,
}

/// The brackets that are open, a bit each.
#[derive(Debug, Default)]
pub(super) struct Nest {
    /// A bit that is set is an object.
    bits: Vec<u64>,
    pub(super) depth: usize,
}

impl Nest {
    pub(super) fn push(&mut self, bracket: Bracket) {
        let (word, mask) = Nest::bit(self.depth);
        if word == self.bits.len() {
            self.bits.push(0);
        }
        match bracket {
            Bracket::Object => self.bits[word] |= mask,
            Bracket::List => self.bits[word] &= !mask,
        }
        self.depth += 1;
    }

    pub(super) fn pop(&mut self) {
        self.depth -= 1;
    }

    /// The last one that was opened; there is one as long as the object has not ended.
    pub(super) fn innermost(&self) -> Bracket {
        let (word, mask) = Nest::bit(self.depth - 1);
        if self.bits[word] & mask == 0 { Bracket::List } else { Bracket::Object }
    }

    fn bit(level: usize) -> (usize, u64) {
        (level / 64, 1 << (level % 64))
    }
}
