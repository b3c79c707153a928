use super::*;
use crate::agents::Dollars;
use crate::record::{BackendUsage, Heading, LoopComplete, print};
use crate::timestamp::Timestamp;
use crate::topic::Topic;

/// A run of three iterations: one routed, one with a refused event, one that completes.
fn journal() -> Vec<u8> {
    let mut out = Vec::new();
    let at = |run: &str, iteration: u64| Heading {
        run: run.to_owned(),
        iteration: iteration.to_string(),
        now: Timestamp::from_millis(0),
    };
    let begin =
        |roles: &str| IterationStart { suggested_roles: roles.into(), ..Default::default() };
    let end = |exit_code: i32| IterationFinish {
        exit_code: exit_code.into(),
        elapsed_s: Some(Amount(4)),
        timed_out: Some(false),
        ..Default::default()
    };
    print(&begin("planner").record(&at("one", 1)), &mut out);
    print(&EventInvalid::default().record(&at("one", 1)), &mut out);
    print(&at("one", 1).agent(Topic::new("tasks.ready"), "go"), &mut out);
    print(&at("one", 1).agent(Topic::new("slice.started"), "id=s;"), &mut out);
    let usage = |role: &str, tokens, cost| BackendUsage {
        total_tokens: Amount(tokens),
        cost_usd: Dollars::new(cost),
        role: Some(role.into()),
        ..Default::default()
    };
    print(&usage("planner", 41_234, 0.25).record(&at("one", 1)), &mut out);
    print(&end(0).record(&at("one", 1)), &mut out);
    print(&usage("metareview", 1_000, 0.01).record(&at("one", 2)), &mut out);
    print(&begin("builder").record(&at("other", 1)), &mut out);
    print(&begin("builder,critic").record(&at("one", 2)), &mut out);
    print(&EventInvalid::default().record(&at("one", 2)), &mut out);
    print(&end(7).record(&at("one", 2)), &mut out);
    print(&begin("critic").record(&at("one", 3)), &mut out);
    print(&begin("critic").record(&at("one", 3)), &mut out);
    print(&at("one", 3).agent(Topic::new("odd,\"one"), ""), &mut out);
    print(&end(0).record(&at("one", 3)), &mut out);
    let done = LoopComplete { reason: "completion_event".into() };
    print(&done.record(&at("one", 0)), &mut out);
    out
}

fn usages() -> Usages {
    let mut usages = Usages::default();
    for line in journal().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        usages.apply(&Glance::read(line).unwrap());
    }
    usages
}

fn fold(metrics: &mut Metrics, journal: &[u8]) {
    for line in journal.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        metrics.apply(&Glance::read(line).unwrap());
    }
}

#[test]
fn one_row_an_iteration() {
    let mut metrics = Metrics::default();
    fold(&mut metrics, &journal());
    insta::assert_snapshot!(metrics.render(Some("one"), &usages(), Format::Csv).replace("\r\n", "\n"), @r#"
    iteration,role,event,elapsed_s,exit_code,timed_out,outcome,tokens,cost_usd,estimated
    1,planner,tasks.ready,4,0,false,continue:routed_event,41234,0.25,false
    2,"builder,critic",,4,7,false,rejected:event.invalid,,,
    3,critic,"odd,""one",4,0,false,complete:completion_event,,,
    "#);
    insta::assert_snapshot!(metrics.render(Some("one"), &usages(), Format::Markdown), @r#"
    | iteration | role | event | elapsed_s | exit_code | timed_out | outcome | usage |
    |---|---|---|---|---|---|---|---|
    | 1 | planner | tasks.ready | 4 | 0 | false | continue:routed_event | 41.2k tokens, $0.25 |
    | 2 | builder,critic |  | 4 | 7 | false | rejected:event.invalid |  |
    | 3 | critic | odd,"one | 4 | 0 | false | complete:completion_event |  |

    Summary: 3 iterations, 12 s, 1 with a failing exit, 0 timed out

    Usage with metareviews and branches: 42.2k tokens, $0.26
    "#);
    insta::assert_snapshot!(metrics.render(Some("other"), &usages(), Format::Json), @r#"
    [
      {
        "iteration": 1,
        "role": "builder",
        "event": null,
        "elapsed_s": null,
        "exit_code": null,
        "timed_out": null,
        "outcome": null,
        "usage": null
      }
    ]
    "#);
    insta::assert_snapshot!(metrics.render(None, &usages(), Format::Csv).replace("\r\n", "\n"), @r#"
    run,iteration,role,event,elapsed_s,exit_code,timed_out,outcome,tokens,cost_usd,estimated
    one,1,planner,tasks.ready,4,0,false,continue:routed_event,41234,0.25,false
    other,1,builder,,,,,,,,
    one,2,"builder,critic",,4,7,false,rejected:event.invalid,,,
    one,3,critic,"odd,""one",4,0,false,complete:completion_event,,,
    "#);
}

#[test]
fn nothing_is_said_of_nothing() {
    let metrics = Metrics::default();
    assert_eq!(
        metrics.render(Some(""), &Usages::default(), Format::Markdown),
        "No metrics data available.\n"
    );
    assert_eq!(
        metrics.render(Some(""), &Usages::default(), Format::Csv),
        "iteration,role,event,elapsed_s,exit_code,timed_out,outcome\r\n"
    );
    assert_eq!(metrics.render(Some(""), &Usages::default(), Format::Json), "[]\n");
}

#[test]
fn a_saved_view_goes_on_where_it_was() {
    let journal = journal();
    let mut whole = Metrics::default();
    fold(&mut whole, &journal);
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', &journal).map(|at| at + 1).collect();
    for cut in ends {
        let mut half = Metrics::default();
        fold(&mut half, &journal[..cut]);
        let saved = half.encode(Vec::new()).unwrap();
        let mut loaded = Metrics::decode(&saved).unwrap();
        assert_eq!(loaded, half, "cut at {cut}");
        fold(&mut loaded, &journal[cut..]);
        assert_eq!(loaded, whole, "cut at {cut}");
    }
}

#[test]
fn damaged_bytes_are_not_loaded_or_do_no_harm() {
    let mut metrics = Metrics::default();
    fold(&mut metrics, &journal());
    let saved = metrics.encode(Vec::new()).unwrap();
    for cut in 0..saved.len() {
        assert!(Metrics::decode(&saved[..cut]).is_none(), "cut at {cut}");
    }
    for at in 0..saved.len() {
        let mut damaged = saved.clone();
        damaged[at] ^= 0x15;
        // The checksum of the sidecar finds it; here it only must not panic or run away.
        let _ = Metrics::decode(&damaged)
            .map(|metrics| metrics.render(None, &Usages::default(), Format::Markdown));
    }
}
