//! The journal file on a disk that loses unsynced data, fills up, fails, crashes and is shared:
//! acknowledged records are there, in order, exactly once, byte for byte, without any manual
//! repair.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "crash/failing.rs"]
mod failing;
#[path = "crash/model.rs"]
mod model;
#[path = "crash/others.rs"]
mod others;
#[path = "crash/room.rs"]
mod room;
#[path = "crash/script.rs"]
mod script;
#[path = "crash/unsuitable.rs"]
mod unsuitable;
