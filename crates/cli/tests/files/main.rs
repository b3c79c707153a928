//! Files in and around the state directory, through the binary: which of them git sees, who may
//! read them, and paths that are not regular files.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod odd;
mod output;
mod state_dir;
