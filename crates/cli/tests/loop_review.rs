//! Metareviews between iterations, through the binary: when they run, what they are given, and that
//! the loop continues whatever their outcome.
#![cfg(target_os = "linux")]

use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, until};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

const THREE: &str = "[[role]]\nid = 'a'\nemits = ['a.done']\n[[role]]\nid = 'b'\nemits = ['b.done']\n[[role]]\nid = 'c'\nemits = ['c.done']\n[handoff]\n'loop.start' = 'a'\n'a.done' = 'b'\n'b.done' = 'c'\n'c.done' = 'a'\n";

const SAMPLE: &str = "\
You are the loop's meta agent.

Review the journal, topology, roles, harness instructions, loop memory, and shared working files.

Your job is to improve loop hygiene, not to finish the task directly.
You may modify runtime-facing loop files on disk when that will make the next iterations better.
Prefer bounded hygiene edits to `autoloops.toml`, `topology.toml`, `harness.md`, `metareview.md`, `roles/*.md`.
Do not edit app/product source code, tests, package manifests, `.autoloop/` state, or journal history during review.
";

/// A loop with metareviews. The reviewer runs `review`, the agent runs `agent`.
fn reviewed(agent: &str, review: &str, settings: &str) -> Sandbox {
    let agent = format!("if [ -n \"$AUTOLOOP_REVIEW_MODE\" ]; then\n{review}\nelse\n{agent}\nfi\n");
    let settings = format!("review.enabled = true\n{settings}");
    Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), &agent, &settings)
}

fn run(sandbox: &Sandbox, most: &str) -> Option<i32> {
    sandbox.run(&["run", ".", "-i", most, "make", "it"]).code
}

/// The iterations before which a review started.
fn reviews(sandbox: &Sandbox) -> Vec<String> {
    sandbox.fields("review.start", "iteration")
}

#[test]
fn a_review_comes_before_an_iteration_and_leaves_two_records() {
    let sandbox = reviewed("echo turn $N", "echo reviewed before $N", "");
    assert_eq!(run(&sandbox, "2"), Some(1));
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=2 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=1 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    1 backend.finish exit_code=0 timed_out=false output=turn 1\u000a
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=turn 1\u000a
    2 review.start kind=metareview backend_kind=command command=sh prompt_mode=arg prompt=… timeout_ms=300000 enforcement=…
    2 review.finish kind=metareview exit_code=0 timed_out=false output=reviewed before 2\u000a
    2 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    2 backend.finish exit_code=0 timed_out=false output=turn 2\u000a
    2 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=turn 2\u000a
    2 loop.stop reason=max_iterations completed_iterations=2 stopped_before_iteration=3 max_iterations=2
    ");
}

#[test]
fn reviews_follow_the_formula() {
    // The agents emit nothing, which is no stall here.
    let set = "event_loop.stall_iterations = 0";
    let none = |settings: &str| reviewed("true", "true", &format!("{set}\n{settings}"));
    let sandbox = none("");
    run(&sandbox, "3");
    assert_eq!(reviews(&sandbox), ["2", "3"], "without roles: every iteration");

    let sandbox = none("");
    sandbox.write("topology.toml", THREE);
    run(&sandbox, "8");
    assert_eq!(reviews(&sandbox), ["4", "7"], "one for each turn of the roles");

    let sandbox = none("review.every_iterations = 2");
    sandbox.write("topology.toml", THREE);
    run(&sandbox, "6");
    assert_eq!(reviews(&sandbox), ["3", "5"], "as set");
}

#[test]
fn without_reviews_there_are_no_records_of_them() {
    let sandbox = reviewed("true", "true", "");
    assert_eq!(sandbox.run(&["run", ".", "--set", "review.enabled=no"]).code, Some(1));
    assert!(!sandbox.journal().contains("\"topic\": \"review."), "{}", sandbox.topics());
    assert_eq!(sandbox.fields("loop.start", "review_every"), ["0"]);
}

#[test]
fn the_environment_of_a_reviewer_says_that_it_may_emit_nothing() {
    let names = "AUTOLOOP_REVIEW_MODE AUTOLOOP_ITERATION AUTOLOOP_ALLOWED_EVENTS AUTOLOOP_ALLOWED_ROLES AUTOLOOP_RECENT_EVENT";
    let sandbox = reviewed(
        "$T emit a.done",
        &format!("for n in {names}; do env | grep \"^$n=\"; done"),
        "review.every_iterations = 1",
    );
    sandbox.write("topology.toml", THREE);
    run(&sandbox, "2");
    let output = sandbox.fields("review.finish", "output").remove(0).replace("\\u000a", "\n");
    assert_snapshot!(output, @"
    AUTOLOOP_REVIEW_MODE=metareview
    AUTOLOOP_ITERATION=2
    AUTOLOOP_ALLOWED_EVENTS=__metareview_disabled__
    AUTOLOOP_ALLOWED_ROLES=review
    AUTOLOOP_RECENT_EVENT=a.done
    ");
}

#[test]
fn a_reviewer_that_emits_is_refused_and_changes_nothing() {
    let review = "$T emit b.done 2>/dev/null; echo $?; env -u AUTOLOOP_ALLOWED_EVENTS $T emit b.done 2>/dev/null; true";
    let sandbox =
        reviewed("[ $N = 1 ] && $T emit a.done; true", review, "review.every_iterations = 1");
    sandbox.write("topology.toml", THREE);
    assert_eq!(run(&sandbox, "2"), Some(1));
    assert_eq!(sandbox.fields("iteration.start", "recent_event"), ["loop.start", "a.done"]);
    assert_eq!(sandbox.fields("iteration.start", "suggested_roles"), ["a", "b"]);
    assert!(sandbox.fields("review.finish", "output")[0].starts_with('3'), "{}", sandbox.story());
}

#[test]
fn a_refusal_in_a_review_does_not_reach_the_agent() {
    let agent = "[ $N = 1 ] && $T emit a.done; true";
    let settings = "review.every_iterations = 1\nreview.sandbox = 'off'";
    let sandbox = reviewed(agent, "$T emit a.done; true", settings);
    sandbox.write("topology.toml", THREE);
    assert_eq!(run(&sandbox, "2"), Some(1));
    assert_eq!(sandbox.fields("event.invalid", "emitted"), ["a.done"]);
    assert_eq!(sandbox.fields("iteration.start", "recent_event"), ["loop.start", "a.done"]);
    assert_eq!(sandbox.fields("iteration.start", "backpressure"), ["", ""]);
}

#[test]
fn the_sample_of_the_specification_works() {
    let sandbox = reviewed("true", "true", "");
    sandbox.write("metareview.md", SAMPLE);
    assert_eq!(run(&sandbox, "2"), Some(1));
    assert_eq!(sandbox.fields("review.finish", "exit_code"), ["0"]);
}

#[test]
fn a_reviewer_cannot_complete_a_run() {
    let line = r#"printf '{"run": "%s", "iteration": "2", "topic": "%s", "payload": "", "source": "agent"}\n' "$AUTOLOOP_RUN_ID" task.complete >> "$AUTOLOOP_JOURNAL_FILE"; echo LOOP_COMPLETE"#;
    let sandbox = reviewed("true", line, "review.every_iterations = 1\nreview.sandbox = 'off'");
    assert_eq!(run(&sandbox, "2"), Some(1), "{}", sandbox.story());
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
}

#[test]
fn a_failed_review_is_recorded_and_the_loop_continues() {
    let sandbox = reviewed("echo turn $N", "echo oh no; exit 6", "");
    assert_eq!(run(&sandbox, "2"), Some(1));
    assert_eq!(sandbox.fields("review.finish", "exit_code"), ["6"]);
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
    assert_eq!(sandbox.fields("iteration.finish", "exit_code"), ["0", "0"]);
}

#[test]
fn a_reviewer_that_is_not_there_is_a_failed_review() {
    let sandbox = reviewed("true", "true", "review.command = '/not/there'");
    assert_eq!(run(&sandbox, "2"), Some(1));
    assert_eq!(sandbox.fields("review.finish", "exit_code"), ["127"]);
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
}

#[test]
fn a_review_that_times_out_is_ended_and_the_loop_continues() {
    let sandbox = reviewed(
        "true",
        "sleep 621 & trap '' TERM; while :; do sleep 622; done",
        "review.timeout_ms = 400",
    );
    assert_eq!(run(&sandbox, "2"), Some(1));
    assert_eq!(sandbox.survivors(), "");
    assert_eq!(sandbox.fields("review.finish", "timed_out"), ["true"]);
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
}

#[test]
fn the_reviewer_can_be_another_program() {
    let sandbox =
        reviewed("true", "exit 9", "review.args = ['reviewer.sh']\nreview.prompt_mode = 'stdin'");
    sandbox.write("reviewer.sh", "cat; echo; echo by another");
    run(&sandbox, "2");
    assert_eq!(sandbox.fields("review.start", "prompt_mode"), ["stdin"]);
    assert!(sandbox.fields("review.finish", "output")[0].ends_with("by another\\u000a"));
}

#[test]
fn an_event_that_routes_survives_a_review() {
    let sandbox = reviewed(
        "case $N in 1) $T emit a.done;; 2) $T emit b.done;; esac",
        "true",
        "review.every_iterations = 1",
    );
    sandbox.write("topology.toml", THREE);
    run(&sandbox, "3");
    assert_eq!(
        sandbox.fields("iteration.start", "recent_event"),
        ["loop.start", "a.done", "b.done"]
    );
}

#[test]
fn backpressure_survives_a_review() {
    let sandbox =
        reviewed("[ $N = 1 ] && $T emit bogus; true", "true", "review.every_iterations = 1");
    sandbox.write("topology.toml", THREE);
    run(&sandbox, "2");
    assert!(sandbox.fields("iteration.start", "backpressure")[1].contains("bogus"));
    assert!(sandbox.fields("review.start", "prompt")[0].contains("bogus"));
}

#[test]
fn settings_changed_by_a_review_apply_from_the_next_iteration() {
    let sandbox = reviewed(
        "true",
        "sed -i 's/max_iterations = 4/max_iterations = 2/' autoloops.toml",
        "event_loop.max_iterations = 4",
    );
    assert_eq!(sandbox.run(&["run", "."]).code, Some(1));
    assert_eq!(sandbox.fields("loop.stop", "max_iterations"), ["2"]);
}

#[test]
fn settings_that_a_review_broke_are_reported_in_the_next_prompt() {
    let sandbox =
        reviewed("true", "echo '= nonsense' >> topology.toml", "review.every_iterations = 1");
    sandbox.write("topology.toml", THREE);
    assert_eq!(run(&sandbox, "2"), Some(1));
    let prompt = &sandbox.fields("iteration.start", "prompt")[1];
    assert!(prompt.contains("a metareview broke topology.toml: does not parse: line "), "{prompt}");
    assert_eq!(sandbox.fields("iteration.start", "suggested_roles"), ["a", "a"]);
}

#[test]
fn the_instructions_for_reviews_are_inline_or_in_a_file_or_absent() {
    const HEADING: &str = "Additional metareview instructions:";
    let prompt = |file: Option<&str>, settings: &str| {
        let sandbox = reviewed("true", "true", settings);
        if let Some(file) = file {
            sandbox.write("metareview.md", file);
        }
        assert_eq!(run(&sandbox, "2"), Some(1));
        sandbox.fields("review.start", "prompt").remove(0)
    };
    assert!(!prompt(None, "").contains(HEADING));
    let from_file = prompt(
        Some("You are the loop's meta agent. Edit `autoloops.toml` and \"roles/*.md\"."),
        "",
    );
    assert!(from_file.contains(HEADING) && from_file.contains("the loop's meta agent"));
    let inline = prompt(Some("from the file"), "review.prompt = 'from the settings'");
    assert!(inline.contains("from the settings") && !inline.contains("from the file"));
}

#[test]
fn a_finished_review_is_not_repeated_and_an_unfinished_one_is() {
    let review = "mkdir -p $L; echo $N >> $L/reviews; if [ $N = 2 ] && [ ! -e $L/waited ]; then touch $L/waited; sleep 631; fi";
    let agent = "if [ $N = 2 ] && [ ! -e waited ]; then touch waited; sleep 632; fi";
    let review = format!("L=.autoloop/logs; {review}");
    let sandbox = reviewed(agent, &review, "review.every_iterations = 1\nreview.sandbox = 'off'");
    for (args, there) in [
        (&["run", ".", "-i", "3"][..], ".autoloop/logs/waited"),
        (&["run", "--resume", ".", "-i", "3"], "waited"),
    ] {
        let mut command = sandbox.command();
        command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let mut harness = Reaped::start(command);
        until(there, || sandbox.path(there).exists().then_some(()));
        kill_process(Pid::from_child(&harness.0), Signal::KILL).unwrap();
        harness.0.wait().unwrap();
    }
    assert_eq!(sandbox.run(&["run", "--resume", ".", "-i", "3"]).code, Some(1));
    assert_eq!(String::from_utf8(sandbox.read(".autoloop/logs/reviews")).unwrap(), "2\n2\n3\n");
    assert_snapshot!(sandbox.topics(), @"
    - loop.start
    1 iteration.start
    1 backend.start
    1 backend.finish
    1 iteration.finish
    2 review.start
    1 loop.resume
    2 review.start
    2 review.finish
    2 iteration.start
    2 backend.start
    2 loop.resume
    2 iteration.start
    2 backend.start
    2 backend.finish
    2 iteration.finish
    3 review.start
    3 review.finish
    3 iteration.start
    3 backend.start
    3 backend.finish
    3 iteration.finish
    3 loop.stop
    ");
}

#[test]
fn an_interrupt_in_a_review_ends_the_run() {
    let sandbox = reviewed(
        "true",
        "mkdir -p .autoloop/logs; touch .autoloop/logs/there; sleep 641",
        "review.sandbox = 'off'",
    );
    let mut command = sandbox.command();
    command.args(["run", "."]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    until("the reviewer", || sandbox.path(".autoloop/logs/there").exists().then_some(()));
    kill_process(Pid::from_child(&harness.0), Signal::TERM).unwrap();
    assert_eq!(harness.0.wait().unwrap().code(), Some(143));
    assert_eq!(sandbox.survivors(), "");
    assert_snapshot!(sandbox.topics(), @"
    - loop.start
    1 iteration.start
    1 backend.start
    1 backend.finish
    1 iteration.finish
    2 review.start
    2 review.finish
    1 loop.stop
    ");
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["interrupted"]);
}

#[test]
fn a_failed_metareview_is_reported_with_the_reason() {
    let sandbox =
        reviewed("true", "echo looking >&2; echo 'error: no quota left' >&2; echo >&2; exit 7", "");
    let output = sandbox.run(&["run", ".", "-i", "2", "make", "it"]);
    let note = "note: the metareview failed (exit code 7): error: no quota left\n";
    assert!(output.stderr.contains(note), "{output}");
    assert_eq!(sandbox.fields("iteration.finish", "exit_code").len(), 2, "the loop went on");
}

#[test]
fn a_metareview_that_times_out_is_reported_with_the_limit_and_its_key() {
    let sandbox = reviewed("true", "exec sleep 731", "review.timeout_ms = 300");
    let output = sandbox.run(&["run", ".", "-i", "2", "make", "it"]);
    let note = "note: the metareview timed out after 300ms (review.timeout_ms)\n";
    assert!(output.stderr.contains(note), "{output}");
}

#[test]
fn the_agent_is_not_blamed_for_what_the_metareview_emitted() {
    let sandbox = reviewed(
        "$T emit a.done",
        "$T emit b.done; env -u AUTOLOOP_ALLOWED_EVENTS $T emit c.done; true",
        "",
    );
    sandbox.write("topology.toml", "[[role]]\nid = 'a'\nemits = ['a.done']\n");
    let output = sandbox.run(&["run", ".", "-v", "-i", "2", "make", "it"]);
    let metrics = sandbox.run(&["inspect", "metrics"]).stdout;
    assert!(!metrics.contains("rejected"), "{metrics}");
    assert_eq!(metrics.matches("continue:routed_event").count(), 1, "{metrics}");
    let prompts = sandbox.fields("iteration.start", "prompt");
    assert!(prompts[1].contains("Invalid emits in this run: 0\\u000a"), "{}", prompts[1]);
    assert!(!output.stderr.contains("  refused:"), "{output}");
    assert!(!sandbox.run(&["loops", "show"]).stdout.contains("refused"), "it is not the run's");
}
