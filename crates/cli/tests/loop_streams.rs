//! Loops whose agent prints the stream of a client: its answer is recorded.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use autoloop_testkit::Sandbox;
use insta::assert_snapshot;

/// A loop of one iteration with an agent that prints these lines.
fn run(output: &str, lines: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    let settings = format!(
        "backend = {{ kind = 'script', command = 'agent.toml', output = '{output}' }}\nreview.enabled = false\nevent_loop.max_iterations = 1\n"
    );
    let prints: Vec<String> = lines.iter().map(|line| format!("{{ print = '{line}' }}")).collect();
    let script = format!("[[turn]]\ndo = [{}]\n", prints.join(", "));
    sandbox.write("autoloops.toml", settings).write("agent.toml", script);
    let _ = sandbox.run(&["run", ".", "make", "it"]);
    sandbox
}

fn stream_of(sandbox: &Sandbox, name: &str) -> String {
    let run = sandbox.fields("loop.start", "run").remove(0);
    String::from_utf8(sandbox.read(format!(".autoloop/runs/{run}/{name}"))).unwrap()
}

#[test]
fn the_answer_of_claude_and_its_cost_are_on_record() {
    let sandbox = run(
        "claude",
        &[
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"LOOP_COMPLETE?"}]}}"#,
            r#"{"type":"result","subtype":"success","is_error":false,"result":"LOOP_COMPLETE","total_cost_usd":0.5,"usage":{"input_tokens":11,"output_tokens":7,"cache_read_input_tokens":5}}"#,
        ],
    );
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=1 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=script command=agent.toml prompt_mode=arg timeout_ms=1800000
    1 backend.finish exit_code=0 timed_out=false output=LOOP_COMPLETE
    1 backend.usage input_tokens=11 output_tokens=7 cache_read_tokens=5 cache_write_tokens=0 total_tokens=23 cost_usd=0.5
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=LOOP_COMPLETE
    1 loop.complete reason=completion_promise
    ");
    assert!(stream_of(&sandbox, "claude-stream.1.jsonl").contains("LOOP_COMPLETE?"));
}

#[test]
fn a_turn_of_codex_that_failed_has_failed_whatever_its_exit_code() {
    let sandbox = run(
        "codex",
        &[
            r#"{"type":"turn.started"}"#,
            r#"{"type":"item.completed","item":{"type":"agent_message","text":"LOOP_COMPLETE"}}"#,
            r#"{"type":"turn.failed","error":{"message":"exceeded retry limit"}}"#,
        ],
    );
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["backend_failed"]);
    assert_eq!(sandbox.fields("backend.finish", "exit_code"), ["1"]);
    assert_eq!(
        sandbox.fields("backend.finish", "output"),
        [r"LOOP_COMPLETE\u000a\u000a[the agent failed: exceeded retry limit]"]
    );
    assert!(stream_of(&sandbox, "codex-stream.1.jsonl").contains("turn.failed"));
}
