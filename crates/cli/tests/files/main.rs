//! Files in and around the state directory, through the binary: what git sees of it, who may read it, and
//! files that are not what their names promise.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod odd;
mod output;
mod state_dir;
