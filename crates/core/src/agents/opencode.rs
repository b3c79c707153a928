//! `opencode run --format json`: an event in every line.
//!
//! A step is one answer of the model, with the tools that it called. The texts after the last tool call are the answer.
//! The stream ends with a step whose reason is `stop`, or with an `error`, which has the status of HTTP in it. Tokens
//! and cost are those of each step.

use serde_json::Value;

use super::adapter::{Adapter, Credentials, Flag, McpOption, ReadOnly, Refused, StateDir};
use super::events::{Client, Conclusion, number, text};
use super::response::Message;
use super::tool_call::ToolCall;
use super::{ClientError, Dollars, Outcome, Session, Stream, Usage};

pub(super) const ADAPTER: Adapter = Adapter {
    stream: Stream::Opencode,
    title: "OpenCode",
    program: "opencode",
    tested: "1.18.33",
    offers: &["acp", "cost", "mcp", "resume"],
    subcommand: Some("run"),
    unattended: &[Flag { add: &["--auto"], unless: &[] }],
    streaming: &[Flag { add: &["--format", "json"], unless: &[] }],
    model: Flag { add: &["-m"], unless: &["--model"] },
    turn_limit: None,
    stdin: None,
    refused: &[Refused {
        flags: &["-i", "--interactive"],
        values: &[],
        why: "it would wait for more input",
    }],
    inherits: &[
        "OPENCODE_*",
        "AWS_REGION",
        "AWS_BEARER_TOKEN_BEDROCK",
        "GOOGLE_CLOUD_*",
        "VERTEX_*",
    ],
    providers: &[],
    env: &[("OPENCODE_DISABLE_AUTOUPDATE", "1")],
    mcp: Some(McpOption {
        args: &[],
        env: &[],
        settings: Some((
            "OPENCODE_CONFIG_CONTENT",
            r#"{"mcp":{"autoloop":{"type":"local","command":[SERVER,"mcp"],"enabled":true}}}"#,
        )),
    }),
    read_only: Some(ReadOnly::Variable("OPENCODE_PERMISSION", r#"{"edit":"deny"}"#)),
    sandbox: None,
    state: &[
        StateDir { variable: "XDG_DATA_HOME", below: "opencode", usual: ".local/share/opencode" },
        StateDir { variable: "XDG_CONFIG_HOME", below: "opencode", usual: ".config/opencode" },
        StateDir { variable: "XDG_STATE_HOME", below: "opencode", usual: ".local/state/opencode" },
        StateDir { variable: "XDG_CACHE_HOME", below: "opencode", usual: ".cache/opencode" },
    ],
    bookkeeping: &[".git/opencode"],
    credentials: Credentials {
        variables: &["OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT", "AWS_PROFILE"],
        any_api_key: true,
        files: &[("auth.json", &[])],
        advice: "log in with `opencode auth login`, or set the API key of a provider",
    },
};

#[derive(Debug, Default)]
pub(super) struct Opencode {
    message: Message,
    outcome: Option<Outcome>,
    session: Session,
    usage: Option<Usage>,
}

impl Client for Opencode {
    fn counts(kind: &str) -> bool {
        matches!(kind, "step_start" | "text" | "tool_use" | "step_finish" | "error")
    }

    fn take(&mut self, kind: &str, event: &Value) {
        if self.session.id.is_none() {
            self.session = Session::new(event, "sessionID", "");
        }
        let part = &event["part"];
        match kind {
            "text" if part["synthetic"] != true => {
                self.message.push_line(text(part, "text"));
            }
            "tool_use" => self.message.clear(),
            "step_finish" => self.end_step(part),
            "error" => self.outcome = Some(Outcome::Failed(error(&event["error"]))),
            _ => {}
        }
        self.outcome = self.outcome.take().or(Some(Outcome::Unfinished));
    }

    fn show(kind: &str, event: &Value) -> Option<String> {
        let part = &event["part"];
        match kind {
            "text" => Some(text(part, "text").to_owned()),
            "tool_use" => {
                Some(ToolCall::new(text(part, "tool"), &part["state"]["input"]).to_string())
            }
            "error" => Some(error(&event["error"]).message),
            _ => None,
        }
    }

    fn conclude(self) -> Conclusion {
        let Opencode { message, outcome, session, usage } = self;
        Conclusion { text: message.into_text(), outcome, usage, session }
    }
}

impl Opencode {
    fn end_step(&mut self, step: &Value) {
        self.session.turns += 1;
        let tokens = &step["tokens"];
        let cost = step["cost"].as_f64().and_then(Dollars::new);
        if tokens.is_object() || cost.is_some() {
            let (input, output) = (number(tokens, "input"), number(tokens, "output"));
            let output = output.saturating_add(number(tokens, "reasoning"));
            let cache_read = number(&tokens["cache"], "read");
            let cache_write = number(&tokens["cache"], "write");
            let parts = [input, output, cache_read, cache_write];
            let total = parts.into_iter().fold(0, u64::saturating_add);
            let usage = Usage { input, output, cache_read, cache_write, total, cost };
            self.usage.get_or_insert_default().add(usage);
        }
        // An error counts, whatever ends after it.
        if !matches!(self.outcome, Some(Outcome::Failed(_))) {
            self.outcome = Some(match text(step, "reason") {
                "stop" => Outcome::Done,
                "length" => Outcome::CutShort,
                "tool-calls" => Outcome::Unfinished,
                other => Outcome::Unknown(other.to_owned()),
            });
        }
    }
}

fn error(error: &Value) -> ClientError {
    let data = &error["data"];
    let message = match (text(data, "message"), text(error, "name")) {
        ("", name) => name,
        (message, _) => message,
    };
    let mut told = ClientError::new(data["statusCode"].as_u64(), message);
    let header = text(&data["responseHeaders"], "retry-after").parse().ok();
    told.retry_after = header.map(std::time::Duration::from_secs).or(told.retry_after);
    told
}

#[cfg(test)]
mod tests;
