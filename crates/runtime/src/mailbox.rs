//! Mailboxes: directories in which agents leave messages for each other.

mod history;
mod workspace;

pub use history::{check, read_history};
pub use workspace::{Listed, MailError, Place, Workspace};

/// The directory of findings packets in a workspace.
pub const FINDINGS: &str = "packets/findings";
