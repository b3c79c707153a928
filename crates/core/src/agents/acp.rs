//! `autoloop __acp`: what a program that speaks the Agent Client Protocol does, one event per line.
//!
//! The protocol is a conversation, so its messages mean little without the requests that they answer. `__acp` has the
//! conversation and prints these events; the documentation of them is `docs/backends.md`. The texts after the last tool
//! call are the answer. The stream ends with an `end` or a `failure`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::claude::error_class;
use super::error::ErrorClass;
use super::events::{Client, Conclusion, text};
use super::response::Message;
use super::tool_call::ToolCall;
use super::{ClientError, Dollars, Outcome, Session, Usage};
use crate::wire_enum::Word;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AcpEvent {
    Session {
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The name and the version of the program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
    },
    /// A part of what the agent says, at most a few lines.
    Text {
        text: String,
    },
    ToolCall {
        /// The kind of tool in the words of the protocol, such as `execute`.
        tool: String,
        title: String,
    },
    /// What the whole turn used.
    Usage {
        #[serde(flatten)]
        tokens: AcpTokens,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    End {
        stop_reason: String,
    },
    /// Differs in its name from the errors of other clients, so that a stream of an unknown client is recognized.
    Failure {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<Word<ErrorClass>>,
        /// The status of HTTP with which the model refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u64>,
        message: String,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AcpTokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub total: u64,
}

impl AcpEvent {
    /// The error of a program that answers a request with an error object. Programs put the cause into different places:
    /// claude names a kind, gemini uses the status of HTTP as the code, codex puts the status into the data.
    pub fn refusal(code: i64, message: &str, data: &Value) -> AcpEvent {
        let class = match error_class(text(data, "errorKind")) {
            ErrorClass::Other if code == AUTHENTICATION_REQUIRED => Some(ErrorClass::Auth),
            ErrorClass::Other => None,
            class => Some(class),
        };
        let of_code = u64::try_from(code).ok().filter(is_error_status);
        let status = of_code.or_else(|| status(data));
        AcpEvent::Failure { class: class.map(Word::from), status, message: words(message, data) }
    }

    /// An error that is not the answer to a request.
    pub fn failure(class: Option<ErrorClass>, message: String) -> AcpEvent {
        AcpEvent::Failure { class: class.map(Word::from), status: None, message }
    }
}

/// The code with which the protocol asks for a login.
const AUTHENTICATION_REQUIRED: i64 = -32000;

fn is_error_status(status: &u64) -> bool {
    (400..600).contains(status)
}

/// The status of HTTP anywhere in the data of an error.
fn status(data: &Value) -> Option<u64> {
    let Value::Object(fields) = data else { return None };
    let own = ["http_status_code", "statusCode", "status"].into_iter();
    let own = own.filter_map(|name| fields.get(name)?.as_u64()).find(is_error_status);
    own.or_else(|| fields.values().find_map(status))
}

/// What an error says. A message may be the JSON that the model's server answered with, or so general that only the
/// details say something.
fn words(message: &str, data: &Value) -> String {
    let served: Option<Value> = serde_json::from_str(message).ok();
    let served = served.as_ref().and_then(|body| body["error"]["message"].as_str());
    let message = served.unwrap_or(message);
    let details = match data {
        Value::String(details) => details,
        data => {
            let texts = ["details", "message"].map(|name| text(data, name));
            texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
        }
    };
    match (message, details) {
        (message, details) if message.contains(details) => message.to_owned(),
        ("", details) => details.to_owned(),
        (message, details) => format!("{message}: {details}"),
    }
}

#[derive(Debug, Default)]
pub(super) struct Acp {
    message: Message,
    outcome: Option<Outcome>,
    session: Session,
    usage: Option<Usage>,
}

impl Client for Acp {
    fn counts(kind: &str) -> bool {
        matches!(kind, "session" | "text" | "tool_call" | "usage" | "end" | "failure")
    }

    fn take(&mut self, _: &str, event: &Value) {
        self.outcome = self.outcome.take().or(Some(Outcome::Unfinished));
        let Ok(event) = AcpEvent::deserialize(event) else { return };
        match event {
            AcpEvent::Session { id, model, .. } => {
                self.session = Session { id: Some(id), model, turns: 0 };
            }
            AcpEvent::Text { text } => self.message.push(&text),
            AcpEvent::ToolCall { .. } => {
                self.session.turns += 1;
                self.message.clear();
            }
            AcpEvent::Usage { tokens, cost_usd } => self.usage = Some(usage(tokens, cost_usd)),
            AcpEvent::End { stop_reason } => {
                self.session.turns += 1;
                self.outcome = Some(outcome(stop_reason));
            }
            AcpEvent::Failure { class, status, message } => {
                let error = match class.and_then(|class| class.known()) {
                    Some(class) => ClientError::of_class(class, &message),
                    None => ClientError::new(status, &message),
                };
                self.outcome = Some(Outcome::Failed(error));
            }
        }
    }

    fn show(_: &str, event: &Value) -> Option<String> {
        match AcpEvent::deserialize(event).ok()? {
            AcpEvent::Text { text } => Some(text.trim_end().to_owned()),
            AcpEvent::ToolCall { tool, title } => Some(ToolCall::titled(&tool, &title).to_string()),
            AcpEvent::Failure { message, .. } => Some(message),
            AcpEvent::Session { .. } | AcpEvent::Usage { .. } | AcpEvent::End { .. } => None,
        }
    }

    fn conclude(self) -> Conclusion {
        let Acp { message, outcome, session, usage } = self;
        Conclusion { text: message.into_text().trim_end().to_owned(), outcome, usage, session }
    }
}

fn usage(tokens: AcpTokens, cost_usd: Option<f64>) -> Usage {
    let AcpTokens { input, output, cache_read, cache_write, total } = tokens;
    Usage { input, output, cache_read, cache_write, total, cost: cost_usd.and_then(Dollars::new) }
}

fn outcome(stop_reason: String) -> Outcome {
    match stop_reason.as_str() {
        "end_turn" => Outcome::Done,
        "max_tokens" | "max_turn_requests" => Outcome::CutShort,
        "refusal" => Outcome::Failed("the model refused to answer".into()),
        "cancelled" => Outcome::Aborted,
        _ => Outcome::Unknown(stop_reason),
    }
}

#[cfg(test)]
mod tests;
