//! `autoloop watch` without a terminal: lines and JSON, for loops, waves, chains and slots.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, until};
use autoloop_testkit::slots::{Agents, GOOD};
use insta::assert_snapshot;

use crate::scene::{begin, run, with, with_agent, with_queue};

const SLOTS: &str = r"
    crow slot.run.start iterations=4; parallel_agents=2; max_fix_attempts=5; source=builtin
    crow#1 slot.start slot=1; item_id=t-7; title=mend the \u001b[31mparser
    crow#1 slot.start slot=2; item_id=t-8; title=write tests
    crow#1 slot.phase slot=1; item_id=t-7; phase=implement; attempt=0
    crow#1 slot.phase slot=2; item_id=t-8; phase=review; attempt=0
    crow#1 slot.phase slot=1; item_id=t-7; phase=fix; attempt=2
";

const CHAIN: &str = "
    relay chain.start name=ship; steps=autospec,autocode; objective=a tool
    relay chain.step.start step=1; preset=autospec; run_id=otter
    otter loop.start max_iterations=5; objective=a tool
    otter loop.complete reason=completion_event
    relay chain.step.finish step=1; preset=autospec; stop_reason=completion_event
    relay chain.step.start step=2; preset=autocode; run_id=heron
    heron loop.start max_iterations=5; objective=a tool
    heron#3 iteration.start suggested_roles=builder
";

const SQUAD: &str = "
    crow squad.start spec=a parser; effort=medium; max_loops=2
    crow squad.task task_id=t1; title=parse
    crow squad.task task_id=t2; title=print
    crow squad.group tasks=t1,t2
    crow squad.loop loop_id=crow-1; task_id=t1; group=1
    crow squad.review review_id=crow-1; subject=task; loop_id=crow-1; turn=1; verdict=drift
    crow squad.turn turn=2; phase=revise; loop_id=crow-1; task_id=t1; attempt=1
";

#[test]
fn a_squad_is_printed_with_its_groups_and_loops() {
    assert_snapshot!(with(SQUAD).run(&["watch", "--once"]), @r"
    exit 0
    --- stdout
    squad crow crashed  0/2 tasks merged
      squad  BUILD  2s  group 1 of 1
      group 1  BUILD  2s  0/2 merged
        crow-1  REVISE 1  0s  failed, revision 1/3  t1 parse
        t2  WAIT  t2 print
    ");
    let once = with(SQUAD).run(&["watch", "--once", "--json"]);
    let once: serde_json::Value = serde_json::from_str(&once.stdout).unwrap();
    assert_eq!((&once["done"], &once["of"], &once["blocked"]), (&0.into(), &2.into(), &0.into()));
    let keys = ["row", "item", "state", "iteration", "review", "revision", "limit", "number"];
    let row = keys.map(|key| format!("{key}={}", once["rows"][2][key]));
    assert_snapshot!(row.join(" "), @r#"row="crow-1" item="t1" state="building" iteration=0 review="failed" revision=1 limit=3 number=1"#);
    assert!(once["rows"][0].get("state").is_none(), "{once}");
}

#[test]
fn the_current_state_is_printed_once() {
    assert_snapshot!(with(SLOTS).run(&["watch", "--once"]), @r"
    exit 0
    --- stdout
    slots crow crashed  2 taken, 0 passed, 0 failed  iteration 1/4
      slot 1  FIX 2/5  0s  t-7 mend the parser
      slot 2  REVIEW  1s  t-8 write tests
    ");
    // A step is shown among the others.
    assert_snapshot!(with(CHAIN).run(&["watch", "--once", "heron"]), @r"
    exit 0
    --- stdout
    chain relay crashed  1/2 steps done
      step 1  DONE  2s  autospec a tool
      step 2  RUN 3/5  0s  autocode a tool
    ");
}

#[test]
fn a_run_that_crashed_or_ended_is_printed_once() {
    assert_snapshot!(with(SLOTS).run(&["watch"]), @r"
    exit 1
    --- stdout
    slots crow crashed  2 taken, 0 passed, 0 failed  iteration 1/4
    03:00:05 slot 1  t-7  FIX 2/5
    03:00:04 slot 2  t-8  REVIEW
    --- stderr
    autoloop: slots 'crow' crashed
      hint: resume it with `autoloop slots --resume=crow`
    ");
    let over = "
        otter loop.start max_iterations=5; objective=a tool
        otter loop.complete reason=completion_event
    ";
    assert_snapshot!(with(over).run(&["watch"]), @r"
    exit 0
    --- stdout
    loop otter completed (completion_event)  iteration 0/5
    03:00:01 loop  DONE  completion_event
    ");
    let stopped = "
        otter loop.start max_iterations=5; objective=a tool
        otter loop.stop reason=backend_failed
    ";
    assert_snapshot!(with(stopped).run(&["watch", "ott"]), @r"
    exit 1
    --- stdout
    loop otter failed (backend_failed)  iteration 0/5
    03:00:01 loop  FAILED  backend_failed
    --- stderr
    autoloop: loop 'otter' failed: backend_failed
      hint: resume it with `autoloop run --resume=otter`
    ");
}

#[test]
fn programs_get_an_object_in_a_line() {
    assert_snapshot!(with(SLOTS).run(&["watch", "--json"]), @r#"
    exit 1
    --- stdout
    {"watched": "crow", "kind": "slots", "title": "items from builtin", "status": "crashed", "outcome": null, "done": 1, "of": 4, "usage": null, "taken": 2, "passed": 0, "failed": 0, "failed_iterations": [], "left": null}
    {"ts": "[TS]", "watched": "crow", "row": "slot 1", "level": 0, "run": null, "item": "t-7", "title": "mend the \u001b[31mparser", "phase": "fix", "number": 2, "limit": 5, "badge": "FIX 2/5", "since": "[TS]", "outcome": null, "note": null, "output": "slots/crow/1-1/fix-2.out", "parked": null}
    {"ts": "[TS]", "watched": "crow", "row": "slot 2", "level": 0, "run": null, "item": "t-8", "title": "write tests", "phase": "review", "number": 0, "limit": 5, "badge": "REVIEW", "since": "[TS]", "outcome": null, "note": null, "output": "slots/crow/1-2/review-0.out", "parked": null}
    --- stderr
    autoloop: slots 'crow' crashed
      hint: resume it with `autoloop slots --resume=crow`
    "#);
    let once = with(SLOTS).run(&["watch", "--once", "--json"]);
    let once: serde_json::Value = serde_json::from_str(&once.stdout).unwrap();
    assert_eq!(once["rows"][0]["badge"], "FIX 2/5");
    assert_eq!(once["rows"][1]["phase"], "review");
    assert_eq!(once["taken"], 2);
    assert_eq!(once["status"], "crashed");
}

#[test]
fn a_missing_run_is_an_error() {
    assert_snapshot!(with_agent("").run(&["watch"]), @r"
    exit 1
    --- stderr
    autoloop: no run in .autoloop/journal.jsonl yet
      hint: start a new run with `autoloop run DIR`
    ");
    let two = "otter loop.start max_iterations=1\notto loop.start max_iterations=1";
    assert_snapshot!(with(two).run(&["watch", "heron"]), @r"
    exit 1
    --- stderr
    autoloop: no run 'heron' in .autoloop/journal.jsonl
      hint: list all runs with `autoloop loops --all`
    ");
    assert_snapshot!(with(two).run(&["watch", "oter"]), @r"
    exit 1
    --- stderr
    autoloop: no run 'oter' in .autoloop/journal.jsonl
      hint: did you mean 'otter'?
    ");
    assert_snapshot!(with(two).run(&["watch", "ott"]), @r"
    exit 2
    --- stderr
    autoloop: 2 runs begin with 'ott'
      hint: name one of them: otto, otter
    ");
    assert_snapshot!(with(two).run(&["watch", "otter", "nowhere"]), @r"
    exit 2
    --- stderr
    autoloop: the project nowhere does not exist
      hint: name the directory that contains .autoloop
    ");
}

#[test]
fn a_run_that_is_long_forgotten_is_found_in_the_journal() {
    let mut story = String::from("first loop.start max_iterations=1; objective=long ago\n");
    for run in 0..40 {
        story += &format!("run-{run} loop.start max_iterations=1\n");
    }
    let shown = with(&story).run(&["watch", "first", "--once"]);
    assert!(shown.stdout.starts_with("loop first crashed"), "{shown}");
}

/// Starts `autoloop …` with its output in a pipe.
fn piped(sandbox: &Sandbox, args: &[&str]) -> Reaped {
    let mut command = sandbox.command();
    command.args(args).stdout(Stdio::piped());
    Reaped::start(command)
}

/// The lines of a program as they arrive.
fn lines(process: &mut Reaped) -> impl Iterator<Item = String> + use<> {
    BufReader::new(process.0.stdout.take().unwrap()).lines().map(Result::unwrap)
}

#[test]
fn a_run_under_way_is_followed_to_its_end() {
    let agent = "
        echo working
        while ! test -e go-$N; do sleep 0.02; done
        if test $N = 2; then $T emit task.complete done; fi";
    let sandbox = with_agent(agent);
    let _run = run(&sandbox);
    let once = sandbox.run(&["watch", "--once"]).stdout;
    assert!(once.contains("running  iteration 1/3\n"), "{once}");
    until("the output", || {
        sandbox.run(&["watch", "--once"]).stdout.contains("  working").then_some(())
    });

    let mut watch = piped(&sandbox, &["watch"]);
    let mut lines = lines(&mut watch);
    let mut next = || lines.next().unwrap();
    assert!(next().ends_with("running  iteration 1/3"));
    assert!(next().ends_with(" loop  RUN 1/3"));
    sandbox.write("go-1", "");
    assert!(next().ends_with(" loop  NEXT"));
    assert!(next().ends_with(" loop  RUN 2/3"));
    sandbox.write("go-2", "");
    assert!(next().ends_with(" loop  RUN 2/3  task.complete done"));
    assert!(next().ends_with(" loop  NEXT  task.complete done"));
    assert!(next().ends_with(" loop  DONE  completion_event  task.complete done"));
    let last = next();
    assert!(last.ends_with("completed (completion_event)  iteration 2/3"), "{last}");
    assert_eq!(lines.next(), None);
    assert_eq!(watch.0.wait().unwrap().code(), Some(0));
}

#[test]
fn running_slots_show_what_is_left_in_the_queue() {
    let implement = "while ! test -e go-$AUTOLOOP_ITEM_ID; do sleep 0.02; done";
    let sandbox = with_queue(Agents { implement, ..GOOD }, 3);
    let _slots = begin(&sandbox, &["slots", "--iterations", "2"], "slot.phase");
    let mut text = piped(&sandbox, &["watch"]);
    let mut json = piped(&sandbox, &["watch", "--json"]);
    let (mut text, mut json) = (lines(&mut text), lines(&mut json));
    let mut whole_of = |taken: u64, passed: u64| {
        let is_it =
            |whole: &serde_json::Value| whole["taken"] == taken && whole["passed"] == passed;
        let mut objects = json.by_ref().map(|line| serde_json::from_str(&line).unwrap());
        objects.find(is_it).unwrap()["left"].clone()
    };
    let begun = text.next().unwrap();
    assert!(begun.ends_with("1 taken, 0 passed, 0 failed, 2 left  iteration 1/2"), "{begun}");
    assert_eq!(whole_of(1, 0), 2);
    sandbox.write("go-t-1", "");
    let settled = text.find(|line| line.contains("1 passed")).unwrap();
    assert!(settled.contains(" running  "), "{settled}");
    assert_eq!(whole_of(2, 1), 1);
    sandbox.write("go-t-2", "");
    let wholes: Vec<_> = text.filter(|line| line.starts_with("slots ")).collect();
    let last = wholes.last().unwrap();
    assert!(
        last.ends_with("completed (iterations)  2 taken, 2 passed, 0 failed  iteration 2/2"),
        "{last}"
    );
    let last: serde_json::Value = serde_json::from_str(&json.last().unwrap()).unwrap();
    assert_eq!((&last["passed"], &last["left"]), (&2.into(), &serde_json::Value::Null));
}

#[test]
fn it_ends_when_its_output_is_closed() {
    let agent = "while ! test -e go; do sleep 0.02; done";
    let sandbox = with_agent(agent);
    let _run = run(&sandbox);
    for args in [&["watch"][..], &["watch", "--json"], &["loops", "watch"], &["journal", "follow"]]
    {
        let mut watch = piped(&sandbox, args);
        let mut lines = lines(&mut watch);
        lines.next().unwrap();
        drop(lines);
        let ended = until("its end", || watch.0.try_wait().unwrap());
        assert_eq!(ended.code(), Some(141), "{args:?}");
    }
}
