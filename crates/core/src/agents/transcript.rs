//! The stream of a client that nobody named, for people to read.

use serde_json::Value;

use super::Stream;

const CLIENTS: [Stream; 3] = [Stream::Claude, Stream::Codex, Stream::Pi];

/// The last message of an agent in a part of a stream of any client.
pub fn said_in(part: &str) -> Option<String> {
    CLIENTS.into_iter().map(|client| said(client, part)).find(|said| !said.is_empty())
}

/// The messages in the stream of a client, line by line, with the types of the events between. `None` if it
/// is no such stream and has to be shown completely.
pub fn transcript(text: &str) -> Option<String> {
    let is_event = |line: &&str| line.starts_with('{');
    let says =
        |client: &Stream| text.lines().filter(is_event).any(|line| !said(*client, line).is_empty());
    let client = CLIENTS.into_iter().find(says)?;
    let mut told: Vec<String> = Vec::new();
    for line in text.lines() {
        let shown = match said(client, line) {
            said if !said.is_empty() => said,
            _ => kind(line).map_or_else(|| line.to_owned(), |kind| format!("[{kind}]")),
        };
        // The result of a stream says again what was said last.
        if told.last() != Some(&shown) {
            told.push(shown);
        }
    }
    Some(told.join("\n"))
}

/// The last message of an agent in a part of its stream.
fn said(client: Stream, part: &str) -> String {
    let Some(mut decoder) = client.decoder() else { return String::new() };
    decoder.push(part.as_bytes());
    decoder.finish().text
}

fn kind(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    Some(event.get("type")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_shown_as_what_was_said_in_it() {
        let claude = r#"{"type":"system","subtype":"init"}
{"type":"assistant","message":{"content":[{"type":"text","text":"I look.\nI see."}]}}
{"type":"user","message":{"content":[]}}
{"type":"user","message":{"content":[]}}
a warning
{"type":"assistant","message":{"content":[{"type":"text","text":"Done."}]}}
{"type":"result","subtype":"success","is_error":false,"result":"Done."}
{"type":"resu"#;
        insta::assert_snapshot!(transcript(claude).unwrap(), @r#"
        [system]
        I look.
        I see.
        [user]
        a warning
        Done.
        {"type":"resu
        "#);
        let codex = r#"{"type":"turn.started"}
{"type":"item.completed","item":{"type":"agent_message","text":"It is done."}}"#;
        insta::assert_snapshot!(transcript(codex).unwrap(), @r"
        [turn.started]
        It is done.
        ");
        for plain in ["", "one\ntwo\n", "{\"type\": \"x\"}\n{\"type\": \"y\"}\n"] {
            assert_eq!(transcript(plain), None, "{plain}");
        }
    }
}
