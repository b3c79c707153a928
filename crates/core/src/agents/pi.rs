//! `pi --mode json`: an event in every line.
//!
//! A turn is one message of the model and the results of the tools that it called. Each piece of a
//! message is printed as a `message_update` with everything before it, so most of a stream is skipped
//! unread. The events that count are few:
//!
//! - `message_end` has a message; `turn_end` has that of the model again, with the results;
//! - `agent_end` ends the work on the prompt. After a failure that pi tries to get over, another
//!   `agent_start` follows, so only the last message of all counts.

use serde_json::Value;

use super::adapter::{Adapter, Credentials, Flag, ReadOnly, Refused, StateDir};
use super::events::{Client, Conclusion, number, spoken, text};
use super::tool_call::ToolCall;
use super::{Dollars, Outcome, Session, Stream, Usage};

pub(super) const ADAPTER: Adapter = Adapter {
    stream: Stream::Pi,
    title: "pi",
    program: "pi",
    tested: "0.74.2",
    offers: &["cost", "resume"],
    subcommand: None,
    unattended: &[Flag { add: &["-p"], unless: &["--print"] }],
    streaming: &[Flag { add: &["--mode", "json"], unless: &[] }],
    model: Flag { add: &["--model"], unless: &[] },
    turn_limit: None,
    stdin: None,
    refused: &[Refused {
        flags: &["--mode"],
        values: &["rpc"],
        why: "it would wait for requests on standard input",
    }],
    inherits: &["PI_*", "AWS_REGION", "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_CLOUD_*"],
    providers: &[],
    env: &[],
    mcp: None,
    read_only: Some(ReadOnly::Flag(Flag {
        add: &["--tools", "read,bash,grep,find,ls"],
        unless: &["-t", "--no-tools", "-nt", "--no-builtin-tools", "-nbt"],
    })),
    sandbox: None,
    state: &[StateDir { variable: "PI_CODING_AGENT_DIR", below: "", usual: ".pi/agent" }],
    bookkeeping: &[],
    credentials: Credentials {
        variables: &["ANTHROPIC_OAUTH_TOKEN", "AWS_PROFILE"],
        any_api_key: true,
        files: &[("auth.json", &[]), ("models.json", &["apiKey"])],
        advice: "start `pi` and type /login, or set the API key of a provider",
    },
};

#[derive(Debug, Default)]
pub(super) struct Pi {
    /// A message whose turn has not ended.
    pending: Option<Message>,
    /// The last message whose turn has ended.
    last: Option<Message>,
    /// Whether a turn has ended since the work on the prompt began.
    turned: bool,
    /// Whether the work on the prompt has ended.
    over: bool,
    usage: Option<Usage>,
    session: Session,
}

#[derive(Debug, Default)]
struct Message {
    text: String,
    model: Option<String>,
    stop_reason: String,
    error: String,
    usage: Option<Usage>,
}

impl Client for Pi {
    fn counts(kind: &str) -> bool {
        matches!(kind, "session" | "agent_start" | "message_end" | "turn_end" | "agent_end")
    }

    fn take(&mut self, kind: &str, event: &Value) {
        match kind {
            "session" => self.session = Session::new(event, "id", ""),
            "agent_start" => {
                self.over = false;
                self.turned = false;
            }
            "message_end" => {
                let said = Message::said(&event["message"]);
                self.pending = said.or_else(|| self.pending.take());
            }
            // An event that is too long has the message of its `message_end`.
            "turn_end" => {
                let message = Message::said(&event["message"]);
                let pending = self.pending.take();
                self.end_turn(message.or(pending));
            }
            "agent_end" => {
                let pending = self.pending.take();
                // A failure outside of any turn is only here.
                let at_the_end = || {
                    let messages = event["messages"].as_array().filter(|_| !self.turned)?;
                    messages.iter().rev().find_map(Message::said)
                };
                let message = pending.or_else(at_the_end);
                self.end_turn(message);
                self.over = true;
            }
            _ => {}
        }
    }

    fn show(kind: &str, event: &Value) -> Option<String> {
        match kind {
            "message_end" => {
                let message = Message::said(&event["message"])?;
                Some([message.text, message.error].concat())
            }
            "tool_execution_start" => {
                Some(ToolCall::new(text(event, "toolName"), &event["args"]).to_string())
            }
            _ => None,
        }
    }

    fn conclude(mut self) -> Conclusion {
        let pending = self.pending.take();
        self.end_turn(pending);
        let outcome = self.last.as_ref().map(|last| self.outcome(last));
        let text = self.last.map(|message| message.text).unwrap_or_default();
        Conclusion { text, outcome, usage: self.usage, session: self.session }
    }
}

impl Pi {
    /// Ends the turn of a message.
    fn end_turn(&mut self, message: Option<Message>) {
        let Some(message) = message else { return };
        if let Some(usage) = message.usage {
            self.usage.get_or_insert_default().add(usage);
        }
        self.session.turns += 1;
        self.session.model = message.model.clone().or(self.session.model.take());
        self.last = Some(message);
        self.turned = true;
    }

    fn outcome(&self, last: &Message) -> Outcome {
        match &last.stop_reason[..] {
            "stop" => Outcome::Done,
            "length" => Outcome::CutShort,
            "error" => Outcome::Failed(last.error.as_str().into()),
            "aborted" => Outcome::Aborted,
            // A tool may end the work.
            "toolUse" if self.over => Outcome::Done,
            "toolUse" => Outcome::Unfinished,
            other => Outcome::Unknown(other.to_owned()),
        }
    }
}

impl Message {
    /// Reads a message of the model; `None` for other messages.
    fn said(message: &Value) -> Option<Message> {
        (text(message, "role") == "assistant").then(|| Message {
            text: spoken(&message["content"]),
            model: message["model"].as_str().map(str::to_owned),
            stop_reason: text(message, "stopReason").to_owned(),
            error: text(message, "errorMessage").to_owned(),
            usage: usage(&message["usage"]),
        })
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    usage.is_object().then(|| Usage {
        input: number(usage, "input"),
        output: number(usage, "output"),
        cache_read: number(usage, "cacheRead"),
        cache_write: number(usage, "cacheWrite"),
        total: number(usage, "totalTokens"),
        cost: usage["cost"]["total"].as_f64().and_then(Dollars::new),
    })
}

#[cfg(test)]
mod tests;
