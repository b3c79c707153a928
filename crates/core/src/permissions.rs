//! What a reviewer may touch, as data: which paths, which kinds of change, which settings.
//!
//! Paths are written as seen from the project: relative to it when they lie inside, absolute when
//! they do not. Joining such a path to the project's directory gives the real one in both cases.
//!
//! Nothing here looks at a disk: the caller passes two [`Tree`]s, and [`AllowList::split`] separates their
//! [`Change`]s.

mod allow_list;
mod diff;
mod patch;
mod protected;
mod tree;

pub use allow_list::{AllowList, Permission, Place, Shape};
pub use diff::{Diff, LONGEST_DIFFED, unified};
pub use patch::{BadPatch, Conflict, Earlier, FilePatch, Revert, read_patch};
pub use protected::{PutBack, Repaired, Unreadable, repair_settings, repair_topology};
pub use tree::{Change, Entry, Kind, Split, Stamp, Tree, UNUSUAL, What, compare};
