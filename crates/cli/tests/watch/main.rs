//! `autoloop watch`: in lines, as JSON, and as the live view in a pseudo-terminal.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod lines;
mod scene;
mod terminal;
