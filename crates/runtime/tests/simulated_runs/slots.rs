//! Whole runs of slots in virtual time: generated items and agents, on a disk that crashes
//! anywhere, with other users of the same queue, resumed until they end.
//!
//! As for [loops](crate), every seed is played twice, once undisturbed and once with faults, and
//! every record is [judged](judge). Where no other process uses the queue, both have the same
//! result: the same items in the same slots, with the same reviews, fixes and outcomes, and the
//! same end.

#[path = "slots/agent.rs"]
mod agent;
#[path = "slots/judge.rs"]
mod judge;
#[path = "slots/others.rs"]
mod others;
#[path = "slots/parking.rs"]
mod parking;
#[path = "slots/part.rs"]
mod part;
#[path = "slots/play.rs"]
mod play;
#[path = "slots/queue.rs"]
mod queue;
#[path = "slots/run_model.rs"]
mod run_model;
#[path = "slots/said.rs"]
mod said;
#[path = "slots/setup.rs"]
mod setup;
#[path = "slots/slot_model.rs"]
mod slot_model;
#[path = "slots/stage.rs"]
mod stage;
#[path = "slots/witness.rs"]
mod witness;

use std::collections::BTreeMap;
use std::sync::Mutex;

use autoloop_testkit::sandbox::tell;
use autoloop_testkit::{Dice, Op, Seed, all_seeds_run, simulate_at_once};

use self::play::{Played, SlotFaults, play};
use self::setup::Setup;
use crate::fault_plan::{EIO, Fault};
use crate::setup::Redo;

/// Each is carried out twice.
const SEEDS: u64 = 1_050;

/// What was counted.
#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    cuts: u64,
    /// How many stopped once because a program was missing.
    without_agent: u64,
    records: u64,
    comparable: u64,
    /// How many had a second run beside them.
    with_second: u64,
    resumed: u64,
    /// How many items were lost to other workers.
    lost: u64,
    agents: u64,
    endings: BTreeMap<String, u64>,
    outcomes: BTreeMap<String, u64>,
}

impl Tally {
    fn count(&mut self, played: &Played) {
        self.runs += 1;
        self.cuts += played.cuts;
        self.without_agent += played.without_agent;
        self.records += played.records;
        self.comparable += u64::from(played.redo == Redo::Same);
        self.with_second += u64::from(played.has_second);
        self.resumed += played.resumed;
        self.lost += played.lost;
        self.agents += played.needs.agents;
        *self.endings.entry(played.summary.finish.0.clone()).or_default() += 1;
        for slot in &played.summary.slots {
            *self.outcomes.entry(slot.outcome.clone()).or_default() += 1;
        }
    }
}

/// An undisturbed run, and the same one with faults.
fn both(seed: Seed, dice: &mut Dice) -> [Played; 2] {
    let setup = Setup::any(seed, dice);
    let alone = play(&setup, &SlotFaults::none(&setup));
    let slot_faults = SlotFaults::any(dice, &setup, &alone.needs);
    let disturbed = play(&setup, &slot_faults);
    if disturbed.redo == Redo::Same {
        assert_eq!(disturbed.summary, alone.summary, "{slot_faults:?}");
    }
    [alone, disturbed]
}

#[test]
fn a_queue_is_processed_under_any_faults() {
    let tally = Mutex::new(Tally::default());
    simulate_at_once("slots", SEEDS, |seed, dice| {
        let runs = both(seed, dice);
        runs.iter().for_each(|run| tally.lock().unwrap().count(run));
    });
    let tally = tally.into_inner().unwrap();
    tell(&format!("slots: {tally:?}"));
    if all_seeds_run() {
        assert!(tally.runs >= 2_000 && tally.cuts >= SEEDS, "{tally:?}");
        assert!(tally.comparable * 10 >= tally.runs * 6, "{tally:?}");
        assert!(tally.without_agent >= 100, "{tally:?}");
        assert!(tally.with_second >= 200 && tally.lost >= 80, "{tally:?}");
        assert_eq!((tally.endings.len(), tally.outcomes.len()), (4, 5), "{tally:?}");
    }
}

/// Seeds that once found a defect.
#[test]
fn seeds_that_once_failed_pass() {
    for seed in [
        // An item skipped after its last attempt, and claimed by another worker meanwhile, ended
        // the run.
        0x94a7_4589_10c1_62bf,
        // An item that became blocked was neither resumed nor released.
        0x222c_35e7_521f_4348,
        // A claim expired while others were made, and two slots started with one item.
        0x4d91_e255_fc72_c656,
        // Slots that ended after the end of another could not be recorded were ended again.
        0xc21d_78ba_0f68_8a81,
    ] {
        both(Seed(seed), &mut Seed(seed).dice());
    }
}

/// A closed item has passed, whatever fails when its slot is resumed.
#[test]
fn an_item_closed_before_a_crash_has_passed() {
    let passes = |setup: &Setup| {
        let summary = play(setup, &SlotFaults::none(setup)).summary;
        summary.finish == ("iterations".to_owned(), 1, 1)
    };
    let setup = (0..).map(|seed| Setup::of_one_item(Seed(seed))).find(passes).unwrap();
    let alone = play(&setup, &SlotFaults::none(&setup));
    let through = |faults| {
        let mut slot_faults = SlotFaults::none(&setup);
        slot_faults.fault_plan.faults = faults;
        play(&setup, &slot_faults)
    };
    let order = |journal: &[u8]| {
        let text = String::from_utf8_lossy(journal).into_owned();
        ["queue.task.closed", "slot.run.resume", "\"outcome\": \"passed\""].map(|it| text.find(it))
    };
    let is_between = |call: &u64| order(&through(vec![Fault::Call(*call)]).journal).is_sorted();
    let calls = alone.needs.calls.total();
    let call = (1..=calls).rev().find(is_between).expect("a crash between close and finish");
    for op in [Op::Open, Op::Read, Op::Lock, Op::Stat] {
        for k in 1..=40 {
            let faults = vec![Fault::Call(call), Fault::Failing(vec![(op, k, EIO)])];
            assert_eq!(through(faults).summary, alone.summary, "{op:?} {k}");
        }
    }
}

#[test]
fn a_seed_gives_the_same_bytes_twice() {
    simulate_at_once("bytes of slots", 50, |seed, _| {
        let bytes = || both(seed, &mut seed.dice()).map(|run| run.journal);
        assert!(bytes() == bytes(), "not the same bytes");
    });
}
