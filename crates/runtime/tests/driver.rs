//! Who drives a run can be asked without getting in the way of a harness.

use autoloop_core::config::Settings;
use autoloop_core::plan::Files;
use autoloop_runtime::drive::{Driver, driver};
use autoloop_runtime::world::{Access, Disk, DiskFile};
use autoloop_testkit::{Op, SimClock, SimDisk};

const LOCK: &str = "/home/.autoloop/runs/swift-otter/lock";

fn files() -> Files {
    Files::of(&Settings::default()).under("/home".as_ref())
}

fn harness(disk: &SimDisk) -> Box<dyn DiskFile> {
    let lock = disk.as_process(7).open(LOCK.as_ref(), Access::Append).expect("it is a file");
    assert_eq!(lock.try_lock().ok(), Some(true), "nobody else has it");
    lock
}

#[test]
fn the_lock_is_looked_up_and_never_taken() {
    let disk = SimDisk::new(SimClock::default());
    let ask = |run: &str| driver(&files(), run, &disk);
    assert_eq!(ask("swift-otter"), Driver::Nobody, "it never began");
    disk.set_contents(LOCK, b"");
    assert_eq!(ask("swift-otter"), Driver::Unknown, "this system has no list of locks");
    disk.set_contents("/proc/locks", b"");
    assert_eq!(ask("swift-otter"), Driver::Nobody);
    let held = harness(&disk);
    let before = disk.calls().of(Op::Lock);
    assert_eq!(ask("swift-otter"), Driver::Process(7));
    assert_eq!(ask("../../swift-otter"), Driver::Nobody, "no run has such a name");
    drop(held);
    assert_eq!(ask("swift-otter"), Driver::Nobody);
    assert_eq!(disk.calls().of(Op::Lock), before, "nobody tried to take it");
}
