//! Verdicts in the streams of clients: every shape of event that they are known to print, and streams that
//! end where they should not.

use autoloop_core::agents::Stream;
use autoloop_core::verdict::{Reader, Ruling};
use serde_json::{Value, json};

const PASS: &str = r#"{"verdict":"pass","followUpPrompt":"ok"}"#;
const DRIFT: &str = r#"{"verdict":"drift","followUpPrompt":"x"}"#;

/// The ruling of a stream with these lines; a string is a line as is.
fn ruling(client: Stream, lines: &[Value]) -> Option<Ruling> {
    let mut reader = Reader::new(client);
    for line in lines {
        let line = line.as_str().map_or_else(|| line.to_string(), str::to_owned);
        reader.push(line.as_bytes());
        reader.push(b"\n");
    }
    reader.finish().ok().map(|verdict| verdict.ruling)
}

fn says(text: &str) -> Value {
    json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}})
}

/// A result with something else in it.
fn result(text: &str, more: Value) -> Value {
    let mut result = json!({
        "session_id": "s", "is_error": false, "subtype": "success", "result": text,
        "terminal_reason": "completed", "type": "result",
    });
    if let (Value::Object(result), Value::Object(more)) = (&mut result, more) {
        result.extend(more);
    }
    result
}

fn done(text: &str) -> Value {
    result(text, json!({}))
}

/// A line that was not written to its end.
fn torn(line: &Value) -> Value {
    let line = line.to_string();
    line[..line.len() - 4].into()
}

#[test]
fn claude() {
    let check = |lines: &[Value], expected: Option<Ruling>| {
        assert_eq!(ruling(Stream::Claude, lines), expected, "{lines:?}");
    };
    let init = json!({"type": "system", "subtype": "init", "tools": []});
    let retry = json!({"type": "system", "subtype": "api_retry", "error_status": 429});
    let denied = json!({"type": "system", "subtype": "permission_denied"});
    let partial = json!({"type": "stream_event", "event": {"delta": {"text": DRIFT}}});
    let call = json!({"type": "assistant", "message": {"content": [
        {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": DRIFT}}]}});
    let told = json!({"type": "user", "message": {"content": [
        {"type": "tool_result", "tool_use_id": "t", "content": DRIFT}]}});
    let below = json!({"type": "assistant", "parent_tool_use_id": "t",
        "message": {"content": [{"type": "text", "text": DRIFT}]}});

    let on_the_way =
        [init.clone(), retry, denied, partial, says("I look"), call.clone(), told, below];
    let whole = [&on_the_way[..], &[says(PASS), done(PASS)]].concat();
    check(&whole, Some(Ruling::Pass));
    check(
        &["a warning".into(), done(&format!("Review:\n{DRIFT}")), "bye".into()],
        Some(Ruling::Drift),
    );
    check(&[json!([init, says(PASS), done(DRIFT)])], Some(Ruling::Drift));
    check(
        &[result("", json!({"structured_output": {"verdict": "pass", "followUpPrompt": ""}}))],
        Some(Ruling::Pass),
    );
    // The last result counts, and only if nothing comes behind it.
    check(&[done(PASS), done(DRIFT)], Some(Ruling::Drift));
    check(&[done(PASS), says("more"), done(DRIFT)], Some(Ruling::Drift));
    check(&[done(PASS), says("more")], None);
    check(&[says(PASS)], None);
    check(&[says(PASS), call.clone()], None);
    check(&[says(PASS), call, done("")], None);
    check(&[says(PASS), torn(&done(PASS))], None);
    for failure in [
        json!({"is_error": true, "api_error_status": 429, "terminal_reason": "api_error"}),
        json!({"subtype": "error_max_turns", "is_error": true}),
        json!({"subtype": "error_max_budget_usd"}),
        json!({"subtype": "error_during_execution", "terminal_reason": "aborted_tools"}),
        json!({"stop_reason": "refusal"}),
    ] {
        check(&[says(PASS), result(PASS, failure)], None);
    }
    check(&["API Error: Request rejected (429)".into()], None);
    check(&[PASS.into()], None);
    check(&[], None);
}

#[test]
fn codex() {
    let check = |lines: &[Value], expected: Option<Ruling>| {
        assert_eq!(ruling(Stream::Codex, lines), expected, "{lines:?}");
    };
    let item = |kind: &str, item: Value| json!({"type": kind, "item": item});
    let says = |text: &str| item("item.completed", json!({"type": "agent_message", "text": text}));
    let thread = json!({"type": "thread.started", "thread_id": "t"});
    let begun = json!({"type": "turn.started"});
    let completed = json!({"type": "turn.completed", "usage": {"input_tokens": 32}});
    let failed = json!({"type": "turn.failed", "error": {"message": "429"}});
    let error = json!({"type": "error", "message": "Reconnecting... 1/5"});
    let others = [
        item("item.started", json!({"type": "command_execution", "command": DRIFT})),
        item("item.completed", json!({"type": "command_execution", "aggregated_output": DRIFT})),
        item("item.completed", json!({"type": "mcp_tool_call", "result": {"text": DRIFT}})),
        item("item.completed", json!({"type": "reasoning", "text": DRIFT})),
        item("item.completed", json!({"type": "error", "message": DRIFT})),
        item("item.started", json!({"type": "agent_message", "text": DRIFT})),
        error,
    ];
    let turn = |lines: &[Value], end: &Value| {
        [&[thread.clone(), begun.clone()], lines, std::slice::from_ref(end)].concat()
    };

    check(&turn(&[says("I look"), says(PASS)], &completed), Some(Ruling::Pass));
    check(&turn(&[&others[..], &[says(PASS)]].concat(), &completed), Some(Ruling::Pass));
    check(&turn(&[&[says(PASS)], &others[..]].concat(), &completed), Some(Ruling::Pass));
    check(&turn(&others, &completed), None);
    check(&turn(&[says(PASS), says("")], &completed), None);
    check(&turn(&[says(PASS)], &failed), None);
    check(&turn(&[says(PASS)], &torn(&completed)), None);
    // The answer of an earlier turn does not count.
    let first = turn(&[says(PASS)], &completed);
    check(&[first.clone(), turn(&[], &completed)].concat(), None);
    check(&[first, turn(&[says(DRIFT)], &completed)].concat(), Some(Ruling::Drift));
    check(&[PASS.into()], None);
}
