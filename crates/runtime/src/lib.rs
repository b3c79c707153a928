//! The effects of autoloop: everything that touches files, processes or time.

pub mod complaint;
pub mod drive;
pub mod emit;
pub mod files;
pub mod git;
mod harness;
pub mod ipc;
pub mod journal;
pub mod layout;
pub mod memory;
mod message;
pub mod permissions;
pub mod process;
pub mod program;
pub mod project;
pub mod queue;
mod review;
pub mod runs;
pub mod shim;
pub mod signals;
pub mod tail;
mod turn;
pub mod volume;
pub mod world;
