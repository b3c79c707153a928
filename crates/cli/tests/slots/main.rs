//! Runs over a queue, through the binary: what becomes of items, whom agents listen to, and what goes on
//! after a crash.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod added;
mod iterations;
mod life;

mod lost;
mod nothing;
mod programs;
mod prompts;
mod resume;
mod reviewer;
mod scene;
mod signalled;
mod source;
mod terminal;
mod voice;
