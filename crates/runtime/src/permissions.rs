//! What a reviewer may touch, enforced.
//!
//! Layers, the first of which is always there:
//!
//! - **The snapshot**, always. [`Snapshot::take`] before the reviewer starts remembers everything in
//!   the project, its state directory, its git repository and the sibling working trees;
//!   [`Snapshot::compare_and_restore`] after the last of its processes is dead keeps what the
//!   [`AllowList`](autoloop_core::permissions::AllowList) permits, puts the rest back and lists it.
//! - **The sandbox**, where the kernel has one. [`Rules`] say where may be written, and the process
//!   that is about to become the agent [confines](Confinement) itself to them.
//! - **The overlay**, where the system lets us mount one over the project: a view of it that takes
//!   what the reviewer writes. See [`Overlay`].
//!
//! The snapshot undoes; the sandbox prevents, also outside of the trees that the snapshot looks at.
//! docs/review-permissions.md says which layer stops what.

mod beneath;
mod choice;
mod confinement;
mod git;
mod growing;
mod listing;
mod opener;
mod overlay;
mod placeholders;
mod report;
mod restore;
mod revert;
mod sandbox;
mod scratch;
#[cfg(target_os = "linux")]
mod seal;
mod settings;
mod snapshot;
mod traces;
mod vault;
mod walk;
mod watched;

pub use confinement::{Confinement, Enforcement, SandboxError};
pub use git::{repository_paths, siblings};
pub use growing::NotGrown;
pub use listing::Listing;
pub use overlay::Overlay;
pub use report::{Allowed, Offence, Restored, Violation};
pub use revert::{Fate, RevertError, Reverter};
pub use sandbox::{Rules, Support, probe, quiet_git};
pub use scratch::Scratch;
pub use snapshot::{Snapshot, sweep_placeholders};
pub use traces::Traces;
pub use vault::Vault;
pub(crate) use vault::nameless;
pub use watched::{Limits, Reach, Scope, Watched};
