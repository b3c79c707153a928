//! What a reviewer may touch, enforced.
//!
//! Two layers, each of use without the other:
//!
//! - **The snapshot**, always. [`Snapshot::take`] before the reviewer starts remembers everything in
//!   the project, its state directory, its git repository and the sibling working trees;
//!   [`Snapshot::compare_and_restore`] after the last of its processes is dead keeps what the
//!   [`AllowList`](autoloop_core::permissions::AllowList) permits, puts the rest back and lists it.
//! - **The sandbox**, where the kernel has one. [`Rules`] say where may be written, and
//!   [`apply_to_self`] binds the process that is about to become the agent to them.
//!
//! The snapshot undoes; the sandbox prevents, also outside of the trees that the snapshot looks at.
//! docs/review-permissions.md says which layer stops what.

mod beneath;
mod choice;
mod git;
mod growing;
mod opener;
mod placeholders;
mod report;
mod restore;
mod sandbox;
mod settings;
mod snapshot;
mod vault;
mod walk;
mod watched;

pub use growing::NotGrown;
pub use report::{Allowed, Offence, Restored, Violation};
pub use sandbox::{Enforcement, Rules, SandboxError, Support, apply_to_self, probe, quiet_git};
pub use snapshot::Snapshot;
pub use vault::Vault;
pub(crate) use vault::nameless;
pub use watched::{Limits, Watched};
