//! The expected contents of a journal after a sequence of appends.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use autoloop_core::record::{Body, Event, JournalRepaired, Object, Record, Value, pieces, print};
use autoloop_core::topic::Topic;
use autoloop_runtime::journal::{
    Append, AppendError, Durability, FileJournal, FileSettings, Journal, NewRecord, Position,
    Spooled,
};
use autoloop_runtime::world::{Access, Disk, World};
use autoloop_testkit::{Seed, SimClock, SimDisk, SimWorld};

pub(crate) const PATH: &str = "/home/state/journal.jsonl";
pub(crate) const CACHED: Append = Append { expect: None, durability: Durability::Cached };
pub(crate) const SYNCED: Append = Append { expect: None, durability: Durability::Synced };

/// The journal as a process on this disk has it.
pub(crate) fn journal(disk: &SimDisk) -> FileJournal {
    let lock_timeout = Duration::from_millis(3);
    FileJournal::new(PATH, &world(disk), FileSettings { lock_timeout })
}

pub(crate) fn world(disk: &SimDisk) -> World {
    World { disk: Arc::new(disk.clone()), ..SimWorld::new(Seed(0)).world() }
}

pub(crate) fn new_disk() -> SimDisk {
    SimDisk::new(SimClock::default())
}

pub(crate) fn said(payload: &str) -> Record {
    Record {
        run: "r".into(),
        iteration: "1".into(),
        topic: Topic::new("review.ready"),
        body: Body::Agent { payload: payload.into(), source: "agent".into() },
        ts: None,
        version: None,
        seal: None,
        extra: Object::new(),
    }
}

pub(crate) fn news(payloads: &[&str]) -> Vec<NewRecord> {
    payloads.iter().map(|payload| said(payload).into()).collect()
}

pub(crate) fn spooled(text: &[u8]) -> NewRecord {
    let disk = new_disk();
    disk.set_contents("/spool", text);
    let file = disk.open(Path::new("/spool"), Access::Read).unwrap();
    let fields = vec![("output".to_owned(), Value::Text("".to_owned()))];
    NewRecord {
        record: Record {
            topic: Topic::new("backend.finish"),
            body: Body::System(fields),
            ..said("")
        },
        spooled: Some(Spooled {
            path: PathBuf::from("/spool"),
            text: Arc::from(file),
            secrets: None,
        }),
    }
}

/// The line that a record becomes, without its newline.
pub(crate) fn line_of(new: &NewRecord) -> Vec<u8> {
    let mut record = new.record.clone();
    if let (Some(spooled), Body::System(fields)) = (&new.spooled, &mut record.body) {
        let mut text = vec![0; usize::try_from(spooled.text.stat().unwrap().len).unwrap()];
        spooled.text.read_at(&mut text, 0).unwrap();
        fields[0].1 = Value::Text(String::from_utf8_lossy(&text).into_owned());
    }
    let mut line = Vec::new();
    print(&record, &mut line);
    line.pop();
    line
}

pub(crate) fn lines_of(records: &[NewRecord]) -> Vec<Vec<u8>> {
    records.iter().map(line_of).collect()
}

/// One append and its result as the caller knows it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) lines: Vec<Vec<u8>>,
    pub(crate) stored: Stored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Exactly the first so many.
    First(usize),
    /// Unknown: any number of the first ones.
    Unknown,
}

impl Attempt {
    pub(crate) fn new(records: &[NewRecord], outcome: &Result<Position, AppendError>) -> Attempt {
        let lines = lines_of(records);
        let stored = match outcome {
            Ok(_) => Stored::First(lines.len()),
            Err(AppendError::Full { stored, .. }) => Stored::First(*stored),
            Err(AppendError::Conflict { .. } | AppendError::Locked { .. }) => Stored::First(0),
            Err(_) => Stored::Unknown,
        };
        Attempt { lines, stored }
    }

    /// Its minimum: an acknowledged append is there. What a refused append stored was never synced.
    pub(crate) fn if_acknowledged(&self) -> Attempt {
        let is_acknowledged = self.stored == Stored::First(self.lines.len());
        let stored = if is_acknowledged { self.stored } else { Stored::Unknown };
        Attempt { lines: self.lines.clone(), stored }
    }
}

/// Appends and notes the result.
pub(crate) fn attempt(
    journal: &FileJournal,
    records: &[NewRecord],
    how: Append,
) -> (Attempt, Result<Position, AppendError>) {
    let outcome = journal.append(records, how);
    (Attempt::new(records, &outcome), outcome)
}

/// What a reader finds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Every line with the position after it.
    pub(crate) lines: Vec<(Position, Vec<u8>)>,
    /// The records, without the notes of repairs.
    pub(crate) records: Vec<Vec<u8>>,
    pub(crate) repairs: Vec<JournalRepaired>,
}

/// Every line after a position, with the position after it.
pub(crate) fn lines(journal: &FileJournal, from: Position) -> Vec<(Position, Vec<u8>)> {
    let mut lines = Vec::new();
    let end = journal.read(from, &mut |line| {
        lines.push((line.position(), line.bytes().to_vec()));
        ControlFlow::Continue(())
    });
    assert_eq!(end.unwrap(), lines.last().map_or(from, |(position, _)| *position));
    lines
}

pub(crate) fn read_all(journal: &FileJournal) -> Found {
    let mut found = Found { lines: lines(journal, Position::START), ..Found::default() };
    for piece in found.lines.iter().flat_map(|(_, line)| pieces(line)) {
        match &piece.content {
            Ok(record) if record.topic() == JournalRepaired::TOPIC => match record.event() {
                Event::JournalRepaired(repaired) => found.repairs.push(repaired),
                other => panic!("{other:?}"),
            },
            Ok(_) => found.records.push(piece.bytes.to_vec()),
            Err(_) => {}
        }
    }
    found
}

fn show(lines: &[Vec<u8>]) -> String {
    lines.iter().map(|line| format!("\n  {}", String::from_utf8_lossy(line))).collect()
}

/// Checks that the records of one writer, or of several in sequence, are those that the attempts
/// stored.
pub(crate) fn assert_holds(found: &[Vec<u8>], attempts: &[Attempt]) {
    let mut rest = found;
    for attempt in attempts {
        let there = attempt.lines.iter().zip(rest).take_while(|(line, found)| line == found);
        let there = there.count();
        if let Stored::First(expected) = attempt.stored {
            assert_eq!(
                there,
                expected,
                "of an append with outcome {:?}:{}\nin{}",
                attempt.stored,
                show(&attempt.lines),
                show(found)
            );
        }
        rest = &rest[there..];
    }
    assert!(rest.is_empty(), "not written:{}\nin{}", show(rest), show(found));
}

/// As after a power cut when nothing was synced: a prefix of what was written.
pub(crate) fn assert_is_beginning_of(found: &[Vec<u8>], attempts: &[Attempt]) {
    let written: Vec<_> = attempts.iter().flat_map(|attempt| attempt.lines.clone()).collect();
    assert!(written.starts_with(found), "{}\nare not the first of{}", show(found), show(&written));
}

/// The next writer appends without manual repair, removes no bytes of others, and records what it
/// repaired. Returns everything that is there then.
pub(crate) fn recover(disk: &SimDisk) -> Found {
    let before = if disk.exists(PATH) { disk.contents(PATH) } else { Vec::new() };
    let seen = read_all(&journal(disk));
    journal(disk).append(&news(&["recovery"]), SYNCED).unwrap();
    let after = disk.contents(PATH);
    assert!(after.starts_with(&before), "no byte is ever cut");

    let mut found = read_all(&journal(disk));
    assert_eq!(found.lines[..seen.lines.len()], seen.lines);
    let torn = before.len() - before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    // The note of an earlier repair may have lacked only its newline and be whole now.
    match &found.repairs[seen.repairs.len()..] {
        [] => assert_eq!(torn, 0, "a torn line of {torn} bytes was passed over in silence"),
        [repaired] | [_, repaired] => {
            let torn = torn as u64;
            let expected = JournalRepaired { offset: before.len() as u64 - torn, bytes: torn };
            assert_eq!(*repaired, expected);
        }
        more => panic!("{more:?}"),
    }
    assert_eq!(found.records.pop(), Some(line_of(&said("recovery").into())));
    found
}

/// What is there now survives any power cut.
pub(crate) fn assert_durable(disk: &SimDisk) {
    assert_eq!(disk.durable_contents(PATH), Some(disk.contents(PATH)));
}

/// Reading from an earlier valid position gives the same as reading everything.
pub(crate) fn assert_reads_on(disk: &SimDisk, positions: &[Position]) {
    let journal = journal(disk);
    let all = lines(&journal, Position::START);
    for &position in positions {
        let behind = match position {
            Position::START => 0,
            _ => {
                let place = all.iter().position(|(behind, _)| *behind == position);
                place.expect("a position of an acknowledged record stays good") + 1
            }
        };
        assert_eq!(lines(&journal, position), all[behind..]);
    }
}
