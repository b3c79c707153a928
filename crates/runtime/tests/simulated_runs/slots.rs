//! Whole runs over a queue in virtual time: generated items and agents, on a disk that dies anywhere, with
//! others who use the same queue, taken up until they end.
//!
//! As for [loops](crate), every seed is carried out twice, once left alone and once disturbed, and every
//! record is [judged](judge). Where nobody else uses the queue, both come to the same: the same items in
//! the same slots, with the same reviews, fixes and outcomes, and the same end.

#[path = "slots/agent.rs"]
mod agent;
#[path = "slots/judge.rs"]
mod judge;
#[path = "slots/ledger.rs"]
mod ledger;
#[path = "slots/others.rs"]
mod others;
#[path = "slots/part.rs"]
mod part;
#[path = "slots/play.rs"]
mod play;
#[path = "slots/queue.rs"]
mod queue;
#[path = "slots/said.rs"]
mod said;
#[path = "slots/seat.rs"]
mod seat;
#[path = "slots/setup.rs"]
mod setup;
#[path = "slots/stage.rs"]
mod stage;
#[path = "slots/witness.rs"]
mod witness;

use std::collections::BTreeMap;
use std::sync::Mutex;

use autoloop_testkit::sandbox::tell;
use autoloop_testkit::{Dice, Seed, all_seeds_run, simulate_at_once};

use self::play::{Ordeal, Played, play};
use self::setup::Setup;
use crate::setup::Redo;

/// Each is carried out twice.
const SEEDS: u64 = 1_050;

/// What was seen.
#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    cuts: u64,
    records: u64,
    comparable: u64,
    /// How many had a second run beside them.
    with_second: u64,
    resumed: u64,
    /// How many items were taken away from slots.
    lost: u64,
    agents: u64,
    endings: BTreeMap<String, u64>,
    outcomes: BTreeMap<String, u64>,
}

impl Tally {
    fn count(&mut self, played: &Played) {
        self.runs += 1;
        self.cuts += played.cuts;
        self.records += played.records;
        self.comparable += u64::from(played.redo == Redo::Same);
        self.with_second += u64::from(played.has_second);
        self.resumed += played.resumed;
        self.lost += played.lost;
        self.agents += played.needs.agents;
        *self.endings.entry(played.tale.finish.0.clone()).or_default() += 1;
        for (_, _, outcome, _, _) in &played.tale.slots {
            *self.outcomes.entry(outcome.clone()).or_default() += 1;
        }
    }
}

/// A run that nothing befell, and the same one with all that befell it.
fn both(seed: Seed, dice: &mut Dice) -> [Played; 2] {
    let setup = Setup::any(seed, dice);
    let alone = play(&setup, &Ordeal::none(&setup));
    let ordeal = Ordeal::any(dice, &setup, &alone.needs);
    let disturbed = play(&setup, &ordeal);
    if disturbed.redo == Redo::Same {
        assert_eq!(disturbed.tale, alone.tale, "{ordeal:?}");
    }
    [alone, disturbed]
}

#[test]
fn a_queue_is_worked_off_whatever_befalls() {
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
        assert!(tally.with_second >= 200 && tally.lost >= 80, "{tally:?}");
        assert_eq!((tally.endings.len(), tally.outcomes.len()), (3, 5), "{tally:?}");
    }
}

/// Seeds that found something that was wrong.
#[test]
fn what_was_found_once_stays_right() {
    for seed in [
        // A spent item that was passed over, and that somebody else took meanwhile, ended the run.
        0x94a7_4589_10c1_62bf,
        // An item that had to wait for another by now was neither taken up again nor given back.
        0x222c_35e7_521f_4348,
        // A claim ran out while others were made, and two slots began with one item.
        0x4d91_e255_fc72_c656,
        // Slots that ended after another could not be put on record were ended again.
        0xc21d_78ba_0f68_8a81,
    ] {
        both(Seed(seed), &mut Seed(seed).dice());
    }
}

#[test]
fn a_seed_gives_the_same_bytes_twice() {
    simulate_at_once("bytes of slots", 50, |seed, _| {
        let bytes = || both(seed, &mut seed.dice()).map(|run| run.journal);
        assert!(bytes() == bytes(), "not the same bytes");
    });
}
