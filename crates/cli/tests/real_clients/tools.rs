//! The tools of an agent: each client is given an MCP server, lists what it serves and calls it.

use std::io::Write;
use std::process::{Command, Stdio};

use autoloop_core::agents::{Adapter, Options};
use autoloop_testkit::model_server::{Reply, Request};
use autoloop_testkit::sandbox::write_program;
use serde_json::json;

use crate::lab::{Lab, User};

/// A server with one tool, which answers with what it is given and by whom it is asked. It says where the ticket is
/// visible.
const SERVER: &str = r#"#!/usr/bin/env python3
import json, os, sys

schema = {"type": "object", "properties": {"passed": {"type": "boolean"}}, "required": ["passed"]}
tool = {"name": "set_verdict", "description": "Stores the verdict.", "inputSchema": schema}
ticket = os.environ["AUTOLOOP_TICKET"]

def answer(call):
    method, params = call["method"], call.get("params", {})
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if method == "tools/list":
        return {"tools": [tool]}
    if method == "tools/call":
        lines = [open(f"/proc/{process}/cmdline").read() for process in (os.getpid(), os.getppid())]
        shown = any(ticket in line for line in lines)
        said = {"argv": sys.argv[1:], "door": os.environ["AUTOLOOP_DOOR"], "ticket": ticket, "shown": shown, **params["arguments"]}
        with open("verdict", "w") as file:
            file.write(json.dumps(said, sort_keys=True))
        return {"content": [{"type": "text", "text": "the verdict is stored"}]}
    return {} if method == "ping" else None

for line in sys.stdin:
    call = json.loads(line)
    if "id" not in call:
        continue
    result = answer(call)
    error = {"code": -32601, "message": "no such method"}
    message = {"error": error} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], **message}), flush=True)
"#;

fn model(request: &Request) -> Reply {
    match request.tool_results().is_empty() {
        true => Reply::tool("set_verdict", json!({ "passed": true })),
        false => Reply::text("It is decided."),
    }
}

fn lab(client: &'static str) -> Option<Lab> {
    let lab = Lab::new(client, User::Ours, model)?;
    write_program(lab.sandbox.path("server"), SERVER);
    Some(lab)
}

/// Runs the turn of an agent that has a ticket, with the variables that the harness sets for its client.
fn turn(lab: &Lab, client: &Adapter, mut command: Command) {
    command.envs(client.env.iter().copied()).env("PWD", lab.sandbox.path(""));
    command.env("AUTOLOOP_DOOR", "/the/door").env("AUTOLOOP_TICKET", "0123-ticket");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"- decide it\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    let results = lab.model.requests().last().unwrap().tool_results();
    assert!(results.concat().contains("the verdict is stored"), "{results:?}\n{printed}");
    let stored = String::from_utf8(lab.sandbox.read("verdict")).unwrap();
    insta::allow_duplicates! {
        insta::assert_snapshot!(stored, @r#"{"argv": ["mcp"], "door": "/the/door", "passed": true, "shown": false, "ticket": "0123-ticket"}"#);
    }
}

pub(crate) fn a_client_calls_the_tools_of_its_agent(client: &'static str) {
    let Some(lab) = lab(client) else { return };
    let adapter = Adapter::by_program(client).unwrap();
    let server = lab.sandbox.path("server");
    let Options { args, env } = adapter.tools(server.to_str().unwrap(), |_| None).unwrap();
    let mut command = lab.sandbox.at_home(client);
    command.args(adapter.arguments(&[], None, adapter.stream).unwrap()).args(args);
    command.args(adapter.stdin_argument()).envs(env);
    turn(&lab, adapter, command);
    // Codex lists the servers, and their tools when it searches for them.
    let offered = lab.model.requests()[0].body["tools"].to_string();
    let listed = if client == "codex" { "autoloop" } else { "set_verdict" };
    assert!(offered.contains(listed), "{offered}");
}

pub(crate) fn a_program_calls_the_tools_of_its_agent(program: &'static str, flag: &str) {
    let Some(lab) = lab(program) else { return };
    let mut command = lab.sandbox.command();
    let server = format!("--mcp={}", lab.sandbox.path("server").display());
    command.args(["__acp", &server, "--", program, flag]);
    turn(&lab, Adapter::by_program(program).unwrap(), command);
}
