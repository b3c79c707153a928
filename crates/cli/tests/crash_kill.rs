//! Six hundred SIGKILLs at random moments, four writers at all times, and a reader that follows
//! them.
//!
//! Each writer appends records and acknowledges every append to us. What it acknowledged before it
//! died is in the journal: whole, in order and exactly once. Of the rest, at most the append in
//! progress is there. The reader, which read at every moment in between, has seen the same records
//! as a full scan.

use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::process::{ChildStderr, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use autoloop_core::record::Heading;
use autoloop_core::topic::Topic;
use autoloop_runtime::journal::{
    Append, Durability, FileJournal, FileSettings, Journal, NewRecord, Position,
};
use autoloop_runtime::world::{Entropy, OsEntropy, World};
use autoloop_testkit::sandbox::{Reaped, part, tell, until};
use autoloop_testkit::{Dice, Sandbox, Seed};

const KILLS: u64 = 600;
const WRITERS: usize = 4;

/// The longest record.
const LONGEST: u64 = 200_000;

/// Identifies one record: the writer, its append, the index in it, and the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    writer: u64,
    append: u64,
    /// Which of the records of that append.
    index: u64,
    /// How many records the append has.
    of: u64,
    /// How long the filling is.
    filling: usize,
}

impl Id {
    fn payload(self) -> String {
        let Id { writer, append, index, of, filling } = self;
        format!("{writer} {append} {index} {of} {filling} {}", "x".repeat(filling))
    }

    /// Parses a payload and checks every byte of it.
    fn parse(payload: &str) -> Id {
        let mut words = payload.splitn(6, ' ');
        let mut number = || words.next().expect("six words").parse::<u64>().expect("a number");
        let (writer, append, index, of) = (number(), number(), number(), number());
        let filling = usize::try_from(number()).expect("it fits");
        let id = Id { writer, append, index, of, filling };
        assert!(payload == id.payload(), "{id:?} is not what was written");
        id
    }
}

#[test]
fn part_of_a_child() {
    let Some(part) = part() else { return };
    let (writer, seed) = part.split_once(' ').expect("a number and a seed");
    write_until_killed(writer.parse().unwrap(), Seed(seed.parse().unwrap()).dice());
}

/// Appends and acknowledges until the process is killed.
fn write_until_killed(writer: u64, mut dice: Dice) -> ! {
    let world = World::real();
    let journal = FileJournal::new(".autoloop/journal.jsonl", &world, FileSettings::default());
    let durability = *dice.pick(&[Durability::Synced, Durability::Cached]);
    for append in 1.. {
        let of = *dice.pick(&[1, 1, 1, 2, 5]);
        let records: Vec<NewRecord> = (0..of)
            .map(|index| {
                let longest = if dice.chance(1, 8) { LONGEST } else { 3_000 };
                let filling = usize::try_from(150 + dice.below(longest - 150)).expect("it fits");
                let id = Id { writer, append, index, of, filling };
                let now = world.clock.now();
                let heading = Heading { run: "r".into(), iteration: String::new(), now };
                heading.agent(Topic::new("t"), id.payload()).into()
            })
            .collect();
        journal.append(&records, Append { expect: None, durability }).expect("it can be stored");
        // One write, which a kill cannot split. It fails when the reader is gone; then the process
        // may end.
        let ack = format!("ack {append}\n");
        std::io::stderr().write_all(ack.as_bytes()).expect("the test reads it");
    }
    unreachable!("the counter never ends");
}

/// A writer under way.
struct Writer {
    number: u64,
    process: Reaped,
    /// The last append that it acknowledged, known once its output ended.
    acknowledged: JoinHandle<u64>,
}

impl Writer {
    fn start(sandbox: &Sandbox, number: u64, seed: u64, count: &Arc<AtomicU64>) -> Self {
        let mut command = sandbox.play(&format!("{number} {seed}"));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Reaped::start(command);
        let pipe = process.0.stderr.take().expect("it was asked for");
        let count = Arc::clone(count);
        let acknowledged = thread::spawn(move || listen(pipe, &count));
        Writer { number, process, acknowledged }
    }

    /// Kills it and returns its number and the last append that it acknowledged.
    fn end(mut self) -> (u64, u64) {
        let ended = self.process.0.try_wait().expect("it is our child");
        assert_eq!(ended, None, "writer {} ended by itself", self.number);
        self.process.kill();
        (self.number, self.acknowledged.join().expect("what it says is understood"))
    }
}

fn listen(pipe: ChildStderr, count: &AtomicU64) -> u64 {
    let mut last = 0;
    for line in BufReader::new(pipe).lines() {
        let line = line.expect("it writes text");
        let append = line.strip_prefix("ack ").unwrap_or_else(|| panic!("a writer says: {line}"));
        last += 1;
        assert_eq!(append, last.to_string(), "they are acknowledged in order");
        count.fetch_add(1, Ordering::SeqCst);
    }
    last
}

#[test]
fn nothing_that_was_acknowledged_is_ever_lost_or_doubled() {
    let seed = Seed(OsEntropy.number());
    tell(&format!("crash_kill: seed {seed}"));
    let mut dice = seed.dice();
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    let is_over = Arc::new(AtomicBool::new(false));
    let reader = thread::spawn({
        let path = sandbox.journal_path();
        let is_over = Arc::clone(&is_over);
        move || read_along(path, &is_over)
    });

    let acknowledged = kill_at_random(&sandbox, &mut dice);
    is_over.store(true, Ordering::SeqCst);
    assert_eq!(sandbox.emit(&["end", "recovery needs no hand"]).code, Some(0));
    let read = reader.join().expect("the reader never fails");
    let (found, torn) = scan(&sandbox);
    assert!(read == found, "the reader saw {} records, and there are {}", read.len(), found.len());
    assert!(torn <= KILLS, "{torn} torn lines");
    let total: u64 = acknowledged.iter().map(|(_, appends)| appends).sum();
    assert!(total > KILLS, "only {total} appends were acknowledged");
    check(&found, &acknowledged);
    tell(&format!(
        "crash_kill: {} writers killed, {total} appends acknowledged, {torn} torn",
        acknowledged.len()
    ));
}

/// Keeps four writers running, kills them at random moments, and returns what each acknowledged.
fn kill_at_random(sandbox: &Sandbox, dice: &mut Dice) -> Vec<(u64, u64)> {
    let count = Arc::new(AtomicU64::new(0));
    let mut number = 0;
    let mut start = |dice: &mut Dice| {
        number += 1;
        Writer::start(sandbox, number, dice.number(), &count)
    };
    let mut writers: Vec<Writer> = (0..WRITERS).map(|_| start(dice)).collect();
    let mut acknowledged = Vec::new();
    for _ in 0..KILLS {
        let wanted = count.load(Ordering::SeqCst) + dice.below(8);
        until("the writers to get on", || (count.load(Ordering::SeqCst) >= wanted).then_some(()));
        // At some moment between two polls of the wait above.
        for _ in 0..dice.below(2000) {
            std::hint::spin_loop();
        }
        let victim = dice.index(writers.len());
        acknowledged.push(writers.swap_remove(victim).end());
        writers.push(start(dice));
    }
    acknowledged.extend(writers.into_iter().map(Writer::end));
    acknowledged
}

/// Reads new records until the end, always from the last position.
fn read_along(path: std::path::PathBuf, is_over: &AtomicBool) -> Vec<Id> {
    let journal = FileJournal::new(path, &World::real(), FileSettings::default());
    let mut ids = Vec::new();
    let mut position = Position::START;
    loop {
        let is_last = is_over.load(Ordering::SeqCst);
        let head =
            journal.wait(position, Duration::from_millis(100)).expect("it can be waited for");
        position = journal
            .read(position, &mut |line| {
                line.records(|record| {
                    if record.topic() == "t" {
                        ids.push(Id::parse(&record.payload().expect("an agent's record")));
                    }
                });
                ControlFlow::Continue(())
            })
            .expect("it can be read");
        if is_last && head == position {
            return ids;
        }
    }
}

/// Reads everything from the beginning, line by line and without our own reader. Returns the
/// records and the number of torn lines.
fn scan(sandbox: &Sandbox) -> (Vec<Id>, u64) {
    let journal = String::from_utf8(sandbox.read(".autoloop/journal.jsonl")).expect("text");
    assert!(journal.ends_with('\n'));
    let mut ids = Vec::new();
    let mut torn = 0;
    for line in journal.lines() {
        let inner = line.strip_prefix(
            "{\"run\": \"r\", \"iteration\": \"\", \"topic\": \"t\", \"payload\": \"",
        );
        // The first quote ends the payload: nothing in these payloads needs an escape.
        match inner.and_then(|inner| inner.split_once("\", \"source\": \"agent\", \"ts\": \"")) {
            Some((payload, rest)) if rest.ends_with("Z\", \"v\": 1}") => {
                ids.push(Id::parse(payload));
            }
            _ => match serde_json::from_str::<serde_json::Value>(line) {
                Ok(record) => {
                    let topic = record["topic"].as_str().expect("a topic");
                    assert!(["journal.repaired", "end"].contains(&topic), "{topic}");
                }
                Err(_) => torn += 1,
            },
        }
    }
    (ids, torn)
}

/// Checks that everything acknowledged is there whole, in order and once, and of the rest at most
/// the append in progress.
fn check(found: &[Id], acknowledged: &[(u64, u64)]) {
    for &(writer, appends) in acknowledged {
        let mut of_writer = found.iter().filter(|id| id.writer == writer);
        for append in 1..=appends {
            let first = of_writer.next().unwrap_or_else(|| panic!("{writer}/{append} is lost"));
            assert_eq!((first.append, first.index), (append, 0), "{first:?}");
            for index in 1..first.of {
                let id = of_writer.next().unwrap_or_else(|| panic!("{writer}/{append} is cut"));
                assert_eq!((id.append, id.index, id.of), (append, index, first.of), "{id:?}");
            }
        }
        // A prefix of the append that was never acknowledged may be there.
        for (index, id) in (0..).zip(of_writer) {
            assert_eq!((id.append, id.index), (appends + 1, index), "{id:?}");
        }
    }
    let writers: Vec<u64> = acknowledged.iter().map(|(writer, _)| *writer).collect();
    assert!(found.iter().all(|id| writers.contains(&id.writer)));
    // The records of one append are adjacent.
    for pair in found.windows(2) {
        let is_within = pair[0].index + 1 < pair[0].of;
        let is_next = (pair[0].writer, pair[0].append, pair[0].index + 1)
            == (pair[1].writer, pair[1].append, pair[1].index);
        // After a writer that died in the middle of an append, another writer follows.
        let died = acknowledged.contains(&(pair[0].writer, pair[0].append - 1));
        assert!(!is_within || is_next || died, "{pair:?} are interleaved");
    }
}
