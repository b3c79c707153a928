//! `claude -p` with `--output-format stream-json` or `json`: a message in every line, the last one of type
//! `result`.
//!
//! The result is the answer and says how it ended. Its exit code does not: an interrupted `claude` exits with
//! 0. The `subtype` of a result is `success` even when the API refused the request, so `is_error` is asked
//! first. If work continues after a result, because a background task has ended, another result follows, and
//! only the last one counts.

use serde_json::Value;

use super::adapter::{Adapter, Credentials, Flag, McpOption, ReadOnly, Refused, StateDir};
use super::events::{Client, Conclusion, number, spoken, text};
use super::tool_call::ToolCall;
use super::{ClientError, Dollars, ErrorClass, Outcome, Session, Stream, Usage};

pub(super) const ADAPTER: Adapter = Adapter {
    stream: Stream::Claude,
    title: "Claude Code",
    program: "claude",
    tested: "2.1.325",
    offers: &["cost", "mcp", "resume"],
    subcommand: None,
    unattended: &[
        Flag { add: &["-p"], unless: &["--print"] },
        Flag {
            add: &["--dangerously-skip-permissions"],
            unless: &["--permission-mode", "--allowedTools", "--allowed-tools"],
        },
    ],
    streaming: &[
        Flag { add: &["--output-format", "stream-json"], unless: &[] },
        Flag { add: &["--verbose"], unless: &[] },
    ],
    model: Flag { add: &["--model"], unless: &[] },
    turn_limit: Some("--max-turns"),
    stdin: None,
    refused: &[
        Refused {
            flags: &["--permission-mode"],
            values: &["plan", "default", "manual"],
            why: "it would deny the tools that the agent needs; use dontAsk with --allowedTools",
        },
        Refused {
            flags: &["--input-format"],
            values: &["stream-json"],
            why: "the prompt is plain text on standard input",
        },
    ],
    inherits: &[
        "ANTHROPIC_*",
        "CLAUDE_*",
        "IS_SANDBOX",
        "DISABLE_*",
        "ENABLE_*",
        "USE_BUILTIN_RIPGREP",
        "BASH_*",
        "MCP_*",
        "MAX_THINKING_TOKENS",
        "MAX_MCP_OUTPUT_TOKENS",
        "OTEL_*",
        "VERTEX_*",
        "CLOUD_ML_REGION",
        "API_TIMEOUT_MS",
    ],
    providers: &[
        ("CLAUDE_CODE_USE_BEDROCK", "AWS_*"),
        ("CLAUDE_CODE_USE_VERTEX", "GOOGLE_*"),
        ("CLAUDE_CODE_USE_VERTEX", "GCLOUD_*"),
        ("CLAUDE_CODE_USE_FOUNDRY", "AZURE_*"),
    ],
    // By default it asks ten times, for minutes in which it prints nothing.
    env: &[("DISABLE_AUTOUPDATER", "1"), ("CLAUDE_CODE_MAX_RETRIES", "2")],
    // Strict: the servers that a project or a user has are neither needed nor, of code under review, trusted.
    mcp: Some(McpOption {
        args: &[
            r#"--mcp-config={"mcpServers":{"autoloop":{"command":SERVER,"args":["mcp"]}}}"#,
            "--strict-mcp-config",
            "--allowedTools=mcp__autoloop",
        ],
        // Otherwise it only shows the names of the tools, which then have to be searched.
        env: &[("ENABLE_TOOL_SEARCH", "false")],
        settings: None,
    }),
    read_only: Some(ReadOnly::Flag(Flag {
        add: &["--disallowedTools=Edit,Write,NotebookEdit"],
        unless: &[],
    })),
    sandbox: None,
    state: &[
        StateDir { variable: "CLAUDE_CONFIG_DIR", below: "", usual: ".claude" },
        StateDir { variable: "CLAUDE_CONFIG_DIR", below: ".claude.json", usual: ".claude.json" },
    ],
    bookkeeping: &[],
    credentials: Credentials {
        variables: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
            "CLAUDE_CODE_USE_FOUNDRY",
        ],
        any_api_key: false,
        files: &[
            (".credentials.json", &[]),
            ("settings.json", &["apiKeyHelper", "ANTHROPIC_", "CLAUDE_CODE_USE_"]),
            (".claude.json", &["oauthAccount", "primaryApiKey"]),
            ("../.claude.json", &["oauthAccount", "primaryApiKey"]),
        ],
        advice: "start `claude` and type /login, or set ANTHROPIC_API_KEY",
    },
};

#[derive(Debug, Default)]
pub(super) struct Claude {
    spoken: Option<String>,
    /// The result, unless other messages follow it.
    result: Option<Ending>,
    usage: Option<Usage>,
    session: Session,
    /// The class of the last error, which the result does not have.
    error: ErrorClass,
}

#[derive(Debug)]
struct Ending {
    /// The answer, if there is one.
    text: Option<String>,
    outcome: Outcome,
}

impl Client for Claude {
    fn counts(kind: &str) -> bool {
        matches!(kind, "system" | "assistant" | "result")
    }

    fn take(&mut self, kind: &str, event: &Value) {
        match kind {
            "system" if text(event, "subtype") == "init" => {
                self.session = Session::new(event, "session_id", "model");
            }
            // The text of a subagent is not the answer.
            "assistant" if event["parent_tool_use_id"].is_null() => {
                self.result = None;
                self.error = error_class(text(event, "error"));
                let text = spoken(&event["message"]["content"]);
                // An error of the API is printed as a message of the assistant.
                let is_told = event["error"].is_null() && event["is_api_error_message"] != true;
                self.spoken =
                    Some(text).filter(|text| is_told && !text.is_empty()).or(self.spoken.take());
            }
            "result" => {
                self.count(event);
                self.session.id =
                    event["session_id"].as_str().map(str::to_owned).or(self.session.id.take());
                self.session.turns = event["num_turns"].as_u64().unwrap_or(self.session.turns);
                let by_usage = || event["modelUsage"].as_object()?.keys().next().cloned();
                self.session.model = self.session.model.take().or_else(by_usage);
                self.result = Some(Ending::of(event, self.error));
            }
            _ => {}
        }
    }

    fn show(kind: &str, event: &Value) -> Option<String> {
        match kind {
            "assistant" => {
                let parts = event["message"]["content"].as_array()?.iter();
                let shown = parts.filter_map(|part| match text(part, "type") {
                    "text" => Some(text(part, "text").to_owned()),
                    "tool_use" => {
                        Some(ToolCall::new(text(part, "name"), &part["input"]).to_string())
                    }
                    _ => None,
                });
                Some(shown.collect::<Vec<_>>().join("\n"))
            }
            "result" => event["result"].as_str().map(str::to_owned),
            "system" if text(event, "subtype") == "api_retry" => Some(format!(
                "the request failed ({}); attempt {} of {}",
                text(event, "error"),
                number(event, "attempt"),
                number(event, "max_retries")
            )),
            _ => None,
        }
    }

    fn conclude(self) -> Conclusion {
        let (text, outcome) = match (self.result, self.spoken) {
            (None, None) => (None, None),
            (None, spoken) => (spoken, Some(Outcome::Unfinished)),
            (Some(result), spoken) => (result.text.or(spoken), Some(result.outcome)),
        };
        Conclusion {
            text: text.unwrap_or_default(),
            outcome,
            usage: self.usage,
            session: self.session,
        }
    }
}

impl Claude {
    /// Adds the tokens of a result. Its cost is that of all results so far.
    fn count(&mut self, result: &Value) {
        let used = &result["usage"];
        let cost = result["total_cost_usd"].as_f64().and_then(Dollars::new);
        if !used.is_object() && cost.is_none() {
            return;
        }
        let (input, output) = (number(used, "input_tokens"), number(used, "output_tokens"));
        let cache_read = number(used, "cache_read_input_tokens");
        let cache_write = number(used, "cache_creation_input_tokens");
        let parts = [input, output, cache_read, cache_write];
        let total = parts.into_iter().fold(0, u64::saturating_add);
        let usage = self.usage.get_or_insert_default();
        usage.add(Usage { input, output, cache_read, cache_write, total, cost: None });
        usage.cost = cost.or(usage.cost);
    }
}

impl Ending {
    fn of(event: &Value, class: ErrorClass) -> Ending {
        if event.is_null() {
            let why = "its result is too long to read";
            return Ending { text: None, outcome: Outcome::Failed(why.into()) };
        }
        let failed = event["is_error"] == true || !matches!(text(event, "subtype"), "success" | "");
        match failed {
            true => Ending { text: None, outcome: Ending::failure(event, class) },
            false => Ending { text: answer(event), outcome: Ending::success(event) },
        }
    }

    fn success(event: &Value) -> Outcome {
        match text(event, "stop_reason") {
            "refusal" => Outcome::Failed("the model refused to answer".into()),
            "max_tokens" | "model_context_window_exceeded" => Outcome::CutShort,
            _ => Outcome::Done,
        }
    }

    fn failure(event: &Value, class: ErrorClass) -> Outcome {
        if text(event, "terminal_reason").starts_with("aborted") {
            return Outcome::Aborted;
        }
        let told = event["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let told = told.chain(event["result"].as_str()).filter(|text| !text.is_empty());
        let told = told.collect::<Vec<_>>().join("; ");
        let message = match (text(event, "subtype"), told.is_empty()) {
            ("error_max_turns", _) => "it reached its limit of turns",
            ("error_max_budget_usd", _) => "it reached its limit of cost",
            (_, false) => &told,
            ("success" | "", true) => "",
            (subtype, true) => subtype,
        };
        let status = event["api_error_status"].as_u64();
        let by_status = ClientError::new(status, message);
        let kind = [text(event, "api_error"), text(event, "api_error_type")].join(" ");
        let class = if class == ErrorClass::Other { error_class(kind.trim()) } else { class };
        // Its words for an overloaded server are those for a broken one.
        let is_by_status = status.is_some() && by_status.class != ErrorClass::Other;
        Outcome::Failed(match class {
            class if class != ErrorClass::Other && !is_by_status => {
                ClientError::of_class(class, message)
            }
            _ => by_status,
        })
    }
}

/// The class of an error in the words of the client.
pub(super) fn error_class(word: &str) -> ErrorClass {
    match word {
        "rate_limit" | "rate_limit_error" => ErrorClass::RateLimit,
        "overloaded" | "overloaded_error" => ErrorClass::Overloaded,
        "server_error" | "api_error" => ErrorClass::Server,
        "authentication_failed" | "authentication_error" => ErrorClass::Auth,
        "billing_error" => ErrorClass::Quota,
        "model_not_found" => ErrorClass::Model,
        "connection_failed" => ErrorClass::Network,
        _ => ErrorClass::Other,
    }
}

/// The answer in a result: its text or the object it was asked for. A result without either falls back to the
/// last spoken text.
fn answer(event: &Value) -> Option<String> {
    match (&event["result"], &event["structured_output"]) {
        (Value::String(text), _) if !text.is_empty() => Some(text.clone()),
        (_, object @ Value::Object(_)) => Some(object.to_string()),
        (Value::Null, _) => None,
        _ => Some(String::new()),
    }
}

#[cfg(test)]
mod tests;
