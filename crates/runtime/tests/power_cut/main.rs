//! A power cut, simulated at the block layer: what was acknowledged is there afterwards.
//!
//! A file system in user space holds one file, a disk image, and records every write and every flush
//! that reaches it. The image is attached to a loop device and mounted, so a real file system with a
//! real journal of its own stands on it. A writer appends records through [`FileJournal`] and marks
//! each acknowledgement in the same recording, so that writes, flushes and acknowledgements have one
//! order.
//!
//! From the recording follow the disks that a power cut may leave at any moment: everything that was
//! written before the last flush, and of the writes since then none, the first few, any, or the first
//! few with the last one torn between two sectors. Each of these disks is mounted for real, the kernel
//! replays what it replays, and then every record that was acknowledged before the cut has to be
//! there: once, in order, to the byte.
//!
//! # Processes
//!
//! A process that waits for a file system which it serves itself waits forever once the server is
//! gone. So the test starts itself again, twice:
//!
//! - the *test* looks whether all that is needed is there, starts the lab, and kills it when it takes
//!   too long;
//! - the *lab* has mounts of its own (`unshare --mount`), serves the disk, and never touches a file on
//!   it;
//! - the *writer* works on that disk and may be stuck there without harm.
//!
//! All mounts are in the namespace of the lab. However it ends, they end with it, and so do the loop
//! devices, which `mount` sets up to be freed with their last user.
//!
//! Where something is missing that this needs, root above all, the test says so and passes. With
//! `AUTOLOOP_POWER_CUT=required` it fails instead.
//!
//! # Reproducing a failure
//!
//! The records and the choice of cuts follow from the seed that is printed. The recording does not
//! quite: when the kernel writes what is its own affair. So the disk on which a check failed is kept,
//! and the failure names it. `AUTOLOOP_SEEDS` asks for more seeds, as for every simulation.
//!
//! [`FileJournal`]: autoloop_runtime::journal::FileJournal

#![cfg(target_os = "linux")]

use autoloop_runtime::journal::Durability;

use stage::Stage;

mod disk;
mod examine;
mod lab;
mod recording;
mod stage;
mod workload;

/// One way to do it.
pub(crate) struct Experiment {
    /// The test, by whose name its other processes find it again.
    pub(crate) test: &'static str,
    /// How the file system is made.
    pub(crate) mkfs: &'static [&'static str],
    /// How it is mounted.
    pub(crate) mount: &'static str,
    /// What the writer asks for. With syncs nothing may be lost; without them something has to be.
    pub(crate) durability: Durability,
    /// How many disks are looked at.
    pub(crate) states: usize,
}

#[test]
fn ext4_keeps_what_was_acknowledged() {
    power_cut(&Experiment {
        test: "ext4_keeps_what_was_acknowledged",
        mkfs: &[],
        mount: "data=ordered",
        durability: Durability::Synced,
        states: 120,
    });
}

#[test]
fn ext4_that_does_not_order_its_data_keeps_what_was_acknowledged() {
    power_cut(&Experiment {
        test: "ext4_that_does_not_order_its_data_keeps_what_was_acknowledged",
        mkfs: &["-b", "4096"],
        // The file grows before its data is stored: the worst that ext4 has to offer.
        mount: "data=writeback,nodelalloc",
        durability: Durability::Synced,
        states: 120,
    });
}

#[test]
fn without_syncs_records_are_lost_and_the_test_notices() {
    power_cut(&Experiment {
        test: "without_syncs_records_are_lost_and_the_test_notices",
        mkfs: &[],
        mount: "data=ordered",
        durability: Durability::Cached,
        states: 30,
    });
}

fn power_cut(experiment: &Experiment) {
    match Stage::of_this_process() {
        Stage::Test => stage::start_labs(experiment),
        Stage::Lab { seed, dir } => lab::experiment(experiment, seed, &dir),
        Stage::Writer { seed, dir } => workload::write(experiment.durability, seed, &dir),
    }
}
