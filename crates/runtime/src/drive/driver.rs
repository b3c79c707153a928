//! Who drives a run, asked without getting in anybody's way.

use std::path::Path;

use autoloop_core::coordinator::Kind;
use autoloop_core::plan::Files;
use autoloop_core::run_id::RunId;

use crate::layout::RunDir;
use crate::world::{Access, Disk};

/// Where Linux says who holds which lock.
const LOCKS: &str = "/proc/locks";

/// Who drives a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// This process.
    Process(u32),
    /// Nobody.
    Nobody,
    /// The system does not say who holds locks.
    Unknown,
}

/// Looks who drives a run: whoever holds the lock of the run.
///
/// The lock is looked up in the system's list and never taken, not even for a moment. A harness tries
/// it once and gives up when it is held, so taking it to see whether it is free could keep a run from
/// being started.
pub fn driver(files: &Files, run: &str, disk: &dyn Disk) -> Driver {
    // No harness runs under a name that is no id.
    let id = run.parse::<RunId>();
    id.map_or(Driver::Nobody, |id| driver_in(&files.state_dir.run(Kind::Loop, &id), disk))
}

/// The same for whatever has its lock in this directory.
pub fn driver_in(dir: &RunDir, disk: &dyn Disk) -> Driver {
    let Ok(lock) = disk.open(&dir.lock(), Access::Read) else {
        return Driver::Nobody;
    };
    match lock.lock_holder() {
        Some(process) => Driver::Process(process),
        None if disk.stat(Path::new(LOCKS)).is_ok() => Driver::Nobody,
        None => Driver::Unknown,
    }
}

/// The runs that other processes carry out in this project, loops and slots, each with its process.
pub fn concurrent_runs(files: &Files, disk: &dyn Disk) -> Vec<(String, u32)> {
    let own = std::process::id();
    let dirs = [Kind::Loop, Kind::Slots].map(|kind| std::fs::read_dir(files.state_dir.runs(kind)));
    let dirs = dirs.into_iter().flatten().flatten().flatten();
    let driven = dirs.filter_map(|entry| match driver_in(&RunDir::at(entry.path()), disk) {
        Driver::Process(process) if process != own => {
            Some((entry.file_name().into_string().ok()?, process))
        }
        Driver::Process(_) | Driver::Nobody | Driver::Unknown => None,
    });
    driven.collect()
}

/// A run of the project that somebody drives, and the process that does.
pub fn driven_run(files: &Files, disk: &dyn Disk) -> Option<(String, u32)> {
    let runs = std::fs::read_dir(files.state_dir.runs(Kind::Loop)).into_iter().flatten();
    let mut names = runs.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.find_map(|run| match driver(files, &run, disk) {
        Driver::Process(process) => Some((run, process)),
        Driver::Nobody | Driver::Unknown => None,
    })
}
