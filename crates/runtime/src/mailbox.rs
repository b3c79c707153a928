//! Mailboxes: directories in which agents leave messages for each other.

mod history;

pub use history::{check, read_history};

/// The directory of findings packets in a workspace.
pub const FINDINGS: &str = "packets/findings";
