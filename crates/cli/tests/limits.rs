//! Limits of runs on cost, tokens and time, and runs that stall.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "limits/chains.rs"]
mod chains;
#[path = "limits/loops.rs"]
mod loops;
#[path = "limits/slots.rs"]
mod slots;
