//! `autoloop emit` killed at every system call, and failed at every call that an append depends on.
//!
//! strace counts the calls of an emit by name and then injects a fault into each of them in turn.
//! Each time, the earlier records are intact, an acknowledged record is there once, and the next
//! emit works.

#![expect(clippy::unwrap_used, reason = "what helps a test is a test as well")]

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{skip, tell};

/// The state of the journal before the emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Records,
    TornTail,
}

const BEFORE: [Before; 3] = [Before::Nothing, Before::Records, Before::TornTail];

/// The calls that are made to fail: those that open, lock, stat, write and sync.
const FALLIBLE: [&str; 11] = [
    "write",
    "fdatasync",
    "fsync",
    "flock",
    "pread64",
    "openat",
    "openat2",
    "open",
    "statx",
    "mkdir",
    "ftruncate",
];
const ERRORS: [&str; 6] = ["ENOSPC", "EIO", "EINTR", "ENOLCK", "EMFILE", "EACCES"];

impl Before {
    fn bytes(self) -> &'static str {
        const TORN: &str = concat!(
            "{\"run\": \"r\", \"topic\": \"t\", \"payload\": \"one\"}\n",
            "{\"run\": \"r\", \"topic\": \"t\", \"payload\": \"two\"}\n",
            "{\"run\": \"r\", \"topic\": \"t\", \"payl",
        );
        match self {
            Before::Nothing => "",
            Before::Records => &TORN[..TORN.rfind('\n').map_or(0, |newline| newline + 1)],
            Before::TornTail => TORN,
        }
    }

    fn payloads(self) -> &'static [&'static str] {
        if self == Before::Nothing { &[] } else { &["one", "two"] }
    }

    fn sandbox(self) -> Sandbox {
        let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
        if self != Before::Nothing {
            sandbox.write_journal(self.bytes());
        }
        sandbox
    }
}

/// One fault in one emit.
#[derive(Clone, Debug)]
struct Fault {
    before: Before,
    call: String,
    /// Which of the calls with that name, counted from one.
    number: usize,
    /// What strace does: `signal=KILL` or `error=EIO`.
    what: String,
}

/// The number of calls of each name in an emit; `None` where strace does not work.
fn calls(before: Before) -> Option<BTreeMap<String, usize>> {
    let sandbox = before.sandbox();
    let mut strace = sandbox.at_home("strace");
    strace.args(["-f", "-qq", "-o", "trace"]).arg(sandbox.binary()).args(["emit", "t", "event"]);
    if !strace.output().is_ok_and(|output| output.status.success()) {
        return None;
    }
    let mut calls = BTreeMap::new();
    for line in String::from_utf8_lossy(&sandbox.read("trace")).lines() {
        // `1234 openat(AT_FDCWD, …`; the process id is filled up with spaces.
        let call = line.split_once(' ').map_or("", |(_, call)| call.trim_start());
        if let Some((name, _)) = call.split_once('(') {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    Some(calls)
}

fn faults(before: Before, calls: &BTreeMap<String, usize>) -> Vec<Fault> {
    let each = |call: &str, count: usize, what: String| {
        let call = call.to_owned();
        (1..=count).map(move |number| Fault {
            before,
            call: call.clone(),
            number,
            what: what.clone(),
        })
    };
    let kills = calls.iter().flat_map(|(call, count)| each(call, *count, "signal=KILL".to_owned()));
    let errors = FALLIBLE.iter().flat_map(|call| {
        let count = calls.get(*call).copied().unwrap_or(0);
        ERRORS.iter().flat_map(move |error| each(call, count, format!("error={error}")))
    });
    kills.chain(errors).collect()
}

#[test]
fn an_emit_that_is_killed_or_failed_at_any_call_harms_nothing() {
    let counted: Option<Vec<_>> =
        BEFORE.iter().map(|before| Some((*before, calls(*before)?))).collect();
    let Some(counted) = counted else {
        return skip(
            "an_emit_that_is_killed_or_failed_at_any_call_harms_nothing",
            "strace is missing or may not trace here",
        );
    };
    let all: Vec<Fault> =
        counted.iter().flat_map(|(before, calls)| faults(*before, calls)).collect();
    let hits = Hits::default();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(fault) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    fault.commit(&hits);
                }
            });
        }
    });
    // The number of calls varies with the layout of memory, but an append always makes about a
    // dozen.
    let Hits { kills, errors, failed } = hits;
    let (kills, errors) = (kills.into_inner(), errors.into_inner());
    assert!(kills > 150 && errors > 250, "{kills} kills and {errors} errors hit");
    let failed = failed.into_inner().unwrap();
    for call in ["write", "fdatasync", "flock", "openat2"] {
        assert!(failed.contains_key(call), "no failing {call} was noticed: {failed:?}");
    }
    tell(&format!("crash_syscalls: {kills} kills, {errors} errors"));
}

/// The faults that took effect.
#[derive(Default)]
struct Hits {
    kills: AtomicUsize,
    errors: AtomicUsize,
    /// How often a failing call made `emit` fail.
    failed: Mutex<BTreeMap<String, usize>>,
}

impl Fault {
    fn commit(&self, hits: &Hits) {
        let sandbox = self.before.sandbox();
        let mut strace = sandbox.at_home("strace");
        let Fault { call, number, what, .. } = self;
        strace.args(["-f", "-qq", "-o", "trace", "-e", &format!("trace={call}")]);
        strace.args(["-e", &format!("inject={call}:{what}:when={number}")]);
        strace.arg(sandbox.binary()).args(["emit", "t", "event"]);
        let output = sandbox.finish(strace);
        let trace = String::from_utf8_lossy(&sandbox.read("trace")).into_owned();
        let journal = fs::read_to_string(sandbox.journal_path()).unwrap_or_default();
        let context = || format!("{self:?}\n{output}\n--- trace\n{trace}\n--- journal\n{journal}");

        assert!(journal.starts_with(self.before.bytes()), "{}", context());
        let stored = journal.matches("\"payload\": \"event\"").count();
        match output.code {
            None => {
                hits.kills.fetch_add(1, Ordering::Relaxed);
                assert!(stored <= 1, "{}", context());
            }
            Some(0) => assert_eq!(stored, 1, "{}", context()),
            // 127: the dynamic loader failed.
            Some(1 | 127) => {
                *hits.failed.lock().unwrap().entry(call.clone()).or_default() += 1;
                assert!(!output.stderr.is_empty(), "{}", context());
                // Only data that was written but not synced may be there after a failure.
                let may_be_there = output.stderr.contains("the latest records may be lost");
                assert_eq!(stored, usize::from(may_be_there), "{}", context());
            }
            Some(_) => panic!("{}", context()),
        }
        if trace.contains("INJECTED") {
            hits.errors.fetch_add(1, Ordering::Relaxed);
        }
        let next = sandbox.emit(&["t", "next"]);
        assert_eq!(next.code, Some(0), "{next}\n{}", context());
        self.check_in_the_end(&sandbox, stored, &context);
    }

    /// Reads the journal line by line, as any program would.
    fn check_in_the_end(&self, sandbox: &Sandbox, stored: usize, context: &dyn Fn() -> String) {
        let journal = String::from_utf8(sandbox.read(".autoloop/journal.jsonl")).unwrap();
        assert!(journal.ends_with('\n'), "{journal}\n{}", context());
        let records: Vec<Option<serde_json::Value>> =
            journal.lines().map(|line| serde_json::from_str(line).ok()).collect();
        let payloads: Vec<&str> =
            records.iter().flatten().filter_map(|record| record["payload"].as_str()).collect();
        let mut expected = self.before.payloads().to_vec();
        expected.extend(std::iter::repeat_n("event", stored));
        expected.push("next");
        assert_eq!(payloads, expected, "{journal}\n{}", context());
        let torn = records.iter().filter(|record| record.is_none()).count();
        let torn_before = usize::from(self.before == Before::TornTail);
        assert_eq!(torn, torn_before, "a kill between two calls tears nothing\n{}", context());
    }
}
