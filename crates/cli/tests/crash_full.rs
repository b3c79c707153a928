//! `emit` on a full disk, without the lock, or with its file moved: it reports the failure, loses
//! nothing, and works again later.

#![expect(clippy::unwrap_used, reason = "what helps a test is a test as well")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, assert_success, part, skip, until};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop")).env("AUTOLOOP_RUN_ID", "r")
}

#[test]
fn part_of_a_child() {
    match part().as_deref() {
        None => {}
        Some("hold the lock") => hold_the_lock(),
        Some("fill the disk") => fill_the_disk(),
        Some("reach the limit") => reach_the_limit(),
        Some(other) => panic!("there is no part {other}"),
    }
}

#[test]
fn a_full_disk_loses_nothing_and_works_again_once_there_is_room() {
    let sandbox = sandbox();
    let Some(mut command) = sandbox.play_on_small_disk("fill the disk", "1m") else {
        return skip(
            "a_full_disk_loses_nothing_and_works_again_once_there_is_room",
            "no disk may be mounted here",
        );
    };
    assert_success(&command.output().expect("it can be started"));
    assert_eq!(fs::read_dir(sandbox.path("small")).unwrap().count(), 0, "the disk is gone");
}

fn fill_the_disk() {
    // The disk is in the directory of our parent's sandbox, where we were started.
    let small = std::env::current_dir().unwrap().join("small");
    let journal = small.join("state/journal.jsonl");
    let sandbox = sandbox().env("AUTOLOOP_JOURNAL_FILE", &journal);
    let read = || fs::read_to_string(&journal).unwrap();

    assert_eq!(sandbox.emit(&["a", "before"]).code, Some(0));
    let before = read();
    sandbox.write("giant", "x".repeat(3_000_000));
    let output = sandbox.emit(&["--file", "giant", "b"]);
    assert_eq!(output.code, Some(1), "{output}");
    let shown = sandbox.filter(&output.stderr).replace(&small.display().to_string(), "[SMALL]");
    insta::assert_snapshot!(shown, @"
    autoloop: not stored: no space left for [SMALL]/state/journal.jsonl (No space left on device (os error 28)); nothing was stored
      hint: free some space and try again: existing records are intact
    ");
    assert_eq!(read(), before, "what had been written of it is taken away again");
    assert_eq!(sandbox.emit(&["c", "small"]).code, Some(0), "there is room for something small");

    fill(&small.join("filler"));
    let full = read();
    let mut stored = 0;
    // The last page of the journal has room for a few more.
    let failed = (0..1000).find_map(|_| {
        let output = sandbox.emit(&["d", "x".repeat(500).as_str()]);
        stored += u32::from(output.code == Some(0));
        (output.code != Some(0)).then_some(output)
    });
    let failed = failed.expect("a full disk is full");
    assert_eq!(failed.code, Some(1), "{failed}");
    assert!(failed.stderr.contains("no space left for"), "{failed}");
    let lines = read();
    assert!(lines.starts_with(&full) && lines.ends_with('\n'));
    assert_eq!(lines.matches("\"topic\": \"d\"").count(), stored as usize);

    fs::remove_file(small.join("filler")).unwrap();
    assert_eq!(sandbox.emit(&["e", "after"]).code, Some(0), "there is room again");
    let journal = read();
    for line in journal.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    assert_eq!(journal.lines().count(), 3 + stored as usize);
}

/// Writes until the disk is full.
fn fill(path: &std::path::Path) {
    let mut filler = File::create(path).unwrap();
    for size in [64 * 1024, 4096, 1] {
        while filler.write_all(&vec![0; size]).is_ok() {}
    }
}

#[test]
fn a_limit_on_the_size_of_files_loses_nothing_and_works_again_once_it_is_lifted() {
    assert_success(&sandbox().play("reach the limit").output().expect("we can be started"));
}

fn reach_the_limit() {
    let sandbox = sandbox();
    assert_eq!(sandbox.emit(&["a", "before"]).code, Some(0));
    sandbox.write("giant", "x".repeat(20 * 1024 * 1024));
    let before = sandbox.read(".autoloop/journal.jsonl");
    let unlimited = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(8 * 1024 * 1024), ..unlimited }).unwrap();
    let output = sandbox.emit(&["--file", "giant", "b"]);
    insta::assert_snapshot!(output, @"
    exit 1
    --- stderr
    autoloop: not stored: no space left for .autoloop/journal.jsonl (File too large (os error 27)); nothing was stored
      hint: free some space and try again: existing records are intact
    ");
    assert!(sandbox.read(".autoloop/journal.jsonl") == before);
    assert_eq!(sandbox.emit(&["c", "small"]).code, Some(0));
    setrlimit(Resource::Fsize, unlimited).unwrap();
    assert_eq!(sandbox.emit(&["--file", "giant", "b"]).code, Some(0));
    let journal = sandbox.read(".autoloop/journal.jsonl");
    assert_eq!(journal.iter().filter(|byte| **byte == b'\n').count(), 3);
}

/// Takes the lock of the journal and keeps it until it is killed.
fn hold_the_lock() {
    let journal = File::open(".autoloop/journal.jsonl").unwrap();
    journal.lock().unwrap();
    std::io::stderr().write_all(b"locked\n").unwrap();
    let mut nothing = String::new();
    std::io::stdin().read_line(&mut nothing).unwrap();
}

#[test]
fn a_stopped_process_that_holds_the_lock_is_named() {
    let sandbox = sandbox();
    sandbox.write("autoloops.toml", "journal.lock_timeout = \"300ms\"");
    sandbox.emit(&["a", "before"]);
    let before = sandbox.journal();

    let mut command = sandbox.play("hold the lock");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut holder = Reaped::start(command);
    let mut said = String::new();
    BufReader::new(holder.0.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "locked\n");
    let id = holder.0.id();
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    until("the holder to stop", || {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T').then_some(())
    });

    let output = sandbox.emit(&["b", "refused"]);
    assert_eq!(output.code, Some(1), "{output}");
    // The time that it waited depends on the machine.
    let (begin, rest) = output.stderr.split_once(" for ").unwrap();
    assert_eq!(begin, "autoloop: not stored: .autoloop/journal.jsonl has been locked");
    let (waited, rest) = rest.split_once(" by ").unwrap();
    assert!(waited.ends_with('s') && waited != "0s", "{output}");
    let expected =
        format!("process {id}\n  hint: check process {id}: if it is stopped, continue or end it\n");
    assert_eq!(rest, expected);
    assert_eq!(sandbox.journal(), before);

    holder.kill();
    assert_eq!(sandbox.emit(&["c", "after"]).code, Some(0), "a dead process holds nothing");
    assert_eq!(sandbox.journal().lines().count(), 2);
}

#[test]
fn a_writer_that_waits_while_the_file_is_replaced_writes_to_the_new_one() {
    let sandbox = sandbox();
    sandbox.emit(&["a", "before"]);
    let old = File::options().append(true).open(sandbox.journal_path()).unwrap();
    old.lock().unwrap();
    let mut command: Command = sandbox.command();
    command.args(["emit", "b", "waits"]).stdout(Stdio::null());
    let mut emit = Reaped::start(command);
    // It has the old file open and only waits for the lock.
    let fds = format!("/proc/{}/fd", emit.0.id());
    until("emit to open the journal", || {
        let opened = fs::read_dir(&fds).ok()?.flatten().any(|fd| {
            fs::read_link(fd.path()).is_ok_and(|target| target == sandbox.journal_path())
        });
        opened.then_some(())
    });
    sandbox.write("new", "{\"run\": \"r\", \"topic\": \"new\"}\n");
    fs::rename(sandbox.path("new"), sandbox.journal_path()).unwrap();
    old.unlock().unwrap();
    assert_eq!(emit.0.wait().unwrap().code(), Some(0));
    insta::assert_snapshot!(sandbox.journal(), @r#"
    {"run": "r", "topic": "new"}
    {"run": "r", "iteration": "", "topic": "b", "payload": "waits", "source": "agent", "ts": "[TS]", "v": 1}
    "#);
}
