//! The effects of autoloop: everything that touches files, processes or time.

pub mod complaint;
pub mod drive;
pub mod emit;
pub mod file_tail;
pub mod files;
pub mod filesystem;
pub mod git;
mod harness;
pub mod ipc;
pub mod journal;
pub mod layout;
pub mod memory;
mod message;
pub mod private_files;
pub mod process;
mod procfs;
pub mod project;
pub mod queue;
mod review;
pub mod runs;
pub mod sandbox;
pub mod shim;
pub mod signals;
mod turn;
pub mod which;
pub mod world;
