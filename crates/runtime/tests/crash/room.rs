//! A disk that is full.

use autoloop_runtime::journal::{AppendError, Journal};
use autoloop_testkit::{Faults, Seed};

use super::model::*;

/// How many of the records fit into that many bytes.
fn fitting(lines: &[Vec<u8>], room: usize) -> usize {
    let ends = lines.iter().scan(0, |end, line| {
        *end += line.len() + 1;
        Some(*end)
    });
    ends.take_while(|&end| end <= room).count()
}

/// At every size of the disk: what does not fit is refused with an error, earlier records are
/// intact, and appends work again once there is room.
#[test]
fn a_disk_of_every_size() {
    let records = news(&["one", "two, which is a little longer", "three"]);
    let lines = lines_of(&records);
    let needed: usize = lines.iter().map(|line| line.len() + 1).sum();
    for room in 0..=needed + 1 {
        let disk = new_disk();
        let journal = journal(&disk);
        let (base, _) = attempt(&journal, &news(&["base"]), SYNCED);
        let before = disk.contents(PATH);
        let capacity = before.len() + room;
        disk.set_faults(Faults::none().capacity(capacity as u64));

        let (first, outcome) = attempt(&journal, &records, SYNCED);
        let stored = fitting(&lines, room);
        match outcome {
            Ok(_) => assert!(room >= needed),
            Err(error @ AppendError::Full { .. }) => {
                assert!(room < needed);
                assert_eq!(first.stored, Stored::First(stored), "{error}");
                let said = error.to_string();
                assert!(
                    said.starts_with("no space left for /home/state/journal.jsonl ("),
                    "{said}"
                );
                let count =
                    ["nothing was", "only the first record was", "only the first 2 records"];
                assert!(said.contains(count[stored]), "{said}");
            }
            Err(other) => panic!("{other}"),
        }
        let mut expected = before.clone();
        for line in &lines[..stored] {
            expected.extend_from_slice(line);
            expected.push(b'\n');
        }
        assert_eq!(disk.contents(PATH), expected, "with room for {room}");

        let (small, outcome) = attempt(&journal, &news(&[""]), SYNCED);
        let left = capacity - expected.len();
        assert_eq!(outcome.is_ok(), small.lines[0].len() < left, "a small one fits");

        disk.set_capacity(None);
        let (last, outcome) = attempt(&journal, &news(&["room again"]), SYNCED);
        outcome.unwrap();
        let attempts = [base, first, small, last];
        assert_holds(&recover(&disk.crash(&mut Seed(1).dice())).records, &attempts);
    }
}

/// The same after a torn line: its repair needs room too.
#[test]
fn a_torn_line_on_a_disk_of_every_size() {
    let old = news(&["old"]);
    let torn = [lines_of(&old)[0].as_slice(), b"\n{\"run\": \"torn"].concat();
    let records = news(&["one", "two"]);
    for room in 0..500 {
        let disk = new_disk();
        disk.set_contents(PATH, &torn);
        disk.set_faults(Faults::none().capacity((torn.len() + room) as u64));
        let journal = journal(&disk);
        let (first, outcome) = attempt(&journal, &records, SYNCED);
        match outcome {
            Ok(_) => assert!(room > 200),
            Err(AppendError::Full { .. }) => assert!(room < 450),
            Err(other) => panic!("{other}"),
        }
        assert!(disk.contents(PATH).starts_with(&torn), "with room for {room}");
        assert_eq!(
            disk.contents(PATH).ends_with(b"\n"),
            room > 0,
            "our own unfinished line is cut back, and the end of the torn one stays"
        );
        disk.set_capacity(None);
        let (last, outcome) = attempt(&journal, &news(&["room again"]), SYNCED);
        outcome.unwrap();
        let old = Attempt { lines: lines_of(&old), stored: Stored::First(1) };
        assert_holds(&recover(&disk.reopen()).records, &[old, first, last]);
    }
}

/// A giant text on a small disk leaves no trace, and a small record still fits.
#[test]
fn a_giant_that_does_not_fit_leaves_no_trace() {
    for size in [10_000, 3 << 20] {
        for short in [false, true] {
            let disk = new_disk();
            let journal = journal(&disk);
            let (base, _) = attempt(&journal, &news(&["base"]), SYNCED);
            let before = disk.contents(PATH);
            let faults = Faults::none().capacity(before.len() as u64 + size as u64 / 2);
            let dice = Seed(3).dice();
            disk.set_faults(if short { faults.short_writes(dice) } else { faults });
            let giant = [spooled(&vec![b'x'; size])];
            let (refused, outcome) = attempt(&journal, &giant, SYNCED);
            assert!(matches!(outcome, Err(AppendError::Full { stored: 0, .. })), "{outcome:?}");
            assert_eq!(disk.contents(PATH), before);
            let (small, outcome) = attempt(&journal, &news(&["small"]), SYNCED);
            outcome.unwrap();
            assert_holds(&read_all(&journal).records, &[base, refused, small]);
        }
    }
}

/// The rest of a failed write cannot always be truncated; the next writer ends the line.
#[test]
fn a_failed_truncate_leaves_only_a_torn_line() {
    for room in 1..80 {
        let disk = new_disk();
        let journal = journal(&disk);
        let (base, _) = attempt(&journal, &news(&["base"]), SYNCED);
        let len = disk.contents(PATH).len() as u64;
        let faults = Faults::none().capacity(len + room);
        disk.set_faults(faults.fail_call(autoloop_testkit::Op::Cut, 1, 5));
        let (refused, outcome) = attempt(&journal, &news(&["does not fit"]), SYNCED);
        assert!(matches!(outcome, Err(AppendError::Full { stored: 0, .. })), "{outcome:?}");
        disk.set_capacity(None);
        let (next, outcome) = attempt(&journal, &news(&["next"]), SYNCED);
        outcome.unwrap();
        assert_eq!(read_all(&journal).repairs.len(), 1);
        assert_holds(&recover(&disk.reopen()).records, &[base, refused, next]);
    }
}

/// Several callers share a write that does not fit: each gets the result of its own records.
#[test]
fn each_of_several_writers_gets_the_result_of_its_own_records() {
    for room in (0..2600).step_by(37) {
        let disk = new_disk();
        let journal = journal(&disk);
        journal.append(&news(&["base"]), SYNCED).unwrap();
        let len = disk.contents(PATH).len() as u64;
        disk.set_faults(Faults::none().capacity(len + room));
        let attempts: Vec<Attempt> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..12)
                .map(|writer| {
                    let journal = &journal;
                    scope.spawn(move || {
                        let names = [format!("{writer}/a"), format!("{writer}/b")];
                        attempt(journal, &news(&[&names[0], &names[1]]), SYNCED).0
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let found = read_all(&journal).records;
        for attempt in attempts {
            let own: Vec<Vec<u8>> =
                found.iter().filter(|line| attempt.lines.contains(line)).cloned().collect();
            assert_holds(&own, &[attempt]);
        }
    }
}
