//! The effects of autoloop: everything that touches files, processes or time.

pub mod journal;
pub mod memory;
pub mod project;
pub mod world;
