use proptest::prelude::*;

use crate::agents::{Answer, ErrorClass, Outcome, Session, Stream, Usage};

const INIT: &str = r#"{"type":"init","timestamp":"2026-11-01T00:00:00.000Z","session_id":"s-1","model":"gemini-2.5-pro"}"#;
const PROMPT: &str = r#"{"type":"message","role":"user","content":"do it"}"#;
const TOOL: &str = r#"{"type":"tool_use","tool_name":"run_shell_command","tool_id":"t","parameters":{"command":"ls"}}
{"type":"tool_result","tool_id":"t","status":"success","output":"{\"type\":\"result\"}"}"#;
const DONE: &str = r#"{"type":"result","status":"success","stats":{"total_tokens":50,"input_tokens":32,"output_tokens":14,"cached":10,"input":22,"duration_ms":5,"tool_calls":1}}"#;

fn decode(lines: &[&str]) -> Answer {
    decode_by(lines.join("\n").as_bytes(), usize::MAX)
}

fn decode_by(stream: &[u8], step: usize) -> Answer {
    let mut decoder = Stream::Gemini.decoder().unwrap();
    stream.chunks(step).for_each(|piece| decoder.push(piece));
    decoder.finish()
}

fn says(text: &str) -> String {
    format!(r#"{{"type":"message","role":"assistant","content":"{text}","delta":true}}"#)
}

#[test]
fn the_answer_is_what_was_said_after_the_last_tool_call() {
    let answer = decode(&[INIT, PROMPT, &says("look"), TOOL, &says("All "), &says("done."), DONE]);
    let session =
        Session { id: Some("s-1".to_owned()), model: Some("gemini-2.5-pro".to_owned()), turns: 2 };
    let usage = Usage { input: 22, output: 18, cache_read: 10, total: 50, ..Usage::default() };
    let expected = Answer {
        text: "All done.".to_owned(),
        outcome: Outcome::Done,
        usage: Some(usage),
        session,
        unreadable: 0,
    };
    assert_eq!(answer, expected);
}

#[test]
fn one_object_is_an_answer_too() {
    let whole = r#"{"session_id":"s-1","response":"All done.","stats":{"models":{"gemini-2.5-pro":{"tokens":{"input":22,"prompt":32,"candidates":14,"total":50,"cached":10,"thoughts":4,"tool":0}}}}}"#;
    let answer = decode(&[whole]);
    assert_eq!((&answer.text[..], &answer.outcome), ("All done.", &Outcome::Done));
    assert_eq!(answer.session.model.as_deref(), Some("gemini-2.5-pro"));
    let usage = Usage { input: 22, output: 18, cache_read: 10, total: 50, ..Usage::default() };
    assert_eq!(answer.usage, Some(usage));
}

#[test]
fn how_it_ended_is_what_the_result_says() {
    let failed = r#"{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: slow down]\nPlease wait and try again later. To increase your limits, request a quota increase"},"stats":{}}"#;
    let cases: [&[&str]; 6] = [
        &[INIT, PROMPT, failed],
        &[INIT, PROMPT, &says("half")],
        &[INIT, r#"{"type":"result","status":"strange"}"#],
        &[r#"{"type":"error","severity":"warning","message":"careful"}"#, DONE],
        &["Fork it? [y/N]"],
        &[],
    ];
    let told = cases.map(|lines| {
        let answer = decode(lines);
        format!("{:?} {}", answer.text, answer.outcome.to_string().replace('\n', " "))
    });
    insta::assert_snapshot!(told.join("\n"), @r#"
    "" the agent failed: [API Error: slow down] Please wait and try again later. To increase your limits, request a quota increase
    "half" the agent ended in the middle of its work
    "" the agent ended with an unknown status 'strange'
    "" the agent is done
    "" the agent ended without an answer; it printed: Fork it? [y/N]
    "" the agent ended without an answer
    "#);
    let Outcome::Failed(error) = decode(&[INIT, failed]).outcome else { panic!("it failed") };
    assert_eq!(error.class, ErrorClass::RateLimit);
}

proptest! {
    #[test]
    fn pieces_make_no_difference(step in 1..300usize, cut in 0..700usize) {
        let stream = [INIT, PROMPT, TOOL, &says("All done."), DONE].join("\n");
        let stream = &stream.as_bytes()[..cut.min(stream.len())];
        prop_assert_eq!(decode_by(stream, step), decode_by(stream, usize::MAX));
    }
}
