//! Loops whose agent is a program that speaks the Agent Client Protocol.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::io::{Read, Write};
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Output, Reaped, meet_a_limit, until};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

/// A program that speaks the protocol. What it does with the prompt is its last argument; what it is told is in `told`.
const PROGRAM: &str = r#"
import json, os, subprocess, sys

scene = sys.argv[-1]
told = open("told", "a", buffering=1)


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(kind, /, **more):
    send(method="session/update", params={"sessionId": "s-1", "update": {"sessionUpdate": kind, **more}})


def say(text):
    update("agent_message_chunk", content={"type": "text", "text": text})


def receive():
    line = sys.stdin.readline()
    if not line:
        told.write("end of input\n")
        sys.exit(0)
    return json.loads(line)


def refuse(call, code, message, data=None):
    send(id=call["id"], error={"code": code, "message": message, "data": data})


def permission():
    kinds = ["reject_once", "allow_always"] + ["allow_once"] * (scene == "work")
    options = [{"optionId": "id of " + kind, "name": kind, "kind": kind} for kind in kinds]
    call = {"toolCallId": "c-1", "title": "emit", "kind": "execute", "status": "pending"}
    send(id="p-1", method="session/request_permission", params={"sessionId": "s-1", "options": options, "toolCall": call})
    answer = receive()
    while answer.get("id") != "p-1":
        answer = receive()
    told.write("permission: " + json.dumps(answer["result"]["outcome"], sort_keys=True) + "\n")


def work(call):
    print("a line that is no message", flush=True)
    print("a warning", file=sys.stderr, flush=True)
    say("I lo")
    say("ok.\n")
    update("tool_call", toolCallId="c-1", title="shell", kind="execute", status="pending")
    update("something_new", field=[1])
    permission()
    subprocess.run([os.environ["AUTOLOOP_BIN"], "emit", "task.complete", "done"], check=True, stdout=subprocess.DEVNULL)
    update("tool_call_update", toolCallId="c-1", status="completed")
    say("All ")
    say("done.")
    update("usage_update", used=16, size=1000, cost={"amount": 0.25, "currency": "USD"})
    usage = {"inputTokens": 11, "outputTokens": 7, "cachedReadTokens": 5, "totalTokens": 23}
    send(id=call["id"], result={"stopReason": "end_turn", "usage": usage})


def prompt(call):
    told.write("prompt: " + str(len(call["params"]["prompt"])) + " block\n")
    if scene in ("work", "forever"):
        work(call)
    elif scene == "401":
        refuse(call, 401, json.dumps({"error": {"code": 401, "message": "this key is unknown"}}))
    elif scene == "429":
        refuse(call, -32603, "Internal error", {"errorKind": "rate_limit", "details": "try again in 7s"})
    elif scene == "cancel":
        say("half")
        open("there", "w").close()
        while receive().get("method") != "session/cancel":
            pass
        told.write("cancelled\n")
        send(id=call["id"], result={"stopReason": "cancelled"})
    elif scene == "hang":
        subprocess.Popen(["sleep", "691"])
        say("half\n")
        open("there", "w").close()
        while True:
            receive()
    elif scene == "die":
        say("half")
        print("out of memory", file=sys.stderr, flush=True)
        sys.exit(3)
    elif scene == "stay":
        send(id=call["id"], result={"stopReason": "end_turn"})
        import time
        time.sleep(691)


while True:
    call = receive()
    method, params = call.get("method"), call.get("params")
    if method == "initialize" and scene == "refuse":
        refuse(call, -32602, "Invalid params", "this version is too old")
    elif method == "initialize":
        info = {"name": "stand-in", "version": "1.0"}
        send(id=call["id"], result={"protocolVersion": 1 if scene != "newer" else 2, "agentInfo": info, "agentCapabilities": {}})
    elif method == "session/new" and scene == "login":
        refuse(call, -32000, "Authentication required")
    elif method == "session/new":
        told.write("session in " + params["cwd"].replace(os.getcwd(), "here") + "\n")
        for server in params["mcpServers"]:
            told.write("server: " + json.dumps(server, sort_keys=True) + "\n")
        modes = [{"id": mode, "name": mode} for mode in ("read-only", "full-access")]
        result = {"sessionId": "s-1", "modes": {"currentModeId": "read-only", "availableModes": modes}}
        if scene != "work":
            models = [{"modelId": model, "name": model} for model in ("m-1", "m-2")]
            result["models"] = {"currentModelId": "m-1", "availableModels": models}
        send(id=call["id"], result=result)
    elif method == "session/set_model" and params["modelId"] not in ("m-1", "m-2"):
        refuse(call, -32602, "no such model")
    elif method in ("session/set_mode", "session/set_model"):
        told.write(method + ": " + params.get("modeId", params.get("modelId")) + "\n")
        send(id=call["id"], result={})
    elif method == "session/prompt":
        prompt(call)
"#;

fn sandbox(scene: &str, settings: &str) -> Sandbox {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    let settings = format!(
        "backend.kind = 'acp'\nbackend.command = 'python3'\nbackend.args = ['agent.py', '{scene}']\n\
         backend.grace_ms = 3000\nbackend.max_wait = '1ms'\nreview.enabled = false\nevent_loop.max_iterations = 1\n{settings}\n"
    );
    sandbox.write("autoloops.toml", settings).write("agent.py", PROGRAM);
    sandbox
}

fn run(sandbox: &Sandbox) -> Output {
    let output = sandbox.run(&["run", ".", "make", "it"]);
    assert_eq!(sandbox.survivors(), "", "{output}");
    output
}

fn told(sandbox: &Sandbox) -> String {
    String::from_utf8(sandbox.read("told")).unwrap()
}

/// The error of a turn that failed, as the journal has it.
fn failure(scene: &str, settings: &str) -> String {
    let sandbox = sandbox(scene, settings);
    let output = run(&sandbox);
    assert_eq!(output.code, Some(1), "{output}");
    sandbox.fields("backend.finish", "output").join("")
}

#[test]
fn a_turn_is_recorded_and_its_permissions_are_given() {
    let sandbox = sandbox("work", "");
    let output = run(&sandbox);
    assert_eq!(output.code, Some(0), "{output}\n{}", sandbox.journal());
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=1 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=acp command=python3 prompt_mode=stdin timeout_ms=1800000
    1 task.complete payload=done
    1 backend.finish exit_code=0 timed_out=false output=All done.
    1 backend.usage input_tokens=11 output_tokens=7 cache_read_tokens=5 cache_write_tokens=0 total_tokens=23 cost_usd=0.25 turns=2 session_id=s-1
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=All done.
    1 loop.complete reason=completion_event
    ");
    assert_snapshot!(told(&sandbox), @r#"
    session in here
    session/set_mode: full-access
    prompt: 1 block
    permission: {"optionId": "id of allow_once", "outcome": "selected"}
    end of input
    "#);
    let run = sandbox.fields("loop.start", "run").remove(0);
    let file = |name: &str| {
        String::from_utf8(sandbox.read(format!(".autoloop/runs/{run}/{name}"))).unwrap()
    };
    assert_snapshot!(file("acp-stream.1.jsonl"), @r#"
    {"type":"session","id":"s-1","agent":"stand-in 1.0"}
    {"type":"text","text":"I look.\n"}
    {"type":"tool_call","tool":"execute","title":"emit"}
    {"type":"text","text":"All done."}
    {"type":"usage","input":11,"output":7,"cache_read":5,"cache_write":0,"total":23,"cost_usd":0.25}
    {"type":"end","stop_reason":"end_turn"}
    "#);
    // Both outputs of the program are copied to it, at the same time.
    let errors = file("iteration-1.err");
    let mut errors: Vec<&str> = errors.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["a line that is no message", "a warning"]);
}

#[test]
fn a_permission_that_cannot_be_given_once_is_given_for_ever() {
    let sandbox = sandbox("forever", "");
    assert_eq!(run(&sandbox).code, Some(0));
    assert!(told(&sandbox).contains("id of allow_always"), "{}", told(&sandbox));
}

#[test]
fn errors_of_the_program_are_those_of_the_turn() {
    let scenes = ["401", "429", "refuse", "newer", "login", "die"];
    let failures = scenes.map(|scene| format!("{scene}: {}", failure(scene, "")));
    assert_snapshot!(failures.join("\n"), @r"
    401: [the agent failed: this key is unknown]
    429: [the agent failed: Internal error: try again in 7s]
    refuse: [the agent failed: initialize failed: Invalid params: this version is too old]
    newer: [the agent failed: initialize failed: Invalid request: required ACP protocol version 1 but peer negotiated 2; use a matching implementation for the negotiated protocol version]
    login: [the agent failed: session/new failed: Authentication required]
    die: half\u000a\u000a[the agent failed: python3 exited with code 3 before it answered session/prompt: out of memory]
    ");
}

#[test]
fn a_program_that_cannot_be_started_is_reported_before_the_run() {
    for (settings, expected) in [
        (
            "backend.kind = 'acp'",
            "such as backend.command = \"gemini\" with backend.args = [\"--acp\"]",
        ),
        ("backend = { kind = 'acp', command = 'no-such-program' }", "no-such-program"),
    ] {
        let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
        sandbox.write("autoloops.toml", settings);
        let output = sandbox.run(&["run", ".", "make", "it"]);
        assert_eq!(output.code, Some(1), "{output}");
        assert!(output.stderr.contains(expected), "{output}");
    }
}

#[test]
fn the_model_is_chosen_where_the_program_offers_a_choice() {
    let chosen = sandbox("cancel", "");
    let mut turn = chosen.command();
    turn.args(["__acp", "--model=m-2", "--", "python3", "agent.py", "forever"]);
    turn.env("AUTOLOOP_BIN", "true");
    let output = chosen.finish(turn);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(told(&chosen).contains("session/set_model: m-2"), "{}", told(&chosen));
    assert!(output.stdout.contains(r#""model":"m-2""#), "{output}");

    let told = ["forever", "work"].map(|scene| failure(scene, "backend.model = 'm-3'"));
    assert_snapshot!(told.join("\n"), @r"
    [the agent failed: python3 refused the model 'm-3': no such model (it offers m-1, m-2)]
    [the agent failed: python3 does not offer a choice of models over ACP; set 'm-3' in its own settings or arguments, and not as the model of the agent]
    ");
}

#[test]
fn the_program_is_given_the_tools_of_its_agent() {
    let sandbox = sandbox("forever", "");
    let mut turn = sandbox.command();
    turn.args(["__acp", "--mcp=/p/autoloop", "--", "python3", "agent.py", "forever"]);
    turn.env("AUTOLOOP_BIN", "true").env("AUTOLOOP_DOOR", "/p/door").env("AUTOLOOP_TICKET", "t");
    let output = sandbox.finish(turn);
    assert_eq!(output.code, Some(0), "{output}");
    let told = told(&sandbox);
    let server = told.lines().find(|line| line.starts_with("server: ")).unwrap_or_default();
    assert_snapshot!(server, @r#"server: {"args": ["mcp"], "command": "/p/autoloop", "env": [{"name": "AUTOLOOP_DOOR", "value": "/p/door"}, {"name": "AUTOLOOP_TICKET", "value": "t"}], "name": "autoloop"}"#);
}

#[test]
fn a_program_that_hangs_is_ended_with_everything_that_it_started() {
    let sandbox = meet_a_limit(|limit| {
        let sandbox = sandbox("hang", &format!("backend.timeout_ms = {limit}"));
        assert_eq!(run(&sandbox).code, Some(1));
        sandbox.path("there").exists().then_some(sandbox)
    });
    assert_eq!(sandbox.fields("backend.finish", "timed_out"), ["true"]);
    assert_eq!(
        sandbox.fields("backend.finish", "output"),
        [r"half\u000a\u000a[the agent was stopped before it finished]"]
    );
}

#[test]
fn a_turn_that_is_to_end_is_cancelled_first() {
    let sandbox = sandbox("cancel", "");
    let mut turn = sandbox.command();
    turn.args(["__acp", "--", "python3", "agent.py", "cancel"]);
    turn.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut turn = Reaped::start(turn);
    turn.0.stdin.take().unwrap().write_all(b"do it").unwrap();
    until("the turn", || sandbox.path("there").exists().then_some(()));
    kill_process(Pid::from_child(&turn.0), Signal::TERM).unwrap();
    let mut events = String::new();
    turn.0.stdout.take().unwrap().read_to_string(&mut events).unwrap();
    assert_snapshot!(events, @r#"
    {"type":"session","id":"s-1","model":"m-1","agent":"stand-in 1.0"}
    {"type":"text","text":"half"}
    {"type":"end","stop_reason":"cancelled"}
    "#);
    assert!(told(&sandbox).contains("cancelled\n"), "{}", told(&sandbox));
}

#[test]
fn a_program_that_stays_after_its_turn_is_ended() {
    let sandbox = sandbox("stay", "");
    let _ = run(&sandbox);
    assert_eq!(sandbox.fields("backend.finish", "exit_code"), ["0"]);
    assert!(!sandbox.journal().contains("orphan"), "{}", sandbox.journal());
}
