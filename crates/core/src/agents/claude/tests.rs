use proptest::prelude::*;

use crate::agents::{Answer, Dollars, Outcome, Session, Stream, Usage};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","tools":["Bash"]}"#;
const TOOL: &str = r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":"{\"type\":\"result\"}"}]}}"#;

fn decode(stream: &str) -> Answer {
    decode_by(stream.as_bytes(), usize::MAX)
}

fn decode_by(stream: &[u8], step: usize) -> Answer {
    let mut decoder = Stream::Claude.decoder().unwrap();
    stream.chunks(step).for_each(|piece| decoder.push(piece));
    decoder.finish()
}

fn says(text: &str) -> String {
    format!(
        r#"{{"type":"assistant","parent_tool_use_id":null,"message":{{"id":"m","role":"assistant","content":[{{"type":"thinking","thinking":"hm"}},{{"type":"text","text":"{text}"}}],"usage":{{"input_tokens":99}}}}}}"#
    )
}

/// A result, with its type behind other keys, as newer clients print it.
fn result(more: &str) -> String {
    format!(
        r#"{{"session_id":"s","num_turns":2,"usage":{{"input_tokens":11,"output_tokens":7,"cache_creation_input_tokens":3,"cache_read_input_tokens":5}},"total_cost_usd":0.25,{more},"type":"result"}}"#
    )
}

fn done(text: &str) -> String {
    result(&format!(
        r#""subtype":"success","is_error":false,"stop_reason":"end_turn","terminal_reason":"completed","result":"{text}""#
    ))
}

fn usage_of(results: u64) -> Usage {
    Usage {
        input: 11 * results,
        output: 7 * results,
        cache_read: 5 * results,
        cache_write: 3 * results,
        total: 26 * results,
        cost: Some(Dollars(250_000_000)),
    }
}

/// An event as `jq .` prints it.
fn spread(event: &str) -> String {
    serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(event).unwrap())
        .unwrap()
}

#[test]
fn an_event_may_be_spread_over_lines() {
    let all = [says("let me look"), done("done")];
    let expected = decode(&all.join("\n"));
    let list = spread(&format!("[{}]", all.join(",")));
    for stream in [all.clone().map(|event| spread(&event)).join("\n"), list] {
        assert_eq!(decode(&stream), expected, "{stream}");
        assert_eq!(decode(&stream.replace('\n', "\r\n")), expected);
        assert_eq!(decode_by(stream.as_bytes(), 3), expected);
    }
    // What does not end, or is none, does not hide what follows.
    let late = ["{", "  \"type\": \"result\",", &done("done")].join("\n");
    assert_eq!(decode(&late), Answer { unreadable: 2, ..decode(&done("done")) });
    let late = ["{", "  \"type\": \"result\",", &spread(&done("done"))].join("\n");
    assert_eq!(decode(&late), Answer { unreadable: 2, ..decode(&done("done")) });
    let odd = ["{", "  odd", "}", &done("done")].join("\n");
    assert_eq!(decode(&odd), Answer { unreadable: 3, ..decode(&done("done")) });
    let long = spread(&done("done")).replacen('\n', &format!("\n{}\n", " ".repeat(5_000_000)), 1);
    assert!(decode(&long).outcome.is_failure());
    let cut = spread(&done("done"));
    assert!(decode(&cut[..cut.len() - 2]).outcome.is_failure());
}

#[test]
fn the_answer_is_the_result_and_not_what_was_said_on_the_way() {
    let stream = [INIT, &says("let me look"), TOOL, &says("done"), &done("done")].join("\n");
    let expected = Answer {
        text: "done".to_owned(),
        outcome: Outcome::Done,
        usage: Some(usage_of(1)),
        session: Session { id: Some("s".to_owned()), model: None, turns: 2 },
        unreadable: 0,
    };
    assert_eq!(decode(&stream), expected);
    assert_eq!(decode(&done("done")), expected, "--output-format json");
    let silent = result(r#""subtype":"success","is_error":false,"result":null"#);
    assert_eq!(decode(&[says("done"), silent].join("\n")), expected, "a result without a text");
    let verbose = format!("[{INIT},{},{}]\n", says("on the way"), done("done"));
    assert_eq!(decode(&verbose), expected, "--output-format json --verbose");
    let bare = r#"{"type":"result","result":"done"}"#;
    assert_eq!((decode(bare).text, decode(bare).usage), ("done".to_owned(), None));
}

#[test]
fn how_it_ended_is_what_the_result_says() {
    let told = |more: &str| {
        let stream = [INIT, &says("half"), &result(more)].join("\n");
        let answer = decode(&stream);
        format!("{:?} {}", answer.text, answer.outcome)
    };
    let cases = [
        r#""subtype":"success","is_error":true,"api_error_status":429,"terminal_reason":"api_error","result":"API Error: Request rejected (429)""#,
        r#""subtype":"success","is_error":true"#,
        r#""subtype":"error_max_turns","is_error":true,"terminal_reason":"max_turns""#,
        r#""subtype":"error_max_turns","is_error":false,"errors":["Reached maximum number of turns (1)"]"#,
        r#""subtype":"error_max_budget_usd","is_error":true"#,
        r#""subtype":"error_during_execution","is_error":false,"errors":["one","two"]"#,
        r#""subtype":"error_during_execution","is_error":true"#,
        r#""subtype":"error_during_execution","terminal_reason":"aborted_tools""#,
        r#""subtype":"success","is_error":false,"stop_reason":"refusal","result":"I cannot""#,
        r#""subtype":"success","is_error":false,"stop_reason":"max_tokens","result":"a lo""#,
        r#""subtype":"success","is_error":false,"stop_reason":null,"result":"fine""#,
    ];
    insta::assert_snapshot!(cases.map(told).join("\n"), @r#"
    "half" the agent failed: API Error: Request rejected (429)
    "half" the agent failed without a reason
    "half" the agent failed: it reached its limit of turns
    "half" the agent failed: it reached its limit of turns
    "half" the agent failed: it reached its limit of cost
    "half" the agent failed: one; two
    "half" the agent failed: error_during_execution
    "half" the agent was stopped before it finished
    "I cannot" the agent failed: the model refused to answer
    "a lo" the model reached its limit in the middle of this answer
    "fine" the agent is done
    "#);
}

#[test]
fn words_about_a_failure_are_no_answer() {
    let synthetic = r#"{"type":"assistant","error":"rate_limit","is_api_error_message":true,"message":{"content":[{"type":"text","text":"API Error"}]}}"#;
    let answer = decode(&[INIT, synthetic].join("\n"));
    assert_eq!((&answer.text[..], answer.outcome), ("", Outcome::Silent));
    let answer = decode(&format!("{}\n{synthetic}", says("before")));
    assert_eq!((&answer.text[..], answer.outcome), ("before", Outcome::Unfinished));
}

#[test]
fn without_a_result_the_work_is_not_done() {
    assert_eq!(decode("").outcome, Outcome::Silent);
    assert_eq!(decode(INIT).outcome, Outcome::Silent);
    let answer = decode(&says("half"));
    assert_eq!((&answer.text[..], answer.outcome), ("half", Outcome::Unfinished));
    let torn = done("done");
    assert_eq!(
        decode(&format!("{}\n{}", says("half"), &torn[..torn.len() - 3])).outcome,
        Outcome::Unfinished
    );
}

#[test]
fn work_that_goes_on_behind_a_result_needs_another_one() {
    let on = [done("first"), says("more")].join("\n");
    assert_eq!(decode(&on).outcome, Outcome::Unfinished);
    let again = decode(&format!("{on}\n{}", done("second")));
    assert_eq!((&again.text[..], again.outcome), ("second", Outcome::Done));
    assert_eq!(again.usage, Some(usage_of(2)), "tokens add up, the cost is that of all");
    let inner =
        says("from below").replace("\"parent_tool_use_id\":null", "\"parent_tool_use_id\":\"t\"");
    let answer = decode(&format!("{}\n{inner}", done("first")));
    assert_eq!((&answer.text[..], answer.outcome), ("first", Outcome::Done));
}

#[test]
fn an_object_that_was_asked_for_is_the_answer() {
    let object = r#""subtype":"success","result":"","structured_output":{"verdict":"pass","followUpPrompt":"ok"}"#;
    assert_eq!(decode(&result(object)).text, r#"{"verdict":"pass","followUpPrompt":"ok"}"#);
}

#[test]
fn noise_is_counted_and_passed_over() {
    let stream = format!(
        "Warning: no stdin data\n{INIT}\n{{\"level\":\"warn\"}}\n[]\n{{\"type\":\"assis\n{}\r\n(node:1) done",
        done("done")
    );
    let answer = decode(&stream);
    assert_eq!((&answer.text[..], answer.outcome, answer.unreadable), ("done", Outcome::Done, 4));
    let login = decode("Not logged in · Please run /login\n");
    assert_eq!(
        login.outcome,
        Outcome::Unrecognized("Not logged in · Please run /login".to_owned())
    );
}

#[test]
fn a_result_that_is_too_long_is_no_answer() {
    let giant = "x".repeat(5 << 20);
    let result = format!(r#"{{"type":"result","subtype":"success","result":"{giant}"}}"#);
    let answer = decode_by(result.as_bytes(), 65536);
    assert_eq!(answer.outcome, Outcome::Failed("its result is too long to read".into()));
    let tool = TOOL.replace("\"tool_use_id\":\"t\"", &format!("\"tool_use_id\":\"{giant}\""));
    assert!(tool.len() > giant.len());
    assert_eq!(decode(&format!("{tool}\n{}", done("done"))).unreadable, 0);
}

proptest! {
    #[test]
    fn pieces_make_no_difference(step in 1..200usize, cut in 0..2000usize) {
        let stream = ["noise", INIT, &says("one"), TOOL, &done("two")].join("\n");
        let cut = &stream.as_bytes()[..cut.min(stream.len())];
        prop_assert_eq!(decode_by(cut, step), decode_by(cut, usize::MAX));
    }

    #[test]
    fn any_bytes_can_be_tried(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        decode_by(&bytes, 7);
    }
}
