//! Many agents at once under one limit, with usage that is reported exactly, late, not at all or absurdly: checked
//! at every start and every end.

#![expect(
    clippy::print_stderr,
    reason = "how far limits were exceeded is told to the person who runs the test"
)]

use std::collections::BTreeMap;

use autoloop_core::agents::Dollars;
use autoloop_core::limits::{Amounts, Ledger, Limits, RunLimits, Start, USUAL};
use autoloop_core::record::{
    Amount, BackendUsage, Event, Phase, SlotFix, SlotImplement, SlotPhase, SlotReview,
    SlotRunResume, SlotRunStart,
};
use autoloop_core::timestamp::Timestamp;
use autoloop_testkit::{Dice, simulate, simulate_at_once};

const AGENTS: u64 = 64;
/// `AUTOLOOP_SEEDS=10000` runs ten times as many.
const RUNS: u64 = 1_000;
/// More than any run has.
const STEPS: usize = 100_000;
const PHASES: [Phase; 3] = [Phase::Implement, Phase::Review, Phase::Fix];
/// The smallest and the largest cost of a turn, in thousandths of a dollar.
const COSTS: [u64; 2] = [1, 4_000];
fn now() -> Timestamp {
    Timestamp::from_millis(0)
}

/// A turn under way, and what was granted for it.
#[derive(Clone, Copy)]
struct Turn {
    phase: Phase,
    granted: Amounts,
}

struct Model {
    ledger: Ledger,
    limits: RunLimits,
    open: BTreeMap<u64, Turn>,
    /// What agents report after their turn was recorded.
    late: Vec<BackendUsage>,
    /// What agents reported that can be true.
    reported: Amounts,
    /// What turns may still add to what is taken: the most that one can, for each that is not settled.
    most: Amounts,
    is_exact: bool,
    starts: u64,
}

fn thousandths(amount: u64) -> Dollars {
    Dollars(amount * 1_000_000)
}

fn sum(amounts: impl Iterator<Item = Amounts>) -> Amounts {
    amounts.fold(Amounts::default(), Amounts::plus)
}

impl Model {
    fn new(dice: &mut Dice, is_exact: bool) -> Model {
        let limits = Limits {
            cost: Some(thousandths(200 + dice.below(100_000))),
            tokens: dice.chance(1, 2).then(|| 1_000 + dice.below(5_000_000)),
            runtime: None,
        };
        let mut ledger = Ledger::default();
        ledger.apply_event(Event::SlotRunStart(SlotRunStart::default()), Some(now()));
        let most = Amounts { cost: thousandths(COSTS[1]), tokens: COSTS[1] * 100 };
        let most = if is_exact {
            most
        } else {
            Amounts { cost: most.cost.max(USUAL.cost), tokens: most.tokens.max(USUAL.tokens) }
        };
        Model {
            ledger,
            limits: RunLimits { run: limits, ..RunLimits::default() },
            open: BTreeMap::new(),
            late: Vec::new(),
            reported: Amounts::default(),
            most,
            is_exact,
            starts: 0,
        }
    }

    fn apply(&mut self, event: Event<'_>) {
        self.ledger.apply_event(event, Some(now()));
    }

    /// Starts a turn if the ledger grants it; returns whether it did.
    fn start(&mut self, slot: u64, phase: Phase) -> bool {
        let start = Start { lane: slot.to_string(), step: phase.name().to_owned() };
        let Ok(granted) = self.ledger.reserve(&start, &self.limits, now()) else { return false };
        assert!(granted.cost.0 > 0 && granted.tokens > 0, "no turn is free");
        self.open.insert(slot, Turn { phase, granted });
        let all = self.ledger.taken.plus(sum(self.open.values().map(|turn| turn.granted)));
        let Limits { cost, tokens, .. } = self.limits.run;
        assert!(cost.is_none_or(|cost| all.cost <= cost), "{all:?} of {cost:?}");
        assert!(tokens.is_none_or(|tokens| all.tokens <= tokens), "{all:?} of {tokens:?}");
        self.starts += 1;
        self.apply(Event::SlotPhase(SlotPhase {
            slot,
            phase: phase.into(),
            ..SlotPhase::default()
        }));
        true
    }

    fn end(&mut self, slot: u64, dice: &mut Dice) {
        let Some(turn) = self.open.remove(&slot) else { return };
        let most = COSTS[1] >> dice.below(11);
        let thousands = COSTS[0] + dice.below(most).min(COSTS[1] - COSTS[0]);
        let tokens = thousands * 100;
        let usage = BackendUsage {
            input_tokens: Amount(tokens),
            total_tokens: Amount(tokens),
            cost_usd: Some(thousandths(thousands)),
            role: Some(turn.phase.name().to_owned()),
            ..BackendUsage::default()
        };
        let count = |usage: &BackendUsage| Amounts {
            cost: usage.cost_usd.unwrap_or_default(),
            tokens: usage.total_tokens.0,
        };
        match if self.is_exact { 0 } else { dice.below(6) } {
            0..3 => {
                self.reported = self.reported.plus(count(&usage));
                self.apply(Event::BackendUsage(usage));
            }
            3 => {
                self.reported = self.reported.plus(count(&usage));
                self.late.push(usage);
            }
            4 => {}
            _ => {
                let (cost, tokens) = *dice.pick(&[
                    (Some(Dollars(u64::MAX)), u64::MAX),
                    (Some(Dollars(u64::MAX)), 0),
                    (None, u64::MAX),
                    (None, 0),
                    (Some(Dollars(0)), 0),
                ]);
                self.apply(Event::BackendUsage(BackendUsage {
                    cost_usd: cost,
                    input_tokens: Amount(tokens),
                    total_tokens: Amount(tokens),
                    ..usage
                }));
            }
        }
        self.apply(match turn.phase {
            Phase::Review => Event::SlotReview(SlotReview { slot, ..SlotReview::default() }),
            Phase::Fix => Event::SlotFix(SlotFix { slot, ..SlotFix::default() }),
            _ => Event::SlotImplement(SlotImplement { slot, ..SlotImplement::default() }),
        });
    }

    /// How far the run may be above its limits: what turns took beyond what was granted for them.
    fn judge_end(&self, unsettled: &[Amounts]) {
        let Amounts { cost, tokens } = self.ledger.taken;
        assert!(cost >= self.reported.cost && tokens >= self.reported.tokens, "a report was lost");
        if self.is_exact {
            assert_eq!(self.ledger.taken, self.reported);
        }
        let beyond = |most: u64, granted: u64| most.saturating_sub(granted);
        let above = unsettled.iter().fold(Amounts::default(), |above, granted| {
            above.plus(Amounts {
                cost: Dollars(beyond(self.most.cost.0, granted.cost.0)),
                tokens: beyond(self.most.tokens, granted.tokens),
            })
        });
        let limits = self.limits.run;
        let most = limits.cost.map(|limit| limit.0 + above.cost.0);
        assert!(most.is_none_or(|most| cost.0 <= most), "{cost:?} of {limits:?} and {above:?}");
        let most = limits.tokens.map(|limit| limit + above.tokens);
        assert!(most.is_none_or(|most| tokens <= most), "{tokens} of {limits:?} and {above:?}");
    }
}

fn carry_out(dice: &mut Dice, is_exact: bool) -> Model {
    let mut model = Model::new(dice, is_exact);
    // What was granted for the turns that were not settled when the last one started.
    let mut unsettled: Vec<Amounts> = Vec::new();
    let mut refused = 0;
    for step in 0.. {
        assert!(step < STEPS, "it never ends");
        let slot = dice.below(AGENTS);
        if !model.late.is_empty() && dice.chance(1, 4) {
            let usage = model.late.remove(dice.index(model.late.len()));
            model.apply(Event::BackendUsage(usage));
        } else if model.open.contains_key(&slot) {
            model.end(slot, dice);
            refused = 0;
        } else if model.start(slot, *dice.pick(&PHASES)) {
            refused = 0;
            let late = model.late.iter().map(|_| Amounts::default());
            unsettled = model.open.values().map(|turn| turn.granted).chain(late).collect();
        } else {
            refused += 1;
        }
        if refused > 20 && model.open.is_empty() {
            break;
        }
        if !is_exact && dice.chance(1, 500) {
            // A crash: what was under way is charged, and nothing is running.
            model.apply(Event::SlotRunResume(SlotRunResume::default()));
            model.open.clear();
        }
    }
    for usage in std::mem::take(&mut model.late) {
        model.apply(Event::BackendUsage(usage));
    }
    model.judge_end(&unsettled);
    model
}

#[test]
fn a_limit_holds_for_many_agents_at_once() {
    simulate_at_once("limits", RUNS, |_, dice| {
        let is_exact = dice.chance(1, 3);
        carry_out(dice, is_exact);
    });
}

/// Where turns take what similar ones took, nothing is ever above the limit.
#[test]
fn turns_that_are_alike_never_exceed_a_limit() {
    let mut starts = 0;
    simulate("limits of equal turns", 100, |_, dice| {
        let mut model = Model::new(dice, true);
        let cost = COSTS[0] + dice.below(900);
        let limit = model.limits.run.cost.map_or(0, |limit| limit.0);
        for _ in 0..3_000 {
            let slot = dice.below(AGENTS);
            match model.open.remove(&slot) {
                None => drop(model.start(slot, Phase::Implement)),
                Some(turn) => {
                    model.apply(Event::BackendUsage(BackendUsage {
                        cost_usd: Some(thousandths(cost)),
                        input_tokens: Amount(1),
                        total_tokens: Amount(1),
                        role: Some(turn.phase.name().to_owned()),
                        ..BackendUsage::default()
                    }));
                    let end = SlotImplement { slot, ..SlotImplement::default() };
                    model.apply(Event::SlotImplement(end));
                }
            }
            assert!(model.ledger.taken.cost.0 <= limit.max(thousandths(cost).0), "{limit}");
        }
        starts += model.starts;
    });
    eprintln!("{starts} turns started");
}
