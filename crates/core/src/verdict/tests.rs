use proptest::prelude::*;

use super::*;

fn printed(read: &Result<Verdict, Violation>) -> String {
    crate::format::json_line(&Printed::new(read))
}

fn by(bytes: &[u8], stream: Stream, step: usize) -> Result<Verdict, Violation> {
    let mut reader = Reader::new(stream);
    bytes.chunks(step).for_each(|piece| reader.push(piece));
    reader.finish()
}

fn reason(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

fn verdict(ruling: Ruling, follow_up: &str) -> Result<Verdict, Violation> {
    Ok(Verdict { ruling, follow_up: follow_up.to_owned() })
}

#[test]
fn every_violation_says_what_is_wrong_and_where() {
    let long = format!("{{\"verdict\": \"{}\"}}", "x".repeat(1000));
    let long_key = format!("{{\"{}\": 1}}", "k".repeat(1000));
    let reasons = [
        "",
        " \n",
        "LGTM",
        "fn f() { 1 }",
        "über\n  {\"verdict\": \"pass\",}",
        "{'verdict': 'pass'}",
        "{}",
        "{\"verdict\" = 1}",
        "{\"verdict\": pass}",
        "{\"verdict\": trust}",
        "{\"a\": 01}",
        "{\"a\": [1 2]}",
        "{\"a\": {\"b\": 1 \"c\": 2}}",
        "{\"a\": \"line\nbreak\"}",
        "{\"a\": \"\\'\"}",
        "{\"a\": \"\\u12x4\"}",
        "{\u{1b}[1m}",
        "{\u{a0}}",
        "{\0",
        "{\t\t'",
        "{\"verdict\": \"pass\"",
        "{\"type\": \"thread.started\", \"thread_id\": \"t\"}",
        "{\"verdict\": null, \"followUpPrompt\": \"ok\"}",
        "{\"verdict\": \"Pass\", \"followUpPrompt\": \"ok\"}",
        &long,
        &long_key,
        "{\"verdict\": \"pass\"}",
        "{\"verdict\": \"pass\", \"followUpPrompt\": [\"a\"]}",
        "{\"verdict\": \"pass\", \"followUpPrompt\": true}",
        "{\"verdict\": \"pass\", \"followUpPrompt\": {}}",
        "{\"verdict\": \"pass\", \"followUpPrompt\": -1.5e+3}",
    ];
    insta::assert_snapshot!(reasons.map(reason).join("\n"), @r#"
    the reviewer's final message is empty: expected a JSON object with the verdict
    the reviewer's final message is empty: expected a JSON object with the verdict
    the reviewer's final message contains no '{': expected a JSON object with the verdict
    the first '{' (at line 1, column 8) does not begin a JSON object: key must be a string at line 1, column 10; the text there: fn f() { 1 }
    the first '{' (at line 2, column 3) does not begin a JSON object: trailing comma at line 2, column 22; the text there: über {"verdict": "pass",}
    the first '{' (at line 1, column 1) does not begin a JSON object: key must be a string at line 1, column 2
    the first JSON object has no 'verdict'; it is empty
    the first '{' (at line 1, column 1) does not begin a JSON object: expected `:` at line 1, column 12
    the first '{' (at line 1, column 1) does not begin a JSON object: expected value at line 1, column 13
    the first '{' (at line 1, column 1) does not begin a JSON object: expected ident at line 1, column 16
    the first '{' (at line 1, column 1) does not begin a JSON object: invalid number at line 1, column 8
    the first '{' (at line 1, column 1) does not begin a JSON object: expected `,` or `]` at line 1, column 10
    the first '{' (at line 1, column 1) does not begin a JSON object: expected `,` or `}` at line 1, column 15
    the first '{' (at line 1, column 1) does not begin a JSON object: control character (\u0000-\u001F) found while parsing a string at line 1, column 11
    the first '{' (at line 1, column 1) does not begin a JSON object: invalid escape at line 1, column 9
    the first '{' (at line 1, column 1) does not begin a JSON object: invalid escape at line 1, column 13
    the first '{' (at line 1, column 1) does not begin a JSON object: key must be a string at line 1, column 2
    the first '{' (at line 1, column 1) does not begin a JSON object: key must be a string at line 1, column 2
    the first '{' (at line 1, column 1) does not begin a JSON object: key must be a string at line 1, column 2
    the first '{' (at line 1, column 1) does not begin a JSON object: key must be a string at line 1, column 4
    the JSON object at line 1, column 1 is incomplete: the message ends before its last '}'
    the first JSON object has no 'verdict'; it begins with 'type', 'thread_id'
    invalid 'verdict': expected a string, found null
    invalid 'verdict' 'Pass': expected 'pass' or 'drift'
    invalid 'verdict' 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...': expected 'pass' or 'drift'
    the first JSON object has no 'verdict'; it begins with 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk...'
    the first JSON object has no 'followUpPrompt'; it begins with 'verdict'
    invalid 'followUpPrompt': expected a string, found a list
    invalid 'followUpPrompt': expected a string, found true or false
    invalid 'followUpPrompt': expected a string, found an object
    invalid 'followUpPrompt': expected a string, found a number
    "#);
    let failed = Answer { outcome: crate::agents::Outcome::Aborted, ..Answer::default() };
    insta::assert_snapshot!(printed(&read_answer(&failed)), @r#"{"verdict": "violation", "followUpPrompt": null, "reason": "the agent was stopped before it finished"}"#);
    let verdict = verdict(Ruling::Drift, "say \"é\"\n\t\\ \u{1}");
    insta::assert_snapshot!(printed(&verdict), @r#"{"verdict": "drift", "followUpPrompt": "say \u0022é\u0022\u000a\u0009\u005c \u0001", "reason": null}"#);
}

#[test]
fn an_event_of_a_stream_is_known_by_its_type() {
    let stream = read("{\"type\": \"thread.started\"}\n{\"verdict\": \"pass\"}").unwrap_err();
    assert!(stream.looks_like_a_stream());
    assert!(!read("{\"kind\": 1}").unwrap_err().looks_like_a_stream());
    assert!(!read("no").unwrap_err().looks_like_a_stream());
}

#[test]
fn an_answer_of_an_agent_that_failed_is_no_verdict() {
    use crate::agents::Outcome;
    let text = r#"{"verdict": "pass", "followUpPrompt": "ok"}"#.to_owned();
    let with = |outcome| read_answer(&Answer { text: text.clone(), outcome, ..Answer::default() });
    assert_eq!(with(Outcome::Done), verdict(Ruling::Pass, "ok"));
    assert_eq!(with(Outcome::CutShort), verdict(Ruling::Pass, "ok"), "it is whole");
    let failed = Outcome::Failed("429".into());
    assert_eq!(with(failed.clone()), Err(Violation::Unanswered(failed)));
}

#[test]
fn no_nesting_and_no_number_is_too_much() {
    let deep = 200_000;
    let lists = format!(
        r#"{{"a": {}{}, "verdict": "pass", "followUpPrompt": "ok"}}"#,
        "[".repeat(deep),
        "]".repeat(deep)
    );
    assert_eq!(read(&lists), verdict(Ruling::Pass, "ok"));
    let objects = format!(
        r#"{{"a": {}[]{}, "followUpPrompt": "ok", "verdict": "drift"}}"#,
        r#"{"verdict": "#.repeat(deep),
        "}".repeat(deep)
    );
    assert_eq!(read(&objects), verdict(Ruling::Drift, "ok"));
    let mixed = format!(r#"{{"a": {}"#, "[{\"a\":".repeat(deep));
    assert_eq!(read(&mixed), Err(Violation::Incomplete(crate::config::Place::START)));
    let number = format!(
        r#"{{"n": -{}.{}E-{}, "verdict": "pass", "followUpPrompt": ""}}"#,
        "9".repeat(deep),
        "0".repeat(deep),
        "9".repeat(deep)
    );
    assert_eq!(read(&number), verdict(Ruling::Pass, ""));
}

#[test]
fn an_object_that_is_longer_than_the_limit_is_a_violation() {
    let of_length = |length: usize| {
        let rest = r#"{"verdict": "pass", "followUpPrompt": ""}"#;
        rest.replace(r#""}"#, &format!("{}\"}}", "x".repeat(length - rest.len())))
    };
    assert!(read(&(of_length(LONGEST) + "{")).is_ok());
    let violation = read(&of_length(LONGEST + 1)).unwrap_err();
    assert_eq!(violation, Violation::TooLong(crate::config::Place::START));
    assert_eq!(violation.to_string(), "the JSON object at line 1, column 1 is longer than 8 MiB");
    let in_pieces = by(of_length(LONGEST + 1).as_bytes(), Stream::Plain, 100_000);
    assert_eq!(in_pieces, Err(violation));
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let bytes = b"\xff\0{\"verdict\": \"drift\", \"followUpPrompt\": \"a\xe2\x82b\\ud800c\"} \xff";
    let expected = verdict(Ruling::Drift, "a\u{fffd}b\u{fffd}c");
    assert_eq!(by(bytes, Stream::Plain, 1), expected);
    assert_eq!(by(bytes, Stream::Plain, 1000), expected);
    assert_eq!(read(&String::from_utf8_lossy(bytes)), expected);
}

#[test]
fn streams_are_unwrapped_and_no_stream_passes_for_another() {
    let said = r#"{\"verdict\": \"pass\", \"followUpPrompt\": \"ok\"}"#;
    let streams = [
        (Stream::Plain, said.replace('\\', "")),
        (
            Stream::Claude,
            format!(
                r#"{{"type":"result","subtype":"success","is_error":false,"result":"{said}"}}"#
            ),
        ),
        (
            Stream::Codex,
            format!(
                "{{\"type\":\"turn.started\"}}\n{{\"type\":\"item.completed\",\"item\":{{\"type\":\"agent_message\",\"text\":\"{said}\"}}}}\n{{\"type\":\"turn.completed\"}}"
            ),
        ),
        (
            Stream::Pi,
            format!(
                r#"{{"type":"turn_end","message":{{"role":"assistant","stopReason":"stop","content":"{said}"}}}}"#
            ),
        ),
    ];
    for (client, text) in &streams {
        for (other, _) in &streams {
            let read = by(text.as_bytes(), *other, 7);
            match client == other {
                true => assert_eq!(read, verdict(Ruling::Pass, "ok"), "{client}"),
                false => assert!(read.is_err(), "{client} read as {other}: {read:?}"),
            }
        }
    }
}

/// Texts with everything in them that is escaped.
fn any_text() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec![
        '"', '\\', '\n', '\r', '\t', '\0', '\u{1b}', '\u{7f}', 'u', '{', '}',
    ]);
    let character = prop_oneof![special, any::<char>()];
    prop::collection::vec(character, 0..40).prop_map(String::from_iter)
}

/// Texts that are nearly verdicts.
fn nearly() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"",
            "\\",
            "\"verdict\"",
            "\"pass\"",
            "\"drift\"",
            "\"followUpPrompt\"",
            "\"ok\"",
            "\\u00e9",
            "\\ud83e\\udd80",
            "\\n",
            "1",
            "-",
            ".",
            "e",
            "true",
            "null",
            " ",
            "\n",
            "\0",
            "é",
            "{\"verdict\":\"pass\",\"followUpPrompt\":\"",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn what_is_printed_is_what_is_read(pass: bool, follow_up in any_text(), preamble in "[^{]*", rest: String) {
        let ruling = if pass { Ruling::Pass } else { Ruling::Drift };
        let verdict = Ok(Verdict { ruling, follow_up });
        prop_assert_eq!(read(&format!("{preamble}{}{rest}", printed(&verdict))), verdict);
    }

    #[test]
    fn pieces_make_no_difference(text in nearly(), step in 1..9usize) {
        let whole = read(&text);
        prop_assert_eq!(by(text.as_bytes(), Stream::Plain, step), whole.clone());
        let _: serde_json::Value = serde_json::from_str(&printed(&whole)).unwrap();
    }

    /// An untyped value has the same verdict, but for what is too deep or too large for it, and for halves of
    /// surrogate pairs.
    #[test]
    fn an_untyped_value_has_the_same_verdict(text in nearly()) {
        let object = text.find('{').map(|at| &text[at..]).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_str(object).into_iter();
        match values.next() {
            Some(Ok(value)) => {
                let value: serde_json::Value = value;
                let (word, follow_up) = (value["verdict"].as_str(), value["followUpPrompt"].as_str());
                let expected = word.and_then(Ruling::from_word).zip(follow_up);
                let read = read(&text).ok();
                prop_assert_eq!(
                    read.as_ref().map(|read| (read.ruling, &read.follow_up[..])),
                    expected
                );
            }
            Some(Err(error)) if !error.to_string().contains("surrogate") && !error.to_string().contains("hex escape") => {
                prop_assert!(read(&text).is_err(), "{error}");
            }
            _ => {}
        }
    }

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..300), step in 1..300usize) {
        for stream in [Stream::Plain, Stream::Claude, Stream::Codex, Stream::Pi] {
            prop_assert_eq!(by(&bytes, stream, step), by(&bytes, stream, usize::MAX));
        }
        prop_assert_eq!(by(&bytes, Stream::Plain, step).ok(), read(&String::from_utf8_lossy(&bytes)).ok());
    }
}
