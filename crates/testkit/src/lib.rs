//! The simulated world and the sandbox that the tests of autoloop run in.

pub mod clock;
pub mod entropy;
pub mod seed;

pub use clock::SimClock;
pub use entropy::SimEntropy;
pub use seed::{Dice, Seed, simulate};
