//! The stream of an unknown client, for people to read.

use super::Stream;
use super::events::parse;

const CLIENTS: [Stream; 6] =
    [Stream::Claude, Stream::Codex, Stream::Gemini, Stream::Opencode, Stream::Pi, Stream::Acp];

/// The last text, tool call or error in a part of a stream of any client.
pub fn said_in(part: &str) -> Option<String> {
    transcript(part)?.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
}

/// What an agent said and which tools it called, line by line. Lines that are no events are kept. `None` if the text
/// is no stream of a client.
pub fn transcript(text: &str) -> Option<String> {
    let events: Vec<_> = text.lines().map(|line| (line, parse(line.as_bytes()))).collect();
    let client = CLIENTS.into_iter().find(|client| {
        let shown = events.iter().filter_map(|(_, event)| client.show(event.as_ref()?));
        shown.into_iter().any(|shown| !shown.is_empty())
    })?;
    let mut lines: Vec<String> = Vec::new();
    for (line, event) in events {
        let shown = match event {
            Some(event) => client.show(&event).unwrap_or_default(),
            // The beginning or the end of an event that is not here.
            None if line.starts_with('{') || line.ends_with('}') => String::new(),
            None => line.to_owned(),
        };
        // The result of a stream repeats the last text.
        if !shown.is_empty() && lines.last() != Some(&shown) {
            lines.push(shown);
        }
    }
    Some(lines.join("\n"))
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
        assert_eq!(said_in(pi).as_deref(), Some("Done."));
        for plain in ["", "one\ntwo\n", "{\"type\": \"x\"}\n{\"type\": \"y\"}\n"] {
            assert_eq!(transcript(plain), None, "{plain}");
        }
    }
}
