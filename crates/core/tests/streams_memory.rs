//! Streams of any length are decoded in bounded memory.
//!
//! The peak is that of the whole process, so this file has one test.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot measure has failed")]

use autoloop_core::agents::{Decoder, Outcome, Stream};

const TEXT: usize = 50 * 1024 * 1024;
/// For a held line, the values that are made of it, and the answer.
const MOST: u64 = 40 * 1024 * 1024;

/// An event with a text in it, before and behind the text; one that may be the answer, and one that has the result of a
/// tool.
const EVENTS: [(Stream, [&str; 2], [&str; 2]); 6] = [
    (
        Stream::Claude,
        [r#"{"type":"assistant","message":{"content":[{"type":"text","text":""#, r#""}]}}"#],
        [r#"{"type":"user","message":{"content":[{"type":"tool_result","content":""#, r#""}]}}"#],
    ),
    (
        Stream::Codex,
        [r#"{"type":"item.completed","item":{"type":"agent_message","text":""#, r#""}}"#],
        [r#"{"type":"item.completed","item":{"type":"command_execution","output":""#, r#""}}"#],
    ),
    (
        Stream::Gemini,
        [r#"{"type":"message","role":"assistant","delta":true,"content":""#, r#""}"#],
        [r#"{"type":"tool_result","output":""#, r#""}"#],
    ),
    (
        Stream::Opencode,
        [r#"{"type":"text","part":{"text":""#, r#""}}"#],
        [r#"{"type":"tool_use","part":{"tool":"bash","output":""#, r#""}}"#],
    ),
    (
        Stream::Pi,
        [
            r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":""#,
            r#""}],"stopReason":"toolUse"}}"#,
        ],
        [r#"{"type":"tool_execution_end","result":""#, r#""}"#],
    ),
    (
        Stream::Acp,
        [r#"{"type":"text","text":""#, r#""}"#],
        [r#"{"type":"tool_call","tool":"execute","title":""#, r#""}"#],
    ),
];

fn recording(stream: Stream) -> &'static str {
    match stream {
        Stream::Claude => include_str!("streams/claude/success.jsonl"),
        Stream::Codex => include_str!("streams/codex/success.jsonl"),
        Stream::Gemini => include_str!("streams/gemini/success.jsonl"),
        Stream::Opencode => include_str!("streams/opencode/success.jsonl"),
        Stream::Pi => include_str!("streams/pi/success.jsonl"),
        _ => {
            "{\"type\":\"tool_call\",\"tool\":\"execute\",\"title\":\"ls\"}\n{\"type\":\"text\",\"text\":\"One test\"}\n{\"type\":\"end\",\"stop_reason\":\"end_turn\"}\n"
        }
    }
}

/// Pushes events whose texts have this length together, each of them in so many pieces.
fn push(decoder: &mut Decoder, [before, behind]: [&str; 2], events: usize, pieces: usize) {
    let piece = vec![b'x'; TEXT / events / pieces];
    for _ in 0..events {
        decoder.push(before.as_bytes());
        (0..pieces).for_each(|_| decoder.push(&piece));
        decoder.push(behind.as_bytes());
        decoder.push(b"\n");
    }
}

/// The peak of the memory of this process.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn long_texts_are_decoded_in_bounded_memory() {
    let before = peak();
    for (stream, answer, tool) in EVENTS {
        for event in [answer, tool] {
            for (events, pieces) in [(1, 800), (20_000, 1)] {
                let mut decoder = stream.decoder().unwrap();
                push(&mut decoder, event, events, pieces);
                // What comes behind it is read as ever, from the first call of a tool on.
                decoder.push(recording(stream).as_bytes());
                let read = decoder.finish();
                assert_eq!(read.outcome, Outcome::Done, "{stream} {event:?}");
                assert!(read.text.starts_with("One test"), "{stream} {event:?}");
                // It may also be the end.
                let mut decoder = stream.decoder().unwrap();
                push(&mut decoder, event, events, pieces);
                assert!(decoder.finish().outcome.is_failure(), "{stream} {event:?}");
                let held = peak() - before;
                assert!(held < MOST, "{stream} {event:?} in {events}: {held} bytes");
            }
        }
    }
}
