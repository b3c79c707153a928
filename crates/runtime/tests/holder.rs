//! Asking which process carries a run out does not disturb it.

use autoloop_core::coordinator::{Holder, Kind};
use autoloop_runtime::layout::StateDir;
use autoloop_runtime::runs::holder;
use autoloop_runtime::world::{Access, Disk, DiskFile};
use autoloop_testkit::{Op, SimClock, SimDisk};

const LOCK: &str = "/home/.autoloop/runs/swift-otter/lock";

fn harness(disk: &SimDisk) -> Box<dyn DiskFile> {
    let lock = disk.as_process(7).open(LOCK.as_ref(), Access::Append).expect("it is a file");
    assert_eq!(lock.try_lock().ok(), Some(true), "no other process has it");
    lock
}

#[test]
fn the_lock_is_looked_up_and_never_taken() {
    let disk = SimDisk::new(SimClock::default());
    let dir = StateDir::new("/home/.autoloop").run(Kind::Loop, &"swift-otter".parse().unwrap());
    let ask = || holder(&dir, &disk);
    assert_eq!(ask(), Holder::None, "it never began");
    disk.set_contents(LOCK, b"");
    assert_eq!(ask(), Holder::Unknown, "this system has no list of locks");
    disk.set_contents("/proc/locks", b"");
    assert_eq!(ask(), Holder::None);
    let held = harness(&disk);
    let before = disk.calls().of(Op::Lock);
    assert_eq!(ask(), Holder::Process(7));
    drop(held);
    assert_eq!(ask(), Holder::None);
    assert_eq!(disk.calls().of(Op::Lock), before, "the lock was not tried");
}
