//! The effects of autoloop: everything that touches files, processes or time.

pub mod journal;
pub mod process;
pub mod shim;
pub mod signals;
pub mod world;
