//! The journal file on a disk that forgets, fills up, fails, dies and is shared: whatever happens,
//! what was acknowledged is there, in order, exactly once, byte for byte, and nobody has to lend a hand.

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
