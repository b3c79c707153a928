//! `autoloop agents`: clients that are scripts, and what is told about them.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::write_program;
use insta::assert_snapshot;

const ANSWER: &str = r#"{"type":"thread.started","thread_id":"t-9"}
{"type":"turn.started"}
{"type":"item.completed","item":{"type":"agent_message","text":"ready"}}
{"type":"turn.completed","usage":{"input_tokens":32,"cached_input_tokens":10,"output_tokens":14}}"#;
const REFUSAL: &str = r#"{"type":"turn.started"}
{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: no such key"}}"#;

/// A machine whose only client is a codex that prints these lines.
fn machine(prints: &str) -> Sandbox {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    let bin = sandbox.path("bin");
    fs::create_dir(&bin).unwrap();
    let version = "case \"$1\" in --version) echo codex-cli 0.166.0; exit;; esac";
    let ask = "echo \"$*\" > asked\nwhile read -r line; do echo \"$line\" >> asked; done";
    let agent = format!("#!/bin/sh\n{version}\n{ask}\necho '{prints}'\n");
    write_program(bin.join("codex"), agent);
    let home = sandbox.path("home");
    sandbox.env("PATH", &bin).env("HOME", home).env("CODEX_HOME", "").env("OPENAI_API_KEY", "k")
}

/// What is told about a client, without the time that it took.
fn check(sandbox: &Sandbox, args: &[&str]) -> String {
    let told = sandbox.run(&[&["agents", "check"], args].concat()).to_string();
    let untimed =
        |line: &str| match line.split_once("answered in ").or(line.split_once("seconds\": ")) {
            Some((before, after)) => {
                format!("{before}…{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
            }
            None => line.to_owned(),
        };
    told.lines().map(untimed).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_client_that_answers_works() {
    let sandbox = machine(ANSWER);
    assert_snapshot!(check(&sandbox, &["codex:m"]), @"
    exit 0
    --- stdout
    codex:m works: … s, model m, 46 tokens
    ");
    let asked = String::from_utf8(sandbox.read("asked")).unwrap();
    assert_snapshot!(asked, @"
    exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --config=allow_login_shell=false --json -m m -
    Reply with the single word: ready
    ");
    assert_snapshot!(check(&sandbox, &["codex", "--model", "n", "--json"]), @r#"
    exit 0
    --- stdout
    {
      "agent": "codex",
      "…,
      "model": "n",
      "session": "t-9",
      "total_tokens": 46,
      "cost_usd": null
    }
    "#);
}

#[test]
fn a_client_that_is_refused_does_not_work() {
    assert_snapshot!(check(&machine(REFUSAL), &["codex"]), @"
    exit 1
    --- stderr
    autoloop: codex does not work: the agent failed (exit code 1): unexpected status 401 Unauthorized: no such key
      hint: log in with the client, or set the API key of its provider; name its variable in backend.env
    ");
    // A turn without an end has failed, whatever the exit code is.
    assert_snapshot!(check(&machine(""), &["codex"]), @"
    exit 1
    --- stderr
    autoloop: codex does not work: the agent failed (exit code 1): the agent ended without an answer
    ");
}

#[test]
fn what_is_missing_is_what_the_advice_is_about() {
    let sandbox = machine(REFUSAL).env("OPENAI_API_KEY", "");
    assert_snapshot!(check(&sandbox, &["codex"]), @"
    exit 1
    --- stderr
    autoloop: codex does not work: the agent failed (exit code 1): unexpected status 401 Unauthorized: no such key
      hint: log in with `codex login`, or set OPENAI_API_KEY
    ");
    assert_snapshot!(check(&sandbox, &["gemini"]), @"
    exit 1
    --- stderr
    autoloop: 'gemini' is not on PATH
      hint: list the installed clients with `autoloop agents`
    ");
    assert_snapshot!(check(&sandbox, &["gemini -i"]), @"
    exit 2
    --- stderr
    autoloop: gemini cannot run unattended with '-i': it would wait for more input
    ");
}

#[test]
fn clients_are_listed_with_what_they_lack() {
    let listed = machine(ANSWER).env("OPENAI_API_KEY", "").run(&["agents"]);
    assert_snapshot!(listed, @"
    exit 0
    --- stdout
    AGENT     VERSION  STATE          OFFERS
    claude    -        not installed  cost, mcp, resume
    codex     0.166.0  see below      mcp, resume
    gemini    -        not installed  acp, mcp, resume
    opencode  -        not installed  acp, cost, mcp, resume
    pi        -        not installed  cost, resume

    codex has no credentials in its files or in the environment
      hint: log in with `codex login`, or set OPENAI_API_KEY
    ");
}
