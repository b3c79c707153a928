//! `autoloop slots verdict` through the binary: the output of reviewers.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs::File;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::Output;
use insta::assert_snapshot;

const PASS: &str = r#"{"verdict": "pass", "followUpPrompt": "LGTM"}"#;

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop"))
}

/// Pipes an output in.
fn verdict(output: impl AsRef<[u8]>, args: &[&str]) -> Output {
    let sandbox = sandbox();
    sandbox.write("output", output);
    let mut command = sandbox.command();
    command.args(["slots", "verdict"]).args(args);
    command.stdin(File::open(sandbox.path("output")).unwrap());
    sandbox.finish(command)
}

#[test]
fn each_verdict_has_its_exit_code() {
    assert_snapshot!(verdict(format!("All is well.\n{PASS}\nBye."), &[]), @r#"
    exit 0
    --- stdout
    {"verdict": "pass", "followUpPrompt": "LGTM", "reason": null}
    "#);
    assert_eq!(verdict(PASS, &["-"]).code, Some(0));
    assert_snapshot!(verdict(r#"{"verdict":"drift","followUpPrompt":"say \"hi\"\n"}"#, &[]), @r#"
    exit 1
    --- stdout
    {"verdict": "drift", "followUpPrompt": "say \u0022hi\u0022\u000a", "reason": null}
    --- stderr
    autoloop: the verdict is drift
    "#);
    assert_snapshot!(verdict(format!("`f() {{ 1 }}` is fine.\n{PASS}"), &[]), @r#"
    exit 3
    --- stdout
    {"verdict": "violation", "followUpPrompt": null, "reason": "the first '{' (at line 1, column 6) does not begin a JSON object: key must be a string at line 1, column 8; the text there: `f() { 1 }` is fine. {\u0022verdict\u0022: \u0022pass\u0022, \u0022followUpPrompt\u0022: \u0022LGTM\u0022}"}
    --- stderr
    autoloop: no verdict: the first '{' (at line 1, column 6) does not begin a JSON object: key must be a string at line 1, column 8; the text there: `f() { 1 }` is fine. {"verdict": "pass", "followUpPrompt": "LGTM"}
      hint: the reviewer must print {"verdict": "pass" or "drift", "followUpPrompt": "…"}, with no other '{' before it
    "#);
}

#[test]
fn a_message_of_claude_may_be_spread_over_lines() {
    let said = PASS.replace('"', "\\\"");
    let spread = format!(
        "{{\n  \"type\": \"result\",\n  \"is_error\": false,\n  \"usage\": {{\n    \"input_tokens\": 1\n  }},\n  \"result\": \"{said}\"\n}}\n"
    );
    assert_snapshot!(verdict(&spread, &["--client", "claude"]), @r#"
    exit 0
    --- stdout
    {"verdict": "pass", "followUpPrompt": "LGTM", "reason": null}
    "#);
    let cut_off = spread.trim_end().trim_end_matches('}');
    assert_eq!(verdict(cut_off, &["--client", "claude"]).code, Some(3));
}

#[test]
fn streams_of_clients_are_unwrapped() {
    let said = PASS.replace('"', "\\\"");
    let claude = format!(
        "{{\"type\":\"system\",\"subtype\":\"init\"}}\n{{\"is_error\":false,\"subtype\":\"success\",\"result\":\"{said}\",\"type\":\"result\"}}\n"
    );
    let codex = format!(
        "{{\"type\":\"turn.started\"}}\n{{\"type\":\"item.completed\",\"item\":{{\"type\":\"agent_message\",\"text\":\"{said}\"}}}}\n{{\"type\":\"turn.completed\"}}\n"
    );
    let pi = format!(
        "{{\"type\":\"turn_end\",\"message\":{{\"role\":\"assistant\",\"stopReason\":\"stop\",\"content\":\"{said}\"}}}}\n"
    );
    for (client, stream) in [("claude", &claude), ("codex", &codex), ("pi", &pi)] {
        let output = verdict(stream, &["--client", client]);
        assert_eq!(output, verdict(PASS, &["--client", "plain"]), "{client}");
    }
    assert_snapshot!(verdict(&claude, &[]), @r#"
    exit 3
    --- stdout
    {"verdict": "violation", "followUpPrompt": null, "reason": "the first JSON object has no 'verdict'; it begins with 'type', 'subtype'"}
    --- stderr
    autoloop: no verdict: the first JSON object has no 'verdict'; it begins with 'type', 'subtype'
      hint: this looks like the stream of a client: name it with --client
    "#);
    assert_snapshot!(verdict(PASS, &["--client", "claude"]), @r#"
    exit 3
    --- stdout
    {"verdict": "violation", "followUpPrompt": null, "reason": "the agent ended without an answer"}
    --- stderr
    autoloop: no verdict: the agent ended without an answer
      hint: if this is not the stream of claude, name another client with --client
    "#);
    let failed = claude.replace("\"is_error\":false", "\"is_error\":true");
    assert_eq!(verdict(failed, &["--client", "claude"]).code, Some(3), "whatever it said");
}

#[test]
fn what_cannot_be_read_is_no_verdict() {
    let sandbox = sandbox();
    sandbox.write("output", PASS);
    assert_eq!(sandbox.run(&["slots", "verdict", "output"]).code, Some(0));
    assert_snapshot!(sandbox.run(&["slots", "verdict", "missing"]), @"
    exit 2
    --- stderr
    autoloop: cannot read missing: No such file or directory (os error 2)
      hint: name the file with the output of the reviewer, or pipe the output in
    ");
    assert_snapshot!(sandbox.run(&["slots", "verdict", "."]), @"
    exit 2
    --- stderr
    autoloop: cannot read .: it is not a regular file
      hint: name the file with the output of the reviewer, or pipe the output in
    ");
    assert_snapshot!(sandbox.run(&["slots", "verdict", "--client", "gpt"]), @r"
    exit 2
    --- stderr
    error: invalid value 'gpt' for '--client <CLIENT>'
      [possible values: plain, claude, codex, gemini, opencode, pi, acp]

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.run(&["slots", "verdict"]), @r#"
    exit 3
    --- stdout
    {"verdict": "violation", "followUpPrompt": null, "reason": "the reviewer's final message is empty: expected a JSON object with the verdict"}
    --- stderr
    autoloop: no verdict: the reviewer's final message is empty: expected a JSON object with the verdict
      hint: the reviewer must print {"verdict": "pass" or "drift", "followUpPrompt": "…"}, with no other '{' before it
    "#);
}

#[test]
fn bytes_that_are_no_text_do_no_harm() {
    let output = [b"\xff\0\x1b[1m".as_slice(), PASS.as_bytes(), b"\0\xff"].concat();
    assert_eq!(verdict(output, &[]).code, Some(0));
    assert_eq!(verdict([0xff; 1000], &[]).code, Some(3));
    let inside = PASS.as_bytes().split(|byte| *byte == b'L').collect::<Vec<_>>().join(&0xff);
    assert_snapshot!(verdict(inside, &[]).stdout, @r#"{"verdict": "pass", "followUpPrompt": "�GTM", "reason": null}"#);
}

/// Of any output at most 8 MiB are held, and only the verdict can need them.
#[test]
fn a_giant_output_is_read_in_little_memory() {
    let sandbox = sandbox();
    let large = 24 << 20;
    let nested = format!("{{\"a\": {}", "[".repeat(large / 8));
    let ignored = |length| format!("{{\"a\": \"{}\", {}", "x".repeat(length), &PASS[1..]);
    let around = format!("{}{PASS}{}", "\n".repeat(large), "{".repeat(large));
    for (name, output, code) in [
        ("nested", nested, 3),
        ("ignored", ignored(large / 4), 0),
        ("too-long", ignored(large), 3),
        ("around", around, 0),
    ] {
        sandbox.write(name, output);
        let mut command = sandbox.at_home("sh");
        command.args(["-c", "ulimit -d 16384; exec \"$0\" slots verdict \"$1\""]);
        command.arg(sandbox.binary()).arg(name);
        let output = sandbox.finish(command);
        assert_eq!(output.code, Some(code), "{name}: {output}");
    }
}
