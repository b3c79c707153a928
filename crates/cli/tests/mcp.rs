//! The MCP server of an agent, spoken to over its standard input and output. This process is the harness.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use autoloop_core::layout::StateDir;
use autoloop_core::memory::Places;
use autoloop_runtime::emit::{Caller, Emitter};
use autoloop_runtime::failure::Failure;
use autoloop_runtime::ipc::{Handler, Server, Ticket, ToolBox, ToolSpec};
use autoloop_runtime::journal::{Durability, FileJournal, FileSettings};
use autoloop_runtime::memory::Tiers;
use autoloop_runtime::world::World;
use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::Reaped;
use autoloop_testkit::slots::git;
use insta::assert_snapshot;
use serde_json::{Value, json};

const DIR: &str = ".autoloop/squad/swift-otter";
/// Nothing takes that long on any machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop"))
}

/// An agent with these tools.
fn open(tools: impl ToolBox + 'static) -> (Sandbox, Server) {
    let sandbox = sandbox();
    let world = World::real();
    let settings = FileSettings::default();
    let emitter = Emitter {
        caller: Caller { run: Some("swift-otter".into()), ..Caller::default() },
        journal: Arc::new(FileJournal::new(sandbox.journal_path(), &world, settings)),
        durability: Durability::Synced,
        clock: Arc::clone(&world.clock),
    };
    let places = Places::of_run(&StateDir::new(sandbox.path(".autoloop")), "swift-otter");
    let memory = Tiers::at(places, &world, settings);
    let ticket = Ticket::draw(&*world.entropy);
    let socket = sandbox.path(DIR).join("1.door");
    let sandbox = sandbox.env("AUTOLOOP_DOOR", &socket).env("AUTOLOOP_TICKET", ticket.as_str());
    fs::create_dir_all(sandbox.path(DIR)).unwrap();
    let handler = Handler { ticket, emitter, memory, tools: Some(Arc::new(tools)) };
    (sandbox, Server::open(socket, handler).unwrap())
}

/// Repeats its arguments, except those of another loop, and keeps them.
#[derive(Clone, Default)]
struct Verdicts(Arc<Mutex<Vec<String>>>);

impl ToolBox for Verdicts {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec {
            name: "set_loop_review_result".into(),
            description: "Report review results for a specific loop".into(),
            schema: json!({
                "type": "object",
                "properties": { "loopId": { "type": "string" }, "passed": { "type": "boolean" } },
                "required": ["loopId", "passed"]
            }),
        }]
    }

    fn call(&self, tool: &str, arguments: &str) -> Result<String, Failure> {
        if arguments.contains("crow-1") {
            return Err(Failure::refused("unknown loop 'crow-1'").hint("pass swift-otter-1"));
        }
        self.0.lock().unwrap().push(arguments.to_owned());
        Ok(format!("stored {tool} {arguments}"))
    }
}

/// A client that speaks to `autoloop mcp`.
struct Session {
    server: Reaped,
    input: ChildStdin,
    lines: Receiver<String>,
    sent: u64,
}

impl Session {
    fn start(mut command: Command) -> Session {
        command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = Reaped::start(command);
        let input = server.0.stdin.take().unwrap();
        let output = BufReader::new(server.0.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Session { server, input, lines, sent: 0 }
    }

    fn initialized(sandbox: &Sandbox) -> Session {
        let mut session = Session::start(sandbox.command());
        session.initialize();
        session
    }

    fn initialize(&mut self) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let initialized = self.request("initialize", params);
        self.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        initialized
    }

    fn write(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Sends a request and returns its number.
    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.sent += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params });
        self.write(&request.to_string());
        self.sent
    }

    fn receive(&mut self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(PATIENCE).unwrap()).unwrap()
    }

    /// The result of a request, where no other answer is outstanding.
    fn request(&mut self, method: &str, params: Value) -> Value {
        let number = self.send(method, params);
        let mut answer = self.receive();
        assert_eq!(answer["id"], number, "{answer}");
        answer["result"].take()
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Closes the input, and returns what was printed from then on.
    fn end(self) -> Vec<Value> {
        let Session { mut server, input, lines, .. } = self;
        drop(input);
        let rest = lines.iter().map(|line| serde_json::from_str(&line).unwrap()).collect();
        assert!(server.0.wait().unwrap().success());
        rest
    }
}

#[test]
fn a_client_lists_and_calls_the_tools_of_its_agent() {
    let (sandbox, _server) = open(Verdicts::default());
    let mut session = Session::start(sandbox.command());
    let initialized = session.initialize();
    assert_eq!(initialized["protocolVersion"], "2025-06-18");
    assert_eq!(initialized["capabilities"], json!({ "tools": {} }));
    assert_eq!(
        initialized["serverInfo"],
        json!({ "name": "autoloop", "version": env!("CARGO_PKG_VERSION") })
    );
    let mut listed = session.request("tools/list", json!({}));
    let spec = Verdicts::default().tools().remove(0);
    assert_eq!(listed["tools"][0].take(), serde_json::to_value(spec).unwrap());
    let names = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone());
    assert_eq!(names.skip(1).collect::<Vec<_>>(), ["emit", "memory_add"]);
    let pass = json!({ "loopId": "swift-otter-1", "passed": true });
    let stored = r#"stored set_loop_review_result {"loopId":"swift-otter-1","passed":true}"#;
    assert_eq!(
        session.call("set_loop_review_result", pass),
        json!({ "content": [{ "type": "text", "text": stored }], "isError": false })
    );
    let other = json!({ "loopId": "crow-1", "passed": true });
    let refused = "unknown loop 'crow-1'\nhint: pass swift-otter-1";
    assert_eq!(
        session.call("set_loop_review_result", other),
        json!({ "content": [{ "type": "text", "text": refused }], "isError": true })
    );
    assert_eq!(session.end(), [Value::Null; 0]);
}

/// Without the tools of an agent there is still a server, because its client expects one.
#[test]
fn without_its_harness_a_server_has_no_tools_and_says_why() {
    let (agent, server) = open(Verdicts::default());
    let text = |mut session: Session| {
        assert_eq!(session.request("ping", json!({})), json!({}));
        assert_eq!(session.request("tools/list", json!({})), json!({ "tools": [] }));
        let result = session.call("complete_task", json!({}));
        assert_eq!(result["isError"], true);
        session.end();
        result["content"][0]["text"].as_str().unwrap().to_owned()
    };
    assert_snapshot!(text(Session::initialized(&sandbox())), @r"
    not stored: there are no tools here, because AUTOLOOP_DOOR is not set
    hint: the harness of a squad sets it for the agents that it starts
    ");
    let orphan = Session::initialized(&agent);
    let agent = agent.env("AUTOLOOP_TICKET", "0".repeat(32));
    assert_snapshot!(text(Session::initialized(&agent)), @r"
    not stored: AUTOLOOP_TICKET is not the ticket of this harness
    hint: do not change AUTOLOOP_DOOR and AUTOLOOP_TICKET
    ");
    drop(server);
    assert_snapshot!(agent.filter(&text(orphan)), @r"
    not stored: the harness has ended: no process listens at [DIR]/.autoloop/squad/swift-otter/1.door (No such file or directory (os error 2))
    hint: AUTOLOOP_DOOR must be the socket of a harness; it exists while the agent runs
    ");
}

/// A tool whose harness waits, as for a slow disk.
struct Slow {
    begun: Mutex<Sender<()>>,
    proceed: Mutex<Receiver<()>>,
}

impl ToolBox for Slow {
    fn tools(&self) -> Vec<ToolSpec> {
        let (name, schema) = ("complete_task".to_owned(), json!({ "type": "object" }));
        vec![ToolSpec { name, description: String::new(), schema }]
    }

    fn call(&self, _: &str, _: &str) -> Result<String, Failure> {
        self.begun.lock().unwrap().send(()).unwrap();
        self.proceed.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        Ok("stored".into())
    }
}

fn slow() -> (Slow, Receiver<()>, Sender<()>) {
    let ((begun, begins), (proceeds, proceed)) = (channel(), channel());
    (Slow { begun: Mutex::new(begun), proceed: Mutex::new(proceed) }, begins, proceeds)
}

#[test]
fn a_slow_harness_does_not_delay_a_ping() {
    let (slow, begun, proceed) = slow();
    let (sandbox, _server) = open(slow);
    let mut session = Session::initialized(&sandbox);
    let call = session.send("tools/call", json!({ "name": "complete_task", "arguments": {} }));
    begun.recv_timeout(PATIENCE).unwrap();
    assert_eq!(session.request("ping", json!({})), json!({}));
    assert_eq!(session.request("tools/list", json!({}))["tools"][0]["name"], "complete_task");
    proceed.send(()).unwrap();
    let stored = session.receive();
    assert_eq!((&stored["id"], &stored["result"]["isError"]), (&json!(call), &json!(false)));
}

/// The agent ended, and with it the client: what it said counts nevertheless.
#[test]
fn a_client_that_leaves_loses_no_answer() {
    let (slow, begun, proceed) = slow();
    let (sandbox, server) = open(slow);
    let mut session = Session::initialized(&sandbox);
    session.send("tools/call", json!({ "name": "complete_task", "arguments": {} }));
    let Session { server: mut process, input, lines, .. } = session;
    drop((input, lines));
    begun.recv_timeout(PATIENCE).unwrap();
    proceed.send(()).unwrap();
    assert!(process.0.wait().unwrap().success());
    drop(server);
}

#[test]
fn calls_are_carried_out_in_the_order_in_which_they_were_sent() {
    let tools = Verdicts::default();
    let (sandbox, _server) = open(tools.clone());
    let mut session = Session::initialized(&sandbox);
    let call = |number| {
        let params = json!({ "name": "set_loop_review_result", "arguments": { "number": number } });
        json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params })
            .to_string()
    };
    session.write(&(100..200).map(call).collect::<Vec<_>>().join("\n"));
    assert_eq!(session.end().len(), 100);
    let expected: Vec<_> = (100..200).map(|number| format!(r#"{{"number":{number}}}"#)).collect();
    assert_eq!(*tools.0.lock().unwrap(), expected);
}

#[test]
fn what_is_not_mcp_is_answered_and_does_no_harm() {
    let (sandbox, _server) = open(Verdicts::default());
    let mut session = Session::initialized(&sandbox);
    for line in ["", "not JSON", "{", "\u{0}"] {
        session.write(line);
    }
    // The harness says what the arguments have to be.
    let text = session.call("set_loop_review_result", json!("x"))["content"][0]["text"].take();
    assert_eq!(text, r#"stored set_loop_review_result "x""#);
    let nameless = session.send("tools/call", json!({ "arguments": {} }));
    assert_eq!(
        session.receive(),
        json!({ "jsonrpc": "2.0", "id": nameless, "error": { "code": -32602, "message": "expected the name of a tool" } })
    );
    let unknown = session.send("tools/cal", json!({}));
    let answer = session.receive();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(unknown), &json!(-32601)));
    assert_eq!(session.request("ping", json!({})), json!({}));
}

#[test]
fn one_call_needs_no_client() {
    let (sandbox, server) = open(Verdicts::default());
    let call = |arguments: &[&str]| sandbox.run(&[&["mcp", "call"], arguments].concat());
    assert_snapshot!(call(&["set_loop_review_result", r#"{"loopId": "swift-otter-1", "passed": true}"#]), @r#"
    exit 0
    --- stdout
    stored set_loop_review_result {"loopId": "swift-otter-1", "passed": true}
    "#);
    assert_snapshot!(call(&["set_loop_review_result", r#"{"loopId": "crow-1", "passed": true}"#]), @r"
    exit 3
    --- stderr
    autoloop: unknown loop 'crow-1'
      hint: pass swift-otter-1
    ");
    assert_snapshot!(call(&["read_context"]), @r"
    exit 3
    --- stderr
    autoloop: unknown tool 'read_context': the tools of this agent are set_loop_review_result, emit, memory_add
    ");
    drop(server);
    assert_snapshot!(call(&["complete_task"]), @r"
    exit 3
    --- stderr
    autoloop: not stored: the harness has ended: no process listens at [DIR]/.autoloop/squad/swift-otter/1.door (No such file or directory (os error 2))
      hint: AUTOLOOP_DOOR must be the socket of a harness; it exists while the agent runs
    ");
    let sandbox = self::sandbox();
    assert_snapshot!(sandbox.run(&["mcp", "call", "complete_task"]), @r"
    exit 3
    --- stderr
    autoloop: not stored: there are no tools here, because AUTOLOOP_DOOR is not set
      hint: the harness of a squad sets it for the agents that it starts
    ");
}

/// An agent that does all of its work through an MCP client, and prints what the server said.
const AGENT: &str = r#"
import json, os, subprocess
server = subprocess.Popen([os.environ["AUTOLOOP_BIN"], "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
sent = 0
def request(method, params):
    global sent
    sent += 1
    line = json.dumps({"jsonrpc": "2.0", "id": sent, "method": method, "params": params})
    server.stdin.write(line.encode() + b"\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())["result"]
def call(tool, **arguments):
    result = request("tools/call", {"name": tool, "arguments": arguments})
    print("error:" if result["isError"] else "stored:", result["content"][0]["text"])
request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}})
phase, loop, task = (os.environ["AUTOLOOP_" + name] for name in ("PHASE", "LOOP_ID", "TASK_ID"))
tools = request("tools/list", {})["tools"]
print(phase, task + ":", *[tool["name"] for tool in tools])
if phase in ("build", "revise"):
    with open(task + ".txt", "a") as file:
        print(phase, file=file)
    call("set_loop_review_result", loopId=loop, passed=True)
    call("complete_task", taskId=task)
elif loop:
    print("schema:", json.dumps(tools[0]["inputSchema"]))
    is_good = task == "a" or os.path.exists(task + ".txt") and len(open(task + ".txt").readlines()) > 1
    call("set_loop_review_result", loopId="crow-1", passed=True)
    call("set_loop_review_result", loopId=loop, taskId=task, passed=is_good, issues=[] if is_good else [{"description": "say more"}])
else:
    call("set_review_result", passed=True)
server.stdin.close()
server.wait()
"#;

const PLAN: &str = r#"
[[task]]
id = "a"
title = "write a"
description = "write a.txt"
[[task]]
id = "b"
title = "write b"
description = "write b.txt"
[[group]]
tasks = ["a", "b"]
"#;

/// One passes at once, the other after a revision.
#[test]
fn a_squad_is_built_by_agents_that_speak_mcp() {
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), "", "");
    let script = sandbox.path("agent.py").display().to_string();
    let settings = String::from_utf8_lossy(&sandbox.read("autoloops.toml")).into_owned();
    let settings = settings
        .replace("\"sh\"", "\"python3\"")
        .replace("'sh'", "'python3'")
        .replace("agent.sh", &script);
    sandbox.write("autoloops.toml", settings);
    sandbox.write("agent.py", AGENT).write("plan.toml", PLAN).write(".gitignore", "home/\n");
    for words in
        [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]]
    {
        git(&sandbox, words);
    }
    let done = sandbox.run(&["squad", "--plan", "plan.toml", "--no-watch", "--effort", "low"]);
    assert_eq!(done.code, Some(0), "{done}");
    let run = sandbox.fields("squad.start", "run").remove(0);
    let mut outputs = sandbox.fields("squad.turn.finish", "output");
    outputs.sort();
    let outputs = outputs.concat().replace("\\u000a", "\n").replace("\\u0022", "\"");
    let (schemas, said): (Vec<_>, Vec<_>) =
        outputs.lines().partition(|line| line.starts_with("schema: "));
    assert_eq!(schemas.len(), 3);
    for schema in schemas {
        let schema: Value = serde_json::from_str(schema.trim_start_matches("schema: ")).unwrap();
        assert_eq!(schema, specified());
    }
    assert_snapshot!(said.join("\n").replace(&run, "[RUN]"), @r"
    build a: complete_task fail_task get_task write_context read_context record_cost emit memory_add
    error: unknown tool 'set_loop_review_result': the tools of this agent are complete_task, fail_task, get_task, write_context, read_context, record_cost, emit, memory_add
    stored: task a is reported as complete; it is reviewed when you end
    build b: complete_task fail_task get_task write_context read_context record_cost emit memory_add
    error: unknown tool 'set_loop_review_result': the tools of this agent are complete_task, fail_task, get_task, write_context, read_context, record_cost, emit, memory_add
    stored: task b is reported as complete; it is reviewed when you end
    review : set_review_result cite_command get_task write_context read_context record_cost emit memory_add
    stored: stored a pass; the last result before you end counts
    review a: set_loop_review_result cite_command get_task write_context read_context record_cost emit memory_add
    error: invalid loopId 'crow-1': this review is of loop [RUN]-1
    stored: stored a pass; the last result before you end counts
    review b: set_loop_review_result cite_command get_task write_context read_context record_cost emit memory_add
    error: invalid loopId 'crow-1': this review is of loop [RUN]-2
    stored: stored a fail with 1 issue; the last result before you end counts
    review b: set_loop_review_result cite_command get_task write_context read_context record_cost emit memory_add
    error: invalid loopId 'crow-1': this review is of loop [RUN]-2
    stored: stored a pass; the last result before you end counts
    revise b: complete_task fail_task get_task write_context read_context record_cost emit memory_add
    error: unknown tool 'set_loop_review_result': the tools of this agent are complete_task, fail_task, get_task, write_context, read_context, record_cost, emit, memory_add
    stored: task b is reported as complete; it is reviewed when you end
    ");
    assert_eq!(sandbox.fields("squad.answer", "passed").len(), 4);
    assert_eq!(git(&sandbox, &["show", "HEAD:b.txt"]), "build\nrevise");
}

/// The schema of `set_loop_review_result`, as it is specified.
fn specified() -> Value {
    json!({
        "type": "object",
        "properties": {
            "loopId": { "type": "string", "description": "The loop being reviewed" },
            "taskId": { "type": "string", "description": "The task that was reviewed (optional for checkpoint reviews)" },
            "passed": { "type": "boolean" },
            "interpretedIntent": { "type": "string" },
            "intentSatisfied": { "type": "boolean" },
            "issues": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "file": { "type": "string" },
                        "line": { "type": "number" },
                        "type": { "type": "string" },
                        "description": { "type": "string" },
                        "suggestion": { "type": "string" }
                    }
                }
            }
        },
        "required": ["loopId", "passed"]
    })
}
