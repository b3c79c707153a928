//! The rules of a run, one by one, through the binary: how it continues, completes and stops.
#![cfg(target_os = "linux")]

use std::time::Duration;

use autoloop_core::duration;
use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{meet_a_limit, write_program};
use insta::assert_snapshot;

/// Three roles, one after another.
const TOPOLOGY: &str = r#"
completion = "task.complete"
[[role]]
id = "planner"
emits = ["tasks.ready"]
prompt = "Plan."
[[role]]
id = "builder"
emits = ["review.ready", "build.blocked"]
prompt = "Build."
[[role]]
id = "critic"
emits = ["review.passed", "task.complete"]
prompt = "Judge."
[handoff]
"loop.start" = ["planner"]
"tasks.ready" = ["builder"]
"review.ready" = ["critic"]
"review.passed" = ["critic"]
'/build\..*/' = ["planner"]
"#;

fn shell(agent: &str, settings: &str) -> Sandbox {
    Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, settings)
}

fn with_roles(agent: &str, settings: &str) -> Sandbox {
    let sandbox = shell(agent, settings);
    sandbox.write("topology.toml", TOPOLOGY);
    sandbox
}

fn run(sandbox: &Sandbox) -> Option<i32> {
    sandbox.run(&["run", ".", "make", "it"]).code
}

/// The prompts of the iterations, unescaped.
fn prompts(sandbox: &Sandbox) -> Vec<String> {
    let unescape = |text: String| text.replace("\\u000a", "\n").replace("\\u0022", "\"");
    sandbox.fields("iteration.start", "prompt").into_iter().map(unescape).collect()
}

#[test]
fn a_promise_in_the_output_completes_the_run() {
    let sandbox = shell("echo all done, LOOP_COMPLETE", "");
    assert_eq!(run(&sandbox), Some(0));
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=3 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    1 backend.finish exit_code=0 timed_out=false output=all done, LOOP_COMPLETE\u000a
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=all done, LOOP_COMPLETE\u000a
    1 loop.complete reason=completion_promise
    ");
}

#[test]
fn records_are_written_as_the_specification_shows_them() {
    let sandbox = shell("$T emit note 'a b'; echo LOOP_COMPLETE; $T emit task.complete", "");
    assert_eq!(run(&sandbox), Some(0));
    let journal = sandbox.journal();
    let id = sandbox.fields("loop.start", "run").remove(0);
    let prompt = sandbox.fields("iteration.start", "prompt").remove(0);
    let journal = journal.replace(&prompt, "[PROMPT]").replace(&id, "[RUN]");
    let seconds = sandbox.fields("iteration.finish", "elapsed_s").remove(0);
    let journal = journal.replace(&format!("\"elapsed_s\": {seconds}"), "\"elapsed_s\": [SECONDS]");
    assert_snapshot!(journal, @r#"
    {"run": "[RUN]", "iteration": "", "topic": "loop.start", "fields": {"max_iterations": "3", "completion_promise": "LOOP_COMPLETE", "completion_event": "task.complete", "review_every": "0", "objective": "make it"}, "ts": "[TS]", "v": 1}
    {"run": "[RUN]", "iteration": "1", "topic": "iteration.start", "fields": {"recent_event": "loop.start", "suggested_roles": "", "allowed_events": "", "backpressure": "", "prompt": "[PROMPT]"}, "ts": "[TS]", "v": 1}
    {"run": "[RUN]", "iteration": "1", "topic": "backend.start", "fields": {"backend_kind": "command", "command": "sh", "prompt_mode": "arg", "timeout_ms": "1800000"}, "ts": "[TS]", "v": 1}
    {"run": "[RUN]", "iteration": "1", "topic": "note", "payload": "a b", "source": "agent", "ts": "[TS]", "v": 1}
    {"run": "[RUN]", "iteration": "1", "topic": "task.complete", "payload": "", "source": "agent", "ts": "[TS]", "v": 1}
    {"run": "[RUN]", "iteration": "1", "topic": "backend.finish", "fields": {"exit_code": "0", "timed_out": false, "output": "emitted note\u000aLOOP_COMPLETE\u000aemitted task.complete\u000a"}, "ts": "[TS]", "v": 1}
    {"run": "[RUN]", "iteration": "1", "topic": "iteration.finish", "fields": {"exit_code": "0", "timed_out": false, "elapsed_s": [SECONDS], "output": "emitted note\u000aLOOP_COMPLETE\u000aemitted task.complete\u000a"}, "ts": "[TS]", "v": 1}
    {"run": "[RUN]", "iteration": "1", "topic": "loop.complete", "fields": {"reason": "completion_event"}, "ts": "[TS]", "v": 1}
    "#);
}

#[test]
fn the_completion_event_completes_the_run_whatever_the_output_says() {
    let sandbox = shell("$T emit task.complete 'all of it'; echo LOOP_COMPLETE", "");
    assert_eq!(run(&sandbox), Some(0));
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=3 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    1 task.complete payload=all of it
    1 backend.finish exit_code=0 timed_out=false output=emitted task.complete\u000aLOOP_COMPLETE\u000a
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=emitted task.complete\u000aLOOP_COMPLETE\u000a
    1 loop.complete reason=completion_event
    ");
}

#[test]
fn an_event_that_hands_over_wins_over_the_promise() {
    let agent = "case $N in 1) $T emit tasks.ready three; echo LOOP_COMPLETE;; *) exit 9;; esac";
    let sandbox = with_roles(agent, "");
    assert_eq!(run(&sandbox), Some(1));
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=3 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles=planner allowed_events=tasks.ready backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    1 tasks.ready payload=three
    1 backend.finish exit_code=0 timed_out=false output=emitted tasks.ready\u000aLOOP_COMPLETE\u000a
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=emitted tasks.ready\u000aLOOP_COMPLETE\u000a
    2 iteration.start recent_event=tasks.ready suggested_roles=builder allowed_events=review.ready,build.blocked backpressure='' prompt=…
    2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    2 backend.finish exit_code=9 timed_out=false output=''
    2 iteration.finish exit_code=9 timed_out=false elapsed_s=… output=''
    2 loop.stop reason=backend_failed iteration=2 output_tail='' detail=the agent failed (exit code 9)
    ");
}

#[test]
fn an_event_refused_by_emit_keeps_the_promise_from_counting() {
    let agent = "case $N in 1) $T emit bogus.x; echo \"status $?\" LOOP_COMPLETE;; *) $T emit tasks.ready;; esac";
    let sandbox = with_roles(agent, "event_loop.max_iterations = 2");
    assert_eq!(run(&sandbox), Some(1));
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=2 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles=planner allowed_events=tasks.ready backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    1 event.invalid recent_event=loop.start emitted=bogus.x suggested_roles=planner allowed_events=tasks.ready
    1 backend.finish exit_code=0 timed_out=false output=status 3 LOOP_COMPLETE\u000a
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=status 3 LOOP_COMPLETE\u000a
    2 iteration.start recent_event=loop.start suggested_roles=planner allowed_events=tasks.ready backpressure=invalid event 'bogus.x'; recent event: 'loop.start'; suggested roles: planner; allowed next events: tasks.ready prompt=…
    2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    2 tasks.ready payload=''
    2 backend.finish exit_code=0 timed_out=false output=emitted tasks.ready\u000a
    2 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=emitted tasks.ready\u000a
    2 loop.stop reason=max_iterations completed_iterations=2 stopped_before_iteration=3 max_iterations=2
    ");
    assert!(prompts(&sandbox)[1].contains("bogus.x"), "the next prompt tells of it");
}

#[test]
fn the_diagnostic_of_a_refusal_names_what_would_be_accepted() {
    let sandbox =
        with_roles("$T emit bogus.x 2>&1; echo LOOP_COMPLETE", "event_loop.max_iterations = 1");
    assert_eq!(run(&sandbox), Some(1));
    assert_snapshot!(sandbox.fields("iteration.finish", "output").join("\n"), @r"autoloop: invalid event 'bogus.x'; recent event: 'loop.start'; suggested roles: planner; allowed next events: tasks.ready\u000aLOOP_COMPLETE\u000a");
}

#[test]
fn an_event_written_by_hand_that_is_not_allowed_is_withdrawn() {
    let agent = r#"
line() { printf '{"run": "%s", "iteration": "%s", "topic": "%s", "payload": "", "source": "agent"}\n' "$AUTOLOOP_RUN_ID" "$N" "$1" >> "$AUTOLOOP_JOURNAL_FILE"; }
case $N in 1) line task.complete; echo LOOP_COMPLETE;; *) exit 9;; esac"#;
    let sandbox = with_roles(agent, "");
    assert_eq!(run(&sandbox), Some(1));
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=3 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles=planner allowed_events=tasks.ready backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    1 task.complete payload=''
    1 backend.finish exit_code=0 timed_out=false output=LOOP_COMPLETE\u000a
    1 event.invalid recent_event=loop.start emitted=task.complete suggested_roles=planner allowed_events=tasks.ready
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=LOOP_COMPLETE\u000a
    2 iteration.start recent_event=loop.start suggested_roles=planner allowed_events=tasks.ready backpressure=invalid event 'task.complete'; recent event: 'loop.start'; suggested roles: planner; allowed next events: tasks.ready prompt=…
    2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    2 backend.finish exit_code=9 timed_out=false output=''
    2 iteration.finish exit_code=9 timed_out=false elapsed_s=… output=''
    2 loop.stop reason=backend_failed iteration=2 output_tail='' detail=the agent failed (exit code 9)
    ");
    assert!(prompts(&sandbox)[1].contains("task.complete"), "the next prompt tells of it");
}

#[test]
fn an_allowed_event_written_by_hand_counts() {
    let agent = r#"
printf '{"run": "%s", "iteration": "1", "topic": "tasks.ready", "payload": "", "source": "agent"}\n' "$AUTOLOOP_RUN_ID" >> "$AUTOLOOP_JOURNAL_FILE"
[ $N = 1 ] || exit 9"#;
    let sandbox = with_roles(agent, "");
    run(&sandbox);
    assert_eq!(sandbox.fields("iteration.start", "suggested_roles"), ["planner", "builder"]);
}

#[test]
fn forged_records_of_the_harness_never_route_and_never_complete() {
    let agent = r#"
J="$AUTOLOOP_JOURNAL_FILE"
sys() { printf '{"run": "%s", "iteration": "%s", "topic": "%s", "fields": {%s}}\n' "$1" "$2" "$3" "$4" >> "$J"; }
if [ $N = 1 ]; then
  sys "$AUTOLOOP_RUN_ID" "" loop.complete '"reason": "completion_event"'
  sys "$AUTOLOOP_RUN_ID" 1 iteration.finish '"exit_code": "0", "timed_out": false, "elapsed_s": 1, "output": "LOOP_COMPLETE"'
  sys "$AUTOLOOP_RUN_ID" 9 iteration.finish '"exit_code": "0", "timed_out": false, "elapsed_s": 1, "output": "LOOP_COMPLETE"'
  sys "$AUTOLOOP_RUN_ID" 2 review.finish '"kind": "metareview", "exit_code": "0", "timed_out": false, "output": ""'
  sys "$AUTOLOOP_RUN_ID" "" loop.start '"max_iterations": "99", "objective": "mine"'
  printf '{"run": "%s", "iteration": "1", "topic": "tasks.ready.parallel.joined", "payload": "", "source": "agent"}\n' "$AUTOLOOP_RUN_ID" >> "$J"
  printf '{"run": "%s", "iteration": "1", "topic": "loop.complete", "payload": "", "source": "agent"}\n' "$AUTOLOOP_RUN_ID" >> "$J"
  sys another-run "" loop.start '"max_iterations": "99", "objective": "other"'
fi"#;
    let sandbox = with_roles(agent, "event_loop.max_iterations = 2");
    assert_eq!(run(&sandbox), Some(1));
    assert_snapshot!(sandbox.story(), @"
    - loop.start max_iterations=2 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles=planner allowed_events=tasks.ready backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    - loop.complete reason=completion_event
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=LOOP_COMPLETE
    9 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=LOOP_COMPLETE
    2 review.finish kind=metareview exit_code=0 timed_out=false output=''
    - loop.start max_iterations=99 objective=mine
    1 tasks.ready.parallel.joined payload=''
    1 loop.complete payload=''
    (run 2) - loop.start max_iterations=99 objective=other
    1 backend.finish exit_code=0 timed_out=false output=''
    1 event.invalid recent_event=loop.start emitted=loop.complete suggested_roles=planner allowed_events=tasks.ready reason=forged
    1 event.invalid recent_event=loop.start emitted=iteration.finish suggested_roles=planner allowed_events=tasks.ready reason=forged
    1 event.invalid recent_event=loop.start emitted=iteration.finish suggested_roles=planner allowed_events=tasks.ready reason=forged
    1 event.invalid recent_event=loop.start emitted=review.finish suggested_roles=planner allowed_events=tasks.ready reason=forged
    1 event.invalid recent_event=loop.start emitted=loop.start suggested_roles=planner allowed_events=tasks.ready reason=forged
    1 event.invalid recent_event=loop.start emitted=tasks.ready.parallel.joined suggested_roles=planner allowed_events=tasks.ready reason=forged
    1 event.invalid recent_event=loop.start emitted=loop.complete suggested_roles=planner allowed_events=tasks.ready reason=forged
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=''
    2 iteration.start recent_event=loop.start suggested_roles=planner allowed_events=tasks.ready backpressure=invalid event 'loop.complete'; only the harness may write such topics; allowed next events: tasks.ready prompt=…
    2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    2 backend.finish exit_code=0 timed_out=false output=''
    2 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=''
    2 loop.stop reason=max_iterations completed_iterations=2 stopped_before_iteration=3 max_iterations=2
    ");
}

#[test]
fn reserved_topics_are_refused_by_emit_too() {
    let agent = "for t in loop.complete iteration.finish review.finish x.parallel.joined; do $T emit $t 2>/dev/null; echo $t $?; done";
    let sandbox = shell(agent, "event_loop.max_iterations = 1");
    assert_eq!(run(&sandbox), Some(1));
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=1 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    1 event.invalid recent_event=loop.start emitted=loop.complete suggested_roles='' allowed_events='' reason=reserved
    1 event.invalid recent_event=loop.start emitted=iteration.finish suggested_roles='' allowed_events='' reason=reserved
    1 event.invalid recent_event=loop.start emitted=review.finish suggested_roles='' allowed_events='' reason=reserved
    1 event.invalid recent_event=loop.start emitted=x.parallel.joined suggested_roles='' allowed_events='' reason=reserved
    1 backend.finish exit_code=0 timed_out=false output=loop.complete 3\u000aiteration.finish 3\u000areview.finish 3\u000ax.parallel.joined 3\u000a
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=loop.complete 3\u000aiteration.finish 3\u000areview.finish 3\u000ax.parallel.joined 3\u000a
    1 loop.stop reason=max_iterations completed_iterations=1 stopped_before_iteration=2 max_iterations=1
    ");
}

#[test]
fn the_most_iterations_end_a_run() {
    let sandbox = shell("echo turn $N", "event_loop.max_iterations = 3");
    let output = sandbox.run(&["run", "."]);
    assert_eq!(output.code, Some(1));
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=3 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=Do the task and publish the completion event when finished.
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    1 backend.finish exit_code=0 timed_out=false output=turn 1\u000a
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=turn 1\u000a
    2 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    2 backend.finish exit_code=0 timed_out=false output=turn 2\u000a
    2 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=turn 2\u000a
    3 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    3 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    3 backend.finish exit_code=0 timed_out=false output=turn 3\u000a
    3 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=turn 3\u000a
    3 loop.stop reason=max_iterations completed_iterations=3 stopped_before_iteration=4 max_iterations=3
    ");
}

#[test]
fn a_backend_that_fails_ends_the_run_with_the_end_of_its_output() {
    let agent = "printf 'é%.0s' $(seq 600); echo; echo the end; exit 7";
    let sandbox = shell(agent, "");
    assert_eq!(run(&sandbox), Some(1));
    let tail = sandbox.fields("loop.stop", "output_tail").remove(0).replace("\\u000a", "\n");
    assert_eq!(tail.chars().count(), 500);
    assert!(tail.ends_with("éé\nthe end\n"), "{tail}");
    let story = sandbox.story();
    let story = story.replace(&"é".repeat(600), "[600 é]").replace(&"é".repeat(491), "[491 é]");
    assert_snapshot!(story, @"
    - loop.start max_iterations=3 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    1 backend.finish exit_code=7 timed_out=false output=[619 characters] detail=the end
    1 iteration.finish exit_code=7 timed_out=false elapsed_s=… output=[619 characters] detail=the end
    1 loop.stop reason=backend_failed iteration=1 output_tail=[510 characters] detail=the agent failed (exit code 7): the end
    ");
}

#[test]
fn an_event_of_a_failed_backend_does_not_complete() {
    let sandbox = shell("$T emit task.complete; echo LOOP_COMPLETE; exit 3", "");
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["backend_failed"]);
    assert!(!sandbox.journal().contains("\"topic\": \"loop.complete\""));
}

#[test]
fn a_backend_that_cannot_be_started_is_a_failure_with_127() {
    let sandbox = shell("", "");
    write_program(sandbox.path("orphan"), "#!/no/such/interpreter\n");
    sandbox.write("autoloops.toml", "backend.command = './orphan'\nreview.enabled = false");
    assert_eq!(run(&sandbox), Some(1));
    assert_snapshot!(sandbox.story(), @"
    - loop.start max_iterations=3 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=command command=./orphan prompt_mode=arg timeout_ms=1800000
    1 backend.finish exit_code=127 timed_out=false output=cannot start './orphan': there is no such file, or its interpreter is missing detail=cannot start './orphan': there is no such file, or its interpreter is missing
    1 iteration.finish exit_code=127 timed_out=false elapsed_s=… output=cannot start './orphan': there is no such file, or its interpreter is missing detail=cannot start './orphan': there is no such file, or its interpreter is missing
    1 loop.stop reason=backend_failed iteration=1 output_tail=cannot start './orphan': there is no such file, or its interpreter is missing detail=the agent failed (exit code 127): cannot start './orphan': there is no such file, or its interpreter is missing
    ");
}

#[test]
fn a_backend_whose_time_is_up_is_ended_with_all_its_children() {
    let agent = "echo begun; sleep 611 & setsid sleep 612 & trap '' TERM; touch there; while :; do sleep 613; done";
    let story = meet_a_limit(|limit| {
        let sandbox = shell(agent, &format!("backend.timeout_ms = {limit}"));
        assert_eq!(run(&sandbox), Some(1));
        assert_eq!(sandbox.survivors(), "");
        let story = sandbox.story().replace(&format!("timeout_ms={limit}"), "timeout_ms=[LIMIT]");
        let told = duration::print(Duration::from_millis(limit));
        let story = story.replace(&format!("after {told} "), "after [LIMIT] ");
        sandbox.path("there").exists().then_some(story)
    });
    assert_snapshot!(story, @r"
    - loop.start max_iterations=3 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=[LIMIT]
    1 backend.finish exit_code=137 timed_out=true output=begun\u000a detail=after [LIMIT] (backend.timeout_ms)
    1 iteration.finish exit_code=137 timed_out=true elapsed_s=… output=begun\u000a detail=after [LIMIT] (backend.timeout_ms)
    1 loop.stop reason=backend_timeout iteration=1 output_tail=begun\u000a detail=the agent timed out after [LIMIT] (backend.timeout_ms)
    ");
}

#[test]
fn required_events_are_counted_over_the_whole_run() {
    let agent = "case $N in 1) $T emit task.complete;; 2) $T emit other; echo LOOP_COMPLETE;; 3) $T emit review.passed;; esac";
    let sandbox = shell(
        agent,
        "event_loop.required_events = ['review.passed']\nevent_loop.max_iterations = 9",
    );
    assert_eq!(run(&sandbox), Some(0));
    assert_snapshot!(sandbox.topics(), @"
    - loop.start
    1 iteration.start
    1 backend.start
    1 task.complete
    1 backend.finish
    1 iteration.finish
    2 iteration.start
    2 backend.start
    2 other
    2 backend.finish
    2 iteration.finish
    3 iteration.start
    3 backend.start
    3 review.passed
    3 backend.finish
    3 iteration.finish
    3 loop.complete
    ");
    assert_eq!(sandbox.fields("loop.complete", "reason"), ["completion_event"]);
}

#[test]
fn a_promise_does_not_count_before_the_required_events() {
    let agent = "case $N in 2) $T emit review.passed;; esac; echo LOOP_COMPLETE";
    let sandbox = shell(
        agent,
        "event_loop.required_events = ['review.passed']\nevent_loop.max_iterations = 9",
    );
    assert_eq!(run(&sandbox), Some(0));
    assert_snapshot!(sandbox.topics(), @"
    - loop.start
    1 iteration.start
    1 backend.start
    1 backend.finish
    1 iteration.finish
    2 iteration.start
    2 backend.start
    2 review.passed
    2 backend.finish
    2 iteration.finish
    3 iteration.start
    3 backend.start
    3 backend.finish
    3 iteration.finish
    3 loop.complete
    ");
}

#[test]
fn the_handoff_map_chooses_the_next_role() {
    let agent = "case $N in 1) $T emit tasks.ready;; 2) $T emit review.ready;; 3) $T emit review.passed;; 4) $T emit task.complete;; esac";
    let sandbox = with_roles(agent, "event_loop.max_iterations = 9");
    assert_eq!(run(&sandbox), Some(0));
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=9 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles=planner allowed_events=tasks.ready backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    1 tasks.ready payload=''
    1 backend.finish exit_code=0 timed_out=false output=emitted tasks.ready\u000a
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=emitted tasks.ready\u000a
    2 iteration.start recent_event=tasks.ready suggested_roles=builder allowed_events=review.ready,build.blocked backpressure='' prompt=…
    2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    2 review.ready payload=''
    2 backend.finish exit_code=0 timed_out=false output=emitted review.ready\u000a
    2 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=emitted review.ready\u000a
    3 iteration.start recent_event=review.ready suggested_roles=critic allowed_events=review.passed,task.complete backpressure='' prompt=…
    3 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    3 review.passed payload=''
    3 backend.finish exit_code=0 timed_out=false output=emitted review.passed\u000a
    3 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=emitted review.passed\u000a
    4 iteration.start recent_event=review.passed suggested_roles=critic allowed_events=review.passed,task.complete backpressure='' prompt=…
    4 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    4 task.complete payload=''
    4 backend.finish exit_code=0 timed_out=false output=emitted task.complete\u000a
    4 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=emitted task.complete\u000a
    4 loop.complete reason=completion_event
    ");
}

#[test]
fn a_pattern_in_the_map_hands_over_too() {
    let agent = "case $N in 1) $T emit tasks.ready;; 2) $T emit build.blocked;; esac";
    let sandbox = with_roles(agent, "event_loop.max_iterations = 3");
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(
        sandbox.fields("iteration.start", "suggested_roles"),
        ["planner", "builder", "planner"]
    );
}

#[test]
fn an_event_without_a_handoff_suggests_all_roles() {
    let sandbox = shell("[ $N = 1 ] && $T emit odd.thing; true", "event_loop.max_iterations = 2");
    sandbox.write(
        "topology.toml",
        "[[role]]\nid = 'a'\nemits = ['odd.thing', 'x']\n[[role]]\nid = 'b'\nemits = ['y', 'x']\n[handoff]\n'loop.start' = ['a']\n",
    );
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("iteration.start", "suggested_roles"), ["a", "a,b"]);
    assert_eq!(
        sandbox.fields("iteration.start", "allowed_events"),
        ["odd.thing,x", "odd.thing,x,y"]
    );
}

#[test]
fn without_roles_every_event_is_accepted() {
    let agent = "case $N in 1) $T emit anything.goes 'and routes'; esac";
    let sandbox = shell(agent, "event_loop.max_iterations = 2");
    sandbox.write("topology.toml", "");
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("iteration.start", "recent_event"), ["loop.start", "anything.goes"]);
    assert_eq!(sandbox.fields("iteration.start", "allowed_events"), ["", ""]);
    assert!(sandbox.fields("event.invalid", "emitted").is_empty());
}

#[test]
fn coordination_is_always_accepted_and_never_routes() {
    let agent = "for t in issue.discovered issue.resolved slice.started slice.verified slice.committed context.archived; do $T emit $t 'id=1;' || exit 5; done";
    let sandbox = with_roles(agent, "event_loop.max_iterations = 2");
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("iteration.start", "recent_event"), ["loop.start", "loop.start"]);
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
    assert_eq!(sandbox.fields("slice.verified", "source"), ["agent", "agent"]);
    assert!(sandbox.fields("event.invalid", "emitted").is_empty());
}

#[test]
fn a_role_has_its_own_agent() {
    let sandbox = shell("echo the usual; $T emit b.next", "event_loop.max_iterations = 2");
    sandbox.write("other.sh", "echo the other; cat; echo LOOP_COMPLETE");
    sandbox.write(
        "topology.toml",
        "[[role]]\nid = 'a'\nemits = ['b.next']\n[[role]]\nid = 'b'\nemits = ['x']\nbackend_args = ['other.sh']\nbackend_prompt_mode = 'stdin'\nbackend_timeout_ms = 60000\n[handoff]\n'loop.start' = 'a'\n'b.next' = 'b'\n",
    );
    assert_eq!(run(&sandbox), Some(0));
    assert_snapshot!(sandbox.fields("backend.start", "prompt_mode").join(" "), @"arg stdin");
    assert_eq!(sandbox.fields("backend.start", "timeout_ms"), ["1800000", "60000"]);
    let outputs = sandbox.fields("iteration.finish", "output");
    assert!(outputs[0].starts_with("the usual"), "{outputs:?}");
    assert!(outputs[1].starts_with("the other\\u000a"), "{outputs:?}");
}

#[test]
fn two_hundred_quick_iterations_are_all_recorded_as_successes() {
    let sandbox = shell("", "");
    sandbox.write(
        "autoloops.toml",
        "backend.command = 'true'\nreview.enabled = false\njournal.sync = 'never'",
    );
    assert_eq!(sandbox.run(&["run", ".", "-i", "200"]).code, Some(1));
    assert_eq!(sandbox.fields("iteration.finish", "exit_code"), vec!["0"; 200]);
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
}

#[test]
fn an_earlier_event_routes_when_a_later_one_is_withdrawn() {
    let agent = r#"
if [ $N = 1 ]; then
  $T emit tasks.ready
  printf '{"run": "%s", "iteration": "1", "topic": "bogus", "payload": "", "source": "agent"}\n' "$AUTOLOOP_RUN_ID" >> "$AUTOLOOP_JOURNAL_FILE"
fi"#;
    let sandbox = with_roles(agent, "event_loop.max_iterations = 2");
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("event.invalid", "emitted"), ["bogus"]);
    assert_eq!(sandbox.fields("iteration.start", "recent_event"), ["loop.start", "tasks.ready"]);
    assert!(sandbox.fields("iteration.start", "backpressure")[1].contains("bogus"));
}

#[test]
fn an_event_of_another_run_does_not_count_in_this_one() {
    let agent = r#"printf '{"run": "other", "iteration": "1", "topic": "task.complete", "payload": "", "source": "agent"}\n' >> "$AUTOLOOP_JOURNAL_FILE""#;
    let sandbox = shell(agent, "event_loop.max_iterations = 1");
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
}

#[test]
fn a_child_that_keeps_the_output_open_does_not_block_the_loop() {
    let agent = "setsid sh -c 'sleep 661' & sleep 662 & echo LOOP_COMPLETE";
    let sandbox = shell(agent, "");
    assert_eq!(run(&sandbox), Some(0));
    assert_eq!(sandbox.survivors(), "");
}

#[test]
fn a_backend_that_is_ended_by_a_signal_has_failed() {
    let sandbox = shell("kill -9 $$", "");
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("backend.finish", "exit_code"), ["137"]);
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["backend_failed"]);
}

#[test]
fn words_in_the_output_of_a_failed_turn_change_no_reason() {
    let sandbox = shell("echo timeout 429 quota billing; exit 1", "");
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["backend_failed"]);
}

#[test]
fn the_last_refused_event_stays_in_the_prompt_until_the_run_ends() {
    let agent = "case $N in 1) $T emit bogus.x;; 2) $T emit tasks.ready;; esac; true";
    let sandbox = with_roles(agent, "event_loop.max_iterations = 3");
    assert_eq!(run(&sandbox), Some(1));
    let prompts = prompts(&sandbox);
    let is_told = |prompt: &String| prompt.contains("(last rejected: `bogus.x`)");
    assert_eq!(prompts.iter().map(is_told).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(sandbox.fields("iteration.start", "backpressure")[2], "", "it was made good");
}
