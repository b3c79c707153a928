//! What a run may take: limits on cost, tokens and time, and the ledger of what its turns took.
//!
//! [`Ledger`] is a fold of the records of a run. [`Ledger::reserve`] decides whether a turn may start: only if what
//! the run has taken, what the turns under way are expected to take and what this one is expected to take stay
//! within the limits together. What a turn takes is known when it has ended; until then it is estimated by the
//! largest turn of the same step.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::agents::{Dollars, Usage, prices};
use crate::config::Key;
use crate::duration;
use crate::record::{
    BackendUsage, Event, Glance, Phase, Side, SlotsEnd, StopReason, WaveBranchStart,
};
use crate::timestamp::Timestamp;

/// What a turn is taken to cost where no turn of the run has a known cost.
pub const USUAL: Amounts = Amounts { cost: Dollars(1_000_000_000), tokens: 200_000 };
/// A client that reports more for one turn has miscounted: the turn counts as one of unknown cost.
const MOST: Amounts = Amounts { cost: Dollars(10_000_000_000_000), tokens: 1_000_000_000 };
/// Before any turn of a run has ended, each one reserves this part of a limit, so that several turns that start
/// at once cannot all be surprises.
const FIRST_PART: u64 = 4;
/// Clocks of deadlines and of records differ a little.
const CLOCK_ERROR: Duration = Duration::from_secs(1);

/// Upper bounds; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub cost: Option<Dollars>,
    pub tokens: Option<u64>,
    pub runtime: Option<Duration>,
}

/// The limits of a run and of its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunLimits {
    pub run: Limits,
    pub iteration: Limits,
    pub slot: Limits,
    pub review: Limits,
    /// What counts against the limits of the run besides its own turns.
    pub earlier: Spent,
}

/// What the earlier steps of a chain took, whose steps share the limits of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub taken: Amounts,
    /// The most that one turn was reported to take.
    pub largest: Amounts,
    pub time: Duration,
}

impl RunLimits {
    /// What the limits of the run hold for.
    fn whole(&self) -> &'static str {
        if self.earlier == Spent::default() { "the run" } else { "the chain" }
    }
}

impl Spent {
    #[must_use]
    pub fn plus(self, other: Spent) -> Spent {
        Spent {
            taken: self.taken.plus(other.taken),
            largest: self.largest.max(other.largest),
            time: self.time.saturating_add(other.time),
        }
    }
}

/// What turns took, or are expected to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub cost: Dollars,
    pub tokens: u64,
}

impl Amounts {
    #[must_use]
    pub fn plus(self, other: Amounts) -> Amounts {
        Amounts {
            cost: Dollars(self.cost.0.saturating_add(other.cost.0)),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }

    #[must_use]
    fn minus(self, other: Amounts) -> Amounts {
        Amounts {
            cost: Dollars(self.cost.0.saturating_sub(other.cost.0)),
            tokens: self.tokens.saturating_sub(other.tokens),
        }
    }

    /// The larger one of each.
    #[must_use]
    fn max(self, other: Amounts) -> Amounts {
        Amounts { cost: self.cost.max(other.cost), tokens: self.tokens.max(other.tokens) }
    }

    /// These, with those of `other` where one is unknown.
    #[must_use]
    fn or(self, other: Amounts) -> Amounts {
        let either = |one: u64, other: u64| if one == 0 { other } else { one };
        Amounts {
            cost: Dollars(either(self.cost.0, other.cost.0)),
            tokens: either(self.tokens, other.tokens),
        }
    }

    /// What a client reports, as far as it can be true; 0 is unknown, because no turn is free. A cost that is
    /// missing follows from the tokens.
    pub fn reported(usage: &BackendUsage) -> Amounts {
        let parts = Usage {
            input: usage.input_tokens.0,
            output: usage.output_tokens.0,
            cache_read: usage.cache_read_tokens.0,
            cache_write: usage.cache_write_tokens.0,
            ..Usage::default()
        };
        let sum = [parts.output, parts.cache_read, parts.cache_write];
        let sum = sum.into_iter().fold(parts.input, u64::saturating_add);
        let total = usage.total_tokens.0.max(sum);
        let tokens = if total > MOST.tokens { 0 } else { total };
        let priced = || {
            let parts = if sum == 0 { Usage { input: total, ..parts } } else { parts };
            let cost = prices::estimate(&parts, usage.model.as_deref());
            if tokens == 0 { Dollars::default() } else { cost }
        };
        let is_possible = |cost: &Dollars| cost.0 > 0 && *cost <= MOST.cost;
        Amounts { cost: usage.cost_usd.filter(is_possible).unwrap_or_else(priced), tokens }
    }
}

/// What has limits of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Run,
    Iteration,
    Slot,
    Review,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Cost,
    Tokens,
    Runtime,
}

impl Limit {
    pub fn key(self, scope: Scope) -> Key {
        match (scope, self) {
            (Scope::Run, Limit::Cost) => Key::MaxCost,
            (Scope::Run, Limit::Tokens) => Key::MaxTokens,
            (Scope::Run, Limit::Runtime) => Key::MaxRuntime,
            (Scope::Iteration, Limit::Cost) => Key::IterationMaxCost,
            (Scope::Iteration, Limit::Tokens) => Key::IterationMaxTokens,
            (Scope::Iteration, Limit::Runtime) => Key::IterationMaxRuntime,
            (Scope::Slot, Limit::Cost) => Key::SlotMaxCost,
            (Scope::Slot, Limit::Tokens) => Key::SlotMaxTokens,
            (Scope::Slot, Limit::Runtime) => Key::SlotMaxRuntime,
            (Scope::Review, Limit::Cost) => Key::ReviewMaxCost,
            (Scope::Review, Limit::Tokens) => Key::ReviewMaxTokens,
            (Scope::Review, Limit::Runtime) => Key::ReviewMaxRuntime,
        }
    }

    pub fn stop_reason(self) -> StopReason {
        match self {
            Limit::Cost => StopReason::MaxCost,
            Limit::Tokens => StopReason::MaxTokens,
            Limit::Runtime => StopReason::MaxRuntime,
        }
    }

    pub fn slots_end(self) -> SlotsEnd {
        match self {
            Limit::Cost => SlotsEnd::MaxCost,
            Limit::Tokens => SlotsEnd::MaxTokens,
            Limit::Runtime => SlotsEnd::MaxRuntime,
        }
    }
}

/// How long a turn may run, and the setting of that limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLeft {
    pub time: Duration,
    pub key: Key,
}

/// A turn that is about to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Where one turn follows another: a slot, a branch, or the run itself.
    pub lane: String,
    /// What it is similar to: the roles of an iteration, or the phase of a slot.
    pub step: String,
}

/// A limit that lets no further turn start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    pub limit: Limit,
    /// What was taken, what would be taken, and the setting.
    pub detail: String,
    /// The flag that raises the limit enough for another turn.
    pub raise: String,
}

/// A turn under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Turn {
    step: String,
    /// What it was expected to take when it started.
    reserved: Amounts,
    /// Whether no turn of the run had ended by then.
    is_first: bool,
}

/// What the turns of a run took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Of ended turns, reported or estimated.
    pub taken: Amounts,
    /// The largest reported turn of each step, such as a role or a phase.
    largest: BTreeMap<String, Amounts>,
    /// Turns under way, by their lanes.
    open: BTreeMap<String, Turn>,
    /// What the current slot of a lane, or a loop of a squad, took, and for how long its turns ran.
    slots: BTreeMap<String, (Amounts, Duration)>,
    /// The most that one turn took that has limits of its own.
    most: BTreeMap<Scope, Amounts>,
    /// What the turn took that ends with the next record of an end.
    reported: Option<Amounts>,
    /// What was charged last for a turn of a step without a report, which may still come.
    estimated: BTreeMap<String, Amounts>,
    /// How long the run was carried out before it was resumed last.
    before: Duration,
    /// When it was begun or resumed last, and its last record.
    session: Option<(Timestamp, Timestamp)>,
}

impl Ledger {
    /// Applies a record of the run's own harness.
    pub fn apply(&mut self, record: &Glance<'_>) {
        if !record.has_payload() {
            let now = record.ts().and_then(|ts| ts.parse::<Timestamp>().ok());
            self.apply_event(record.event(), now);
        }
    }

    /// The same for what the record says, and when.
    pub fn apply_event(&mut self, event: Event<'_>, now: Option<Timestamp>) {
        match event {
            Event::LoopStart(_) | Event::SlotRunStart(_) | Event::SquadStart(_) => {
                self.session = now.map(|now| (now, now));
            }
            Event::LoopResume(_) | Event::SlotRunResume(_) | Event::SquadResume(_) => {
                self.resumed(now);
            }
            Event::IterationStart(start) => self.start("", &start.suggested_roles),
            Event::IterationFinish(end) => {
                self.finish("", Some(Scope::Iteration), could_start(end.exit_code.known()));
            }
            Event::ReviewStart(start) => self.start("", &start.kind),
            Event::ReviewFinish(end) => {
                self.finish("", Some(Scope::Review), could_start(end.exit_code.known()));
            }
            Event::SlotStart(start) => drop(self.slots.remove(&start.slot.to_string())),
            Event::SlotPhase(phase) if phase.phase != Phase::Merge => {
                self.start(&phase.slot.to_string(), phase.phase.as_str());
            }
            Event::SlotImplement(end) => self.finish_phase(end.slot, None, end.elapsed_ms),
            Event::SlotFix(end) => self.finish_phase(end.slot, None, end.elapsed_ms),
            Event::SlotReview(end) => {
                self.finish_phase(end.slot, Some(Scope::Review), end.elapsed_ms);
            }
            // Its last agent was ended before it could report anything.
            Event::SlotFinish(end) => self.charge_open(&end.slot.to_string()),
            // An exchange has no time of its own: it waits for commands.
            Event::ExchangePhase(phase) => self.start(phase.side.as_str(), phase.side.as_str()),
            Event::ExchangeReview(_) => {
                self.finish(Side::Reviewer.name(), Some(Scope::Review), true);
            }
            Event::ExchangeAuthor(_) => drop(self.finish(Side::Author.name(), None, true)),
            Event::SquadTurn(turn) => self.start(&turn.turn.to_string(), turn.phase.as_str()),
            Event::SquadTurnFinish(end) => {
                let lane = end.turn.to_string();
                let scope = match self.open.get(&lane).map(|turn| &*turn.step) {
                    Some("review" | "checkpoint") => Scope::Review,
                    _ => Scope::Iteration,
                };
                let taken = self.finish(&lane, Some(scope), could_start(end.exit_code.known()));
                if let Some(id) = end.loop_id {
                    self.add_to_slot(id, taken, end.elapsed_ms);
                }
            }
            Event::SquadCost(cost) => {
                let cost = cost.cost_usd.min(MOST.cost);
                self.taken = self.taken.plus(Amounts { cost, tokens: 0 });
            }
            Event::WaveBranchStart(start) => {
                let Start { lane, step } = branch(&start);
                self.start(&lane, &step);
            }
            Event::WaveBranchFinish(end) => {
                let lane = branch_lane(&end.wave_id, &end.branch_id);
                let cost = end.cost_usd.unwrap_or_default();
                let taken = Amounts { cost, tokens: end.tokens.unwrap_or_default().0 };
                if taken != Amounts::default() {
                    let turn = self.open.get(&lane).cloned().unwrap_or_default();
                    self.report(&turn.step, taken);
                }
                self.finish(&lane, Some(Scope::Iteration), true);
            }
            Event::BackendUsage(usage) => {
                self.report(usage.role.as_deref().unwrap_or_default(), Amounts::reported(&usage));
            }
            _ => {}
        }
        if let (Some((_, last)), Some(now)) = (&mut self.session, now) {
            *last = now.max(*last);
        }
    }

    /// What a client reported of the turn that ends with the next record of an end: a harness appends both at once,
    /// so that turns of several slots are not mixed up. A report that comes late replaces the estimate.
    fn report(&mut self, step: &str, reported: Amounts) {
        let taken = reported.or(self.estimate(step));
        let largest = self.largest.entry(step.to_owned()).or_default();
        *largest = largest.max(reported);
        if self.open.values().any(|turn| turn.step == step) {
            self.reported = Some(taken);
        } else if let Some(estimate) = self.estimated.remove(step) {
            self.taken = self.taken.minus(estimate);
        }
        self.taken = self.taken.plus(taken);
    }

    fn start(&mut self, lane: &str, step: &str) {
        self.reported = None;
        self.charge_open(lane);
        let turn = self.turn(step);
        self.open.insert(lane.to_owned(), turn);
    }

    /// A turn that starts now.
    fn turn(&self, step: &str) -> Turn {
        let is_first = self.taken == Amounts::default() && self.largest.is_empty();
        Turn { step: step.to_owned(), reserved: self.estimate(step), is_first }
    }

    fn finish(&mut self, lane: &str, scope: Option<Scope>, could_start: bool) -> Amounts {
        let Some(Turn { step, .. }) = self.open.remove(lane) else { return Amounts::default() };
        let taken = match self.reported.take() {
            Some(taken) => taken,
            None if !could_start => Amounts::default(),
            None => self.charge(&step),
        };
        if let Some(scope) = scope {
            let most = self.most.entry(scope).or_default();
            *most = most.max(taken);
        }
        taken
    }

    fn finish_phase(&mut self, slot: u64, scope: Option<Scope>, elapsed_ms: u64) {
        let lane = slot.to_string();
        let taken = self.finish(&lane, scope, true);
        self.add_to_slot(lane, taken, elapsed_ms);
    }

    fn add_to_slot(&mut self, slot: String, taken: Amounts, elapsed_ms: u64) {
        let (amounts, time) = self.slots.entry(slot).or_default();
        *amounts = amounts.plus(taken);
        *time = time.saturating_add(Duration::from_millis(elapsed_ms));
    }

    /// A turn that was begun and never ended took something all the same.
    fn charge_open(&mut self, lane: &str) {
        if let Some(turn) = self.open.remove(lane) {
            self.charge(&turn.step);
        }
    }

    fn charge(&mut self, step: &str) -> Amounts {
        let estimate = self.estimate(step);
        self.taken = self.taken.plus(estimate);
        self.estimated.insert(step.to_owned(), estimate);
        estimate
    }

    /// A branch of a wave is resumed with the run, and counts its own turns.
    fn resumed(&mut self, now: Option<Timestamp>) {
        self.reported = None;
        let lanes: Vec<String> =
            self.open.keys().filter(|lane| !lane.contains('/')).cloned().collect();
        lanes.iter().for_each(|lane| self.charge_open(lane));
        if let Some((began, last)) = self.session {
            self.before = self.before.saturating_add(between(began, last));
        }
        self.session = now.map(|now| (now, now));
    }

    /// What a turn of a step is expected to take: the most that such a turn took, else any turn.
    fn estimate(&self, step: &str) -> Amounts {
        let of_step = self.largest.get(step).copied().unwrap_or_default();
        let of_any = self.largest.values().copied().fold(Amounts::default(), Amounts::max);
        of_step.or(of_any).or(USUAL)
    }

    /// Whether a client reported anything.
    pub fn is_reported(&self) -> bool {
        !self.largest.is_empty()
    }

    /// How long the run has been carried out.
    pub fn runtime(&self, now: Timestamp) -> Duration {
        let session = self.session.map_or(Duration::ZERO, |(began, _)| between(began, now));
        self.before.saturating_add(session)
    }

    /// What the run took by its last record.
    pub fn spent(&self) -> Spent {
        let last = self.session.map_or(Duration::ZERO, |(began, last)| between(began, last));
        Spent {
            taken: self.taken,
            largest: self.largest.values().copied().fold(Amounts::default(), Amounts::max),
            time: self.before.saturating_add(last),
        }
    }

    /// How long a turn that begins now may run: the shortest of the limits of these scopes.
    pub fn time_left(
        &self,
        lane: &str,
        scopes: &[Scope],
        limits: &RunLimits,
        now: Timestamp,
    ) -> Option<TimeLeft> {
        let left = |scope: Scope| {
            let (limit, used) = match scope {
                Scope::Run => (limits.run.runtime?, self.whole_runtime(limits, now)),
                Scope::Iteration => (limits.iteration.runtime?, Duration::ZERO),
                Scope::Review => (limits.review.runtime?, Duration::ZERO),
                Scope::Slot => (limits.slot.runtime?, self.slot(lane).1),
            };
            Some(TimeLeft { time: limit.saturating_sub(used), key: Limit::Runtime.key(scope) })
        };
        scopes.iter().filter_map(|scope| left(*scope)).min_by_key(|left| left.time)
    }

    fn whole_runtime(&self, limits: &RunLimits, now: Timestamp) -> Duration {
        limits.earlier.time.saturating_add(self.runtime(now))
    }

    fn slot(&self, lane: &str) -> (Amounts, Duration) {
        self.slots.get(lane).copied().unwrap_or_default()
    }

    /// What the current slot of a lane, or a loop of a squad, took.
    pub fn taken_by(&self, lane: &str) -> Amounts {
        self.slot(lane).0
    }

    /// Whether the time of the run is up.
    pub fn is_late(&self, limits: &RunLimits, now: Timestamp) -> Option<Reached> {
        let limit = limits.run.runtime?;
        let used = self.whole_runtime(limits, now);
        (used.saturating_add(CLOCK_ERROR.min(limit / 20)) >= limit).then(|| Reached {
            limit: Limit::Runtime,
            detail: format!(
                "{} took {} of {} ({})",
                limits.whole(),
                duration::print_short(used),
                duration::print(limit),
                Key::MaxRuntime
            ),
            raise: more_time(Key::MaxRuntime, limit.max(used)),
        })
    }

    /// Decides whether a turn may start: what is taken and reserved stays within the limits of the run. Returns
    /// what is reserved for it until it ends.
    pub fn reserve(
        &self,
        start: &Start,
        limits: &RunLimits,
        now: Timestamp,
    ) -> Result<Amounts, Reached> {
        if let Some(reached) = self.exceeded(limits).or_else(|| self.is_late(limits, now)) {
            return Err(reached);
        }
        let others = self.open.iter().filter(|(lane, _)| **lane != start.lane);
        let taken = self.taken.plus(limits.earlier.taken);
        let taken = others.fold(taken, |sum, (_, turn)| sum.plus(self.reserved(turn, limits)));
        let next = self.reserved(&self.turn(&start.step), limits);
        check(limits.whole(), taken, next, &limits.run, Scope::Run).map_or(Ok(next), Err)
    }

    /// The limit that the run has gone beyond, whether or not another turn is to start.
    pub fn is_over(&self, limits: &RunLimits, now: Timestamp) -> Option<Reached> {
        let taken =
            || check(limits.whole(), self.taken, Amounts::default(), &limits.run, Scope::Run);
        self.exceeded(limits).or_else(|| self.is_late(limits, now)).or_else(taken)
    }

    /// The first turns of a list that may start together.
    pub fn admit<T>(
        &self,
        turns: Vec<T>,
        mut start: impl FnMut(&T) -> Start,
        limits: &RunLimits,
        now: Timestamp,
    ) -> Result<Vec<T>, Reached> {
        let mut ledger = self.clone();
        let mut admitted = Vec::new();
        for turn in turns {
            let start = start(&turn);
            match ledger.reserve(&start, limits, now) {
                Ok(_) => drop(ledger.open.insert(start.lane, ledger.turn(&start.step))),
                Err(reached) if admitted.is_empty() => return Err(reached),
                Err(_) => break,
            }
            admitted.push(turn);
        }
        Ok(admitted)
    }

    /// The same within the limits of one slot, or one loop of a squad, for which the turn is its next phase.
    pub fn reserve_in_slot(
        &self,
        slot: &str,
        step: &str,
        limits: &RunLimits,
    ) -> Result<(), Reached> {
        let (taken, time) = self.slot(slot);
        if let Some(limit) = limits.slot.runtime.filter(|limit| time >= *limit) {
            let used = duration::print_short(time);
            let limit_text = duration::print(limit);
            return Err(Reached {
                limit: Limit::Runtime,
                detail: format!("its agents ran {used} of {limit_text} ({})", Key::SlotMaxRuntime),
                raise: more_time(Key::SlotMaxRuntime, limit.max(time)),
            });
        }
        let next = match taken == Amounts::default() {
            // Every slot may begin.
            true => Amounts::default(),
            false => self.estimate(step),
        };
        check("the slot", taken, next, &limits.slot, Scope::Slot).map_or(Ok(()), Err)
    }

    /// What is reserved for a turn: never less than when it started, and more where similar turns took more
    /// meanwhile. Where nothing was known it may take a part of the limit, or all of a small one.
    fn reserved(&self, turn: &Turn, limits: &RunLimits) -> Amounts {
        let Limits { cost, tokens, .. } = limits.run;
        let earlier = limits.earlier.largest;
        let (is_unknown, usual) = match turn.is_first {
            true => (earlier == Amounts::default(), earlier.or(turn.reserved)),
            false => (false, turn.reserved),
        };
        let part = |usual: u64, limit: Option<u64>| match limit {
            Some(limit) if is_unknown => usual.max(limit / FIRST_PART).min(limit),
            _ => usual,
        };
        let reserved = Amounts {
            cost: Dollars(part(usual.cost.0, cost.map(|cost| cost.0))),
            tokens: part(usual.tokens, tokens),
        };
        match self.largest.get(&turn.step) {
            Some(_) => reserved.max(self.estimate(&turn.step)),
            None => reserved,
        }
    }

    /// The limit that an earlier iteration or review exceeded. A turn cannot be held to its cost while it runs, so
    /// the run ends after it.
    fn exceeded(&self, limits: &RunLimits) -> Option<Reached> {
        let of = |about: &str, scope: Scope, limits: &Limits| {
            let most = self.most.get(&scope)?;
            let limits = Limits {
                cost: limits.cost.filter(|limit| most.cost > *limit),
                tokens: limits.tokens.filter(|limit| most.tokens > *limit),
                runtime: None,
            };
            check(about, *most, Amounts::default(), &limits, scope)
        };
        of("an iteration", Scope::Iteration, &limits.iteration)
            .or_else(|| of("a review", Scope::Review, &limits.review))
    }
}

/// The first limit that leaves no room for `next`. `about` is what took that much.
fn check(
    about: &str,
    taken: Amounts,
    next: Amounts,
    limits: &Limits,
    scope: Scope,
) -> Option<Reached> {
    let detail = |limit: Limit, [taken, of, next]: [String; 3]| {
        let key = limit.key(scope);
        match next.is_empty() {
            true => format!("{about} took {taken} of {of} ({key})"),
            false => {
                format!("{about} took {taken} of {of}, and another turn may take {next} ({key})")
            }
        }
    };
    let is_over =
        |taken: u64, next: u64, limit: u64| taken >= limit || taken.saturating_add(next) > limit;
    let if_left = |taken: u64, limit: u64, next: u64, text: String| {
        if next == 0 || taken >= limit { String::new() } else { text }
    };
    if let Some(limit) = limits.cost.filter(|it| is_over(taken.cost.0, next.cost.0, it.0)) {
        let enough =
            dollars_up(taken.cost.0.saturating_add(next.cost.0).max(limit.0.saturating_mul(2)));
        let raise = match scope {
            Scope::Run => format!("--budget {enough}"),
            _ => format!("--set {}={enough}", Limit::Cost.key(scope)),
        };
        let more = if_left(taken.cost.0, limit.0, next.cost.0, print(next.cost));
        let texts = [print(taken.cost), print(limit), more];
        return Some(Reached { limit: Limit::Cost, detail: detail(Limit::Cost, texts), raise });
    }
    let limit = limits.tokens.filter(|it| is_over(taken.tokens, next.tokens, *it))?;
    let enough = taken.tokens.saturating_add(next.tokens).max(limit.saturating_mul(2));
    let texts = [
        format!("{} tokens", taken.tokens),
        limit.to_string(),
        if_left(taken.tokens, limit, next.tokens, next.tokens.to_string()),
    ];
    Some(Reached {
        limit: Limit::Tokens,
        detail: detail(Limit::Tokens, texts),
        raise: format!("--set {}={enough}", Limit::Tokens.key(scope)),
    })
}

/// An agent that could not be started cost nothing.
fn could_start(exit_code: Option<i32>) -> bool {
    !matches!(exit_code, Some(126 | 127))
}

/// The only turn of a branch of a wave.
pub fn branch(start: &WaveBranchStart) -> Start {
    let lane = branch_lane(&start.wave_id, &start.branch_id);
    Start { lane, step: start.branch_roles.clone() }
}

/// No slot and no run has such a name.
fn branch_lane(wave: &str, branch: &str) -> String {
    format!("{wave}/{branch}")
}

fn between(began: Timestamp, now: Timestamp) -> Duration {
    let millis = now.millis().saturating_sub(began.millis());
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Twice the time, in whole seconds.
fn more_time(key: Key, used: Duration) -> String {
    let seconds = used.saturating_mul(2).as_secs().max(1);
    format!("--set {key}={}", duration::print(Duration::from_secs(seconds)))
}

fn print(cost: Dollars) -> String {
    format!("${:.2}", cost.amount())
}

/// An amount rounded up: to dollars, or to cents below one dollar.
fn dollars_up(billionths: u64) -> String {
    const CENT: u64 = 10_000_000;
    match billionths.div_ceil(CENT) {
        cents @ 0..100 => format!("0.{cents:02}"),
        cents => cents.div_ceil(100).to_string(),
    }
}

#[cfg(test)]
mod tests;
