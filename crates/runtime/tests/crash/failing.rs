//! Calls that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use autoloop_runtime::journal::{Append, AppendError, Journal};
use autoloop_testkit::{Faults, Op, Seed, SimDisk};

use super::model::*;

const OPS: [Op; 10] = [
    Op::Open,
    Op::Stat,
    Op::Lock,
    Op::Unlock,
    Op::Read,
    Op::Append,
    Op::Cut,
    Op::Sync,
    Op::SyncDir,
    Op::CreateDir,
];

const EINTR: i32 = 4;
const EIO: i32 = 5;
const EACCES: i32 = 13;
const EROFS: i32 = 30;
/// `EINTR`, `EIO`, `EAGAIN`, `EACCES`, `EMFILE`, `ENOSPC`, `EROFS`, `ENOLCK`, `ESTALE`, `EDQUOT`.
const ERRORS: [i32; 10] = [EINTR, EIO, 11, EACCES, 24, 28, 30, 37, 116, 122];

/// A directory that may not be opened was not created by us, so its name need not be synced. And
/// where nothing can be written, there is nothing to sync.
fn can_fail(op: Op, errno: i32) -> bool {
    op != Op::SyncDir || ![EACCES, EROFS].contains(&errno)
}

fn prepare(is_torn: bool) -> SimDisk {
    let disk = new_disk();
    if is_torn {
        let line = [line_of(&said("old").into()).as_slice(), b"\n{\"run\": \"to"].concat();
        disk.set_contents(PATH, &line);
    }
    disk
}

fn old(is_torn: bool) -> Vec<Attempt> {
    let lines = if is_torn { lines_of(&news(&["old"])) } else { Vec::new() };
    vec![Attempt { stored: Stored::First(lines.len()), lines }]
}

/// Three appends, in which a call may fail. The file stays consistent, and the journal continues to
/// work, in this process unless a sync has failed.
fn strike(is_torn: bool, faults: Faults) -> Vec<AppendError> {
    let disk = prepare(is_torn);
    disk.set_faults(faults);
    let first = journal(&disk);
    let mut attempts = old(is_torn);
    let mut errors = Vec::new();
    for records in [news(&["a"]), news(&["b", "c"]), vec![spooled(b"d")]] {
        let (attempt, outcome) = attempt(&first, &records, SYNCED);
        // After several failing calls it is unknown how much of a refused append was stored.
        attempts.push(attempt.if_acknowledged());
        errors.extend(outcome.err());
    }
    disk.set_faults(Faults::none());
    let is_broken = errors.iter().any(|error| matches!(error, AppendError::NotDurable { .. }));
    let bytes = if disk.exists(PATH) { disk.contents(PATH) } else { Vec::new() };
    let (last, outcome) = attempt(&first, &news(&["last"]), SYNCED);
    if is_broken {
        assert!(matches!(outcome, Err(AppendError::NotDurable { .. })), "{outcome:?}");
        assert_eq!(disk.contents(PATH), bytes, "not even tried");
    } else {
        outcome.unwrap();
    }
    attempts.push(last);
    for after in [disk.reopen(), disk.crash(&mut Seed(1).dice()), disk.crash(&mut Seed(2).dice())] {
        assert_holds(&recover(&after).records, &attempts);
        assert_durable(&after);
    }
    errors
}

#[test]
fn every_call_fails_with_every_error() {
    let mut failed = 0;
    for is_torn in [false, true] {
        let disk = prepare(is_torn);
        for records in [news(&["a"]), news(&["b", "c"]), vec![spooled(b"d")]] {
            journal(&disk).append(&records, SYNCED).unwrap();
        }
        for op in OPS {
            for k in 1..=disk.calls().of(op) {
                for errno in ERRORS.into_iter().filter(|&errno| can_fail(op, errno)) {
                    let errors = strike(is_torn, Faults::none().fail_call(op, k, errno));
                    failed += errors.len();
                    let is_patient = matches!(op, Op::Read | Op::Append) && errno == EINTR;
                    assert!(!is_patient || errors.is_empty(), "{op:?} {k}: {errors:?}");
                    if op == Op::Sync {
                        let is_final =
                            |error: &AppendError| matches!(error, AppendError::NotDurable { .. });
                        assert!(errors.len() as u64 == 4 - k && errors.iter().all(is_final));
                    }
                }
            }
        }
    }
    assert!(failed > 500, "{failed}");
}

/// A write that fails after a part of it, then a failing stat, a failing truncate, or both.
#[test]
fn several_calls_fail() {
    autoloop_testkit::simulate("several calls fail", 1500, |_, dice| {
        let mut faults = Faults::none();
        if dice.chance(1, 2) {
            faults = faults.short_writes(dice.fork());
        }
        for _ in 0..1 + dice.below(4) {
            let op = *dice.pick(&OPS);
            let errno = *dice.pick(&ERRORS);
            if can_fail(op, errno) {
                faults = faults.fail_call(op, 1 + dice.below(8), errno);
            }
        }
        strike(dice.chance(1, 2), faults);
    });
}

#[test]
fn a_failed_sync_is_final_and_says_so() {
    let disk = new_disk();
    let first = journal(&disk);
    first.append(&news(&["a"]), SYNCED).unwrap();
    disk.set_faults(Faults::none().fail_call(Op::Sync, 1, EIO));
    for name in ["b", "c"] {
        let error = first.append(&news(&[name]), SYNCED).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, AppendError::NotDurable { .. }));
        assert!(said.starts_with("cannot sync /home/state/journal.jsonl ("), "{said}");
        assert!(said.ends_with("the latest records may be lost"), "{said}");
    }
    let cached = first.append(&news(&["d"]), CACHED).unwrap_err();
    assert!(matches!(cached, AppendError::NotDurable { .. }));
    assert_eq!(disk.calls().of(Op::Sync), 2, "never tried again");
}

/// Writers that were waiting when the sync failed are refused as well: after a failed sync no later
/// sync proves anything.
#[test]
fn nothing_is_acknowledged_after_a_failed_sync() {
    for _ in 0..20 {
        let disk = new_disk();
        disk.set_contents(PATH, b"");
        let first = journal(&disk);
        disk.set_faults(Faults::none().fail_call(Op::Sync, 1, EIO));
        let started = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&started);
        disk.interleave(move |op, _| {
            // The first sync is delayed until every writer is about to append.
            while op == Op::Sync && seen.load(Ordering::SeqCst) < 8 {
                std::thread::yield_now();
            }
        });
        let acknowledged = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8)
                .map(|writer| {
                    let (first, started) = (&first, &started);
                    scope.spawn(move || {
                        let records = news(&[&writer.to_string()]);
                        started.fetch_add(1, Ordering::SeqCst);
                        first.append(&records, SYNCED).is_ok()
                    })
                })
                .collect();
            writers.into_iter().map(|w| w.join().unwrap()).filter(|ok| *ok).count()
        });
        assert_eq!(acknowledged, 0);
    }
}

/// An unreadable spool fails only its own append, not the appends that share its write.
#[test]
fn a_broken_spool_fails_only_its_own_append() {
    for _ in 0..20 {
        let disk = new_disk();
        let first = journal(&disk);
        first.append(&news(&["base"]), SYNCED).unwrap();
        let started = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&started);
        disk.interleave(move |op, _| {
            while op == Op::Lock && seen.load(Ordering::SeqCst) < 8 {
                std::thread::yield_now();
            }
        });
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let (first, started) = (&first, &started);
                scope.spawn(move || {
                    let name = writer.to_string();
                    let records =
                        if writer % 4 == 2 { vec![broken_spool()] } else { news(&[&name, &name]) };
                    started.fetch_add(1, Ordering::SeqCst);
                    let outcome = first.append(&records, SYNCED);
                    match writer % 4 {
                        2 => assert!(matches!(outcome, Err(AppendError::Spool { .. }))),
                        _ => assert!(outcome.is_ok(), "{outcome:?}"),
                    }
                });
            }
        });
        assert_eq!(read_all(&first).records.len(), 13);
    }
}

/// Writers share a write that fails in the middle: no record is written twice.
#[test]
fn a_shared_write_that_fails_doubles_nothing() {
    autoloop_testkit::simulate("shared write fails", 300, |_, dice| {
        let disk = new_disk();
        let first = journal(&disk);
        first.append(&news(&["base"]), SYNCED).unwrap();
        let faults = Faults::none()
            .short_writes(dice.fork())
            .fail_call(Op::Append, 2 + dice.below(12), EIO)
            .fail_call(Op::Read, 2 + dice.below(3), EIO);
        disk.set_faults(faults);
        let started = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&started);
        disk.interleave(move |op, _| {
            while op == Op::Lock && seen.load(Ordering::SeqCst) < 6 {
                std::thread::yield_now();
            }
        });
        let attempts: Vec<Attempt> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..6)
                .map(|writer| {
                    let (first, started) = (&first, &started);
                    scope.spawn(move || {
                        let records = news(&[&format!("{writer}/a"), &format!("{writer}/b")]);
                        started.fetch_add(1, Ordering::SeqCst);
                        attempt(first, &records, SYNCED).0.if_acknowledged()
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let found = recover(&disk.reopen()).records;
        for attempt in attempts {
            let own = |line: &&Vec<u8>| attempt.lines.contains(line);
            let own: Vec<Vec<u8>> = found.iter().filter(own).cloned().collect();
            assert_holds(&own, &[attempt]);
        }
    });
}

fn broken_spool() -> autoloop_runtime::journal::NewRecord {
    use autoloop_runtime::world::{Access, Disk};

    let mut new = spooled(b"");
    let disk = new_disk();
    disk.set_contents("/spool", b"text");
    let file = disk.open(std::path::Path::new("/spool"), Access::Read).unwrap();
    disk.set_faults((1..100).fold(Faults::none(), |faults, k| faults.fail_call(Op::Read, k, EIO)));
    if let Some(spooled) = &mut new.spooled {
        spooled.text = Arc::from(file);
    }
    new
}

/// Not every file system can sync a directory; a journal works there too.
#[test]
fn directories_that_cannot_be_synced_are_no_obstacle() {
    const EINVAL: i32 = 22;
    const ENOTSUP: i32 = 95;
    for errno in [EINVAL, ENOTSUP, EROFS] {
        for call in 1..=3 {
            let disk = new_disk();
            disk.set_faults(Faults::none().fail_call(Op::SyncDir, call, errno));
            journal(&disk).append(&news(&["a"]), SYNCED).unwrap();
        }
    }
}

/// A writer that expects a position after which another writer died gets the error of the full disk
/// that prevents the repair. With a conflict instead it would read on, find nothing, and retry for
/// ever.
#[test]
fn a_torn_line_on_a_full_disk_is_no_conflict() {
    let disk = new_disk();
    let journal = journal(&disk);
    let head = journal.append(&news(&["a"]), SYNCED).unwrap();
    disk.write_raw(PATH, b"{\"run\": \"torn");
    let expecting = Append { expect: Some(head), ..SYNCED };
    disk.set_capacity(Some(disk.contents(PATH).len() as u64));
    let full = journal.append(&news(&["b"]), expecting).unwrap_err();
    assert!(matches!(full, AppendError::Full { stored: 0, .. }), "{full:?}");
    disk.set_capacity(None);
    let conflict = journal.append(&news(&["b"]), expecting).unwrap_err();
    assert!(matches!(conflict, AppendError::Conflict { head: now } if now > head), "{conflict:?}");
}
