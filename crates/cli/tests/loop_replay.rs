//! Loops whose agent replays the answers of an earlier run.
#![cfg(target_os = "linux")]

use std::os::unix::process::CommandExt;
use std::process::Command;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::part;
use insta::assert_snapshot;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The size of the data segment in which a giant answer is replayed.
const DATA: u64 = 16 * 1024 * 1024;

const TOPOLOGY: &str = r#"
[[role]]
id = "planner"
emits = ["tasks.ready"]
[[role]]
id = "builder"
emits = ["task.complete"]
[handoff]
"loop.start" = ["planner"]
"tasks.ready" = ["builder"]
"#;

/// An agent that is refused once, hands off, records coordination events, and completes.
const AGENT: &str = r#"
if [ -n "$AUTOLOOP_REVIEW_MODE" ]; then echo "no problems"; exit 0; fi
case $N in
1) $T emit bogus.x; printf 'half a line, LOOP_COMPLETE';;
2) $T emit tasks.ready '--file it says
two lines'; echo planned;;
3) $T emit slice.started 'id=a; description=b;' >/dev/null; $T emit task.complete; exit 0;;
esac
"#;

fn sandbox(agent: &str, settings: &str) -> Sandbox {
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, settings);
    sandbox.write("topology.toml", TOPOLOGY);
    sandbox
}

fn run(sandbox: &Sandbox) -> Option<i32> {
    sandbox.run(&["run", ".", "make", "it"]).code
}

/// Makes the loop replay `earlier.jsonl`.
fn replay_in(sandbox: &Sandbox, args: &str, settings: &str) {
    let review = if settings.contains("review.") { "" } else { "review.enabled = false\n" };
    let settings = format!(
        "backend = {{ kind = 'replay', command = 'earlier.jsonl', args = [{args}] }}\n{review}{settings}\n"
    );
    sandbox.write("autoloops.toml", settings);
}

/// A loop that replays a journal.
fn replaying(journal: impl AsRef<[u8]>, args: &str, settings: &str) -> Sandbox {
    let replaying = sandbox("", "");
    replaying.write("earlier.jsonl", journal);
    replay_in(&replaying, args, settings);
    replaying
}

/// The records, without the backend's command.
fn story(sandbox: &Sandbox) -> String {
    let backends = ["backend_kind=command command=sh", "backend_kind=replay command=earlier.jsonl"];
    backends.into_iter().fold(sandbox.story(), |story, backend| story.replace(backend, "[BACKEND]"))
}

#[test]
fn a_run_is_repeated_record_by_record() {
    let settings = "review.every_iterations = 2";
    let first = sandbox(AGENT, settings);
    assert_eq!(run(&first), Some(0));
    let second = replaying(first.read(".autoloop/journal.jsonl"), "", settings);
    assert_eq!(run(&second), Some(0));
    assert_eq!(story(&second), story(&first));
    assert_snapshot!(second.topics(), @r"
    - loop.start
    1 iteration.start
    1 backend.start
    1 event.invalid
    1 backend.finish
    1 iteration.finish
    2 iteration.start
    2 backend.start
    2 tasks.ready
    2 backend.finish
    2 iteration.finish
    3 review.start
    3 review.finish
    3 iteration.start
    3 backend.start
    3 slice.started
    3 task.complete
    3 backend.finish
    3 iteration.finish
    3 loop.complete
    ");
    let id = second.fields("loop.start", "run").remove(0);
    let left = second.path(format!(".autoloop/runs/{id}/iteration-2.prompt.payload"));
    assert!(!left.exists(), "the payload is in the way");
}

#[test]
fn the_rules_of_the_new_run_hold() {
    let first = sandbox(AGENT, "");
    run(&first);
    let second = replaying(
        first.read(".autoloop/journal.jsonl"),
        "",
        "event_loop.required_events = ['review.passed']",
    );
    second.write("topology.toml", TOPOLOGY.replace("tasks.ready", "plan.ready"));
    assert_eq!(run(&second), Some(1));
    let refused = second.fields("event.invalid", "emitted");
    assert_eq!(refused, ["bogus.x", "tasks.ready", "task.complete"]);
}

#[test]
fn the_exit_code_is_the_one_on_record() {
    let first = sandbox("echo broken; exit 9", "");
    assert_eq!(run(&first), Some(1));
    let second = replaying(first.read(".autoloop/journal.jsonl"), "", "");
    assert_eq!(run(&second), Some(1));
    assert_eq!(second.fields("backend.finish", "exit_code"), ["9"]);
    assert_eq!(second.fields("loop.stop", "output_tail"), ["broken\\u000a"]);
}

#[test]
fn the_latest_run_but_the_one_under_way_is_replayed_unless_one_is_named() {
    let sandbox = sandbox("echo first; exit 8", "");
    run(&sandbox);
    let first = sandbox.fields("loop.start", "run").remove(0);
    sandbox.write("agent.sh", "echo second; exit 9");
    run(&sandbox);
    let own = |args: &str| {
        replay_in(&sandbox, args, "");
        let settings = String::from_utf8(sandbox.read("autoloops.toml")).unwrap();
        let own = settings.replace("earlier.jsonl", ".autoloop/journal.jsonl");
        sandbox.write("autoloops.toml", own);
        run(&sandbox);
        sandbox.fields("backend.finish", "output").pop().unwrap()
    };
    assert_eq!(own(""), "second\\u000a");
    assert_eq!(own(&format!("'{first}'")), "first\\u000a");
}

#[test]
fn a_failed_replay_is_recorded_with_its_cause() {
    let first = sandbox("echo one", "event_loop.max_iterations = 2");
    run(&first);
    let journal = first.read(".autoloop/journal.jsonl");
    let name = first.fields("loop.start", "run").remove(0);
    let told = |journal: &[u8], args: &str| {
        let sandbox = replaying(journal, args, "event_loop.max_iterations = 3");
        assert_eq!(run(&sandbox), Some(1));
        assert_eq!(sandbox.fields("loop.stop", "reason"), ["backend_failed"]);
        let output = sandbox.fields("iteration.finish", "output").pop().unwrap();
        let code = sandbox.fields("iteration.finish", "exit_code").pop().unwrap();
        format!("{code}: {}", output.replace("\\u000a", "\n").replace(&name, "[RUN]"))
    };
    assert_snapshot!(told(b"", ""), @"1: autoloop: no earlier run to replay in earlier.jsonl");
    assert_snapshot!(told(&journal, "'no-such-run'"), @r"
    1: autoloop: no run 'no-such-run' in earlier.jsonl
      hint: set backend.args to the id of a run, or to nothing for the latest one
    ");
    assert_snapshot!(told(&journal, ""), @r"
    1: autoloop: iteration 3 of run '[RUN]' did not end in earlier.jsonl
      hint: turns 1 to 2 ended
    ");
    let started = String::from_utf8(journal.clone()).unwrap();
    let started: String = started.lines().take(2).map(|line| format!("{line}\n")).collect();
    assert_snapshot!(told(started.as_bytes(), ""), @r"
    1: autoloop: iteration 1 of run '[RUN]' did not end in earlier.jsonl
      hint: no such turn of it ended
    ");
}

#[test]
fn a_journal_that_does_not_exist_is_refused_before_the_run_begins() {
    let sandbox = replaying(b"", "", "");
    std::fs::remove_file(sandbox.path("earlier.jsonl")).unwrap();
    let output = sandbox.run(&["run", ".", "make", "it"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("there is no file [DIR]/earlier.jsonl"), "{output}");
    assert_eq!(sandbox.journal(), "");
}

#[test]
fn a_review_that_is_not_on_record_does_not_stop_the_loop() {
    let first = sandbox(AGENT, "");
    run(&first);
    let journal = first.read(".autoloop/journal.jsonl");
    let second = replaying(journal, "", "review.every_iterations = 2");
    assert_eq!(run(&second), Some(0));
    assert_eq!(second.fields("review.finish", "exit_code"), ["1"]);
    let output = second.fields("review.finish", "output").remove(0);
    assert!(output.contains("the review before iteration 3 of run"), "{output}");
}

#[test]
fn a_replay_by_hand_is_refused() {
    let sandbox = sandbox("", "");
    assert_snapshot!(sandbox.run(&["__replay", "--", "x"]), @r"
    exit 2
    --- stdout
    autoloop: a replay is started as an agent by `autoloop run`
    --- stderr
    autoloop: a replay is started as an agent by `autoloop run`
    ");
}

/// Runs `autoloop` with little memory.
#[test]
fn part_of_a_child() {
    let Some(arguments) = part() else { return };
    let limit = Rlimit { current: Some(DATA), ..getrlimit(Resource::Data) };
    setrlimit(Resource::Data, limit).unwrap();
    panic!("{}", Command::new(env!("CARGO_BIN_EXE_autoloop")).args(arguments.split(' ')).exec());
}

#[test]
fn giant_answers_and_payloads_are_repeated_in_little_memory() {
    let line = |fields: &str| format!("{{\"run\": \"r\", \"iteration\": \"1\", {fields}}}\n");
    let giant = "a \\u0022quoted\\u0022 text, ".repeat(250_000);
    let journal = [
        line(r#""topic": "loop.start", "fields": {}"#).replace("\"1\"", "\"\""),
        line(r#""topic": "iteration.start", "fields": {}"#),
        line(&format!(r#""topic": "tasks.ready", "payload": "{giant}", "source": "agent""#)),
        line(&format!(
            r#""topic": "iteration.finish", "fields": {{"exit_code": "7", "output": "{giant}"}}"#
        )),
    ];
    let sandbox = replaying(journal.concat(), "", "");
    let output = sandbox.finish(sandbox.play("run . make it"));
    assert_eq!(output.code, Some(1), "{output}");
    let journal = String::from_utf8(sandbox.read(".autoloop/journal.jsonl")).unwrap();
    let count = |text: String| journal.matches(&text).count();
    assert_eq!(count(format!(r#""topic": "tasks.ready", "payload": "{giant}", "#)), 1);
    assert_eq!(count(format!(r#""exit_code": "7", "timed_out": false, "output": "{giant}""#)), 1);
    assert_eq!(count(format!(r#""output": "{giant}""#)), 2);
}
