//! Loops whose agent is `pi`: its answer is recorded, not the stream that it prints.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::os::unix::process::CommandExt;
use std::process::Command;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Output, meet_a_limit, part, write_program};
use insta::assert_snapshot;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The size of the data segment in which a giant stream is read.
const DATA: u64 = 24 * 1024 * 1024;

/// A stand-in for pi: prints `stream.<iteration>` or `review.<iteration>`, and notes how it was
/// called.
const FAKE: &str = r#"#!/bin/sh
kind=${AUTOLOOP_REVIEW_MODE:+review}
name=${kind:-stream}.$AUTOLOOP_ITERATION
for arg; do printf '%s\n' "$arg" >> "$name.args"; done
cat > "$name.stdin"
[ ! -f "$name.sh" ] || . "./$name.sh"
[ ! -f "$name" ] || cat "$name"
exit 0
"#;

/// A loop whose agent is called `pi`.
fn sandbox(settings: &str) -> Sandbox {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    let review = if settings.contains("review.") { "" } else { "review.enabled = false\n" };
    let settings = format!(
        "backend.command = './pi'\nbackend.grace_ms = 300\nbackend.max_wait = 0\n{review}{settings}"
    );
    sandbox.write("autoloops.toml", settings);
    write_program(sandbox.path("pi"), FAKE);
    sandbox
}

fn message(text: &str, stop: &str, more: &str) -> String {
    format!(
        r#"{{"role":"assistant","content":[{{"type":"thinking","thinking":"LOOP_COMPLETE?"}},{{"type":"text","text":"{text}"}}],"usage":{{"input":11,"output":7,"cacheRead":5,"cacheWrite":0,"totalTokens":23,"cost":{{"total":0.25}}}},"stopReason":"{stop}"{more}}}"#
    )
}

/// The events of one turn.
fn turn(message: &str) -> String {
    format!(
        "{{\"type\":\"turn_start\"}}\n{{\"type\":\"message_update\",\"message\":{message}}}\n{{\"type\":\"message_end\",\"message\":{message}}}\n{{\"type\":\"turn_end\",\"message\":{message},\"toolResults\":[]}}\n"
    )
}

/// The events of the work on one prompt.
fn agent(turns: &[String]) -> String {
    let turns = turns.concat();
    format!("{{\"type\":\"agent_start\"}}\n{turns}{{\"type\":\"agent_end\",\"messages\":[]}}\n")
}

fn says(text: &str) -> String {
    agent(&[turn(&message(text, "stop", ""))])
}

fn fails(why: &str) -> String {
    agent(&[turn(&message("", "error", &format!(",\"errorMessage\":\"{why}\"")))])
}

fn run(sandbox: &Sandbox) -> Output {
    sandbox.run(&["run", ".", "make", "it"])
}

/// A file of the only run.
fn file_of_run(sandbox: &Sandbox, name: &str) -> String {
    let run = sandbox.fields("loop.start", "run").remove(0);
    String::from_utf8(sandbox.read(format!(".autoloop/runs/{run}/{name}"))).unwrap()
}

fn file(sandbox: &Sandbox, name: &str) -> String {
    String::from_utf8(sandbox.read(name)).unwrap()
}

#[test]
fn the_answer_and_its_cost_are_on_record_and_the_stream_is_kept() {
    let sandbox = sandbox("event_loop.max_iterations = 2");
    let looks = turn(&message("let me look", "toolUse", ""));
    let first = agent(&[looks, turn(&message("one thing is done", "stop", ""))]);
    sandbox.write("stream.1", &first).write("stream.2", says("LOOP_COMPLETE"));
    assert_eq!(run(&sandbox).code, Some(0));
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=2 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=pi command=./pi prompt_mode=stdin timeout_ms=1800000
    1 backend.finish exit_code=0 timed_out=false output=one thing is done
    1 backend.usage input_tokens=22 output_tokens=14 cache_read_tokens=10 cache_write_tokens=0 total_tokens=46 cost_usd=0.5 turns=2
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=one thing is done
    2 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    2 backend.start backend_kind=pi command=./pi prompt_mode=stdin timeout_ms=1800000
    2 backend.finish exit_code=0 timed_out=false output=LOOP_COMPLETE
    2 backend.usage input_tokens=11 output_tokens=7 cache_read_tokens=5 cache_write_tokens=0 total_tokens=23 cost_usd=0.25 turns=1
    2 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=LOOP_COMPLETE
    2 loop.complete reason=completion_promise
    ");
    assert_eq!(file_of_run(&sandbox, "pi-stream.1.jsonl"), first);
}

#[test]
fn a_promise_that_is_only_in_the_stream_is_none() {
    let sandbox = sandbox("event_loop.max_iterations = 1");
    sandbox.write("stream.1", says("not yet"));
    assert_eq!(run(&sandbox).code, Some(1));
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
}

#[test]
fn a_failure_counts_although_pi_exits_with_0() {
    let sandbox = sandbox("");
    sandbox.write("stream.1", fails("429: slow down"));
    assert_eq!(run(&sandbox).code, Some(1));
    assert_eq!(sandbox.fields("iteration.finish", "exit_code"), ["1"]);
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["backend_failed"]);
    let tail = sandbox.fields("loop.stop", "output_tail");
    assert_eq!(tail, ["[the agent failed: 429: slow down]"]);
}

#[test]
fn a_failure_that_pi_got_over_does_not_count() {
    let sandbox = sandbox("");
    let retry = "{\"type\":\"auto_retry_start\",\"attempt\":1}\n";
    sandbox.write("stream.1", format!("{}{retry}{}", fails("500"), says("LOOP_COMPLETE")));
    assert_eq!(run(&sandbox).code, Some(0));
    assert_eq!(sandbox.fields("backend.finish", "output"), ["LOOP_COMPLETE"]);
}

#[test]
fn a_stream_without_an_answer_is_a_failure_that_tells_what_else_was_said() {
    let silent = sandbox("");
    silent.write("stream.1.sh", "echo 'No API key found.' >&2");
    assert_eq!(run(&silent).code, Some(1));
    assert_snapshot!(silent.fields("iteration.finish", "output").join(""), @r"[the agent ended without an answer]\u000aNo API key found.");

    let asking = sandbox("");
    asking.write("stream.1", "Fork this session into current directory? [y/N]\n");
    assert_eq!(run(&asking).code, Some(1));
    assert_snapshot!(asking.fields("iteration.finish", "output").join(""), @"[the agent ended without an answer; it printed: Fork this session into current directory? [y/N]]");
}

#[test]
fn unreadable_lines_are_skipped_and_reported() {
    let sandbox = sandbox("");
    sandbox.write("stream.1", format!("Debugger\n{{\"type\":\"turn_e\n{}", says("LOOP_COMPLETE")));
    let output = run(&sandbox);
    assert_eq!(output.code, Some(0));
    let note = "2 lines of the agent's stream could not be read";
    assert!(output.stderr.contains(note), "{}", output.stderr);
}

/// Runs `autoloop run` and its supervisor with little memory.
#[test]
fn part_of_a_child() {
    let Some(arguments) = part() else { return };
    let limit = Rlimit { current: Some(DATA), ..getrlimit(Resource::Data) };
    setrlimit(Resource::Data, limit).unwrap();
    panic!("{}", Command::new(env!("CARGO_BIN_EXE_autoloop")).args(arguments.split(' ')).exec());
}

#[test]
fn giant_lines_are_passed_over_in_little_memory() {
    let sandbox = sandbox("");
    let giant = "x".repeat(20_000_000);
    let update = format!("{{\"type\":\"message_update\",\"message\":\"{giant}\"}}\n");
    let result = format!("{{\"type\":\"turn_end\",\"toolResults\":[\"{giant}\"]}}\n");
    let stream = [update.clone(), update, giant, "\n".to_owned(), result, says("LOOP_COMPLETE")];
    sandbox.write("stream.1", stream.concat());
    let output = sandbox.finish(sandbox.play("run . make it"));
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(sandbox.fields("backend.finish", "output"), ["LOOP_COMPLETE"]);
    assert!(sandbox.journal().len() < 100_000, "the stream is not on record");
}

#[test]
fn an_answer_behind_the_end_of_what_is_kept_is_found() {
    let sandbox = sandbox("backend.output_cap = 100");
    let told = turn(&message(&"long ".repeat(1000), "toolUse", ""));
    sandbox.write("stream.1", agent(&[told, turn(&message("LOOP_COMPLETE", "stop", ""))]));
    assert_eq!(run(&sandbox).code, Some(0));
    assert_eq!(sandbox.fields("backend.finish", "output"), ["LOOP_COMPLETE"]);
    assert_eq!(sandbox.fields("backend.usage", "input_tokens"), ["22"]);
    assert_eq!(file_of_run(&sandbox, "pi-stream.1.jsonl").len(), 100);
}

#[test]
fn at_its_time_limit_the_last_finished_turn_counts() {
    let looks = turn(&message("let me look", "toolUse", ""));
    let sandbox = meet_a_limit(|limit| {
        let sandbox = sandbox(&format!("backend.timeout_ms = {limit}"));
        sandbox.write("seen", format!("{{\"type\":\"agent_start\"}}\n{looks}"));
        sandbox.write("stream.1.sh", "cat seen; touch there; exec sleep 691");
        assert_eq!(run(&sandbox).code, Some(1));
        sandbox.path("there").exists().then_some(sandbox)
    });
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["backend_timeout"]);
    assert_eq!(sandbox.fields("iteration.finish", "timed_out"), ["true"]);
    assert_snapshot!(sandbox.fields("iteration.finish", "output").join(""), @r"let me look\u000a\u000a[the agent ended in the middle of its work]");
}

#[test]
fn pi_runs_non_interactively_and_gets_its_prompt_in_every_way() {
    let called = |mode: &str| {
        let sandbox =
            sandbox(&format!("backend.args = ['--model', 'm']\nbackend.prompt_mode = '{mode}'\n"));
        sandbox.write("stream.1", says("LOOP_COMPLETE"));
        assert_eq!(run(&sandbox).code, Some(0));
        let prompt = file_of_run(&sandbox, "iteration-1.prompt.md");
        assert!(prompt.contains("make it"));
        let args = file(&sandbox, "stream.1.args").replace(&prompt, "[PROMPT]");
        let run = sandbox.fields("loop.start", "run").remove(0);
        let args = sandbox.filter(&args).replace(&run, "[RUN]").replace('\n', " ");
        let stdin = file(&sandbox, "stream.1.stdin").replace(&prompt, "[PROMPT]");
        format!("{args}< '{stdin}'")
    };
    assert_snapshot!(called("arg"), @"-p --mode json --model m [PROMPT] < ''");
    assert_snapshot!(called("stdin"), @"-p --mode json --model m < '[PROMPT]'");
    assert_snapshot!(called("file"), @"-p --mode json --model m @[DIR]/.autoloop/runs/[RUN]/iteration-1.prompt.md < ''");
}

#[test]
fn a_review_has_a_stream_and_a_cost_of_its_own() {
    let sandbox = sandbox("event_loop.max_iterations = 2\nreview.every_iterations = 1\n");
    let review = says("nothing to tidy");
    sandbox.write("stream.1", says("one")).write("stream.2", says("LOOP_COMPLETE"));
    sandbox.write("review.2", &review);
    assert_eq!(run(&sandbox).code, Some(0));
    assert_eq!(sandbox.fields("review.finish", "output"), ["nothing to tidy"]);
    assert_eq!(file_of_run(&sandbox, "pi-review.2.jsonl"), review);
    let topics = sandbox.topics();
    assert!(topics.contains("\n2 review.start\n"), "{topics}");
    // The records before them concern files that this agent leaves in the project.
    assert!(topics.contains("\n2 backend.usage\n2 review.finish\n"), "{topics}");
}

#[test]
fn a_cost_that_the_agent_wrote_itself_is_forged() {
    let sandbox = sandbox("event_loop.max_iterations = 1");
    let line = r#"{"run": "%s", "iteration": "1", "topic": "backend.usage", "fields": {"input_tokens": 0}}\n"#;
    sandbox.write(
        "stream.1.sh",
        format!("printf '{line}' \"$AUTOLOOP_RUN_ID\" >> \"$AUTOLOOP_JOURNAL_FILE\""),
    );
    sandbox.write("stream.1", says("done"));
    run(&sandbox);
    assert_eq!(sandbox.fields("event.invalid", "reason"), ["forged"]);
    assert_eq!(sandbox.fields("event.invalid", "emitted"), ["backend.usage"]);
}

#[test]
fn the_usage_of_a_run_is_shown_by_group() {
    let sandbox = sandbox("event_loop.max_iterations = 1");
    assert_snapshot!(sandbox.run(&["inspect", "usage", "--all-runs"]).stdout, @"no usage was reported");
    sandbox.write("stream.1", says("done"));
    run(&sandbox);
    assert_snapshot!(sandbox.run(&["inspect", "usage"]).stdout, @r"
    ROLE  TURNS  INPUT  OUTPUT  CACHED  TOTAL  COST
    -     1      11     7       5       23     $0.25
    ");
    let json = sandbox.run(&["inspect", "usage", "--by", "model", "--format", "json"]).stdout;
    assert!(json.contains("\"cost_usd\": 0.25"), "{json}");
    assert_eq!(sandbox.run(&["inspect", "usage", "--by", "moon"]).code, Some(2));
}

#[test]
fn a_role_may_be_played_by_pi() {
    let sandbox = sandbox("backend.kind = 'command'\nevent_loop.max_iterations = 1");
    let role = "[[role]]\nid = 'a'\nemits = ['x']\nbackend_kind = 'pi'\n";
    sandbox.write("topology.toml", role).write("stream.1", says("LOOP_COMPLETE"));
    assert_eq!(run(&sandbox).code, Some(0));
    assert_eq!(sandbox.fields("backend.start", "backend_kind"), ["pi"]);
    assert_eq!(sandbox.fields("backend.finish", "output"), ["LOOP_COMPLETE"]);
}
