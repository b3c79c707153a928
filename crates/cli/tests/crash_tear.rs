//! A record torn at every byte by a limit on the size of files.
//!
//! With the limit at the journal's length plus k, the kernel writes exactly k bytes of an append.
//! `autoloop emit` then gets an error and cleans up; a process that does not expect the limit is
//! killed and leaves k bytes behind. Either way the earlier records are intact, and the next emit
//! works.

#![expect(clippy::unwrap_used, reason = "what helps a test is a test as well")]

use std::fs;
use std::process::Output;

use autoloop_core::record::Heading;
use autoloop_core::topic::Topic;
use autoloop_runtime::journal::{Append, FileJournal, FileSettings, Journal};
use autoloop_runtime::world::World;
use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{assert_success, part, tell};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The state of the journal before the append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Records,
    TornTail,
}

/// The writer of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// The binary, which treats the limit as an error.
    Emit,
    /// The library in a process that the limit kills.
    Library,
}

const CASES: [(Writer, Before); 6] = [
    (Writer::Emit, Before::Nothing),
    (Writer::Emit, Before::Records),
    (Writer::Emit, Before::TornTail),
    (Writer::Library, Before::Nothing),
    (Writer::Library, Before::Records),
    (Writer::Library, Before::TornTail),
];

impl Before {
    fn bytes(self) -> String {
        let records: String = ["one", "two"]
            .map(|payload| {
                format!("{{\"run\": \"r\", \"topic\": \"t\", \"payload\": \"{payload}\"}}\n")
            })
            .concat();
        match self {
            Before::Nothing => String::new(),
            Before::Records => records,
            Before::TornTail => records + "{\"run\": \"r\", \"topic\": \"t\", \"payload\": \"to",
        }
    }

    fn set(self, sandbox: &Sandbox) {
        match self {
            // Not even a directory.
            Before::Nothing => match fs::remove_dir_all(sandbox.path(".autoloop")) {
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
            },
            _ => drop(sandbox.write_journal(self.bytes())),
        }
    }

    fn payloads(self) -> &'static [&'static str] {
        if self == Before::Nothing { &[] } else { &["one", "two"] }
    }
}

#[test]
fn a_record_torn_at_any_byte_damages_no_other_record() {
    // A limit applies to a whole process, so each case runs in its own.
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    let tried: Vec<Output> = std::thread::scope(|scope| {
        let cases: Vec<_> = (0..CASES.len())
            .map(|case| sandbox.play(&format!("tear {case}")))
            .map(|mut command| scope.spawn(move || command.output().expect("we can be started")))
            .collect();
        cases.into_iter().map(|case| case.join().expect("it does not panic")).collect()
    });
    let mut tears = 0;
    for output in &tried {
        assert_success(output);
        let said = String::from_utf8_lossy(&output.stderr);
        let count = said.lines().find_map(|line| line.strip_prefix("tears: ")).expect("it counts");
        tears += count.parse::<usize>().expect("a number");
    }
    assert!(tears >= 1000, "only {tears} tears");
    tell(&format!("crash_tear: {tears} tears"));
}

#[test]
fn part_of_a_child() {
    match part().as_deref() {
        None => {}
        Some("append") => append(),
        Some(case) => {
            let case: usize = case.strip_prefix("tear ").unwrap().parse().unwrap();
            let (writer, before) = CASES[case];
            tear_everywhere(writer, before);
        }
    }
}

/// Appends a record without any precaution against limits.
fn append() {
    let world = World::real();
    let path = ".autoloop/journal.jsonl";
    let journal = FileJournal::new(path, &world, FileSettings::default());
    let heading = Heading { run: "r".into(), iteration: String::new(), now: world.clock.now() };
    let record = heading.agent(Topic::new("t"), "doomed");
    journal.append(&[record.into()], Append::default()).unwrap();
}

fn tear_everywhere(writer: Writer, before: Before) {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop")).env("AUTOLOOP_RUN_ID", "r");
    let length = before.bytes().len();
    // Killed processes write no core dump.
    set_limit(Resource::Core, Some(0));
    before.set(&sandbox);
    append_with(writer, &sandbox, None);
    let needed = sandbox.read(".autoloop/journal.jsonl").len() - length;
    for room in 0..=needed {
        before.set(&sandbox);
        let code = append_with(writer, &sandbox, Some(length + room));
        let torn = Tear { writer, before, room, needed };
        torn.check_at_once(&sandbox, code);
        let next = sandbox.emit(&["t", "next"]);
        assert_eq!(next.code, Some(0), "{torn:?}: {next}");
        torn.check_in_the_end(&sandbox);
    }
    tell(&format!("tears: {needed}"));
}

fn set_limit(resource: Resource, current: Option<u64>) {
    let maximum = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current, maximum }).expect("lower than the maximum");
}

/// The exit code of an append that may make the journal this long; `None` if it was killed.
fn append_with(writer: Writer, sandbox: &Sandbox, longest: Option<usize>) -> Option<i32> {
    let maximum = getrlimit(Resource::Fsize).maximum;
    set_limit(Resource::Fsize, longest.map(|bytes| bytes as u64).or(maximum));
    let output = match writer {
        Writer::Emit => sandbox.emit(&["t", "doomed"]),
        Writer::Library => sandbox.finish(sandbox.play("append")),
    };
    set_limit(Resource::Fsize, maximum);
    if output.code == Some(1) {
        let expected = "autoloop: not stored: no space left for .autoloop/journal.jsonl (File too large (os error 27)); nothing was stored";
        assert!(output.stderr.starts_with(expected), "{output}");
    }
    output.code
}

#[derive(Debug)]
struct Tear {
    writer: Writer,
    before: Before,
    room: usize,
    needed: usize,
}

impl Tear {
    fn check_at_once(&self, sandbox: &Sandbox, code: Option<i32>) {
        let journal = sandbox.read(".autoloop/journal.jsonl");
        let before = self.before.bytes();
        assert!(journal.starts_with(before.as_bytes()), "{self:?}");
        match self.writer {
            _ if self.room == self.needed => assert_eq!(code, Some(0), "{self:?}"),
            Writer::Emit => {
                assert_eq!(code, Some(1), "{self:?}");
                let is_clean = journal.len() == before.len() || journal.ends_with(b"\n");
                assert!(is_clean, "{self:?}: {:?}", String::from_utf8_lossy(&journal));
            }
            Writer::Library => {
                assert_eq!(code, None, "{self:?}");
                assert_eq!(journal.len(), before.len() + self.room, "{self:?}");
            }
        }
    }

    /// Reads the journal line by line, as any program would.
    fn check_in_the_end(&self, sandbox: &Sandbox) {
        let journal = String::from_utf8(sandbox.read(".autoloop/journal.jsonl")).unwrap();
        assert!(journal.ends_with('\n'), "{self:?}: {journal}");
        let mut payloads = Vec::new();
        let (mut torn, mut repaired) = (0, 0);
        for line in journal.lines() {
            let Ok(record) = serde_json::from_str::<serde_json::Value>(line) else {
                torn += 1;
                continue;
            };
            match record["payload"].as_str() {
                Some(payload) => payloads.push(payload.to_owned()),
                None => repaired += usize::from(record["topic"] == "journal.repaired"),
            }
        }
        let mut expected = self.before.payloads().to_vec();
        // Where only the newline was missing, the next writer completed the record.
        let is_whole = self.room + usize::from(self.writer == Writer::Library) >= self.needed;
        expected.extend(is_whole.then_some("doomed"));
        expected.push("next");
        assert_eq!(payloads, expected, "{self:?}: {journal}");

        let torn_before = usize::from(self.before == Before::TornTail);
        let most = torn_before + usize::from(self.writer == Writer::Library);
        assert!((torn_before..=most).contains(&torn), "{self:?}: {journal}");
        // A writer that died right after ending another's line has not recorded the repair.
        assert!(repaired <= most && repaired + 1 >= torn, "{self:?}: {journal}");
    }
}
