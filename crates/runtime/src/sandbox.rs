//! What a reviewer may touch, enforced.
//!
//! Layers, the first of which is always there:
//!
//! - **The snapshot**, always. [`Snapshot::take`] before the reviewer starts remembers everything in
//!   the project, its state directory, its git repository and the sibling working trees;
//!   [`Snapshot::compare_and_restore`] after the last of its processes is dead keeps what the
//!   [`AllowList`](autoloop_core::permissions::AllowList) permits, puts the rest back and lists it.
//! - **The sandbox**, where the kernel has one. [`Rules`](crate::world::Rules) say where may be written, and the process
//!   that is about to become the agent [confines](crate::world::Confinement) itself to them.
//! - **The overlay**, where the system lets us mount one over the project: a view of it that takes
//!   what the reviewer writes. See [`Overlay`](crate::world::Overlay).
//!
//! The snapshot undoes; the sandbox prevents, also outside of the trees that the snapshot looks at.
//! docs/review-permissions.md says which layer stops what.

mod append_only;
mod backup_store;
mod changed_files;
mod confinement;
mod dir_cache;
mod git;
#[cfg(target_os = "linux")]
mod landlock;
mod listing;
mod openat;
mod overlay;
mod placeholders;
#[cfg(target_os = "linux")]
mod readonly_bind;
mod report;
mod restore;
mod revert;
mod rules;
mod scope;
mod scratch;
mod selection;
mod settings;
mod snapshot;
mod walk;

pub use append_only::NotGrown;
pub use backup_store::Vault;
pub(crate) use backup_store::nameless;
pub use changed_files::Traces;
pub use confinement::{Enforcement, SandboxError};
pub use git::{repository_paths, siblings};
pub use listing::Listing;
pub use report::{Allowed, Offence, Restored, Violation};
pub use revert::{Fate, RevertError, Reverter};
pub use rules::{Support, probe, quiet_git};
pub use scope::{Limits, Reach, Scope, Watched};
pub use scratch::Scratch;
pub use snapshot::{Snapshot, sweep_placeholders};
