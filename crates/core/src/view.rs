//! A fold of the journal that can be kept and taken up again.

pub mod bytes;

use crate::record::Glance;

/// A state that records are folded into, one after another.
///
/// A view is total: it never fails, never looks at settings, and takes no notice of what it does not
/// know. Because it can be saved with the position up to which it was folded, what a reader pays is
/// the part of the journal that came since.
pub trait View: Default {
    /// The name of the view, and of the file in which it is kept.
    const NAME: &'static str;
    /// Raised when the meaning of the saved bytes changes; older ones are then folded again.
    const VERSION: u32;

    /// Takes in one record.
    fn apply(&mut self, record: &Glance<'_>);
    /// Writes the state down.
    fn save(&self, out: &mut Vec<u8>);
    /// Reads it back; `None` for bytes that no version of it wrote.
    fn load(bytes: &[u8]) -> Option<Self>;
}
