//! The world as the operating system presents it.

mod clock;
mod disk;
mod spawner;
mod watch;

pub use clock::{OsEntropy, SystemClock};
pub use disk::RealDisk;
pub use spawner::OsSpawner;
