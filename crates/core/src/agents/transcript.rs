//! The stream of an unknown client, for people to read.

use serde_json::Value;

use super::Stream;
use super::events::parse;

const CLIENTS: [Stream; 6] =
    [Stream::Claude, Stream::Codex, Stream::Gemini, Stream::Opencode, Stream::Pi, Stream::Acp];

/// The types of events that are not shown, so that a stream in which nothing is said is recognized.
const SILENT: [&str; 23] = [
    "agent_start",
    "assistant",
    "init",
    "item.completed",
    "item.started",
    "item.updated",
    "message",
    "message_end",
    "message_start",
    "message_update",
    "rate_limit_event",
    "session",
    "step_finish",
    "step_start",
    "stream_event",
    "system",
    "thread.started",
    "tool_execution_end",
    "tool_execution_update",
    "tool_result",
    "turn.started",
    "turn_start",
    "user",
];

/// What an agent said and which tools it called, line by line. Lines that are no events are kept. `None` if the text
/// is no stream of a client. The text may begin and end in the middle of an event.
pub fn transcript(text: &str) -> Option<String> {
    let events: Vec<_> = text.lines().map(|line| (line, parse(line.as_bytes()))).collect();
    let shows = |client: &Stream| {
        let mut shown = events.iter().filter_map(|(_, event)| client.show(event.as_ref()?));
        shown.any(|shown| !shown.is_empty())
    };
    let Some(client) = CLIENTS.into_iter().find(shows) else {
        // The agent has not said anything yet, or not for long.
        return is_stream(text, &events).then(String::new);
    };
    let mut out = Transcript::default();
    for (line, event) in events {
        match event {
            Some(event) => {
                let shown = client.show(&event).unwrap_or_default();
                out.push(&shown, event["delta"] == Value::Bool(true));
            }
            // The beginning or the end of an event that is not here.
            None if line.starts_with('{') || line.ends_with('}') => {}
            None => out.push(line, false),
        }
    }
    Some(out.text)
}

#[derive(Default)]
struct Transcript {
    text: String,
    /// Where the last text begins.
    last: usize,
    is_piece: bool,
}

impl Transcript {
    /// A piece of a text continues the piece before it.
    fn push(&mut self, shown: &str, is_piece: bool) {
        // The result of a stream repeats the last text.
        let is_repeated = !is_piece && self.text[self.last..] == *shown;
        if shown.is_empty() || is_repeated {
            return;
        }
        if !(is_piece && self.is_piece) {
            if !self.text.is_empty() {
                self.text.push('\n');
            }
            self.last = self.text.len();
        }
        self.text.push_str(shown);
        self.is_piece = is_piece;
    }
}

/// Whether all events are of types that clients print, or the first one is not complete yet.
fn is_stream(text: &str, events: &[(&str, Option<Value>)]) -> bool {
    let mut known = events.iter().filter_map(|(_, event)| event.as_ref()).peekable();
    match known.peek() {
        Some(_) => known.all(|event| SILENT.contains(&event["type"].as_str().unwrap_or_default())),
        None => text.starts_with("{\"type\":\"") && text.lines().count() == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_shown_as_texts_and_tool_calls() {
        let claude = r#"{"type":"system","subtype":"init"}
{"type":"assistant","message":{"content":[{"type":"text","text":"I look.\nI see."},{"type":"tool_use","name":"Bash","input":{"command":"cargo test"}}]}}
{"type":"user","message":{"content":[]}}
{"type":"user","message":{"content":[]}}
a warning
{"type":"assistant","message":{"content":[{"type":"text","text":"Done."}]}}
{"type":"result","subtype":"success","is_error":false,"result":"Done."}
{"type":"resu"#;
        insta::assert_snapshot!(transcript(claude).unwrap(), @r"
        I look.
        I see.
        Bash cargo test
        a warning
        Done.
        ");
        let codex = r#"{"type":"turn.started"}
{"type":"item.started","item":{"type":"command_execution","command":"/bin/bash -lc 'cargo test'"}}
{"type":"item.completed","item":{"type":"agent_message","text":"It is done."}}"#;
        insta::assert_snapshot!(transcript(codex).unwrap(), @r"
        Bash cargo test
        It is done.
        ");
        let gemini = r#"{"type":"init","session_id":"s","model":"m"}
{"type":"tool_use","tool_name":"run_shell_command","parameters":{"command":"ls"}}
{"type":"message","role":"assistant","content":"Done.","delta":true}
{"type":"result","status":"success"}"#;
        insta::assert_snapshot!(transcript(gemini).unwrap(), @r"
        Bash ls
        Done.
        ");
        let opencode = r#"{"type":"step_start","sessionID":"s","part":{}}
{"type":"tool_use","part":{"tool":"edit","state":{"input":{"filePath":"src/lib.rs"}}}}
{"type":"text","part":{"text":"Done."}}"#;
        insta::assert_snapshot!(transcript(opencode).unwrap(), @r"
        Edit src/lib.rs
        Done.
        ");
        let pi = r#"{"type":"session","id":"s"}
{"type":"tool_execution_start","toolName":"bash","args":{"command":"ls"}}
{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Done."}]}}"#;
        insta::assert_snapshot!(transcript(pi).unwrap(), @r"
        Bash ls
        Done.
        ");
        let acp = r#"{"type":"session","id":"s"}
{"type":"tool_call","tool":"execute","title":"cargo test"}
{"type":"tool_call","tool":"other","title":"look around"}
{"type":"text","text":"Done.\n"}
{"type":"end","stop_reason":"end_turn"}"#;
        insta::assert_snapshot!(transcript(acp).unwrap(), @r"
        Bash cargo test
        look around
        Done.
        ");
        for plain in ["", "one\ntwo\n", "{\"type\": \"x\"}\n{\"type\": \"y\"}\n", "{not an event\n"]
        {
            assert_eq!(transcript(plain), None, "{plain}");
        }
    }

    #[test]
    fn events_of_an_agent_that_says_nothing_are_not_shown() {
        for silent in [
            "{\"type\":\"system\",\"subty",
            "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}\n",
            "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n{\"type\":\"turn.started\"}\n{\"ty",
            "the end of an event\"}\n{\"type\":\"user\",\"message\":{\"content\":[]}}\n",
            "{\"type\":\"step_start\",\"sessionID\":\"s\",\"part\":{}}\n",
            "{\"type\":\"init\",\"session_id\":\"s\"}\n{\"type\":\"message\",\"role\":\"user\",\"content\":\"x\"}\n",
        ] {
            assert_eq!(transcript(silent).as_deref(), Some(""), "{silent}");
        }
    }

    #[test]
    fn pieces_of_a_text_are_joined() {
        let gemini = r#"{"type":"init","session_id":"s"}
{"type":"message","role":"assistant","content":"I lo","delta":true}
{"type":"message","role":"assistant","content":"ok.\nI see","delta":true}
{"type":"tool_use","tool_name":"run_shell_command","parameters":{"command":"cargo test\n  --all \u001b[31m"}}
{"type":"message","role":"assistant","content":"Do","delta":true}
{"type":"message","role":"assistant","content":"ne.","delta":true}"#;
        insta::assert_snapshot!(transcript(gemini).unwrap(), @r"
        I look.
        I see
        Bash cargo test --all
        Done.
        ");
    }
}
