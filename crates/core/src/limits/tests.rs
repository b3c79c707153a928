use super::*;
use crate::record::{
    Amount, ExitCode, Heading, IterationFinish, IterationStart, LoopResume, LoopStart, Record,
    SlotFinish, SlotImplement, SlotPhase, SlotStart, print as print_record,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn heading(seconds: i64) -> Heading {
    Heading { run: "r".into(), iteration: "1".into(), now: at(seconds) }
}

fn apply(ledger: &mut Ledger, record: &Record) {
    let mut line = Vec::new();
    print_record(record, &mut line);
    ledger.apply(&Glance::read(line.trim_ascii_end()).unwrap());
}

fn dollars(amount: f64) -> Dollars {
    Dollars::new(amount).unwrap()
}

fn usage(role: &str, cost: Option<f64>, tokens: u64) -> BackendUsage {
    BackendUsage {
        input_tokens: Amount(tokens),
        total_tokens: Amount(tokens),
        cost_usd: cost.map(dollars),
        role: Some(role.into()),
        ..BackendUsage::default()
    }
}

fn begin(ledger: &mut Ledger, role: &str) {
    let start = IterationStart { suggested_roles: role.into(), ..IterationStart::default() };
    apply(ledger, &start.record(&heading(0)));
}

fn end(ledger: &mut Ledger, exit_code: i32) {
    let finish = IterationFinish { exit_code: exit_code.into(), ..IterationFinish::default() };
    apply(ledger, &finish.record(&heading(0)));
}

fn turn(ledger: &mut Ledger, role: &str, cost: f64) {
    begin(ledger, role);
    apply(ledger, &usage(role, Some(cost), 1_000).record(&heading(0)));
    end(ledger, 0);
}

fn of_cost(amount: f64) -> RunLimits {
    let run = Limits { cost: Some(dollars(amount)), ..Limits::default() };
    RunLimits { run, ..RunLimits::default() }
}

fn start(lane: &str, step: &str) -> Start {
    Start { lane: lane.into(), step: step.into() }
}

fn cost_of(decided: Result<Amounts, Reached>) -> Option<f64> {
    decided.ok().map(|amounts| amounts.cost.amount())
}

#[test]
fn a_turn_reserves_the_most_that_a_similar_one_took() {
    let mut ledger = Ledger::default();
    let next = |ledger: &Ledger, step: &str, limit: f64| {
        cost_of(ledger.reserve(&start("", step), &of_cost(limit), at(0)))
    };
    // Nothing is known: a part of the limit, at least the usual amount, at most the limit.
    assert_eq!(next(&ledger, "a", 100.0), Some(25.0));
    assert_eq!(next(&ledger, "a", 2.0), Some(1.0));
    assert_eq!(next(&ledger, "a", 0.5), Some(0.5));
    turn(&mut ledger, "a", 0.25);
    turn(&mut ledger, "a", 0.75);
    turn(&mut ledger, "b", 0.125);
    assert_eq!(next(&ledger, "a", 100.0), Some(0.75));
    assert_eq!(next(&ledger, "b", 100.0), Some(0.125));
    assert_eq!(next(&ledger, "c", 100.0), Some(0.75));
    // 1.125 are spent.
    assert_eq!(next(&ledger, "a", 1.875), Some(0.75));
    assert_eq!(next(&ledger, "a", 1.87), None);
    assert_eq!(next(&ledger, "b", 1.87), Some(0.125));
}

/// The ledger of a step knows only its own turns.
#[test]
fn what_earlier_steps_took_counts_too() {
    let mut first = Ledger::default();
    apply(&mut first, &LoopStart::default().record(&heading(0)));
    turn(&mut first, "a", 0.75);
    turn(&mut first, "a", 0.25);
    apply(&mut first, &IterationFinish::default().record(&heading(7)));
    let earlier = first.spent();
    assert_eq!(earlier.taken, Amounts { cost: dollars(1.0), tokens: 2_000 });
    assert_eq!((earlier.largest.cost, earlier.time), (dollars(0.75), Duration::from_secs(7)));

    let mut ledger = Ledger::default();
    apply(&mut ledger, &LoopStart::default().record(&heading(20)));
    let limits = |cost: f64| RunLimits { earlier, ..of_cost(cost) };
    let next = |cost: f64| ledger.reserve(&start("", "b"), &limits(cost), at(20));
    // Its first turn is expected to take as much as theirs did.
    assert_eq!(cost_of(next(100.0)), Some(0.75));
    assert_eq!(cost_of(next(1.75)), Some(0.75));
    let reached = next(1.5).unwrap_err();
    insta::assert_snapshot!(reached.detail, @"the chain took $1.00 of $1.50, and another turn may take $0.75 (limits.max_cost_usd)");
    let run = Limits { runtime: Some(Duration::from_secs(10)), ..Limits::default() };
    let limits = RunLimits { run, earlier, ..RunLimits::default() };
    let left = ledger.time_left("", &[Scope::Run], &limits, at(21)).unwrap();
    assert_eq!((left.time, left.key), (Duration::from_secs(2), Key::MaxRuntime));
    assert_eq!(ledger.is_late(&limits, at(21)), None);
    let reached = ledger.is_late(&limits, at(23)).unwrap();
    insta::assert_snapshot!(reached.detail, @"the chain took 10s of 10s (limits.max_runtime)");
}

#[test]
fn turns_under_way_are_reserved_and_settled() {
    let mut ledger = Ledger::default();
    turn(&mut ledger, "implement", 1.0);
    let phase =
        |slot: u64| SlotPhase { slot, phase: Phase::Implement.into(), ..SlotPhase::default() };
    let next = |ledger: &Ledger, lane: &str| {
        cost_of(ledger.reserve(&start(lane, "implement"), &of_cost(3.0), at(0)))
    };
    apply(&mut ledger, &phase(1).record(&heading(0)));
    assert_eq!(next(&ledger, "2"), Some(1.0));
    apply(&mut ledger, &phase(2).record(&heading(0)));
    assert_eq!(next(&ledger, "3"), None);
    // It replaces its own reservation.
    assert_eq!(next(&ledger, "2"), Some(1.0));
    apply(&mut ledger, &usage("implement", Some(0.25), 10).record(&heading(0)));
    let done = SlotImplement { slot: 1, exit_code: ExitCode::Known(0), ..SlotImplement::default() };
    apply(&mut ledger, &done.record(&heading(0)));
    assert_eq!(ledger.taken.cost, dollars(1.25));
    assert_eq!(next(&ledger, "3"), None);
    // The second one reports nothing before its slot ends.
    let finish = SlotFinish { slot: 2, ..SlotFinish::default() };
    apply(&mut ledger, &finish.record(&heading(0)));
    assert_eq!(ledger.taken.cost, dollars(2.25));
}

#[test]
fn what_is_not_reported_is_estimated_and_what_is_reported_late_replaces_that() {
    let mut ledger = Ledger::default();
    begin(&mut ledger, "a");
    end(&mut ledger, 0);
    assert_eq!(ledger.taken, USUAL);
    apply(&mut ledger, &usage("a", Some(0.25), 10).record(&heading(0)));
    assert_eq!(ledger.taken, Amounts { cost: dollars(0.25), tokens: 10 });
    // Once only.
    apply(&mut ledger, &usage("a", Some(0.25), 10).record(&heading(0)));
    assert_eq!(ledger.taken, Amounts { cost: dollars(0.5), tokens: 20 });
    // An interrupted turn is not free, one that could not start is.
    begin(&mut ledger, "a");
    apply(&mut ledger, &LoopResume::default().record(&heading(0)));
    assert_eq!(ledger.taken, Amounts { cost: dollars(0.75), tokens: 30 });
    begin(&mut ledger, "a");
    end(&mut ledger, 127);
    assert_eq!(ledger.taken, Amounts { cost: dollars(0.75), tokens: 30 });
}

#[test]
fn reports_that_cannot_be_true_are_unknown() {
    let reported = |usage: &BackendUsage| {
        let Amounts { cost, tokens } = Amounts::reported(usage);
        (cost.amount(), tokens)
    };
    let million = 1_000_000;
    assert_eq!(reported(&usage("a", Some(0.25), 10)), (0.25, 10));
    assert_eq!(reported(&usage("a", Some(1e300), 0)), (0.0, 0));
    assert_eq!(reported(&usage("a", None, 0)), (0.0, 0));
    // The price of the tokens.
    assert_eq!(reported(&usage("a", None, million)), (5.0, million));
    assert_eq!(reported(&usage("a", Some(0.0), million)), (5.0, million));
    assert_eq!(reported(&usage("a", Some(1e300), million)), (5.0, million));
    let total = BackendUsage { input_tokens: Amount(0), ..usage("a", None, million) };
    assert_eq!(reported(&total), (5.0, million));
    // More than any context.
    assert_eq!(reported(&usage("a", Some(0.25), u64::MAX)), (0.25, 0));
    assert_eq!(reported(&usage("a", None, u64::MAX)), (0.0, 0));
    for text in ["-1", "\"NaN\"", "1e300", "\"inf\"", "null"] {
        let line = format!(
            r#"{{"run": "r", "iteration": "1", "topic": "backend.usage", "fields": {{"cost_usd": {text}, "input_tokens": -5}}}}"#
        );
        let mut ledger = Ledger::default();
        ledger.apply(&Glance::read(line.as_bytes()).unwrap());
        assert_eq!(ledger.taken, USUAL, "{text}");
    }
}

#[test]
fn time_between_sessions_does_not_count() {
    let mut ledger = Ledger::default();
    apply(&mut ledger, &LoopStart::default().record(&heading(100)));
    apply(&mut ledger, &IterationStart::default().record(&heading(130)));
    assert_eq!(ledger.runtime(at(150)), Duration::from_secs(50));
    // A clock that was set back.
    assert_eq!(ledger.runtime(at(10)), Duration::ZERO);
    apply(&mut ledger, &LoopResume::default().record(&heading(9_000)));
    assert_eq!(ledger.runtime(at(9_010)), Duration::from_secs(40));
    let limits = Limits { runtime: Some(Duration::from_secs(60)), ..Limits::default() };
    let limits = RunLimits { run: limits, iteration: limits, ..RunLimits::default() };
    let left = |scopes: &[Scope]| {
        let left = ledger.time_left("", scopes, &limits, at(9_010)).unwrap();
        (left.time.as_secs(), left.key)
    };
    assert_eq!(left(&[Scope::Run, Scope::Iteration]), (20, Key::MaxRuntime));
    assert_eq!(left(&[Scope::Iteration]), (60, Key::IterationMaxRuntime));
    assert_eq!(ledger.reserve(&start("", "a"), &limits, at(9_020)), Ok(USUAL));
    assert!(ledger.reserve(&start("", "a"), &limits, at(9_029)).is_err());
}

#[test]
fn a_slot_has_its_own_account() {
    let mut ledger = Ledger::default();
    let slot = Limits { cost: Some(dollars(1.0)), ..Limits::default() };
    let limits = RunLimits { slot, ..RunLimits::default() };
    let phase = SlotPhase { slot: 1, phase: Phase::Implement.into(), ..SlotPhase::default() };
    apply(&mut ledger, &SlotStart { slot: 1, ..SlotStart::default() }.record(&heading(0)));
    apply(&mut ledger, &phase.record(&heading(0)));
    apply(&mut ledger, &usage("implement", Some(0.75), 10).record(&heading(0)));
    let done = SlotImplement { slot: 1, exit_code: ExitCode::Known(0), ..SlotImplement::default() };
    apply(&mut ledger, &done.record(&heading(0)));
    let reached = ledger.reserve_in_slot("1", "review", &limits).unwrap_err();
    insta::assert_snapshot!(reached.detail, @"the slot took $0.75 of $1.00, and another turn may take $0.75 (limits.slot.max_cost_usd)");
    assert_eq!(ledger.reserve_in_slot("2", "implement", &limits), Ok(()));
    apply(&mut ledger, &SlotStart { slot: 1, ..SlotStart::default() }.record(&heading(0)));
    assert_eq!(ledger.reserve_in_slot("1", "implement", &limits), Ok(()));
}
