use proptest::prelude::*;
use serde_json::{Value, json};

use super::AcpEvent;
use crate::agents::{Answer, Dollars, ErrorClass, Outcome, Session, Stream, Usage, transcript};

const SESSION: &str = r#"{"type":"session","id":"s-1","model":"m-1","agent":"a 1.0"}"#;
const TOOL: &str = r#"{"type":"tool_call","tool":"execute","title":"ls"}"#;
const USAGE: &str = r#"{"type":"usage","input":11,"output":7,"cache_read":5,"cache_write":0,"total":23,"cost_usd":0.25}"#;
const DONE: &str = r#"{"type":"end","stop_reason":"end_turn"}"#;
const ERROR: &str = r#"{"type":"failure","status":429,"message":"slow down, try again in 7s"}"#;

fn decode(lines: &[&str]) -> Answer {
    decode_by(lines.join("\n").as_bytes(), usize::MAX)
}

fn decode_by(stream: &[u8], step: usize) -> Answer {
    let mut decoder = Stream::Acp.decoder().unwrap();
    stream.chunks(step).for_each(|piece| decoder.push(piece));
    decoder.finish()
}

fn says(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

fn stops(reason: &str) -> String {
    format!(r#"{{"type":"end","stop_reason":"{reason}"}}"#)
}

#[test]
fn the_answer_is_what_was_said_after_the_last_tool_call() {
    let lines = [SESSION, &says("look"), TOOL, &says("All\\n"), &says("done.\\n"), USAGE, DONE];
    let usage = Usage {
        input: 11,
        output: 7,
        cache_read: 5,
        cache_write: 0,
        total: 23,
        cost: Some(Dollars(250_000_000)),
    };
    let expected = Answer {
        text: "All\ndone.".to_owned(),
        outcome: Outcome::Done,
        usage: Some(usage),
        session: Session { id: Some("s-1".to_owned()), model: Some("m-1".to_owned()), turns: 2 },
        unreadable: 0,
    };
    assert_eq!(decode(&lines), expected);
}

#[test]
fn how_it_ended_is_the_stop_reason_or_the_error() {
    let unknown = r#"{"type":"plan","entries":[]}"#;
    let half = says("half");
    let cases: [&[&str]; 12] = [
        &[SESSION, &half, &stops("end_turn")],
        &[SESSION, &half, &stops("max_tokens")],
        &[SESSION, &half, &stops("max_turn_requests")],
        &[SESSION, &stops("refusal")],
        &[SESSION, &half, &stops("cancelled")],
        &[SESSION, &half, &stops("odd")],
        &[SESSION, &half, ERROR],
        &[SESSION, unknown, "not an event", &half, DONE],
        &[r#"{"type":"text","words":"half"}"#, DONE],
        &[unknown],
        &["usage: cat [FILE]"],
        &[],
    ];
    let told = cases.map(|lines| {
        let answer = decode(lines);
        format!("{:?} {}", answer.text, answer.outcome)
    });
    insta::assert_snapshot!(told.join("\n"), @r#"
    "half" the agent is done
    "half" the model reached its limit in the middle of this answer
    "half" the model reached its limit in the middle of this answer
    "" the agent failed: the model refused to answer
    "half" the agent was stopped before it finished
    "half" the agent ended with an unknown status 'odd'
    "half" the agent failed: slow down, try again in 7s
    "half" the agent is done
    "" the agent is done
    "" the agent ended without an answer
    "" the agent ended without an answer; it printed: usage: cat [FILE]
    "" the agent ended without an answer
    "#);
    let Outcome::Failed(error) = decode(&[ERROR]).outcome else { panic!("it failed") };
    assert_eq!((error.class, error.retry_after.unwrap().as_secs()), (ErrorClass::RateLimit, 7));
}

#[test]
fn a_stream_that_is_cut_after_any_line_but_the_last_is_unfinished() {
    let lines = [SESSION, &says("look"), TOOL, &says("done."), USAGE, DONE];
    for cut in 0..=lines.len() {
        let expected = match cut {
            0 => Outcome::Silent,
            cut if cut < lines.len() => Outcome::Unfinished,
            _ => Outcome::Done,
        };
        assert_eq!(decode(&lines[..cut]).outcome, expected, "after {cut} lines");
    }
}

#[test]
fn the_errors_of_programs_have_a_class_and_a_status() {
    let cases: [(i64, &str, Value); 10] = [
        (-32603, "Internal error", json!({ "errorKind": "rate_limit", "details": "slow down" })),
        (-32603, "Internal error", json!({ "errorKind": "authentication_failed" })),
        (-32603, "Internal error", json!({ "errorKind": "server_error" })),
        (401, r#"{"error":{"code":401,"message":"bad key","status":"X"}}"#, Value::Null),
        (429, "slow down", Value::Null),
        (
            -32603,
            "Internal error",
            json!({ "codex_error_info": { "response_too_many_failed_attempts": { "http_status_code": 429 } }, "message": "gave up" }),
        ),
        (-32603, "Internal error: Invalid API key", json!({ "service": "session" })),
        (-32000, "Authentication required", Value::Null),
        (-32602, "Invalid params", json!("cwd is missing")),
        (-32603, "", json!({ "status": 7 })),
    ];
    let told = cases.map(|(code, message, data)| {
        let event = serde_json::to_string(&AcpEvent::refusal(code, message, &data)).unwrap();
        let Outcome::Failed(error) = decode(&[&event]).outcome else { panic!("it failed") };
        format!("{} <- {event}", error.class)
    });
    insta::assert_snapshot!(told.join("\n"), @r#"
    rate_limit <- {"type":"failure","class":"rate_limit","message":"Internal error: slow down"}
    auth <- {"type":"failure","class":"auth","message":"Internal error"}
    server <- {"type":"failure","class":"server","message":"Internal error"}
    auth <- {"type":"failure","status":401,"message":"bad key"}
    rate_limit <- {"type":"failure","status":429,"message":"slow down"}
    rate_limit <- {"type":"failure","status":429,"message":"Internal error: gave up"}
    auth <- {"type":"failure","message":"Internal error: Invalid API key"}
    auth <- {"type":"failure","class":"auth","message":"Authentication required"}
    other <- {"type":"failure","message":"Invalid params: cwd is missing"}
    other <- {"type":"failure","message":""}
    "#);
}

#[test]
fn the_stream_is_shown_as_texts_and_tool_calls() {
    let other = r#"{"type":"tool_call","tool":"other","title":"Asks a friend"}"#;
    let lines = [SESSION, &says("I look.\\n"), TOOL, other, &says("All done."), USAGE, ERROR];
    insta::assert_snapshot!(transcript(&lines.join("\n")).unwrap(), @r"
    I look.
    Bash ls
    Asks a friend
    All done.
    slow down, try again in 7s
    ");
}

proptest! {
    #[test]
    fn pieces_make_no_difference(step in 1..300usize, cut in 0..500usize) {
        let stream = [SESSION, TOOL, &says("All done."), USAGE, DONE].join("\n");
        let stream = &stream.as_bytes()[..cut.min(stream.len())];
        prop_assert_eq!(decode_by(stream, step), decode_by(stream, usize::MAX));
    }

    #[test]
    fn an_event_is_read_as_it_was_written(text in ".{0,40}", id in "[a-z]{1,9}", status in any::<Option<u64>>(), cost in any::<Option<u32>>()) {
        let cost_usd = cost.map(f64::from);
        for event in [
            AcpEvent::Text { text: text.clone() },
            AcpEvent::Session { id, model: None, agent: Some(text.clone()) },
            AcpEvent::Usage { tokens: Default::default(), cost_usd },
            AcpEvent::Failure { class: Some(ErrorClass::Quota.into()), status, message: text },
        ] {
            let line = serde_json::to_string(&event).unwrap();
            prop_assert_eq!(serde_json::from_str::<AcpEvent>(&line).unwrap(), event);
        }
    }
}
