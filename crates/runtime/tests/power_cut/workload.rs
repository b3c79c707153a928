//! The records that are written, and the process that writes them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use autoloop_core::record::{Heading, Record, print};
use autoloop_core::timestamp::Timestamp;
use autoloop_core::topic::Topic;
use autoloop_core::views::metrics::Metrics;
use autoloop_runtime::journal::{
    Append, Durability, FileJournal, FileSettings, Journal, NewRecord,
};
use autoloop_runtime::world::World;
use autoloop_testkit::{Dice, Seed};

use crate::disk::MARKS;
use crate::lab::{LIVE, SERVED};
use crate::stage;

/// How many appends one writer makes alone, before the others begin.
const ALONE: usize = 22;
/// How many appends each of three writers makes at the same time as the others.
const TOGETHER: usize = 9;
/// The length of the largest texts.
const LARGE: usize = 230_000;
/// How many writers there are.
pub(crate) const WRITERS: usize = 4;

/// One append.
struct Step {
    records: Range<usize>,
    /// What the writer wants of it.
    durability: Durability,
}

/// All that is written. Records are known by their number, which they carry as their iteration.
pub(crate) struct Workload {
    records: Vec<Record>,
    lines: Vec<Vec<u8>>,
    /// What each writer appends: the first alone, then the others together.
    writers: [Vec<Step>; WRITERS],
}

impl Workload {
    /// The work of a seed.
    pub(crate) fn new(seed: Seed) -> Workload {
        let mut dice = seed.dice();
        let mut records = Vec::new();
        let writers = [ALONE, TOGETHER, TOGETHER, TOGETHER].map(|appends| {
            let step = |_| Step::new(&mut records, &mut dice);
            (0..appends).map(step).collect::<Vec<Step>>()
        });
        // Large enough for a view to be kept in a sidecar, which is never synced.
        for writer in &writers[..2] {
            let number = writer[writer.len() / 2].records.start;
            records[number] = record(number, text(LARGE, &mut dice));
        }
        let lines = records.iter().map(line).collect();
        Workload { records, lines, writers }
    }

    /// The number of the record that has exactly these bytes.
    pub(crate) fn number(&self, bytes: &[u8], iteration: &str) -> Option<usize> {
        let number = iteration.parse().ok()?;
        let line: &Vec<u8> = self.lines.get(number)?;
        (line.strip_suffix(b"\n")? == bytes).then_some(number)
    }

    /// Which writer a record comes from.
    pub(crate) fn writer(&self, number: usize) -> usize {
        let has_begun = |writer: &Vec<Step>| writer[0].records.start <= number;
        self.writers.iter().rposition(has_begun).expect("the first writer begins with record 0")
    }

    /// The record that shows that the journal can be written to again.
    pub(crate) fn recovery() -> Record {
        let heading = Heading { run: String::new(), iteration: String::new(), now: moment(0) };
        heading.agent(Topic::new("power.back"), "written after the power cut")
    }
}

impl Step {
    /// An append of new records.
    fn new(records: &mut Vec<Record>, dice: &mut Dice) -> Step {
        let first = records.len();
        let count = if dice.chance(1, 4) { 3 } else { 1 };
        for number in first..first + count {
            // As many short ones as long ones.
            let most = 1 << (4 + dice.index(9));
            let length = 1 + dice.index(most);
            records.push(record(number, text(length, dice)));
        }
        let durability = match dice.chance(1, 4) {
            true => Durability::Cached,
            false => Durability::Synced,
        };
        Step { records: first..records.len(), durability }
    }
}

fn record(number: usize, payload: String) -> Record {
    let iteration = number.to_string();
    let heading = Heading { run: "run-1".to_owned(), iteration, now: moment(number) };
    heading.agent(Topic::new("work.done"), payload)
}

/// Some text with all that has to be escaped in it.
fn text(length: usize, dice: &mut Dice) -> String {
    let letters: Vec<char> = "abcdefghijklmnopqrstuvwxyz \"\\\n{}:ä€🦀".chars().collect();
    (0..length).map(|_| *dice.pick(&letters)).collect()
}

fn moment(number: usize) -> Timestamp {
    Timestamp::from_millis(
        1_700_000_000_000 + i64::try_from(number).expect("there are few records"),
    )
}

fn line(record: &Record) -> Vec<u8> {
    let mut line = Vec::new();
    print(record, &mut line);
    line
}

/// Where the journal is on the mounted disk. Its directories are for the first writer to make.
pub(crate) fn journal(mounted: &Path) -> FileJournal {
    let path: PathBuf = mounted.join("project/.autoloop/journal.jsonl");
    FileJournal::new(path, &World::real(), FileSettings::default())
}

/// What the writer process does. Without syncs nothing is made durable, and acknowledged all the same.
pub(crate) fn write(syncs: Durability, seed: Seed, dir: &Path) {
    stage::die_with_parent();
    let workload = Workload::new(seed);
    let live = dir.join(LIVE);
    let (shared, other) = (journal(&live), journal(&live));
    let neighbour = File::create(live.join("neighbour")).expect("the disk is mounted");
    let marks = OpenOptions::new()
        .write(true)
        .open(dir.join(SERVED).join(MARKS))
        .expect("the disk is served");
    let records = &workload.records;
    let desk = |journal| Desk { records, journal, syncs, neighbour: &neighbour, marks: &marks };
    let [alone, one, two, three] = &workload.writers;
    desk(&shared).work(alone);
    // Two of them share their writes and syncs; the third is to them what another process is.
    std::thread::scope(|scope| {
        scope.spawn(|| desk(&shared).work(one));
        scope.spawn(|| desk(&shared).work(two));
        scope.spawn(|| desk(&other).work(three));
    });
}

/// What a writer works with.
struct Desk<'a> {
    records: &'a [Record],
    journal: &'a FileJournal,
    syncs: Durability,
    /// Another file on the same disk.
    neighbour: &'a File,
    marks: &'a File,
}

impl Desk<'_> {
    fn work(&self, steps: &[Step]) {
        for step in steps {
            self.append(step);
            match step.durability {
                Durability::Synced => self.mark(&step.records),
                Durability::Cached => self.disturb(),
            }
            // Leaves a sidecar now and then, for a cut to fall on.
            self.journal.fold::<Metrics>().expect("nothing is wrong with the disk");
        }
    }

    fn append(&self, step: &Step) {
        let durability = match (step.durability, self.syncs) {
            (Durability::Synced, Durability::Synced) => Durability::Synced,
            (Durability::Cached, _) | (_, Durability::Cached) => Durability::Cached,
        };
        let records = self.records[step.records.clone()].iter().cloned();
        let records: Vec<NewRecord> = records.map(NewRecord::from).collect();
        self.journal
            .append(&records, Append { expect: None, durability })
            .expect("nothing is wrong with the disk");
    }

    fn mark(&self, records: &Range<usize>) {
        let mark = format!("{}..{}", records.start, records.end);
        let mut marks = self.marks;
        marks.write_all(mark.as_bytes()).expect("the disk is served");
    }

    /// Does what other programs do: their syncs make the file system store what it knows of our file
    /// by then, which may be its new length without the bytes.
    fn disturb(&self) {
        let mut neighbour = self.neighbour;
        neighbour.write_all(b"not our business\n").expect("nothing is wrong with the disk");
        neighbour.sync_all().expect("nothing is wrong with the disk");
    }
}
