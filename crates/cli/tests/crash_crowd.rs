//! Many writers at once: no record is lost, torn or mixed with another, and each writer's order is
//! kept.

use std::ffi::OsString;
use std::process::Stdio;
use std::thread;

use autoloop_core::record::Heading;
use autoloop_core::topic::Topic;
use autoloop_runtime::journal::{Append, Durability, FileJournal, FileSettings, Journal};
use autoloop_runtime::world::World;
use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{assert_success, part};

/// The writer and the number of a record, from a line that must be exactly as written.
fn read_line(line: &str, filling: &str) -> (usize, usize) {
    let inner = line
        .strip_prefix("{\"run\": \"crowd\", \"iteration\": \"\", \"topic\": \"t\", \"payload\": \"")
        .unwrap_or_else(|| panic!("no such record was written: {line}"));
    let (payload, rest) = inner.split_once('"').expect("the payload ends");
    let time = rest.strip_prefix(", \"source\": \"agent\", \"ts\": \"").expect("an agent's record");
    assert_eq!(time.get("2026-01-01T00:00:00.000Z".len()..), Some("\", \"v\": 1}"), "{line}");
    let mut words = payload.splitn(3, ' ');
    let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number");
    let who_and_which = (number(), number());
    assert_eq!(words.next(), Some(filling), "{line}");
    who_and_which
}

/// Checks that each of `writers` wrote 0, 1, 2, … `each` - 1, in this order and nothing else.
fn check(sandbox: &Sandbox, writers: usize, each: usize, filling: &str) {
    let journal = String::from_utf8(sandbox.read(".autoloop/journal.jsonl")).expect("text");
    assert!(journal.ends_with('\n'));
    let mut next = vec![0; writers];
    for line in journal.lines() {
        let (writer, number) = read_line(line, filling);
        assert_eq!(number, next[writer], "writer {writer}: lost, doubled or out of order");
        next[writer] += 1;
    }
    assert_eq!(next, vec![each; writers]);
}

#[test]
fn sixty_four_processes_emit_two_hundred_times_each() {
    const WRITERS: usize = 64;
    const EACH: usize = 200;
    let filling = "the words of an agent, of ordinary length; ".repeat(4);
    let filling = filling.trim_end();
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop")).env("AUTOLOOP_RUN_ID", "crowd");
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let sandbox = &sandbox;
            scope.spawn(move || {
                for number in 0..EACH {
                    let payload = OsString::from(format!("{writer} {number} {filling}"));
                    let mut command = sandbox.command();
                    command.args(["emit", "t"]).arg(payload).stdout(Stdio::null());
                    let output = command.output().expect("it can be started");
                    assert_success(&output);
                }
            });
        }
    });
    check(&sandbox, WRITERS, EACH, filling);
}

#[test]
fn part_of_a_child() {
    let Some(writer) = part() else { return };
    let world = World::real();
    let journal = FileJournal::new(".autoloop/journal.jsonl", &world, FileSettings::default());
    let how = Append { expect: None, durability: Durability::Cached };
    for number in 0..CONTENDED {
        let now = world.clock.now();
        let heading = Heading { run: "crowd".into(), iteration: String::new(), now };
        let record = heading.agent(Topic::new("t"), format!("{writer} {number} {SHORT}"));
        journal.append(&[record.into()], how).expect("it can be stored");
    }
}

/// How often each of the contending writers appends.
const CONTENDED: usize = 2_500;
const SHORT: &str = "short";

#[test]
fn eight_processes_contend_for_twenty_thousand_records() {
    const WRITERS: usize = 8;
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| sandbox.play(&writer.to_string()))
            .map(|mut command| scope.spawn(move || command.output().expect("it can be started")))
            .collect();
        for writer in writers {
            assert_success(&writer.join().expect("it does not panic"));
        }
    });
    check(&sandbox, WRITERS, CONTENDED, SHORT);
}
