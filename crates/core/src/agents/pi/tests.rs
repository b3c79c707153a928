use proptest::prelude::*;

use crate::agents::events::OTHER_KEPT;
use crate::agents::{Answer, Dollars, Outcome, Session, Stream, Usage};

const UPDATE: &str = r#"{"type":"message_update","message":{"role":"assistant","content":[{"type":"text","text":"never"}]}}"#;

fn decode(stream: &str) -> Answer {
    decode_by(stream.as_bytes(), usize::MAX)
}

fn decode_by(stream: &[u8], step: usize) -> Answer {
    let mut decoder = Stream::Pi.decoder().unwrap();
    stream.chunks(step).for_each(|piece| decoder.push(piece));
    decoder.finish()
}

fn message(text: &str, stop: &str, more: &str) -> String {
    format!(
        r#"{{"role":"assistant","content":[{{"type":"thinking","thinking":"hm"}},{{"type":"text","text":"{text}"}}],"usage":{{"input":11,"output":7,"cacheRead":5,"cacheWrite":3,"totalTokens":26,"cost":{{"input":0.1,"total":0.1}}}},"stopReason":"{stop}"{more}}}"#
    )
}

/// The events of one turn.
fn turn(message: &str) -> String {
    format!(
        "{{\"type\":\"turn_start\"}}\n{UPDATE}\n{{\"type\":\"message_end\",\"message\":{message}}}\n{{\"type\":\"turn_end\",\"message\":{message},\"toolResults\":[]}}\n"
    )
}

fn agent(turns: &[String]) -> String {
    let user = r#"{"type":"message_end","message":{"role":"user","content":"do it"}}"#;
    format!(
        "{{\"type\":\"agent_start\"}}\n{user}\n{}{{\"type\":\"agent_end\",\"messages\":[]}}\n",
        turns.concat()
    )
}

fn usage_of(turns: u64) -> Option<Usage> {
    Some(Usage {
        input: 11 * turns,
        output: 7 * turns,
        cache_read: 5 * turns,
        cache_write: 3 * turns,
        total: 26 * turns,
        cost: Some(Dollars(100_000_000 * turns)),
    })
}

#[test]
fn the_answer_is_the_text_of_the_last_turn_and_the_cost_that_of_all() {
    let session = "{\"type\":\"session\",\"version\":3,\"id\":\"x\",\"cwd\":\"/\"}\n";
    let turns = [turn(&message("let me look", "toolUse", "")), turn(&message("done", "stop", ""))];
    let answer = decode(&format!("{session}{}{{\"type\":\"agent_settled\"}}\n", agent(&turns)));
    assert_eq!(
        answer,
        Answer {
            text: "done".to_owned(),
            outcome: Outcome::Done,
            usage: usage_of(2),
            session: Session { id: Some("x".to_owned()), model: None, turns: 2 },
            unreadable: 0
        }
    );
}

#[test]
fn several_texts_are_lines_and_a_content_may_be_one_text() {
    let parts = r#"{"type":"turn_end","message":{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"a"},{"type":"toolCall","name":"bash"},{"type":"text","text":"b"}]}}"#;
    assert_eq!(decode(parts).text, "a\nb");
    assert_eq!(decode(parts).usage, None);
    let one =
        r#"{"message":{"role":"assistant","stopReason":"stop","content":"c"},"type":"turn_end"}"#;
    assert_eq!(decode(one).text, "c", "whatever the order of the keys");
}

#[test]
fn the_status_is_that_of_the_last_message() {
    let outcome = |text: &str, stop: &str, more: &str| {
        decode(&agent(&[turn(&message(text, stop, more))])).outcome
    };
    assert_eq!(outcome("a", "stop", ""), Outcome::Done);
    assert_eq!(outcome("a", "length", ""), Outcome::CutShort);
    assert_eq!(outcome("a", "aborted", ""), Outcome::Aborted);
    assert_eq!(outcome("a", "toolUse", ""), Outcome::Done, "a tool ended the work");
    assert_eq!(outcome("a", "weary", ""), Outcome::Unknown("weary".to_owned()));
    let error = outcome("", "error", r#","errorMessage":"429: {\"message\":\"slow\"}""#);
    assert_eq!(error, Outcome::Failed("429: {\"message\":\"slow\"}".into()));
    let cut = format!("{{\"type\":\"agent_start\"}}\n{}", turn(&message("a", "toolUse", "")));
    assert_eq!(decode(&cut).outcome, Outcome::Unfinished);
}

#[test]
fn a_failure_that_was_got_over_does_not_count() {
    let failed = agent(&[turn(&message("", "error", r#","errorMessage":"500""#))]);
    let retry = "{\"type\":\"auto_retry_start\",\"attempt\":1}\n";
    let done = agent(&[turn(&message("done", "stop", ""))]);
    let answer = decode(&format!("{failed}{retry}{done}"));
    assert_eq!((answer.outcome, &answer.text[..]), (Outcome::Done, "done"));
    assert_eq!(answer.usage, usage_of(2));
    let answer = decode(&format!("{done}{retry}{failed}"));
    assert_eq!(answer.outcome, Outcome::Failed("500".into()));
}

#[test]
fn a_failure_outside_of_any_turn_is_found_at_the_end() {
    let failed = message("", "error", r#","errorMessage":"no key""#);
    let user = r#"{"role":"user","content":"do it"}"#;
    let end = |messages: &str| {
        format!(
            "{{\"type\":\"agent_start\"}}\n{{\"type\":\"agent_end\",\"messages\":[{messages}]}}\n"
        )
    };
    let answer = decode(&end(&format!("{user},{failed}")));
    assert_eq!(answer.outcome, Outcome::Failed("no key".into()));
    assert_eq!(decode(&end(user)).outcome, Outcome::Silent);
    let done = agent(&[turn(&message("done", "stop", ""))]);
    assert_eq!(decode(&format!("{done}{}", end(&failed))).outcome, answer.outcome);
    let again = end(&failed).replace("{\"type\":\"agent_start\"}\n", "");
    assert_eq!(decode(&format!("{done}{again}")).outcome, Outcome::Done, "that was said before");
}

#[test]
fn a_stream_without_an_answer_says_what_else_was_in_it() {
    assert_eq!(decode("").outcome, Outcome::Silent);
    assert_eq!(decode("{\"type\":\"agent_start\"}\n\n").outcome, Outcome::Silent);
    let answer = decode("Fork this session? [y/N]\nno");
    assert_eq!(answer.outcome, Outcome::Unrecognized("Fork this session? [y/N]\nno".to_owned()));
    assert_eq!(answer.unreadable, 2);
    let Outcome::Unrecognized(stray) = decode(&"x".repeat(9999)).outcome else { panic!() };
    assert_eq!(stray.len(), OTHER_KEPT);
}

#[test]
fn lines_that_cannot_be_read_are_counted_and_passed_over() {
    let done = agent(&[turn(&message("done", "stop", ""))]);
    let stream = format!("debugger listening\n[1]\n{{\"type\":\"turn_end\",\"mess\n{done}{{\"typ");
    let answer = decode(&stream);
    assert_eq!((answer.outcome, &answer.text[..], answer.unreadable), (Outcome::Done, "done", 4));
}

#[test]
fn halves_of_characters_are_mended() {
    let answer = decode(&agent(&[turn(&message(r"a\ud83eb", "stop", ""))]));
    assert_eq!((&answer.text[..], answer.unreadable), ("a\u{fffd}b", 0));
    let mut stream = agent(&[turn(&message("a#b", "stop", ""))]).into_bytes();
    stream.iter_mut().filter(|byte| **byte == b'#').for_each(|byte| *byte = 0xff);
    assert_eq!(decode_by(&stream, 10).text, "a\u{fffd}b");
}

#[test]
fn giants_are_passed_over_and_a_giant_turn_is_known_by_its_message() {
    let giant = "x".repeat(5 << 20);
    let said = message("seen", "toolUse", "");
    let update = format!("{{\"type\":\"message_update\",\"message\":\"{giant}\"}}\n");
    let ended = format!("{{\"type\":\"message_end\",\"message\":{said}}}\n");
    let results = format!(
        "{{\"type\":\"turn_end\",\"message\":{said},\"toolResults\":[\"{giant}\"]}}\n{{\"type\":\"agent_end\",\"messages\":[\"{giant}\"]}}\n"
    );
    let answer = decode_by(format!("{update}{ended}{results}").as_bytes(), 65536);
    assert_eq!((&answer.text[..], &answer.outcome), ("seen", &Outcome::Done));
    assert_eq!((answer.usage, answer.unreadable), (usage_of(1), 0));
    assert_eq!(decode(&giant).unreadable, 1);
}

#[test]
fn a_message_whose_turn_was_cut_off_counts() {
    let done = agent(&[turn(&message("before", "stop", ""))]);
    let said = message("after", "toolUse", "");
    let answer = decode(&format!(
        "{done}{{\"type\":\"agent_start\"}}\n{{\"type\":\"message_end\",\"message\":{said}}}\n"
    ));
    assert_eq!((&answer.text[..], &answer.outcome), ("after", &Outcome::Unfinished));
    assert_eq!(answer.usage, usage_of(2));
}

proptest! {
    #[test]
    fn pieces_make_no_difference(step in 1..200usize, cut in 0..2000usize) {
        let stream = format!(
            "noise\n{}",
            agent(&[turn(&message("one", "toolUse", "")), turn(&message("two", "stop", ""))])
        );
        let cut = &stream.as_bytes()[..cut.min(stream.len())];
        prop_assert_eq!(decode_by(cut, step), decode_by(cut, usize::MAX));
    }

    #[test]
    fn any_bytes_can_be_tried(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        decode_by(&bytes, 7);
    }
}
