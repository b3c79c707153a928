//! Whole loops in virtual time: generated agents, on a disk that crashes anywhere, resumed until
//! they end.
//!
//! A seed makes a loop (settings, roles, handoffs), its agents, and its faults: power cuts and
//! kills at any byte, call and sync, full disks, failing calls, short writes, interruptions, and
//! other processes that write to the journal. Agents emit through the socket and past it, leave
//! torn lines, forge, remember, edit the files of the loop or break them, fail, hang, and
//! disappear. Some request waves or chains, valid or not, and some loops are the steps of a chain.
//!
//! After every call to the disk a [witness](witness) reads the journal and has each new record
//! [judged](judge), by a model of the rules that shares nothing with the driver: the record is
//! allowed at its place, and it is true. The rules [of waves](wave), [of chains](chain) and
//! [between runs](family) are files of their own, and so are those of [chains that runs
//! request](spawns). No agent is started before its start is durable. A harness that dies is
//! followed by another one, until the run has ended. [Slots](slots) have their own agents, rules
//! and judge.
//!
//! # What is equal
//!
//! Every seed is carried out twice, once undisturbed and once with faults. What an agent does is a
//! function of the seed and the iteration (or review) that it is started for, never of how often
//! that was tried before. The two runs must agree in
//!
//! - how the run ended,
//! - the iterations that finished, in order: the event that routed each, the events accepted in it,
//!   its exit, whether it promised completion, and whether something in it was refused,
//! - the iterations that had a review before them,
//! - the events that were seen, and the one that routes,
//! - how the branches of each wave ended, and each branch by all of this,
//! - how the chain ended, or the requested ones, and each of the steps by all of this,
//! - what is remembered.
//!
//! The journals differ. A crashed iteration is there twice, with the events of both attempts; the
//! second start makes the first attempt void, for the harness and for every view. Refusals in it
//! stay recorded. Memory is not written twice, because these agents check first. A run that failed
//! is resumed once more at the end, which retries the failed iteration with the same result.
//!
//! Some runs cannot be equal, and are only judged. An agent that changes the handoffs or the review
//! cadence and then crashes is started again under its own new rules. A failed step of a chain is
//! retried when the chain is resumed, and takes its time again. With `journal.sync = "never"` a
//! power cut may undo iterations whose edits to files it does not undo. And an iteration during
//! which another process forges records differs from an undisturbed one.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "simulated_runs/agent.rs"]
mod agent;
#[path = "simulated_runs/chain.rs"]
mod chain;
#[path = "simulated_runs/chain_request.rs"]
mod chain_request;
#[path = "simulated_runs/chained.rs"]
mod chained;
#[path = "simulated_runs/family.rs"]
mod family;
#[path = "simulated_runs/fault_plan.rs"]
mod fault_plan;
#[path = "simulated_runs/judge.rs"]
mod judge;
#[path = "simulated_runs/memory.rs"]
mod memory;
#[path = "simulated_runs/open.rs"]
mod open;
#[path = "simulated_runs/place.rs"]
mod place;
#[path = "simulated_runs/play.rs"]
mod play;
#[path = "simulated_runs/rules.rs"]
mod rules;
#[path = "simulated_runs/setup.rs"]
mod setup;
#[path = "simulated_runs/slots.rs"]
mod slots;
#[path = "simulated_runs/spawns.rs"]
mod spawns;
#[path = "simulated_runs/steps.rs"]
mod steps;
#[path = "simulated_runs/story.rs"]
mod story;
#[path = "simulated_runs/terms.rs"]
mod terms;
#[path = "simulated_runs/track.rs"]
mod track;
#[path = "simulated_runs/wave.rs"]
mod wave;
#[path = "simulated_runs/wave_request.rs"]
mod wave_request;
#[path = "simulated_runs/witness.rs"]
mod witness;

use std::collections::BTreeMap;
use std::sync::Mutex;

use autoloop_testkit::sandbox::tell;
use autoloop_testkit::{Dice, Moment, Seed, all_seeds_run, simulate_at_once};

use fault_plan::{Fault, FaultPlan};
use play::{Played, play};
use rules::Rules;
use setup::{Redo, Setup, Sync};

/// Each is carried out twice.
const SEEDS: u64 = 2_500;
const SEEDS_WITH_WAVES: u64 = 1_150;
const SEEDS_OF_CHAINS: u64 = 520;
const SEEDS_WITH_SPAWNS: u64 = 130;
/// What was counted.
#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    /// How many of them had waves, and how many waves there were.
    with_waves: u64,
    waves: u64,
    /// How many requested chains ended.
    spawned: u64,
    /// How many runs were parts of others.
    parts: u64,
    cuts: u64,
    records: u64,
    comparable: u64,
    endings: BTreeMap<String, u64>,
}

impl Tally {
    fn count(&mut self, played: &Played) {
        self.runs += 1;
        let waves = played.summary.waves();
        self.waves += waves;
        self.with_waves += u64::from(waves > 0);
        self.spawned += played.summary.chains();
        self.parts += played.summary.runs() - 1;
        self.cuts += played.cuts;
        self.records += played.records;
        self.comparable += u64::from(played.redo == Redo::Same);
        *self.endings.entry(played.summary.ending()).or_default() += 1;
    }
}

/// An undisturbed run, and the same one with faults.
fn both(setup: &Setup, dice: &mut Dice) -> [Played; 2] {
    let alone = play(setup, &FaultPlan::none(setup.seed));
    let fault_plan = FaultPlan::any(dice, setup.manners(), &alone.needs);
    let disturbed = play(setup, &fault_plan);
    if disturbed.redo == Redo::Same {
        assert_eq!(disturbed.summary, alone.summary, "{fault_plan:?}");
        assert_eq!(disturbed.memory, alone.memory, "{fault_plan:?}");
    }
    [alone, disturbed]
}

/// Plays many seeds, and counts what happened.
fn tally(name: &str, seeds: u64, any: fn(Seed, &mut Dice) -> Setup) -> Tally {
    let tally = Mutex::new(Tally::default());
    simulate_at_once(name, seeds, |seed, dice| {
        let runs = both(&any(seed, dice), dice);
        runs.iter().for_each(|run| tally.lock().unwrap().count(run));
    });
    let tally = tally.into_inner().unwrap();
    tell(&format!("{name}: {tally:?}"));
    tally
}

#[test]
fn a_run_that_crashed_ends_like_an_undisturbed_one() {
    let tally = tally("runs", SEEDS, Setup::any);
    if all_seeds_run() {
        assert!(tally.runs >= 2 * SEEDS && tally.cuts >= SEEDS, "{tally:?}");
        assert!(tally.comparable * 10 >= tally.runs * 8, "{tally:?}");
        assert_eq!(tally.endings.len(), 5, "{tally:?}");
    }
}

#[test]
fn a_wave_that_crashed_ends_like_an_undisturbed_one() {
    let tally = tally("waves", SEEDS_WITH_WAVES, Setup::with_waves);
    if all_seeds_run() {
        assert!(tally.with_waves >= 2_000 && tally.cuts >= SEEDS_WITH_WAVES, "{tally:?}");
        assert!(tally.comparable * 10 >= tally.runs * 8, "{tally:?}");
    }
}

#[test]
fn a_chain_that_crashed_ends_like_an_undisturbed_one() {
    let tally = tally("chains", SEEDS_OF_CHAINS, Setup::with_chain);
    if all_seeds_run() {
        assert!(tally.runs >= 1_000 && tally.cuts >= SEEDS_OF_CHAINS, "{tally:?}");
        assert!(tally.comparable * 10 >= tally.runs * 7, "{tally:?}");
        assert_eq!(tally.endings.len(), 3, "{tally:?}");
    }
}

#[test]
fn a_run_that_waited_for_a_chain_ends_as_if_nothing_had_been() {
    let tally = tally("spawns", SEEDS_WITH_SPAWNS, Setup::with_spawns);
    if all_seeds_run() {
        assert!(tally.spawned >= SEEDS_WITH_SPAWNS, "{tally:?}");
        assert!(tally.cuts >= SEEDS_WITH_SPAWNS, "{tally:?}");
        assert!(tally.comparable * 10 >= tally.runs * 7, "{tally:?}");
    }
}

/// Seeds that once found a defect.
#[test]
fn seeds_that_once_failed_pass() {
    type Any = fn(Seed, &mut Dice) -> Setup;
    let found: [(u64, Any); 4] = [
        // A power cut removed the results of earlier steps, and the step continued without them.
        (0x6ea7_547d_e7f7_1c2b, Setup::with_chain),
        // A forged event of the same moment was taken for the joined event, and the wave was joined
        // again.
        (0x4de5_6907_6b43_0cd5, Setup::with_waves),
        // A refused request revoked one that had been granted before.
        (0xd1ae_c1bb_be08_ab4d, Setup::with_waves),
        (0x716b_74ff_0364_9ba9, Setup::with_waves),
    ];
    for (seed, any) in found {
        let mut dice = Seed(seed).dice();
        both(&any(Seed(seed), &mut dice), &mut dice);
    }
}

#[test]
fn a_promise_in_a_long_output_is_kept_over_a_crash() {
    let mut dice = Seed(0).dice();
    let mut setup = Setup::any(Seed(0), &mut dice);
    setup.rules = Rules { max: 2, required: Vec::new(), ..setup.rules };
    (setup.promise, setup.sync) = ("LOOP_COMPLETE", Sync::Always);
    (setup.is_loud, setup.forges, setup.edits) = (true, false, false);
    let alone = play(&setup, &FaultPlan::none(setup.seed));
    assert_eq!(alone.summary.ending(), "loop.complete completion_promise");
    // The last sync is that of the ending, the one before it that of the iteration.
    let syncs = alone.needs.calls.syncs();
    let faults = vec![Fault::Sync(syncs - 1, Moment::AfterEffect)];
    let cut = play(&setup, &FaultPlan { faults, ..FaultPlan::none(setup.seed) });
    assert_eq!((cut.cuts, cut.summary), (1, alone.summary));
}

#[test]
fn a_seed_gives_the_same_bytes_twice() {
    simulate_at_once("bytes", 50, |seed, _| {
        for any in [Setup::any, Setup::with_waves, Setup::with_chain, Setup::with_spawns] {
            let bytes = || {
                let mut dice = seed.dice();
                both(&any(seed, &mut dice), &mut dice).map(|run| (run.journal, run.memory))
            };
            assert!(bytes() == bytes(), "not the same bytes");
        }
    });
}
