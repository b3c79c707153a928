//! Prints what a program reports, one event per line.

use std::collections::HashMap;
use std::io::{self, Write};

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, MessageId, SessionUpdate, ToolCallId, ToolCallStatus, ToolKind,
};
use autoloop_core::agents::{AcpEvent, AcpTokens};
use autoloop_core::text::{clip, one_line};
use serde_json::Value;

/// Texts come in pieces of a few letters. They are printed in lines, or in parts of this length.
const LONGEST_TEXT: usize = 8 * 1024;
const LONGEST_TITLE: usize = 500;

pub(crate) struct Reporter<W> {
    out: W,
    /// Text that is not printed yet.
    text: String,
    /// The message that the last text belongs to.
    message: Option<MessageId>,
    calls: HashMap<ToolCallId, Call>,
    cost_usd: Option<f64>,
}

/// What is known of a tool call; programs report it in several updates.
#[derive(Debug, Default)]
pub(super) struct Call {
    title: Option<String>,
    kind: Option<ToolKind>,
    is_printed: bool,
}

impl Call {
    pub(super) fn new(title: Option<String>, kind: Option<ToolKind>) -> Call {
        Call { title, kind, is_printed: false }
    }
}

/// Whether a tool call is still being prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Prepared,
    Begun,
}

impl Stage {
    fn of(status: Option<ToolCallStatus>) -> Stage {
        match status {
            None | Some(ToolCallStatus::Pending) => Stage::Prepared,
            Some(_) => Stage::Begun,
        }
    }
}

impl<W: Write> Reporter<W> {
    pub(crate) fn new(out: W) -> Self {
        let (text, calls) = (String::new(), HashMap::new());
        Reporter { out, text, message: None, calls, cost_usd: None }
    }

    pub(super) fn begin(&mut self, event: &AcpEvent) -> io::Result<()> {
        self.print(event)
    }

    pub(super) fn update(&mut self, update: SessionUpdate) -> io::Result<()> {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.say(chunk),
            SessionUpdate::ToolCall(call) => {
                let known = Call::new(Some(call.title), Some(call.kind));
                self.call(call.tool_call_id, known, Stage::of(Some(call.status)))
            }
            SessionUpdate::ToolCallUpdate(update) => {
                let fields = update.fields;
                let known = Call::new(fields.title, fields.kind);
                self.call(update.tool_call_id, known, Stage::of(fields.status))
            }
            SessionUpdate::UsageUpdate(usage) => {
                // Cumulative, and the session has only this turn.
                let dollars = usage.cost.filter(|cost| cost.currency == "USD");
                self.cost_usd = dollars.map(|cost| cost.amount).or(self.cost_usd);
                Ok(())
            }
            // Thoughts, plans, commands and modes are not part of the answer.
            _ => Ok(()),
        }
    }

    /// Takes what is reported of a tool call, and prints it once it has begun: until then its title may be a placeholder.
    pub(super) fn call(&mut self, id: ToolCallId, reported: Call, stage: Stage) -> io::Result<()> {
        let call = self.calls.entry(id).or_default();
        call.title = reported.title.or(call.title.take());
        call.kind = reported.kind.or(call.kind);
        if call.is_printed || stage == Stage::Prepared {
            return Ok(());
        }
        call.is_printed = true;
        let tool = serde_json::to_value(call.kind.unwrap_or_default())?;
        let title = one_line(call.title.as_deref().unwrap_or_default());
        let event = AcpEvent::ToolCall {
            tool: tool.as_str().unwrap_or("other").to_owned(),
            title: clip(title.trim_matches('`'), LONGEST_TITLE).into_owned(),
        };
        self.print(&event)
    }

    /// Prints the end of a turn that the program answered.
    pub(crate) fn end(&mut self, answer: &Value) -> io::Result<()> {
        let stop_reason = answer["stopReason"].as_str().unwrap_or_default().to_owned();
        self.print_usage(tokens(answer))?;
        self.print(&AcpEvent::End { stop_reason })
    }

    /// Prints the end of a turn that was stopped and not answered.
    pub(crate) fn stopped(&mut self) -> io::Result<()> {
        self.print_usage(None)?;
        self.print(&AcpEvent::End { stop_reason: "cancelled".to_owned() })
    }

    pub(crate) fn fail(&mut self, error: AcpEvent) -> io::Result<()> {
        self.print_usage(None)?;
        self.print(&error)
    }

    fn say(&mut self, chunk: ContentChunk) -> io::Result<()> {
        let ContentBlock::Text(text) = chunk.content else { return Ok(()) };
        if self.message != chunk.message_id {
            if !self.text.is_empty() {
                self.text.push('\n');
            }
            self.message = chunk.message_id;
        }
        self.text.push_str(&text.text);
        let whole = self.text.rfind('\n').map(|at| at + 1);
        match whole.or_else(|| (self.text.len() > LONGEST_TEXT).then_some(self.text.len())) {
            Some(end) => {
                let rest = self.text.split_off(end);
                self.flush()?;
                self.text = rest;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.text) {
            text if text.is_empty() => Ok(()),
            text => self.write(&AcpEvent::Text { text }),
        }
    }

    fn print_usage(&mut self, tokens: Option<AcpTokens>) -> io::Result<()> {
        let cost_usd = self.cost_usd;
        match tokens.is_some() || cost_usd.is_some() {
            true => self.print(&AcpEvent::Usage { tokens: tokens.unwrap_or_default(), cost_usd }),
            false => Ok(()),
        }
    }

    fn print(&mut self, event: &AcpEvent) -> io::Result<()> {
        self.flush()?;
        self.write(event)
    }

    fn write(&mut self, event: &AcpEvent) -> io::Result<()> {
        let mut line = serde_json::to_string(event)?;
        line.push('\n');
        self.out.write_all(line.as_bytes())?;
        self.out.flush()
    }
}

/// The tokens that the answer to a prompt reports: as the protocol says it, or in gemini's own field.
fn tokens(answer: &Value) -> Option<AcpTokens> {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let usage = &answer["usage"];
    let quota = &answer["_meta"]["quota"]["token_count"];
    let counted = match (usage.is_object(), quota.is_object()) {
        (true, _) => AcpTokens {
            input: number(&usage["inputTokens"]),
            output: number(&usage["outputTokens"]).saturating_add(number(&usage["thoughtTokens"])),
            cache_read: number(&usage["cachedReadTokens"]),
            cache_write: number(&usage["cachedWriteTokens"]),
            total: number(&usage["totalTokens"]),
        },
        (false, true) => AcpTokens {
            input: number(&quota["input_tokens"]),
            output: number(&quota["output_tokens"]),
            ..AcpTokens::default()
        },
        (false, false) => return None,
    };
    let AcpTokens { input, output, cache_read, cache_write, total } = counted;
    let sum = [input, output, cache_read, cache_write].into_iter().fold(0, u64::saturating_add);
    Some(AcpTokens { total: if total == 0 { sum } else { total }, ..counted })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The events of updates and an answer.
    fn printed(updates: &[Value], answer: &Value) -> String {
        let mut out = Vec::new();
        let mut reporter = Reporter::new(&mut out);
        for update in updates {
            reporter.update(serde_json::from_value(update.clone()).unwrap()).unwrap();
        }
        reporter.end(answer).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn chunk(message: &str, text: &str) -> Value {
        json!({ "sessionUpdate": "agent_message_chunk", "messageId": message, "content": { "type": "text", "text": text } })
    }

    #[test]
    fn a_turn_is_printed_as_events() {
        let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "bash", "kind": "execute", "status": "pending" });
        let update = |status: &str| json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "`cargo\ntest`", "status": status });
        let thought = json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": "hm" } });
        let cost = |amount: f64, currency: &str| json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": { "amount": amount, "currency": currency } });
        let updates = [
            chunk("1", "I lo"),
            chunk("1", "ok.\nA"),
            thought,
            chunk("1", "t it"),
            call,
            update("in_progress"),
            update("completed"),
            chunk("2", "All done."),
            chunk("3", "Really."),
            cost(0.5, "USD"),
            cost(7.0, "credits"),
        ];
        let answer = json!({ "stopReason": "end_turn", "usage": { "inputTokens": 16, "outputTokens": 7, "thoughtTokens": 2, "totalTokens": 25 } });
        insta::assert_snapshot!(printed(&updates, &answer), @r#"
        {"type":"text","text":"I look.\n"}
        {"type":"text","text":"At it"}
        {"type":"tool_call","tool":"execute","title":"cargo test"}
        {"type":"text","text":"All done.\n"}
        {"type":"text","text":"Really."}
        {"type":"usage","input":16,"output":9,"cache_read":0,"cache_write":0,"total":25,"cost_usd":0.5}
        {"type":"end","stop_reason":"end_turn"}
        "#);
    }

    #[test]
    fn the_tokens_of_gemini_are_in_its_own_field() {
        let answer = json!({ "stopReason": "max_tokens", "_meta": { "quota": { "token_count": { "input_tokens": 32, "output_tokens": 14 } } } });
        insta::assert_snapshot!(printed(&[], &answer), @r#"
        {"type":"usage","input":32,"output":14,"cache_read":0,"cache_write":0,"total":46}
        {"type":"end","stop_reason":"max_tokens"}
        "#);
    }

    #[test]
    fn a_long_text_without_a_line_break_is_printed_in_parts() {
        let events =
            printed(&[chunk("1", &"x".repeat(LONGEST_TEXT + 1)), chunk("1", "y")], &json!({}));
        let lengths: Vec<usize> = events.lines().map(str::len).collect();
        assert!(lengths[0] > LONGEST_TEXT && lengths[1] < 40, "{lengths:?}");
        assert_eq!(events.lines().count(), 3);
    }
}
