//! The simulated world and the sandbox that the tests of autoloop run in.

pub mod clock;
pub mod disk;
pub mod entropy;
pub mod seed;

pub use clock::SimClock;
pub use disk::{Calls, Faults, Moment, Op, SimDisk};
pub use entropy::SimEntropy;
pub use seed::{Dice, Seed, simulate};
