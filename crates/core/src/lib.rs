//! The decisions of autoloop.
//!
//! The journal is the only thing that has happened; everything in this crate is a fold of it or a
//! decision made from it. Nothing here opens a file, asks the time or starts a process.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod agents;
pub mod chain;
pub mod config;
pub mod coordinator;
pub mod duration;
pub mod env;
pub mod evidence;
pub mod exchange;
pub mod failure;
pub mod format;
pub mod json;
pub mod layout;
pub mod limits;
pub mod memory;
pub mod merge;
pub mod message;
pub mod pattern;
pub mod payload;
pub mod permissions;
pub mod plan;
pub mod prompt;
pub mod provenance;
pub mod queue;
pub mod record;
pub mod review;
pub mod routing;
pub mod run;
pub mod run_id;
pub mod script;
pub mod secrets;
pub mod slot;
pub mod squad;
pub mod step;
pub mod suggest;
pub mod table;
pub mod text;
pub mod timestamp;
pub mod toml_file;
pub mod tool;
pub mod topic;
pub mod topology;
pub mod unenforced;
pub mod verdict;
pub mod view;
pub mod views;
pub mod wave;
pub mod wire_enum;
