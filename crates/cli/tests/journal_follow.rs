//! `autoloop journal follow` through the binary: new records, whatever happens to the file.

#![expect(clippy::unwrap_used, reason = "what helps a test is a test as well")]

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use autoloop_runtime::world::World;
use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, until};

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop")).env("AUTOLOOP_RUN_ID", "r")
}

/// A running `autoloop journal follow`.
struct Follower {
    process: Reaped,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Follower {
    fn start(sandbox: &Sandbox, args: &[&str]) -> Self {
        let mut command = sandbox.command();
        command.args(["journal", "follow"]).args(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Reaped::start(command);
        let stdout = lines(process.0.stdout.take().unwrap());
        let stderr = lines(process.0.stderr.take().unwrap());
        Follower { process, stdout, stderr }
    }

    /// The topic of the next record that it prints.
    fn topic(&self) -> String {
        let line = self.line();
        let record: serde_json::Value = serde_json::from_str(&line).unwrap();
        record["topic"].as_str().unwrap().to_owned()
    }

    fn line(&self) -> String {
        self.stdout.recv_timeout(Duration::from_secs(120)).expect("a record is printed")
    }

    fn note(&self) -> String {
        self.stderr.recv_timeout(Duration::from_secs(120)).expect("a note is printed")
    }

    /// Waits until it is idle.
    fn rest(&self) {
        until("follow to sleep", || {
            let stat = fs::read_to_string(self.proc("stat")).unwrap();
            let (program, state) = stat.rsplit_once(") ").unwrap();
            assert!(!state.starts_with('Z'), "follow has ended");
            (program.ends_with("(autoloop") && state.starts_with('S')).then_some(())
        });
    }

    fn proc(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.process.0.id())
    }

    /// How often it was scheduled, and its CPU time in ticks.
    fn effort(&self) -> (u64, u64) {
        let status = fs::read_to_string(self.proc("status")).unwrap();
        let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
        let switches =
            switches.map(|line| line.rsplit_once('\t').unwrap().1.parse::<u64>().unwrap());
        let stat = fs::read_to_string(self.proc("stat")).unwrap();
        let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        // The 14th and 15th field of the file; the first two were removed.
        let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        (switches.sum(), ticks)
    }
}

fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn append(sandbox: &Sandbox, text: &str) {
    let mut file = OpenOptions::new().append(true).open(sandbox.journal_path()).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn it_prints_existing_records_and_then_new_ones_of_any_process() {
    let sandbox = sandbox();
    sandbox.emit(&["first"]);
    let follower = Follower::start(&sandbox, &[]);
    assert_eq!(follower.topic(), "first");
    for number in 0..20 {
        let topic = format!("event.{number}");
        assert_eq!(sandbox.emit(&[&topic]).code, Some(0));
        if number % 3 == 0 {
            follower.rest();
        }
    }
    for number in 0..20 {
        assert_eq!(follower.topic(), format!("event.{number}"));
    }
}

#[test]
fn lines_are_printed_as_they_stand() {
    let sandbox = sandbox();
    let follower = Follower::start(&sandbox, &[]);
    let line = "{\"topic\":\"x\",\"run\":\"\\u00e9\",\"more\":[1.50]}";
    sandbox.write_journal(format!("{line}\n"));
    assert_eq!(follower.line(), line);
}

#[test]
fn the_journal_and_its_directory_need_not_exist_yet() {
    let sandbox = sandbox();
    let follower = Follower::start(&sandbox, &[]);
    follower.rest();
    assert!(!sandbox.path(".autoloop").exists(), "looking makes nothing");
    sandbox.emit(&["first"]);
    assert_eq!(follower.topic(), "first");
    follower.rest();
    sandbox.emit(&["second"]);
    assert_eq!(follower.topic(), "second");
}

#[test]
fn a_record_is_shown_once_it_is_whole() {
    let sandbox = sandbox();
    sandbox.emit(&["first"]);
    let follower = Follower::start(&sandbox, &[]);
    assert_eq!(follower.topic(), "first");
    append(
        &sandbox,
        "{\"run\": \"r\", \"topic\": \"whole\"}\n{\"run\": \"r\", \"topic\": \"slowly",
    );
    assert_eq!(follower.topic(), "whole");
    follower.rest();
    append(&sandbox, " written\"}\n");
    assert_eq!(follower.topic(), "slowly written");
    append(&sandbox, "{\"run\": \"r\", \"topic\": \"torn");
    sandbox.emit(&["next"]);
    assert_eq!(follower.topic(), "journal.repaired");
    assert_eq!(follower.topic(), "next");
}

#[test]
fn unselected_records_are_not_printed() {
    let sandbox = sandbox();
    sandbox.emit(&["old"]);
    let new = Follower::start(&sandbox, &["--new"]);
    let some = Follower::start(&sandbox, &["--topic", "wanted", "--topic", "end"]);
    let run = Follower::start(&sandbox, &["--run", "other", "--format", "text"]);
    new.rest();
    sandbox.emit(&["new"]);
    sandbox.emit(&["wanted"]);
    append(&sandbox, "{\"run\": \"other\", \"topic\": \"end\", \"payload\": \"\\u001b[2Jbye\"}\n");
    assert_eq!([new.topic(), new.topic(), new.topic()], ["new", "wanted", "end"]);
    assert_eq!([some.topic(), some.topic()], ["wanted", "end"]);
    assert_eq!(run.line(), "-  other  end   [2Jbye");
}

#[test]
fn a_journal_that_is_replaced_is_followed_from_its_beginning() {
    let sandbox = sandbox();
    sandbox.emit(&["old", "1"]);
    sandbox.emit(&["old", "2"]);
    let follower = Follower::start(&sandbox, &[]);
    assert_eq!([follower.topic(), follower.topic()], ["old", "old"]);
    follower.rest();

    // As an editor does it: another file replaces the journal.
    sandbox.write("other", "{\"run\": \"r\", \"topic\": \"another\"}\n");
    fs::rename(sandbox.path("other"), sandbox.journal_path()).unwrap();
    assert_eq!(follower.topic(), "another");
    let expected = "autoloop: .autoloop/journal.jsonl was truncated, replaced or edited; restarting from its beginning";
    assert_eq!(follower.note(), expected);

    // As a shell does it: truncated and rewritten.
    follower.rest();
    OpenOptions::new().write(true).truncate(true).open(sandbox.journal_path()).unwrap();
    assert_eq!(follower.note(), expected);
    sandbox.emit(&["afresh"]);
    assert_eq!(follower.topic(), "afresh");

    // The whole state directory is removed.
    fs::remove_dir_all(sandbox.path(".autoloop")).unwrap();
    assert_eq!(follower.note(), expected);
    sandbox.emit(&["again"]);
    assert_eq!(follower.topic(), "again");
}

#[test]
fn waiting_costs_next_to_nothing() {
    let sandbox = sandbox();
    let nothing_there = Follower::start(&sandbox, &["nowhere/journal.jsonl"]);
    sandbox.emit(&["first"]);
    let follower = Follower::start(&sandbox, &[]);
    assert_eq!(follower.topic(), "first");
    follower.rest();
    nothing_there.rest();

    let clock = World::real().clock;
    let begin = clock.elapsed();
    let before = [follower.effort(), nothing_there.effort()];
    // This is not a wait for something: it is how long the process is observed.
    clock.sleep(Duration::from_millis(1500));
    let after = [follower.effort(), nothing_there.effort()];
    let seconds = (clock.elapsed() - begin).as_secs() + 1;
    for (before, after) in before.into_iter().zip(after) {
        let (switches, ticks) = (after.0 - before.0, after.1 - before.1);
        assert!(switches < 25 * seconds, "woken {switches} times in {seconds} s");
        assert!(ticks < 8 * seconds, "{ticks} hundredths of a second of work in {seconds} s");
    }
    sandbox.emit(&["second"]);
    assert_eq!(follower.topic(), "second", "and yet it is awake");
}

#[test]
fn it_ends_quietly_when_its_output_is_closed() {
    let sandbox = sandbox();
    sandbox.emit(&["first"]);
    let mut command = sandbox.command();
    command.args(["journal", "follow"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Reaped::start(command);
    let mut output = BufReader::new(process.0.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("first"), "{line}");
    drop(output);
    sandbox.emit(&["second"]);
    assert_eq!(process.0.wait().unwrap().code(), Some(141), "as if ended by SIGPIPE");
    let mut said = String::new();
    process.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn an_invalid_journal_cannot_be_followed() {
    let sandbox = sandbox();
    fs::create_dir(sandbox.path("dir")).unwrap();
    insta::assert_snapshot!(sandbox.run(&["journal", "follow", "dir"]), @"
    exit 1
    --- stderr
    autoloop: dir is a directory, not a journal
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    ");
}
