//! The world as the operating system presents it.

#![expect(clippy::disallowed_methods, reason = "this is the real world")]

mod clock;
mod disk;
mod watch;

pub use clock::{OsEntropy, SystemClock};
pub use disk::RealDisk;
