use super::*;
use crate::coordinator::Fold;
use crate::record::{
    ChainSpawnFinish, ChainSpawned, Glance, Heading, IterationFinish, IterationStart, LoopResume,
    LoopStart, Record, ReviewFinish, ReviewStart, WaveStart, print,
};
use crate::run::Asker;
use crate::timestamp::Timestamp;
use crate::topic::Topic;

fn at(iteration: u64) -> Heading {
    let iteration = if iteration == 0 { String::new() } else { iteration.to_string() };
    Heading { run: "r".into(), iteration, now: Timestamp::from_millis(0) }
}

fn fold(records: &[Record]) -> Run {
    let mut run = Run::new("r");
    for record in records {
        let mut line = Vec::new();
        print(record, &mut line);
        run.apply(&Glance::read(line.trim_ascii_end()).unwrap());
    }
    run
}

fn start() -> Record {
    let start = LoopStart { completion_promise: "LOOP_COMPLETE".into(), ..LoopStart::default() };
    start.record(&at(0))
}

fn begin(iteration: u64, recent_event: &str) -> Record {
    let begin = IterationStart { recent_event: recent_event.into(), ..IterationStart::default() };
    begin.record(&at(iteration))
}

fn emit(iteration: u64, topic: &str) -> Record {
    at(iteration).agent(Topic::new(topic), "")
}

fn invalid(iteration: u64, emitted: &str) -> Record {
    let invalid = EventInvalid { emitted: emitted.into(), ..EventInvalid::default() };
    invalid.record(&at(iteration))
}

fn end(iteration: u64, exit_code: i32, output: &str) -> Record {
    let end = IterationFinish {
        exit_code: exit_code.into(),
        output: output.into(),
        ..IterationFinish::default()
    };
    end.record(&at(iteration))
}

fn rules() -> Rules {
    Rules {
        stall_iterations: None,
        max_iterations: 3,
        completion_event: "task.complete".into(),
        required_events: Vec::new(),
        review_every: None,
        max_branches: None,
    }
}

fn topology() -> Topology {
    Topology::parse(
        "[[role]]\nid = \"planner\"\nemits = [\"tasks.ready\"]\n[[role]]\nid = \"builder\"\nemits = [\"task.complete\"]\n[handoff]\n\"loop.start\" = \"planner\"\n\"tasks.ready\" = \"builder\"\n",
    )
    .unwrap()
}

/// The step in a few words.
fn step(records: &[Record], rules: &Rules) -> String {
    match next_step(&fold(records), rules, &topology()) {
        Step::Start => "start".into(),
        Step::Review { before } => format!("review before {before}"),
        Step::Iterate(order) => format!(
            "iterate {} after {} by {}{}",
            order.iteration,
            order.recent_event,
            order.route.roles.join(","),
            order
                .backpressure
                .map(|invalid| format!(", told of {}", invalid.emitted))
                .unwrap_or_default()
        ),
        Step::Complete(LoopComplete { reason }) => format!("complete: {reason}"),
        Step::Stop(stop) => format!("stop: {}", stop.reason),
        Step::Wave(step) => format!("{step:?}"),
        Step::Chain(SpawnStep::Decide(request)) => format!("consider {}", request.payload),
        Step::Chain(SpawnStep::Refuse(refusal)) => format!("refuse: {}", refusal.reason()),
        Step::Chain(SpawnStep::CarryOut(chain)) => format!("carry out {}", chain.chain_id),
        Step::Over(_) => "over".into(),
    }
}

#[test]
fn a_run_begins_and_routes_by_what_was_said() {
    let rules = rules();
    assert_eq!(step(&[], &rules), "start");
    assert_eq!(step(&[start()], &rules), "iterate 1 after loop.start by planner");
    let said = [start(), begin(1, "loop.start"), emit(1, "tasks.ready"), end(1, 0, "")];
    assert_eq!(step(&said, &rules), "iterate 2 after tasks.ready by builder");
    let silent = [start(), begin(1, "loop.start"), end(1, 0, "")];
    assert_eq!(step(&silent, &rules), "iterate 2 after loop.start by planner");
}

#[test]
fn coordination_and_harness_records_never_route() {
    let said = [
        start(),
        begin(1, "loop.start"),
        emit(1, "tasks.ready"),
        emit(1, "slice.started"),
        emit(1, "loop.complete"),
        end(1, 0, ""),
    ];
    assert_eq!(step(&said, &rules()), "iterate 2 after tasks.ready by builder");
}

#[test]
fn completion_by_event_waits_for_the_required_ones() {
    let rules = Rules { required_events: vec!["review.passed".into()], ..rules() };
    let mut said = vec![start(), begin(1, "loop.start"), emit(1, "task.complete"), end(1, 0, "")];
    assert!(step(&said, &rules).starts_with("iterate 2"));
    said.extend([begin(2, "task.complete"), emit(2, "review.passed"), end(2, 0, "")]);
    assert_eq!(step(&said, &rules), "complete: completion_event");
}

#[test]
fn a_promise_completes_unless_something_else_was_said() {
    let promised = |between: &[Record]| {
        let mut records = vec![start(), begin(1, "loop.start")];
        records.extend_from_slice(between);
        records.push(end(1, 0, "… LOOP_COMPLETE …"));
        step(&records, &rules())
    };
    assert_eq!(promised(&[]), "complete: completion_promise");
    assert_eq!(promised(&[emit(1, "slice.started")]), "complete: completion_promise");
    assert_eq!(promised(&[emit(1, "tasks.ready")]), "iterate 2 after tasks.ready by builder");
    assert_eq!(
        promised(&[invalid(1, "bogus.x")]),
        "iterate 2 after loop.start by planner, told of bogus.x"
    );
}

#[test]
fn an_event_that_was_not_allowed_is_withdrawn() {
    let said = [
        start(),
        begin(1, "loop.start"),
        emit(1, "tasks.ready"),
        emit(1, "task.complete"),
        invalid(1, "task.complete"),
        end(1, 0, "LOOP_COMPLETE"),
    ];
    assert_eq!(
        step(&said, &rules()),
        "iterate 2 after tasks.ready by builder, told of task.complete"
    );
}

#[test]
fn backpressure_lasts_until_an_event_is_accepted() {
    let mut said = vec![start(), begin(1, "loop.start"), invalid(1, "x"), end(1, 0, "")];
    assert!(step(&said, &rules()).ends_with("told of x"));
    said.extend([begin(2, "loop.start"), emit(2, "tasks.ready"), end(2, 0, "")]);
    assert_eq!(step(&said, &rules()), "iterate 3 after tasks.ready by builder");
}

#[test]
fn limits_and_failures_stop_the_run() {
    let mut said = vec![start()];
    for iteration in 1..=3 {
        said.extend([begin(iteration, "loop.start"), end(iteration, 0, "")]);
    }
    assert_eq!(step(&said, &rules()), "stop: max_iterations");
    let failed = [start(), begin(1, "loop.start"), emit(1, "task.complete"), end(1, 7, "")];
    assert_eq!(step(&failed, &rules()), "stop: backend_failed");
    let timed_out = IterationFinish { timed_out: Some(true), ..IterationFinish::default() };
    let slow = [start(), begin(1, "loop.start"), timed_out.record(&at(1))];
    assert_eq!(step(&slow, &rules()), "stop: backend_timeout");
}

#[test]
fn reviews_fall_exactly_on_the_formula() {
    for (every, expected) in [(1, vec![2, 3, 4, 5, 6, 7, 8]), (3, vec![4, 7]), (5, vec![6])] {
        let rules = Rules { review_every: Some(every), ..rules() };
        let due: Vec<u64> = (1..=8).filter(|iteration| rules.review_due(*iteration)).collect();
        assert_eq!(due, expected, "every {every}");
    }
    assert!(!rules().review_due(2));
}

#[test]
fn a_review_comes_once_and_an_unfinished_one_comes_again() {
    let rules = Rules { review_every: Some(1), ..rules() };
    let mut said = vec![start(), begin(1, "loop.start"), emit(1, "tasks.ready"), end(1, 0, "")];
    assert_eq!(step(&said, &rules), "review before 2");
    said.push(ReviewStart::default().record(&at(2)));
    assert_eq!(step(&said, &rules), "review before 2");
    said.push(ReviewFinish { exit_code: 9.into(), ..ReviewFinish::default() }.record(&at(2)));
    assert_eq!(step(&said, &rules), "iterate 2 after tasks.ready by builder");
}

#[test]
fn an_iteration_that_was_cut_off_is_done_again_as_it_was() {
    let cut = [
        start(),
        begin(1, "loop.start"),
        emit(1, "tasks.ready"),
        end(1, 0, ""),
        begin(2, "tasks.ready"),
        emit(2, "task.complete"),
    ];
    assert_eq!(step(&cut, &rules()), "iterate 2 after tasks.ready by builder");
}

#[test]
fn a_goal_that_was_reached_when_the_run_was_interrupted_is_reached_when_it_goes_on() {
    let taken_up = |exit_code| {
        let stop = LoopStop { reason: "interrupted".into(), ..LoopStop::default() };
        let resume = LoopResume { resumed_from_iteration: 1, ..LoopResume::default() };
        [
            start(),
            begin(1, "loop.start"),
            emit(1, "task.complete"),
            end(1, exit_code, ""),
            stop.record(&at(0)),
            resume.record(&at(0)),
        ]
    };
    assert_eq!(step(&taken_up(0), &rules()), "complete: completion_event");
    // What failed, by itself or because of the interruption, is retried, and what it said counts for nothing.
    assert_eq!(step(&taken_up(143), &rules()), "iterate 1 after loop.start by planner");
}

#[test]
fn a_promise_counts_where_the_record_says_so_too() {
    let end = IterationFinish { promised: Some(true), ..IterationFinish::default() };
    let said = [start(), begin(1, "loop.start"), end.record(&at(1))];
    assert_eq!(step(&said, &rules()), "complete: completion_promise");
}

fn ask(iteration: u64, payload: &str) -> Record {
    at(iteration).agent(Topic::new("chain.spawn"), payload)
}

fn grant(id: &str) -> Record {
    ChainSpawned { chain_id: id.into(), ..Default::default() }.record(&at(1))
}

fn come_back(id: &str, outcome: &str) -> Record {
    let finish =
        ChainSpawnFinish { chain_id: id.into(), outcome: outcome.into(), ..Default::default() };
    finish.record(&at(1))
}

#[test]
fn chains_are_considered_and_carried_out_one_after_another() {
    let mut records =
        vec![start(), begin(1, "loop.start"), ask(1, "x"), ask(1, "y"), emit(1, "tasks.ready")];
    let late = ask(1, "too late");
    for (record, expected) in [
        (end(1, 0, "LOOP_COMPLETE"), "consider x"),
        (late, "consider x"),
        (grant("c1"), "carry out c1"),
        (come_back("c1", "step_failed"), "consider y"),
        (
            crate::chain::Refusal::NoSteps.record().record(&at(1)),
            "iterate 2 after tasks.ready by builder, told of chain.spawn",
        ),
        (begin(2, "tasks.ready"), "iterate 2 after tasks.ready by builder, told of chain.spawn"),
    ] {
        records.push(record);
        assert_eq!(step(&records, &rules()), expected);
    }
    let run = fold(&records);
    assert_eq!((run.spawns.count, run.spawns.failures), (1, 1));
    assert_eq!(run.spawns.returned.len(), 1, "the agent is told, also when it is cut off");
    records.extend([LoopResume::default().record(&at(0)), begin(2, "tasks.ready")]);
    assert_eq!(fold(&records).spawns.returned.len(), 1);
    records.push(end(2, 0, ""));
    assert_eq!(fold(&records).spawns.returned, [], "and told once");
}

#[test]
fn who_asks_for_a_chain_is_not_done_and_who_is_done_gets_none() {
    let asks = [start(), begin(1, "loop.start"), ask(1, "x"), end(1, 0, "LOOP_COMPLETE")];
    assert_eq!(step(&asks, &rules()), "consider x");
    let with = |more: &[Record]| [&asks[..], more].concat();
    let told = "iterate 2 after loop.start by planner";
    assert_eq!(step(&with(&[grant("c"), come_back("c", "all_steps_complete")]), &rules()), told);
    let done =
        [start(), begin(1, "loop.start"), ask(1, "x"), emit(1, "task.complete"), end(1, 0, "")];
    assert_eq!(step(&done, &rules()), "refuse: run_ends");
    let refused = crate::chain::Refusal::RunEnds.record().record(&at(1));
    let done = [&done[..], &[refused]].concat();
    assert_eq!(step(&done, &rules()), "complete: completion_event");
    // What was granted is carried out, also when the rules were made stricter meanwhile.
    let strict = Rules { max_iterations: 1, ..rules() };
    assert_eq!(step(&with(&[grant("c")]), &strict), "carry out c");
    // What an iteration had asked for that was cut off, it asks for again.
    let cut = [start(), begin(1, "loop.start"), ask(1, "x"), LoopResume::default().record(&at(0))];
    assert_eq!(step(&cut, &rules()), "iterate 1 after loop.start by planner");
}

#[test]
fn a_wave_that_was_opened_is_joined_also_when_the_rules_were_made_stricter_meanwhile() {
    let open = WaveStart {
        wave_id: "w".into(),
        trigger_topic: "explore.parallel".into(),
        opening_recent_event: "loop.start".into(),
        objectives: "- look\n".into(),
        ..WaveStart::default()
    };
    let records = [start(), begin(1, "loop.start"), end(1, 0, ""), open.record(&at(1))];
    let strict = Rules { max_iterations: 1, max_branches: None, ..rules() };
    let next = step(&records, &strict);
    assert!(next.starts_with("Branches(") && next.contains("\"look\""), "{next}");
}

#[test]
fn a_review_that_asks_for_a_chain_is_heard_and_refused() {
    let rules = Rules { review_every: Some(1), ..rules() };
    let mut records = vec![start(), begin(1, "loop.start"), end(1, 0, "")];
    records.extend([ReviewStart::default().record(&at(2)), ask(2, "x")]);
    records.push(ReviewFinish::default().record(&at(2)));
    assert_eq!(step(&records, &rules), "consider x");
    assert_eq!(fold(&records).spawns.requests[0].asker, Asker::Review);
}
