//! The disk through its interface.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use autoloop_runtime::world::{Clock, FileKind};

use super::*;
use crate::seed::Seed;

const EIO: i32 = 5;

fn disk() -> SimDisk {
    SimDisk::new(SimClock::default())
}

fn open(disk: &SimDisk, path: &str) -> Box<dyn DiskFile> {
    disk.open(Path::new(path), Access::Append).unwrap()
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

fn message<T>(result: io::Result<T>) -> String {
    let error = result.err().expect("the call fails");
    assert_eq!(error.kind(), io::ErrorKind::Other);
    error.to_string()
}

fn read(file: &dyn DiskFile, offset: u64) -> Vec<u8> {
    let mut buffer = [0; 64];
    let count = file.read_at(&mut buffer, offset).unwrap();
    buffer[..count].to_vec()
}

#[test]
fn a_file_is_made_appended_to_read_and_cut() {
    let disk = disk();
    let file = open(&disk, "/f");
    assert_eq!(file.stat().unwrap().len, 0);
    assert_eq!(file.append(b"hello").unwrap(), 5);
    let reader = disk.open(Path::new("/f"), Access::Read).unwrap();
    assert_eq!(read(&*reader, 1), b"ello");
    assert_eq!(read(&*reader, 5), b"");
    assert_eq!(read(&*reader, u64::MAX), b"");
    file.cut(2).unwrap();
    file.append(b"y").unwrap();
    assert_eq!(disk.contents("/f"), b"hey");
    assert_eq!(errno(reader.append(b"x")), Some(errno::EBADF));
    assert_eq!(errno(reader.cut(0)), Some(errno::EINVAL));
    assert!(disk.stat(Path::new("/f")).unwrap().is_same_file(&reader.stat().unwrap()));
    assert_eq!(disk.bytes_appended(), 6);
}

#[test]
fn each_kind_of_non_file_has_its_own_error() {
    let disk = disk();
    disk.plant_symlink("/link", "/away");
    disk.plant_dir("/dir");
    disk.plant_special("/pipe");
    disk.set_contents("/f", b"x");
    disk.plant_hard_link("/dir/g", "/f");
    let kind = |path: &str| disk.stat(Path::new(path)).map(|stat| stat.kind).unwrap();
    assert_eq!(kind("/link"), FileKind::Symlink);
    assert_eq!(kind("/dir"), FileKind::Directory);
    assert_eq!(kind("/pipe"), FileKind::Special);
    assert_eq!(disk.stat(Path::new("/f")).unwrap().links, 2);
    let refused = |path: &str| errno(disk.open(Path::new(path), Access::Append));
    assert_eq!(refused("/link"), Some(errno::ELOOP));
    assert_eq!(refused("/dir"), Some(errno::EISDIR));
    assert_eq!(refused("/missing/f"), Some(errno::ENOENT));
    assert_eq!(open(&disk, "/pipe").stat().unwrap().kind, FileKind::Special);
    assert_eq!(errno(disk.open(Path::new("/link"), Access::Read)), Some(errno::ENOENT));
}

#[test]
fn an_open_file_outlives_its_name() {
    let disk = disk();
    let file = open(&disk, "/f");
    file.append(b"old").unwrap();
    disk.replace(Path::new("/f"), b"new").unwrap();
    assert_eq!(read(&*file, 0), b"old");
    assert_eq!(file.stat().unwrap().links, 0);
    assert_eq!(disk.contents("/f"), b"new");
    disk.remove("/f");
    assert!(!disk.exists("/f"));
}

#[test]
fn one_open_file_has_the_lock() {
    let disk = disk();
    let other = disk.as_process(2);
    let (ours, theirs) = (open(&disk, "/f"), open(&other, "/f"));
    assert!(ours.try_lock().unwrap());
    assert!(ours.try_lock().unwrap(), "it is ours already");
    assert!(!theirs.try_lock().unwrap());
    assert!(!open(&disk, "/f").try_lock().unwrap(), "not even for the same process");
    assert!(open(&disk, "/g").try_lock().unwrap(), "another file is free");
    assert_eq!(theirs.lock_holder(), Some(1));
    theirs.unlock().unwrap();
    assert_eq!(theirs.lock_holder(), Some(1), "only its owner gives it back");
    ours.unlock().unwrap();
    assert!(theirs.try_lock().unwrap());
    assert_eq!(ours.lock_holder(), Some(2));
    drop(theirs);
    assert_eq!(ours.lock_holder(), None);
}

#[test]
fn a_killed_process_loses_its_locks_and_none_of_its_bytes() {
    let disk = disk();
    let other = disk.as_process(2);
    let (ours, theirs) = (open(&disk, "/f"), open(&other, "/f"));
    assert!(theirs.try_lock().unwrap());
    theirs.append(b"half a li").unwrap();
    disk.kill_process(2);
    assert_eq!(message(theirs.append(b"ne")), "process 2 is dead");
    assert_eq!(message(other.stat(Path::new("/f"))), "process 2 is dead");
    assert!(ours.try_lock().unwrap());
    drop(theirs);
    assert_eq!(ours.lock_holder(), Some(1));
    assert_eq!(disk.contents("/f"), b"half a li");
}

#[test]
fn the_machine_dies_at_the_very_byte() {
    for limit in 0..=6 {
        let disk = disk();
        let file = open(&disk, "/f");
        disk.set_faults(Faults::none().die_after_bytes(limit));
        let written = [file.append(b"abc"), file.append(b"def")];
        assert_eq!(written[0].is_err(), limit <= 3, "{limit}");
        assert_eq!(message(file.sync()), "the simulated machine is dead");
        assert!(written[1].is_err());
        let limit = usize::try_from(limit).unwrap();
        assert_eq!(disk.contents("/f"), b"abcdef"[..limit]);
        disk.write_raw("/f", b"too late");
        assert_eq!(disk.reopen().contents("/f"), b"abcdef"[..limit]);
    }
}

#[test]
fn the_machine_dies_before_or_after_a_sync() {
    for (moment, durable) in [(Moment::BeforeEffect, &b""[..]), (Moment::AfterEffect, b"abc")] {
        let disk = disk();
        let file = open(&disk, "/f");
        disk.set_faults(Faults::none().die_at_sync(2, moment));
        disk.sync_dir(Path::new("/")).unwrap();
        file.append(b"abc").unwrap();
        assert_eq!(message(file.sync()), "the simulated machine is dead");
        assert_eq!(disk.durable_contents("/f").unwrap(), durable);
    }
}

#[test]
fn a_call_fails_or_kills_without_an_effect() {
    let disk = disk();
    let file = open(&disk, "/f");
    disk.set_faults(Faults::none().fail_call(Op::Append, 2, EIO).die_at_call(4));
    file.append(b"a").unwrap();
    assert_eq!(errno(file.append(b"b")), Some(EIO));
    file.append(b"c").unwrap();
    assert_eq!(message(file.append(b"d")), "the simulated machine is dead");
    assert_eq!(disk.contents("/f"), b"ac");
    assert_eq!((disk.calls().of(Op::Append), disk.calls().total()), (4, 5));
}

#[test]
fn a_full_disk_takes_what_fits() {
    let disk = disk();
    disk.set_contents("/other", b"12345");
    let file = open(&disk, "/f");
    disk.set_faults(Faults::none().capacity(8));
    assert_eq!(file.append(b"abcd").unwrap(), 3);
    assert_eq!(errno(file.append(b"d")), Some(errno::ENOSPC));
    assert_eq!(file.append(b"").unwrap(), 0);
    assert_eq!(errno(disk.replace(Path::new("/other"), b"1")), Some(errno::ENOSPC));
    disk.set_capacity(Some(9));
    assert_eq!(file.append(b"d").unwrap(), 1);
    file.cut(1).unwrap();
    assert_eq!(file.append(b"xyz!").unwrap(), 3);
    assert_eq!(disk.contents("/f"), b"axyz");
}

#[test]
fn a_power_cut_spares_what_was_synced_and_little_else() {
    let mut lost_name = false;
    let mut dice = Seed(6).dice();
    for _ in 0..100 {
        let disk = disk();
        disk.create_dir(Path::new("/state")).unwrap();
        let file = open(&disk, "/state/f");
        assert!(file.try_lock().unwrap());
        file.append(b"synced").unwrap();
        file.sync().unwrap();
        disk.sync_dir(Path::new("/state")).unwrap();
        assert_eq!(disk.durable_contents("/state/f"), None);
        disk.sync_dir(Path::new("/")).unwrap();
        assert_eq!(disk.durable_contents("/state/f").unwrap(), b"synced");
        file.append(b" or not").unwrap();
        open(&disk, "/state/unsynced");

        let after = disk.crash(&mut dice);
        assert_eq!(message(file.append(b"x")), "the simulated machine is dead");
        let left = after.contents("/state/f");
        assert!(left.starts_with(b"synced") && left.len() <= 13, "{left:?}");
        assert_eq!(after.durable_contents("/state/f").unwrap(), left);
        lost_name |= !after.exists("/state/unsynced");
        assert!(open(&after, "/state/f").try_lock().unwrap());
    }
    assert!(lost_name);
}

#[test]
fn the_death_of_a_process_costs_nothing_but_its_locks() {
    let disk = disk();
    let file = open(&disk, "/f");
    assert!(file.try_lock().unwrap());
    file.append(b"abc").unwrap();
    disk.set_faults(Faults::none().die_at_call(1));
    let after = disk.reopen();
    assert!(file.append(b"d").is_err());
    assert_eq!(after.contents("/f"), b"abc");
    assert_eq!(after.durable_contents("/f"), None, "it was not synced, and still is not");
    assert!(open(&after, "/f").try_lock().unwrap());
}

#[test]
fn others_act_before_each_call_but_their_own() {
    let disk = disk();
    let count = Arc::new(AtomicU64::new(0));
    let file = open(&disk, "/f");
    disk.interleave({
        let count = Arc::clone(&count);
        move |op, disk| {
            count.fetch_add(1, Ordering::Relaxed);
            if op == Op::Append {
                assert_eq!(disk.process(), 1);
                open(&disk.as_process(2), "/f").append(b"theirs ").unwrap();
            }
        }
    });
    file.append(b"ours ").unwrap();
    file.sync().unwrap();
    assert_eq!(disk.contents("/f"), b"theirs ours ");
    assert_eq!(count.load(Ordering::Relaxed), 2);
    assert_eq!(disk.calls().of(Op::Append), 2);
    disk.kill_process(1);
    assert!(file.sync().is_err());
    assert_eq!(count.load(Ordering::Relaxed), 2, "a dead process is not waited for");
}

#[test]
fn others_can_kill_the_caller_and_be_replaced() {
    let disk = disk();
    let file = open(&disk, "/f");
    disk.interleave(|_, disk| {
        disk.kill_process(1);
        disk.interleave(|_, disk| disk.write_raw("/f", b"next "));
    });
    assert_eq!(message(file.append(b"x")), "process 1 is dead");
    let theirs = open(&disk.as_process(2), "/f");
    theirs.append(b"last").unwrap();
    assert_eq!(disk.contents("/f"), b"next next last");
}

#[test]
fn a_watch_returns_at_a_change_or_when_the_time_is_up() {
    let clock = SimClock::default();
    let disk = SimDisk::new(clock.clone());
    let mut watch = disk.watch(Path::new("/f")).unwrap();
    let hour = Duration::from_secs(3600);
    watch.changed(hour).unwrap();
    assert_eq!(clock.elapsed(), hour, "no file came");
    disk.write_raw("/f", b"x");
    watch.changed(hour).unwrap();
    disk.write_raw("/f", b"x");
    watch.changed(hour).unwrap();
    disk.replace(Path::new("/f"), b"xx").unwrap();
    watch.changed(hour).unwrap();
    assert_eq!(clock.elapsed(), hour + Duration::from_millis(3));
    disk.interleave(|op, disk| {
        assert_eq!(op, Op::Watch);
        disk.write_raw("/f", b"meanwhile");
    });
    watch.changed(hour).unwrap();
    assert_eq!(clock.elapsed(), hour + Duration::from_millis(4));
}

#[test]
fn set_contents_keeps_the_file_and_is_seen_and_safe() {
    let disk = disk();
    disk.set_contents("/a/b/f", b"one");
    let file = disk.open(Path::new("/a/b/f"), Access::Read).unwrap();
    disk.set_contents("/a/b/f", b"two");
    assert_eq!(read(&*file, 0), b"two");
    assert_eq!(disk.crash(&mut Seed(1).dice()).contents("/a/b/f"), b"two");
}

#[test]
fn the_same_seed_leaves_the_same_disk() {
    let left = |seed: u64| {
        let disk = disk();
        open(&disk, "/f").append(&[b'x'; 1000]).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        disk.crash(&mut Seed(seed).dice()).contents("/f")
    };
    assert!((0..20).all(|seed| left(seed) == left(seed)));
    assert!((0..20).any(|seed| left(seed) != left(seed + 1)));
}
