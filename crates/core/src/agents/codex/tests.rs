use proptest::prelude::*;

use crate::agents::{Answer, Outcome, Session, Stream, Usage};

const STARTED: &str = r#"{"type":"thread.started","thread_id":"01a1"}
{"type":"turn.started"}"#;
const TOOL: &str = r#"{"type":"item.completed","item":{"id":"item_0","type":"command_execution","command":"true","aggregated_output":"agent_message","exit_code":3,"status":"failed"}}"#;
const COMPLETED: &str = r#"{"type":"turn.completed","usage":{"input_tokens":32,"cached_input_tokens":10,"cache_write_input_tokens":0,"output_tokens":14,"reasoning_output_tokens":4}}"#;
const RECONNECTING: &str = r#"{"type":"error","message":"Reconnecting... 1/5"}"#;

fn decode(lines: &[&str]) -> Answer {
    decode_by(lines.join("\n").as_bytes(), usize::MAX)
}

fn decode_by(stream: &[u8], step: usize) -> Answer {
    let mut decoder = Stream::Codex.decoder().unwrap();
    stream.chunks(step).for_each(|piece| decoder.push(piece));
    decoder.finish()
}

fn says(text: &str) -> String {
    format!(
        r#"{{"type":"item.completed","item":{{"id":"item_1","type":"agent_message","text":"{text}"}}}}"#
    )
}

#[test]
fn the_answer_is_the_last_message_and_the_cost_has_the_cache_apart() {
    let answer = decode(&[STARTED, &says("let me look"), TOOL, &says("done"), COMPLETED]);
    let usage =
        Usage { input: 22, output: 14, cache_read: 10, cache_write: 0, total: 46, cost: None };
    assert_eq!(
        answer,
        Answer {
            text: "done".to_owned(),
            outcome: Outcome::Done,
            usage: Some(usage),
            session: Session { id: Some("01a1".to_owned()), model: None, turns: 1 },
            unreadable: 0
        }
    );
}

#[test]
fn how_it_ended_is_what_ended_the_turn() {
    let failed = r#"{"type":"turn.failed","error":{"message":"exceeded retry limit"}}"#;
    let warning = r#"{"type":"item.completed","item":{"type":"error","message":"unknown model"}}"#;
    let half = says("half");
    let cases: [&[&str]; 8] = [
        &[STARTED, RECONNECTING, warning, &half, COMPLETED],
        &[STARTED, RECONNECTING, &half, failed],
        &[STARTED, &half, RECONNECTING],
        &[STARTED, &half],
        &[RECONNECTING],
        &[&half],
        &[STARTED, COMPLETED],
        &[],
    ];
    let told = cases.map(|lines| {
        let answer = decode(lines);
        format!("{:?} {}", answer.text, answer.outcome)
    });
    insta::assert_snapshot!(told.join("\n"), @r#"
    "half" the agent is done
    "half" the agent failed: exceeded retry limit
    "half" the agent failed: Reconnecting... 1/5
    "half" the agent ended in the middle of its work
    "" the agent failed: Reconnecting... 1/5
    "half" the agent ended in the middle of its work
    "" the agent is done
    "" the agent ended without an answer
    "#);
}

#[test]
fn what_was_said_in_an_earlier_turn_is_no_answer() {
    let again = r#"{"type":"turn.started"}"#;
    let answer = decode(&[STARTED, &says("old"), COMPLETED, again, COMPLETED]);
    assert_eq!((&answer.text[..], answer.outcome), ("", Outcome::Done));
    assert_eq!(answer.usage.unwrap().total, 46, "told of the whole thread");
    assert_eq!(decode(&[STARTED, COMPLETED, again]).outcome, Outcome::Unfinished);
}

#[test]
fn an_item_that_is_too_long_may_have_been_the_answer() {
    let giant = says(&"x".repeat(5 << 20));
    let answer = decode(&[STARTED, &says("before"), &giant, COMPLETED]);
    assert_eq!((&answer.text[..], answer.outcome), ("", Outcome::Done));
    let answer = decode(&[STARTED, &giant, &says("behind"), COMPLETED]);
    assert_eq!(answer.text, "behind");
}

#[test]
fn noise_is_counted_and_passed_over() {
    let unknown = r#"{"type":"thread.compacted","item":{"type":"agent_message","text":"no"}}"#;
    let half = says("cut off");
    let half = &half[..half.len() - 2];
    let said = says("done");
    let answer = decode(&[
        "Reading additional input from stdin...",
        STARTED,
        half,
        unknown,
        &said,
        COMPLETED,
    ]);
    assert_eq!((&answer.text[..], answer.outcome, answer.unreadable), ("done", Outcome::Done, 2));
}

proptest! {
    #[test]
    fn pieces_make_no_difference(step in 1..200usize, cut in 0..2000usize) {
        let stream = ["noise", STARTED, RECONNECTING, &says("one"), TOOL, COMPLETED].join("\n");
        let cut = &stream.as_bytes()[..cut.min(stream.len())];
        prop_assert_eq!(decode_by(cut, step), decode_by(cut, usize::MAX));
    }

    #[test]
    fn any_bytes_can_be_tried(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        decode_by(&bytes, 7);
    }
}
