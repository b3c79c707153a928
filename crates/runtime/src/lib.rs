//! The effects of autoloop: everything that touches files, processes or time.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod breakers;
pub mod clients;
pub mod drive;
pub mod emit;
mod error;
mod evidence;
pub mod failure;
pub mod files;
pub mod filesystem;
pub mod git;
mod harness;
pub mod ipc;
pub mod journal;
pub mod launch;
pub mod layout;
pub mod mailbox;
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
pub mod site;
pub mod store;
mod turn;
pub mod which;
pub mod world;
