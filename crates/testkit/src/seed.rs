//! Seeds, and the random numbers derived from them.

use std::env;
use std::fmt;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The number that determines a whole simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(pub u64);

impl Seed {
    /// The dice of this seed.
    pub fn dice(self) -> Dice {
        Dice { state: self.0 }
    }

    /// Parses `0x1f` or `31`.
    fn parse(text: &str) -> Option<Seed> {
        let text = text.trim();
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        number.ok().map(Seed)
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A deterministic random number generator: a counter with a large odd step, whose bits are mixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number from 0 to `limit`, exclusive; 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        let scaled = (u128::from(self.number()) * u128::from(limit)) >> 64;
        u64::try_from(scaled).expect("a product shifted by 64 bits has at most 64 left")
    }

    /// An index below `len`; 0 if `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        let limit = u64::try_from(len).expect("no memory has more than 2^64 bytes");
        usize::try_from(self.below(limit)).expect("it is below a usize")
    }

    /// True with a probability of `wins` in `of`.
    pub fn chance(&mut self, wins: u64, of: u64) -> bool {
        self.below(of) < wins
    }

    /// One of the choices.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        assert!(!choices.is_empty(), "nothing to pick from");
        &choices[self.index(choices.len())]
    }

    /// Fills the whole slice.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.number().to_le_bytes()[..chunk.len()]);
        }
    }

    /// That many bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }

    /// Separate dice for a part of the simulation, so that its number of draws does not affect the
    /// other parts.
    pub fn fork(&mut self) -> Dice {
        Seed(self.number()).dice()
    }
}

/// Spreads every bit of the input over the whole output.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Whether simulations run all of their seeds, not only those that the environment selects.
pub fn all_seeds_run() -> bool {
    env::var_os("AUTOLOOP_SEED").is_none() && env::var_os("AUTOLOOP_SEEDS").is_none()
}

/// Runs a simulation with `count` different seeds, the same ones every time.
///
/// Counts of what the seeds covered mean something only when [`all_seeds_run`].
///
/// A panic in it is passed on after a line on standard error that names the seed. `AUTOLOOP_SEED`
/// runs one seed only; `AUTOLOOP_SEEDS` says how many to run.
///
/// # Panics
///
/// When the simulation does, or when one of the two variables holds something else than a number.
pub fn simulate(name: &str, count: u64, simulation: impl FnMut(Seed, &mut Dice)) {
    run(name, wanted_seeds(name, count), simulation, tell);
}

/// Like [`simulate`], on all cores at once. The seeds are the same ones every time, their order is not.
///
/// # Panics
///
/// Like [`simulate`], once every core is done with the seed that it is at.
pub fn simulate_at_once(name: &str, count: u64, simulation: impl Fn(Seed, &mut Dice) + Sync) {
    let seeds = wanted_seeds(name, count);
    let next = AtomicUsize::new(0);
    let work = || {
        let mine = std::iter::from_fn(|| seeds.get(next.fetch_add(1, Ordering::Relaxed)).copied());
        let once = AssertUnwindSafe(|| run(name, mine, &simulation, tell));
        catch_unwind(once).inspect_err(|_| next.store(seeds.len(), Ordering::Relaxed))
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let panics: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ends = workers.into_iter().map(|worker| worker.join().and_then(|end| end));
        ends.filter_map(Result::err).collect()
    });
    if let Some(panic) = panics.into_iter().next() {
        resume_unwind(panic);
    }
}

#[expect(clippy::print_stderr, reason = "the seed is told to the person who runs the test")]
fn tell(line: &str) {
    eprintln!("{line}");
}

/// The seeds that the environment selects, or else the usual ones.
fn wanted_seeds(name: &str, count: u64) -> Vec<Seed> {
    let only = env::var("AUTOLOOP_SEED").ok();
    let many = env::var("AUTOLOOP_SEEDS").ok();
    seeds(name, count, Wanted { only: only.as_deref(), many: many.as_deref() })
}

/// What the environment selects.
#[derive(Clone, Copy, Default)]
struct Wanted<'a> {
    only: Option<&'a str>,
    many: Option<&'a str>,
}

fn seeds(name: &str, count: u64, wanted: Wanted<'_>) -> Vec<Seed> {
    if let Some(text) = wanted.only {
        let seed = Seed::parse(text);
        return vec![seed.unwrap_or_else(|| panic!("AUTOLOOP_SEED is not a number: {text:?}"))];
    }
    let count = wanted.many.map_or(count, |text| {
        text.trim().parse().unwrap_or_else(|_| panic!("AUTOLOOP_SEEDS is not a number: {text:?}"))
    });
    // Each name has its own seeds, so that two simulations do not repeat the same worlds.
    let start = name.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
    let mut dice = Seed(start).dice();
    (0..count).map(|_| Seed(dice.number())).collect()
}

fn run(
    name: &str,
    seeds: impl IntoIterator<Item = Seed>,
    mut simulation: impl FnMut(Seed, &mut Dice),
    mut say: impl FnMut(&str),
) {
    for seed in seeds {
        let once = AssertUnwindSafe(|| simulation(seed, &mut seed.dice()));
        if let Err(panic) = catch_unwind(once) {
            say(&format!(
                "simulation {name:?} failed with seed {seed}; \
                 rerun only it with AUTOLOOP_SEED={seed}"
            ));
            resume_unwind(panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same_dice() {
        let throw = |seed: u64| {
            let mut dice = Seed(seed).dice();
            (dice.number(), dice.bytes(13), dice.below(1000), dice.fork().number())
        };
        assert_eq!(throw(7), throw(7));
        assert_ne!(throw(7), throw(8));
    }

    #[test]
    fn throws_stay_within_their_limits_and_reach_them() {
        let mut dice = Seed(1).dice();
        let mut seen = [0; 5];
        for _ in 0..500 {
            seen[dice.index(5)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
        assert_eq!(dice.below(0), 0);
        assert_eq!(dice.below(1), 0);
        assert!((0..100).all(|_| dice.chance(3, 3) && !dice.chance(0, 3)));
        assert!([4, 5].contains(dice.pick(&[4, 5])));
    }

    #[test]
    fn a_failing_simulation_names_its_seed_and_still_fails() {
        let seeds = seeds("torn", 5, Wanted::default());
        let bad = seeds[3];
        let mut said = Vec::new();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            run(
                "torn",
                seeds,
                |seed, _| assert_ne!(seed, bad, "this one"),
                |line| said.push(line.to_owned()),
            );
        }));
        let panic = outcome.unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("this one"));
        assert_eq!(
            said,
            [format!(
                "simulation \"torn\" failed with seed {bad}; \
                 rerun only it with AUTOLOOP_SEED={bad}"
            )]
        );
    }

    #[test]
    fn at_once_every_seed_runs_once_and_a_failure_still_fails() {
        let count = |bad: Option<Seed>| {
            let ran = std::sync::Mutex::new(Vec::new());
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                simulate_at_once("at once", 40, |seed, _| {
                    ran.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(seed);
                    assert_ne!(Some(seed), bad, "this one");
                });
            }));
            let mut ran: Vec<_> =
                ran.into_inner().unwrap().into_iter().map(|seed: Seed| seed.0).collect();
            ran.sort_unstable();
            (outcome.is_ok(), ran)
        };
        let mut all: Vec<_> = wanted_seeds("at once", 40).iter().map(|seed| seed.0).collect();
        let bad = Seed(all[0]);
        all.sort_unstable();
        assert_eq!(count(None), (true, all));
        assert!(!count(Some(bad)).0);
    }

    #[test]
    fn the_printed_seed_runs_the_same_world_again() {
        let all = seeds("torn", 3, Wanted::default());
        let printed = all[2].to_string();
        let only = seeds("torn", 3, Wanted { only: Some(&printed), many: Some("9") });
        assert_eq!(only, [all[2]]);
        assert_eq!(seeds("torn", 3, Wanted { only: Some("31"), many: None }), [Seed(0x1f)]);
    }

    #[test]
    fn the_count_can_be_raised_and_keeps_the_first_seeds() {
        let few = seeds("torn", 3, Wanted::default());
        let many = seeds("torn", 3, Wanted { only: None, many: Some("9") });
        assert_eq!(many.len(), 9);
        assert_eq!(many[..3], few);
        assert_ne!(seeds("whole", 3, Wanted::default()), few);
    }

    #[test]
    #[should_panic(expected = "AUTOLOOP_SEED is not a number: \"0xzz\"")]
    fn a_seed_that_is_no_number_is_refused() {
        seeds("torn", 3, Wanted { only: Some("0xzz"), many: None });
    }

    #[test]
    fn a_simulation_that_holds_runs_every_seed_in_silence() {
        let mut count = 0;
        run(
            "whole",
            seeds("whole", 8, Wanted::default()),
            |_, _| count += 1,
            |line| panic!("{line}"),
        );
        assert_eq!(count, 8);
    }
}
