//! Other processes write between any two calls of ours: some follow the protocol, some do not.

use std::sync::{Arc, Mutex};

use autoloop_core::record::pieces;
use autoloop_runtime::journal::{Append, AppendError, Durability, Journal, Position, ReadError};
use autoloop_runtime::world::Disk;
use autoloop_testkit::{Dice, Faults, Op, SimDisk, all_seeds_run, simulate};

use super::model::*;

/// How the other processes behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manners {
    /// By the protocol.
    Polite,
    /// Whole lines, without a lock.
    Lines,
    /// Beginnings of records, without a lock and without an end.
    Fragments,
    /// An editor that replaces the file with a copy.
    Replacing,
    /// A process that removes the file.
    Removing,
    /// A process that truncates the file.
    Truncating,
}

/// The other writers, and what they have done.
struct Others {
    manners: Manners,
    dice: Dice,
    /// The appends of each polite process, by its number.
    polite: [Vec<Attempt>; 2],
    /// Lines that a writer without the lock added.
    rude: Vec<Vec<u8>>,
    /// What must be there: everything acknowledged and not destroyed since.
    firm: Vec<Vec<u8>>,
    /// How often data was destroyed in a way that a running writer cannot notice.
    blows: u64,
    /// Calls of the writer since it last opened the file.
    stats: u64,
    written: u64,
    follower: Follower,
}

/// A reader that continues where it stopped.
#[derive(Default)]
struct Follower {
    at: Position,
    lines: Vec<Vec<u8>>,
}

impl Follower {
    fn follow(&mut self, disk: &SimDisk) {
        let journal = journal(&disk.as_process(9));
        let (mut at, mut more) = (self.at, Vec::new());
        let outcome = journal.read(at, &mut |line| {
            more.push(line.bytes().to_vec());
            at = line.position();
            std::ops::ControlFlow::Continue(())
        });
        match outcome {
            Ok(end) => {
                assert_eq!(end, at);
                self.lines.extend(more);
                self.at = at;
            }
            Err(ReadError::Changed { .. }) => *self = Follower::default(),
            // A call was made to fail, or the machine is dead.
            Err(ReadError::Io { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

impl Others {
    fn new(manners: Manners, dice: Dice) -> Self {
        Others {
            manners,
            dice,
            polite: Default::default(),
            rude: Vec::new(),
            firm: Vec::new(),
            blows: 0,
            stats: 0,
            written: 0,
            follower: Follower::default(),
        }
    }

    /// Lets another process act, or not, before a call of ours.
    fn act(&mut self, op: Op, disk: &SimDisk) {
        match op {
            Op::Open => self.stats = 0,
            Op::Stat => self.stats += 1,
            _ => {}
        }
        if self.dice.chance(1, 8) {
            self.follower.follow(disk);
        }
        if !self.dice.chance(1, 12) || !disk.exists(PATH) {
            return;
        }
        self.written += 1;
        let name = format!("other {}", self.written);
        // Until it has checked the path under the lock, a writer notices that its file was
        // replaced.
        let is_noticed = op == Op::Open || (matches!(op, Op::Stat | Op::Lock) && self.stats <= 3);
        match self.manners {
            Manners::Polite => {
                let which = self.dice.index(2);
                let records: Vec<_> = (0..=self.dice.below(2))
                    .map(|part| said(&format!("{name} {part}")).into())
                    .collect();
                let process = disk.as_process(2 + u32::try_from(which).unwrap());
                let (attempt, _) = attempt(&journal(&process), &records, SYNCED);
                self.polite[which].push(attempt);
            }
            Manners::Lines => {
                let line = line_of(&said(&name).into());
                let before = disk.contents(PATH).len();
                disk.write_raw(PATH, &[line.as_slice(), b"\n"].concat());
                // On a crashed machine no process writes.
                if disk.contents(PATH).len() > before {
                    self.rude.push(line);
                }
            }
            Manners::Fragments => {
                let line = line_of(&said(&name).into());
                disk.write_raw(PATH, &line[..1 + self.dice.index(line.len() - 1)]);
            }
            Manners::Replacing => {
                let line = line_of(&said(&name).into());
                let copy = [disk.contents(PATH).as_slice(), line.as_slice(), b"\n"].concat();
                disk.as_process(9).replace(PATH.as_ref(), &copy).unwrap();
                self.blows += u64::from(!is_noticed);
            }
            Manners::Removing => {
                disk.remove(PATH);
                self.firm.clear();
                self.blows += u64::from(!is_noticed);
            }
            Manners::Truncating => {
                let bytes = disk.contents(PATH);
                disk.set_contents(PATH, &bytes[..self.dice.index(bytes.len() + 1)]);
                self.firm.clear();
                self.blows += 1;
            }
        }
    }
}

/// The faults besides. A process without the lock can write into the middle of a record that is
/// written in pieces, so writes are short only where all others take the lock.
fn faults(manners: Manners, dice: &mut Dice) -> Faults {
    let mut faults = Faults::none();
    if manners == Manners::Polite && dice.chance(1, 2) {
        faults = faults.short_writes(dice.fork());
    }
    match (manners, dice.below(6)) {
        (Manners::Polite | Manners::Lines | Manners::Fragments, 0) => {
            faults.die_after_bytes(dice.below(3000))
        }
        (Manners::Polite | Manners::Lines | Manners::Fragments, 1) => {
            faults.die_at_call(1 + dice.below(300))
        }
        (Manners::Polite, 2) => faults.capacity(dice.below(4000)),
        (Manners::Polite, 3) => {
            let op = *dice.pick(&[Op::Open, Op::Stat, Op::Lock, Op::Append, Op::Sync, Op::Unlock]);
            faults.fail_call(op, 1 + dice.below(12), 5)
        }
        _ => faults,
    }
}

struct Played {
    disk: SimDisk,
    /// Our own appends, with the positions that were acknowledged.
    attempts: Vec<Attempt>,
    positions: Vec<Position>,
    others: Arc<Mutex<Others>>,
}

/// Eight appends of ours, with other processes between all their calls.
fn play(manners: Manners, dice: &mut Dice) -> Played {
    let disk = new_disk();
    if manners != Manners::Polite {
        // A process that takes no lock does not sync the file's name either.
        disk.set_contents(PATH, b"");
    }
    let others = Arc::new(Mutex::new(Others::new(manners, dice.fork())));
    let shared = Arc::clone(&others);
    disk.interleave(move |op, disk| shared.lock().unwrap().act(op, disk));
    disk.set_faults(faults(manners, dice));
    let mut played = Played { attempts: Vec::new(), positions: Vec::new(), others, disk };
    let journal = journal(&played.disk);
    let mut head = None;
    for number in 0..8 {
        let names: Vec<String> =
            (0..=dice.below(3)).map(|part| format!("mine {number}.{part}")).collect();
        let records = news(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let durability = if dice.chance(3, 4) { Durability::Synced } else { Durability::Cached };
        let expect = head.filter(|_| dice.chance(1, 3));
        let blows = played.others.lock().unwrap().blows;
        let (attempt, outcome) = attempt(&journal, &records, Append { expect, durability });
        let mut others = played.others.lock().unwrap();
        head = match outcome {
            Ok(position) => {
                if others.blows == blows {
                    others.firm.extend(attempt.lines.clone());
                }
                played.positions.push(position);
                Some(position)
            }
            Err(AppendError::Conflict { head }) => Some(head),
            Err(_) => None,
        };
        drop(others);
        played.attempts.push(attempt);
    }
    played
}

/// Afterwards, with the others silent: the records that are found.
fn settle(played: &Played) -> (SimDisk, Found) {
    let disk = played.disk.reopen();
    let follower = &mut played.others.lock().unwrap().follower;
    follower.follow(&disk);
    let found = recover(&disk);
    // Twice, for a reader that has to start again.
    follower.follow(&disk);
    follower.follow(&disk);
    let all: Vec<_> = found.lines.iter().map(|(_, line)| line.clone()).collect();
    assert_eq!(follower.lines, all, "reading on shows what reading everything shows");
    (disk, found)
}

fn of(found: &[Vec<u8>], attempts: &[Attempt]) -> Vec<Vec<u8>> {
    let own = |line: &&Vec<u8>| attempts.iter().any(|attempt| attempt.lines.contains(line));
    found.iter().filter(own).cloned().collect()
}

/// No record is lost, doubled or out of order; the records of one append are adjacent.
#[test]
fn polite_others() {
    simulate("polite others", 700, |_, dice| {
        let played = play(Manners::Polite, dice);
        let (_, found) = settle(&played);
        let others = played.others.lock().unwrap();
        let mut count = 0;
        for attempts in [&played.attempts, &others.polite[0], &others.polite[1]] {
            let own = of(&found.records, attempts);
            assert_holds(&own, attempts);
            count += own.len();
            for attempt in attempts.iter().filter(|attempt| attempt.stored != Stored::Unknown) {
                let Stored::First(stored) = attempt.stored else { continue };
                let lines = &attempt.lines[..stored];
                let adjacent =
                    lines.is_empty() || found.records.windows(stored).any(|some| some == lines);
                assert!(adjacent, "{attempt:?}");
            }
        }
        assert_eq!(count, found.records.len(), "no other writer wrote anything");
        // Returned positions stay valid.
        assert_reads_on(&played.disk.reopen(), &played.positions);
        // A power cut may remove what was only cached or refused, and nothing else.
        let after = recover(&played.disk.crash(dice)).records;
        for attempts in &others.polite {
            let acknowledged: Vec<_> = attempts.iter().map(Attempt::if_acknowledged).collect();
            assert_holds(&of(&after, attempts), &acknowledged);
        }
    });
}

/// A writer without the lock loses nothing and destroys nothing of ours.
#[test]
fn others_without_a_lock() {
    simulate("others without a lock", 900, |_, dice| {
        let manners = *dice.pick(&[Manners::Lines, Manners::Fragments]);
        let played = play(manners, dice);
        let (disk, found) = settle(&played);
        let others = played.others.lock().unwrap();
        assert_holds(&of(&found.records, &played.attempts), &played.attempts);
        let rude: Vec<_> =
            found.records.iter().filter(|line| others.rude.contains(line)).cloned().collect();
        assert_eq!(rude, others.rude);
        assert_eq!(
            found.records.len(),
            rude.len() + of(&found.records, &played.attempts).len(),
            "nothing is invented"
        );
        // A position that was returned while others wrote is valid, or known to be stale.
        let all = lines(&journal(&disk), Position::START);
        for &position in &played.positions {
            let mut rest = Vec::new();
            let outcome = journal(&disk).read(position, &mut |line| {
                rest.push((line.position(), line.bytes().to_vec()));
                std::ops::ControlFlow::Continue(())
            });
            match outcome {
                Ok(_) => assert!(all.ends_with(&rest)),
                Err(ReadError::Changed { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    });
}

/// Replaced, removed or truncated: what was acknowledged since is there, and appends work.
#[test]
fn others_who_destroy() {
    let mut firm = 0;
    simulate("others who destroy", 900, |_, dice| {
        let manners = *dice.pick(&[Manners::Replacing, Manners::Removing, Manners::Truncating]);
        let played = play(manners, dice);
        for attempt in &played.attempts {
            let is_told = attempt.stored != Stored::Unknown;
            assert!(is_told, "no error but a conflict: {attempt:?}");
        }
        let (_, found) = settle(&played);
        let others = played.others.lock().unwrap();
        firm += others.firm.len();
        for line in &others.firm {
            let times = found.records.iter().filter(|found| *found == line).count();
            assert_eq!(times, 1, "{}", String::from_utf8_lossy(line));
        }
        for (index, record) in found.records.iter().enumerate() {
            assert!(!found.records[..index].contains(record), "twice");
        }
    });
    assert!(firm > 900 || !all_seeds_run(), "{firm}");
}

/// An editor saves while we wait for the lock: the record is written to the new file.
#[test]
fn a_file_replaced_while_we_wait_is_noticed() {
    for moment in [Op::Stat, Op::Lock] {
        let disk = new_disk();
        journal(&disk).append(&news(&["old"]), SYNCED).unwrap();
        let mut is_done = false;
        disk.interleave(move |op, disk| {
            if op == moment && !std::mem::replace(&mut is_done, true) {
                disk.as_process(9).replace(PATH.as_ref(), b"an edited file\n").unwrap();
            }
        });
        journal(&disk).append(&news(&["new"]), SYNCED).unwrap();
        let expected =
            [b"an edited file\n".as_slice(), &line_of(&said("new").into()), b"\n"].concat();
        assert_eq!(disk.contents(PATH), expected);
    }
}

/// A record that another process wrote after our failed one is not truncated with it.
#[test]
fn records_after_a_failed_write_stay() {
    for room in 1..90u64 {
        let disk = new_disk();
        let journal = journal(&disk);
        journal.append(&news(&["base"]), SYNCED).unwrap();
        let rude = line_of(&said("rude").into());
        let line = [rude.as_slice(), b"\n"].concat();
        let mut appends = 0;
        disk.set_faults(Faults::none().capacity(disk.contents(PATH).len() as u64 + room));
        disk.interleave(move |op, disk| {
            appends += u32::from(op == Op::Append);
            if op == Op::Append && appends == 2 {
                disk.write_raw(PATH, &line);
            }
        });
        let refused = journal.append(&news(&["does not fit"]), SYNCED);
        assert!(matches!(refused, Err(AppendError::Full { .. })), "{refused:?}");
        let bytes = disk.contents(PATH);
        let last = bytes.strip_suffix(b"\n").unwrap();
        let last = &last[last.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)..];
        let found: Vec<_> =
            pieces(last).into_iter().filter(|piece| piece.content.is_ok()).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].bytes, rude);
    }
}
