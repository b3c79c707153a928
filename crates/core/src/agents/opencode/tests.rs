use std::time::Duration;

use proptest::prelude::*;

use crate::agents::{Answer, Dollars, ErrorClass, Outcome, Session, Stream, Usage};

const START: &str = r#"{"type":"step_start","timestamp":1,"sessionID":"ses_1","part":{"id":"p","type":"step-start"}}"#;
const TOOL: &str = r#"{"type":"tool_use","sessionID":"ses_1","part":{"tool":"bash","callID":"c","state":{"status":"completed","input":{"command":"ls"},"output":"{\"type\":\"error\"}","metadata":{"exit":3}}}}"#;

fn decode(lines: &[&str]) -> Answer {
    decode_by(lines.join("\n").as_bytes(), usize::MAX)
}

fn decode_by(stream: &[u8], step: usize) -> Answer {
    let mut decoder = Stream::Opencode.decoder().unwrap();
    stream.chunks(step).for_each(|piece| decoder.push(piece));
    decoder.finish()
}

fn says(text: &str) -> String {
    format!(r#"{{"type":"text","sessionID":"ses_1","part":{{"type":"text","text":"{text}"}}}}"#)
}

fn finish(reason: &str) -> String {
    format!(
        r#"{{"type":"step_finish","sessionID":"ses_1","part":{{"reason":"{reason}","tokens":{{"total":23,"input":11,"output":5,"reasoning":2,"cache":{{"read":5,"write":0}}}},"cost":0.25}}}}"#
    )
}

#[test]
fn the_answer_is_what_was_said_after_the_last_tool_call_and_the_steps_add_up() {
    let (first, last) = (finish("tool-calls"), finish("stop"));
    let synthetic =
        r#"{"type":"text","sessionID":"ses_1","part":{"text":"not said","synthetic":true}}"#;
    let answer =
        decode(&[START, &says("look"), TOOL, &first, START, synthetic, &says("Done."), &last]);
    let usage = Usage {
        input: 22,
        output: 14,
        cache_read: 10,
        cache_write: 0,
        total: 46,
        cost: Some(Dollars(500_000_000)),
    };
    let expected = Answer {
        text: "Done.".to_owned(),
        outcome: Outcome::Done,
        usage: Some(usage),
        session: Session { id: Some("ses_1".to_owned()), model: None, turns: 2 },
        unreadable: 0,
    };
    assert_eq!(answer, expected);
}

#[test]
fn how_it_ended_is_the_reason_of_the_last_step_or_the_error() {
    let error = r#"{"type":"error","sessionID":"ses_1","error":{"name":"APIError","data":{"message":"slow down","statusCode":429,"isRetryable":true,"responseHeaders":{"retry-after":"7"}}}}"#;
    let (stop, calls, odd) = (finish("stop"), finish("tool-calls"), finish("odd"));
    let cases: [&[&str]; 7] = [
        &[START, &says("half"), error],
        &[START, error, &stop],
        &[START, &says("half"), &calls],
        &[START, &odd],
        &[START],
        &[r#"{"type":"error","error":{"name":"UnknownError"}}"#],
        &[],
    ];
    let told = cases.map(|lines| {
        let answer = decode(lines);
        format!("{:?} {}", answer.text, answer.outcome)
    });
    insta::assert_snapshot!(told.join("\n"), @r#"
    "half" the agent failed: slow down
    "" the agent failed: slow down
    "half" the agent ended in the middle of its work
    "" the agent ended with an unknown status 'odd'
    "" the agent ended in the middle of its work
    "" the agent failed: UnknownError
    "" the agent ended without an answer
    "#);
    let Outcome::Failed(error) = decode(&[error]).outcome else { panic!("it failed") };
    assert_eq!(error.class, ErrorClass::RateLimit);
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
}

proptest! {
    #[test]
    fn pieces_make_no_difference(step in 1..300usize, cut in 0..900usize) {
        let stream = [START, TOOL, &says("Done."), &finish("stop")].join("\n");
        let stream = &stream.as_bytes()[..cut.min(stream.len())];
        prop_assert_eq!(decode_by(stream, step), decode_by(stream, usize::MAX));
    }
}
