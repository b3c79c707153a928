//! One sequence of appends, cut at every byte, every sync and every call, by a power cut and by a
//! kill of the process.

use autoloop_runtime::journal::{Append, Durability, Journal, NewRecord, Position};
use autoloop_testkit::{Dice, Faults, Moment, Seed, SimDisk};

use super::model::*;

/// The state of the disk before.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// Not even the directories.
    Nothing,
    /// A file that a writer created before it died.
    Empty,
    /// Records, and the beginning of one.
    Torn,
}

const STARTS: [Start; 3] = [Start::Nothing, Start::Empty, Start::Torn];
const FRAGMENT: &[u8] = b"{\"run\": \"torn\", \"iteration\": \"1\", \"topic\": \"x";

fn prepare(start: Start) -> (SimDisk, Vec<Attempt>) {
    let disk = new_disk();
    let old = news(&["old", "older"]);
    match start {
        Start::Nothing => {}
        Start::Empty => disk.set_contents(PATH, b""),
        Start::Torn => {
            let mut bytes = lines_of(&old).join(&b'\n');
            bytes.push(b'\n');
            bytes.extend_from_slice(FRAGMENT);
            disk.set_contents(PATH, &bytes);
            return (disk, vec![Attempt { lines: lines_of(&old), stored: Stored::First(2) }]);
        }
    }
    (disk, Vec::new())
}

/// What a step appends, and what a writer without the lock leaves before it.
fn steps() -> Vec<(&'static [u8], Vec<NewRecord>)> {
    let mixed =
        vec![said("before").into(), spooled("漢\"\n".repeat(9).as_bytes()), said("after").into()];
    vec![
        (b"", news(&["first"])),
        (b"", news(&["one", "two \"2\"\n", "three"])),
        (b"", vec![spooled(b"text \xff\xe2\x82 and {\"run\": \"")]),
        (FRAGMENT, news(&["behind a fragment"])),
        (b"", mixed),
        (b"\0\0\0", news(&["behind NULs", ""])),
    ]
}

/// What the dead process had been acknowledged.
struct Told {
    attempts: Vec<Attempt>,
    /// The positions after every acknowledged append.
    positions: Vec<Position>,
}

/// Appends step by step until the machine crashes.
fn play(disk: &SimDisk, old: Vec<Attempt>, durability: Durability) -> Told {
    let journal = journal(disk);
    let mut told = Told { attempts: old, positions: vec![Position::START] };
    for (rude, records) in steps() {
        if !rude.is_empty() && disk.exists(PATH) {
            disk.write_raw(PATH, rude);
        }
        let (attempt, outcome) = attempt(&journal, &records, Append { expect: None, durability });
        told.attempts.push(attempt);
        match outcome {
            Ok(position) => told.positions.push(position),
            Err(_) => break,
        }
    }
    told
}

/// Plays the sequence with these faults; then kills the process, and cuts the power several times.
fn strike(start: Start, faults: Faults, dice: &mut Dice) {
    let (disk, old) = prepare(start);
    disk.set_faults(faults);
    let told = play(&disk, old, Durability::Synced);
    for after in [disk.reopen(), disk.crash(dice), disk.crash(dice)] {
        assert_holds(&read_all(&journal(&after)).records, &told.attempts);
        assert_holds(&recover(&after).records, &told.attempts);
        assert_durable(&after);
        assert_reads_on(&after, &told.positions);
    }
}

/// The bytes, calls and syncs of an undisturbed sequence.
fn undisturbed(start: Start) -> SimDisk {
    let (disk, old) = prepare(start);
    let told = play(&disk, old, Durability::Synced);
    assert!(told.attempts.iter().all(|attempt| attempt.stored != Stored::Unknown));
    assert_holds(&recover(&disk).records, &told.attempts);
    let (disk, old) = prepare(start);
    play(&disk, old, Durability::Synced);
    disk
}

#[test]
fn cut_at_every_byte() {
    for start in STARTS {
        let bytes = undisturbed(start).bytes_appended();
        assert!(bytes > 1000, "{bytes}");
        for n in 0..=bytes {
            strike(start, Faults::none().die_after_bytes(n), &mut Seed(n).dice());
        }
    }
}

#[test]
fn cut_at_every_call() {
    for start in STARTS {
        let calls = undisturbed(start).calls().total();
        assert!(calls > 50, "{calls}");
        for k in 1..=calls {
            for round in 0..4 {
                let dice = &mut Seed(k << 8 | round).dice();
                strike(start, Faults::none().die_at_call(k), dice);
            }
        }
    }
}

#[test]
fn cut_at_every_sync() {
    for start in STARTS {
        let syncs = undisturbed(start).calls().syncs();
        assert!(syncs >= 6, "{syncs}");
        for k in 1..=syncs {
            for moment in [Moment::BeforeEffect, Moment::AfterEffect] {
                for round in 0..20 {
                    let dice = &mut Seed(k << 8 | round).dice();
                    strike(start, Faults::none().die_at_sync(k, moment), dice);
                }
            }
        }
    }
}

/// Written in varying pieces and cut: the same as one write.
#[test]
fn cut_while_writes_are_short() {
    autoloop_testkit::simulate("short writes, cut", 600, |_, dice| {
        let start = *dice.pick(&STARTS);
        let short = Faults::none().short_writes(dice.fork());
        let faults = match dice.below(3) {
            0 => short.die_after_bytes(dice.below(3000)),
            1 => short.die_at_call(1 + dice.below(200)),
            _ => short,
        };
        strike(start, faults, dice);
    });
}

/// A cached append survives its process; a power cut leaves a prefix of the appends.
#[test]
fn cached_appends_survive_the_process_and_keep_their_order() {
    for start in STARTS {
        let bytes = undisturbed(start).bytes_appended();
        for n in (0..=bytes).step_by(7) {
            let dice = &mut Seed(n).dice();
            let (disk, old) = prepare(start);
            disk.set_faults(Faults::none().die_after_bytes(n));
            let told = play(&disk, old, Durability::Cached);
            let killed = disk.reopen();
            assert_holds(&recover(&killed).records, &told.attempts);
            assert_durable(&killed);
            assert_reads_on(&killed, &told.positions);
            for _ in 0..4 {
                assert_is_beginning_of(&recover(&disk.crash(dice)).records, &told.attempts);
            }
        }
    }
}

#[test]
fn a_cached_append_can_be_lost_to_a_power_cut() {
    let disk = new_disk();
    journal(&disk).append(&news(&["a"]), CACHED).unwrap();
    let dice = &mut Seed(1).dice();
    let lost = (0..50).filter(|_| recover(&disk.crash(dice)).records.is_empty()).count();
    assert!((1..50).contains(&lost), "{lost}");
}

/// A synced append also makes the cached ones before it durable, and the name of the file.
#[test]
fn a_synced_append_behind_a_cached_one_is_safe() {
    for round in 0..50 {
        let disk = new_disk();
        let journal = journal(&disk);
        let (cached, _) = attempt(&journal, &news(&["cached"]), CACHED);
        let (synced, outcome) = attempt(&journal, &news(&["synced"]), SYNCED);
        outcome.unwrap();
        let after = disk.crash(&mut Seed(round).dice());
        assert_holds(&recover(&after).records, &[cached, synced]);
    }
}

#[test]
fn a_record_that_lacks_its_newline_is_there_once_the_journal_is_repaired() {
    let disk = new_disk();
    journal(&disk).append(&[], Append::default()).unwrap();
    assert!(!disk.exists(PATH), "there was nothing to repair");

    let line = line_of(&said("whole").into());
    disk.set_contents(PATH, line.trim_ascii_end());
    journal(&disk).append(&[], Append::default()).unwrap();
    let repaired = disk.contents(PATH);
    assert!(repaired.starts_with(&line));
    assert_eq!(disk.durable_contents(PATH), Some(repaired.clone()));
    assert_eq!(journal(&disk).fragment().unwrap(), None);

    journal(&disk).append(&[], Append::default()).unwrap();
    assert_eq!(disk.contents(PATH), repaired);
}
