//! `autoloop emit` at its limits: giant payloads in little memory, and no more syncs than
//! requested.

use std::os::unix::process::CommandExt;
use std::process::Command;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{part, skip};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The size of the data segment: a fraction of a giant payload.
const DATA: u64 = 16 * 1024 * 1024;
const MB: usize = 1024 * 1024;

/// Runs `autoloop emit` with little memory.
#[test]
fn part_of_a_child() {
    let Some(arguments) = part() else { return };
    let limit = Rlimit { current: Some(DATA), ..getrlimit(Resource::Data) };
    setrlimit(Resource::Data, limit).unwrap();
    panic!("{}", Command::new(env!("CARGO_BIN_EXE_autoloop")).args(arguments.split(' ')).exec());
}

/// Runs `autoloop` with little memory.
fn in_little_memory(sandbox: &Sandbox, arguments: &str) -> (Option<i32>, String) {
    let output = sandbox.finish(sandbox.play(arguments));
    let said = [output.stdout, output.stderr].concat();
    (output.code, said)
}

/// Text as agents print it, with every character that needs an escape.
const LINE: &str =
    "a \"quoted\" C:\\path\twith a tab, \u{1b}[31mcolour\u{1b}[0m, ä and more of it\n";
/// The same text as it is written in a record.
const ESCAPED: &str = r"a \u0022quoted\u0022 C:\u005cpath\u0009with a tab, \u001b[31mcolour\u001b[0m, ä and more of it\u000a";

/// Emits a payload of about this size and returns the line that the journal should have.
fn emit_giant(sandbox: &Sandbox, size: usize) -> Vec<u8> {
    let lines = size / LINE.len();
    sandbox.write("payload", LINE.repeat(lines));
    let (code, said) = in_little_memory(sandbox, "emit --file payload giant");
    assert_eq!(code, Some(0), "{said}");
    let payload = ESCAPED.repeat(lines);
    format!(r#"{{"run": "r", "iteration": "", "topic": "giant", "payload": "{payload}", "source""#)
        .into()
}

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop")).env("AUTOLOOP_RUN_ID", "r")
}

#[test]
fn a_payload_of_100_mb_is_stored_to_the_letter_and_what_follows_too() {
    let sandbox = sandbox();
    let expected = emit_giant(&sandbox, 100 * MB);
    assert_eq!(sandbox.emit(&["after"]).code, Some(0));
    let journal = sandbox.read(".autoloop/journal.jsonl");
    assert!(journal.starts_with(&expected), "the payload is another one");
    let rest = sandbox.filter(&String::from_utf8_lossy(&journal[expected.len()..]));
    insta::assert_snapshot!(rest, @r#"
    : "agent", "ts": "[TS]", "v": 1}
    {"run": "r", "iteration": "", "topic": "after", "payload": "", "source": "agent", "ts": "[TS]", "v": 1}
    "#);
}

#[test]
fn a_payload_of_20_mb_is_read_in_little_memory_too() {
    let sandbox = sandbox();
    sandbox.emit(&["before"]);
    let expected = emit_giant(&sandbox, 20 * MB);
    assert_eq!(sandbox.emit(&["after"]).code, Some(0));

    let raw = sandbox.play("inspect journal --format json --topic giant").output().unwrap();
    assert!(raw.status.success());
    let journal = sandbox.read(".autoloop/journal.jsonl");
    // The test harness prints something before it becomes the command.
    let begin = raw.stdout.iter().position(|byte| *byte == b'{').unwrap();
    let shown = &raw.stdout[begin..];
    assert!(shown.starts_with(&expected) && shown.ends_with(b"}\n"), "raw is another line");
    let line = journal.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    assert!(journal[line..].starts_with(shown), "raw is not what stands there");

    let (code, said) = in_little_memory(&sandbox, "inspect journal");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("giant  a \"quoted\" C:\\path with a tab"), "{said}");
    let (code, said) = in_little_memory(&sandbox, "journal verify");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("3 records in 3 lines, no problems"), "{said}");
}

/// How often an `emit` with these settings calls the given system calls; `None` where they cannot
/// be counted.
fn syncs(settings: &str) -> Option<usize> {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    sandbox.write("autoloops.toml", settings);
    assert_eq!(sandbox.emit(&["first"]).code, Some(0));
    let mut strace = sandbox.at_home("strace");
    strace.args(["-f", "-qq", "-o", "trace", "-e", "trace=fsync,fdatasync"]);
    strace.arg(sandbox.binary()).args(["emit", "second"]);
    let traced = strace.output().is_ok_and(|output| output.status.success());
    if !traced {
        return None;
    }
    assert_eq!(sandbox.journal().lines().count(), 2);
    let trace = String::from_utf8(sandbox.read("trace")).expect("strace writes text");
    Some(trace.lines().filter(|line| line.contains("sync(")).count())
}

#[test]
fn events_are_synced_as_often_as_the_settings_say() {
    let Some(always) = syncs("") else {
        return skip("events_are_synced_as_often_as_the_settings_say", "strace cannot trace here");
    };
    assert_eq!(always, 1, "once, and no directory when the journal is there already");
    assert_eq!(syncs("journal.sync = \"always\""), Some(1));
    assert_eq!(syncs("journal.sync = \"iteration\""), Some(0), "the harness syncs for agents");
    assert_eq!(syncs("[journal]\nsync = \"never\""), Some(0));
    assert_eq!(syncs("journal.sync = \"nonsense\""), Some(1), "what is not understood is safe");
}

/// A file that grows while it is stored, as the journal does, is stored with the length that it
/// had.
#[test]
fn the_journal_itself_can_be_a_payload() {
    let sandbox = sandbox();
    sandbox.write("payload", LINE.repeat(3 * MB / LINE.len()));
    assert_eq!(sandbox.emit(&["--file", "payload", "first"]).code, Some(0));
    let before = sandbox.read(".autoloop/journal.jsonl").len();
    assert_eq!(sandbox.emit(&["--file", ".autoloop/journal.jsonl", "copy"]).code, Some(0));
    let after = sandbox.read(".autoloop/journal.jsonl").len();
    assert!(after < 4 * before, "{before} bytes became {after}");
    assert_eq!(sandbox.run(&["journal", "verify"]).code, Some(0));
}
