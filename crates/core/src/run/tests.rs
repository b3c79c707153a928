use super::*;
use crate::record::{
    ChainSpawnFinish, Heading, IterationFinish, IterationStart, LoopResume, Record, ReviewFinish,
    ReviewStart, WaveInvalid, WaveStart, print,
};
use crate::timestamp::Timestamp;
use crate::topic::Topic;
use crate::view::View;

/// A run with something of everything in it, and records of another between them.
fn records() -> Vec<Record> {
    let at = |run: &str, iteration: &str| Heading {
        run: run.into(),
        iteration: iteration.into(),
        now: Timestamp::from_millis(1_000),
    };
    let start = |objective: &str| LoopStart {
        max_iterations: 5,
        completion_promise: "DONE".into(),
        objective: objective.into(),
        preset: (objective == "one").then(|| "autofix".into()),
        ..LoopStart::default()
    };
    let begin = IterationStart { recent_event: "loop.start".into(), ..IterationStart::default() };
    let refused = EventInvalid { emitted: "x".into(), ..EventInvalid::default() };
    let forged = EventInvalid { reason: Some("forged".into()), ..refused.clone() };
    let end =
        IterationFinish { exit_code: (-3).into(), output: "DONE".into(), ..Default::default() };
    vec![
        start("one").record(&at("a", "")),
        begin.record(&at("a", "1")),
        start("two").record(&at("b", "")),
        at("a", "1").agent(Topic::new("tasks.ready"), ""),
        refused.record(&at("a", "1")),
        at("a", "1").agent(Topic::new("chain.spawn"), "steps=x;"),
        at("a", "1").agent(Topic::new("chain.spawn"), "steps=y;"),
        end.record(&at("a", "1")),
        ChainSpawned { chain_id: "c".into(), steps: "x".into(), ..Default::default() }
            .record(&at("a", "1")),
        ChainSpawnFinish {
            outcome: "step_failed".into(),
            output: "o".into(),
            ..Default::default()
        }
        .record(&at("a", "1")),
        ReviewStart::default().record(&at("a", "2")),
        ReviewFinish::default().record(&at("a", "2")),
        forged.record(&at("b", "")),
        begin.record(&at("a", "2")),
        LoopStop { reason: "interrupted".into(), ..LoopStop::default() }.record(&at("a", "2")),
        LoopResume::default().record(&at("a", "2")),
        LoopComplete { reason: "completion_event".into() }.record(&at("b", "")),
    ]
}

fn fold(runs: &mut Runs, records: &[Record]) {
    for record in records {
        let mut line = Vec::new();
        print(record, &mut line);
        runs.apply(&Glance::read(line.trim_ascii_end()).unwrap());
    }
}

#[test]
fn a_saved_view_goes_on_where_it_was() {
    let records = records();
    let mut whole = Runs::default();
    fold(&mut whole, &records);
    for cut in 0..=records.len() {
        let mut half = Runs::default();
        fold(&mut half, &records[..cut]);
        let saved = half.encode(Vec::new()).unwrap();
        let mut loaded = Runs::decode(&saved).unwrap();
        assert_eq!(loaded, half, "cut at {cut}");
        fold(&mut loaded, &records[cut..]);
        assert_eq!(loaded, whole, "cut at {cut}");
        for short in 0..saved.len() {
            assert_eq!(Runs::decode(&saved[..short]), None, "{short} bytes");
        }
    }
}

#[test]
fn runs_are_kept_apart() {
    let mut runs = Runs::default();
    fold(&mut runs, &records());
    let (a, b) =
        (runs.get("a").unwrap().as_loop().unwrap(), runs.get("b").unwrap().as_loop().unwrap());
    assert_eq!(a.stage, Stage::Between);
    assert_eq!((a.done, a.reviewed_before, a.invalid_count), (1, 2, 1));
    assert_eq!(a.last_rejected.as_deref(), Some("x"), "also when nothing is wrong any more");
    assert_eq!(a.turn.opening_event, "loop.start");
    assert_eq!(b.stage, Stage::Ended(Ending::Complete { reason: "completion_event".into() }));
    assert_eq!(b.start.as_ref().unwrap().objective, "two");
    assert_eq!((a.status(), b.status()), (Status::Running, Status::Completed));
    assert_eq!(runs.get("c"), None);
}

#[test]
fn what_asks_for_a_wave_counts_once_there_is_one() {
    let at = |iteration: &str| Heading {
        run: "a".into(),
        iteration: iteration.into(),
        now: Timestamp::from_millis(1_000),
    };
    let ask = |iteration| at(iteration).agent(Topic::new("x.parallel"), "- part");
    let end = |iteration| IterationFinish::default().record(&at(iteration));
    let begin = |iteration| IterationStart::default().record(&at(iteration));
    let wave = WaveStart {
        wave_id: "w".into(),
        trigger_topic: "x.parallel".into(),
        objectives: "- part\n".into(),
        ..WaveStart::default()
    };
    let invalid = WaveInvalid { trigger_topic: "x.parallel".into(), ..WaveInvalid::default() };
    let mut runs = Runs::default();
    let start = LoopStart::default().record(&at(""));
    fold(&mut runs, &[start, begin("1"), ask("1"), end("1")]);
    let seen = |runs: &Runs| {
        runs.get("a").unwrap().as_loop().unwrap().seen.iter().cloned().collect::<Vec<_>>()
    };
    assert!(seen(&runs).is_empty());
    // Events do not count while branches are running.
    let spoken = at("1").agent(Topic::new("task.complete"), "");
    let joined = at("1").agent(Topic::new("x.parallel.joined"), "w");
    fold(&mut runs, &[wave.record(&at("1")), spoken, joined]);
    assert_eq!(seen(&runs), ["x.parallel", "x.parallel.joined"]);
    // One that is refused takes nothing back of an earlier one.
    fold(&mut runs, &[begin("2"), ask("2"), end("2"), invalid.record(&at("2"))]);
    assert_eq!(seen(&runs), ["x.parallel", "x.parallel.joined"]);
    assert_eq!(runs.get("a").unwrap().as_loop().unwrap().recent_event, "");
}
