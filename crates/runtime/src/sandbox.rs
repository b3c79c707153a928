//! Confines a reviewer to what it may change.
//!
//! - **The overlay**, where the system permits one: a view of the project from which only allowed files are
//!   taken over. See [`Overlay`](crate::world::Overlay).
//! - **Landlock**, where the kernel has it: [`Rules`](crate::world::Rules) name what may be written, and the process that is
//!   about to become the agent applies them to itself as part of its [`Confinement`](crate::world::Confinement).
//! - **The snapshot**, where files are written in place: [`Snapshot::take`] copies the project, its state
//!   directory, its git repository and the sibling worktrees before the review;
//!   [`Snapshot::compare_and_restore`] keeps what the
//!   [`AllowList`](autoloop_core::permissions::AllowList) permits and restores the rest.
//!
//! A [`Proof`] before and after shows changes that no layer explains. docs/review-permissions.md has a
//! table of what each layer prevents.

#![expect(clippy::disallowed_methods, reason = "the kernel confines real processes on real files")]

mod append_only;
mod backup_store;
mod confinement;
mod git;
#[cfg(target_os = "linux")]
mod landlock;
mod listing;
mod openat;
mod overlay;
mod placeholders;
mod proof;
mod report;
mod restore;
mod revert;
mod scope;
mod scratch;
mod selection;
mod snapshot;
mod take_over;

pub use append_only::AppendOnlyViolation;
pub use backup_store::BackupStore;
pub use confinement::{Enforcement, QUIET_GIT, SandboxError, Support, probe};
pub use git::{repository_paths, siblings};
pub use listing::Listing;
pub use placeholders::sweep_placeholders;
pub use proof::{Attribution, Proof};
pub use report::{Allowed, ReviewChanges, Violation, ViolationKind};
pub use revert::{RevertError, Reverted, Reverter};
pub use scope::{Extent, Limits, Scope};
pub use scratch::Scratch;
pub use snapshot::Snapshot;
