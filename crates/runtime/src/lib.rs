//! The effects of autoloop: everything that touches files, processes or time.

pub mod journal;
pub mod permissions;
pub mod world;
