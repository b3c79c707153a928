//! Slots through the binary: what happens to items, what stops agents, and what is resumed after a
//! crash.
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
