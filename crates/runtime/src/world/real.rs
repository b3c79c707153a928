//! The world as the operating system presents it.

mod clock;
mod disk;
mod watch;

pub use clock::{OsEntropy, SystemClock};
pub use disk::RealDisk;
