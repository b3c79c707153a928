//! Digests by which a file is known that was changed after it was written.

use std::hash::{DefaultHasher, Hasher};

use crate::world::Entropy;

/// A keyed digest of the bytes of a file.
///
/// Agents can write to the files that hold their outputs. The writer of a file draws a key, and tells key and digest
/// to the reader over a pipe when the file is complete: without the key, no other bytes with the same digest can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The key.
    pub key: u64,
    /// The rest of the key.
    pub more_key: u64,
    /// The digest.
    pub digest: u64,
}

/// A seal in the making.
#[derive(Clone, Debug)]
pub struct Sealing {
    key: u64,
    more_key: u64,
    hasher: DefaultHasher,
}

impl Sealing {
    /// Begins a seal with a key of its own.
    pub fn begin(entropy: &dyn Entropy) -> Sealing {
        Sealing::with(entropy.number(), entropy.number())
    }

    /// Begins the seal of the same bytes anew, to compare it.
    pub fn again(seal: &Seal) -> Sealing {
        Sealing::with(seal.key, seal.more_key)
    }

    fn with(key: u64, more_key: u64) -> Sealing {
        // SipHash, whose own key the standard library does not let anybody choose. The secret comes first instead.
        let mut hasher = DefaultHasher::new();
        hasher.write(&key.to_le_bytes());
        hasher.write(&more_key.to_le_bytes());
        Sealing { key, more_key, hasher }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
    }

    /// The seal of all bytes so far.
    pub fn seal(&self) -> Seal {
        let Sealing { key, more_key, hasher } = self;
        Seal { key: *key, more_key: *more_key, digest: hasher.finish() }
    }
}
