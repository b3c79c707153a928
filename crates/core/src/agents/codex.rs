//! `codex exec --json`: an event in every line.
//!
//! A turn begins with `turn.started` and ends with `turn.completed` or `turn.failed`. In between, everything is an
//! item, and the last `agent_message` among the items is the answer. An `error` is also printed before a retry, so
//! it counts only if the turn has no other end.

use serde_json::{Value, json};

use super::adapter::{Adapter, Credentials, Flag, McpOption, OwnSandbox, Refused, StateDir};
use super::events::{Client, Conclusion, number, text};
use super::tool_call::ToolCall;
use super::{Outcome, Session, Stream, Usage};

pub(super) const ADAPTER: Adapter = Adapter {
    stream: Stream::Codex,
    title: "Codex CLI",
    program: "codex",
    tested: "0.166.0",
    offers: &["mcp", "resume"],
    subcommand: Some("exec"),
    unattended: &[
        Flag { add: &["--skip-git-repo-check"], unless: &[] },
        // Its sandbox does not work inside of ours, and keeps `autoloop emit` from writing outside of ours.
        Flag {
            add: &["--dangerously-bypass-approvals-and-sandbox"],
            unless: &["--yolo", "-s", "--sandbox"],
        },
        // A login shell replaces the PATH of the harness.
        Flag { add: &["--config=allow_login_shell=false"], unless: &[] },
    ],
    streaming: &[Flag { add: &["--json"], unless: &["--experimental-json"] }],
    model: Flag { add: &["-m"], unless: &["--model"] },
    turn_limit: None,
    stdin: Some("-"),
    refused: &[Refused {
        flags: &["-a", "--ask-for-approval"],
        values: &["untrusted", "on-failure", "on-request"],
        why: "it would wait for an approval",
    }],
    inherits: &["OPENAI_*", "CODEX_*", "AZURE_OPENAI_*"],
    providers: &[],
    env: &[],
    // Without the approval, calls are refused inside of its own sandbox. A server inherits what is listed.
    mcp: Some(McpOption {
        args: &[
            "--config=mcp_servers.autoloop.command=SERVER",
            r#"--config=mcp_servers.autoloop.args=["mcp"]"#,
            r#"--config=mcp_servers.autoloop.env_vars=["AUTOLOOP_DOOR","AUTOLOOP_TICKET"]"#,
            r#"--config=mcp_servers.autoloop.default_tools_approval_mode="approve""#,
        ],
        env: &[],
        settings: None,
    }),
    // Its sandbox does more.
    read_only: None,
    sandbox: Some(OwnSandbox {
        flags: &["-s", "--sandbox"],
        mode: "workspace-write",
        writable: "--config=sandbox_workspace_write.writable_roots=",
    }),
    state: &[StateDir { variable: "CODEX_HOME", below: "", usual: ".codex" }],
    bookkeeping: &[],
    credentials: Credentials {
        variables: &["OPENAI_API_KEY", "CODEX_API_KEY"],
        any_api_key: false,
        files: &[
            ("auth.json", &[]),
            ("config.toml", &["model_provider", "cli_auth_credentials_store"]),
        ],
        advice: "log in with `codex login`, or set OPENAI_API_KEY",
    },
};

#[derive(Debug, Default)]
pub(super) struct Codex {
    message: Option<String>,
    error: Option<String>,
    turn: Turn,
    usage: Option<Usage>,
    session: Session,
}

#[derive(Debug, Default)]
enum Turn {
    #[default]
    None,
    Begun,
    Completed,
    Failed(String),
}

impl Client for Codex {
    fn counts(kind: &str) -> bool {
        matches!(
            kind,
            "thread.started"
                | "turn.started"
                | "turn.completed"
                | "turn.failed"
                | "item.completed"
                | "error"
        )
    }

    fn take(&mut self, kind: &str, event: &Value) {
        match kind {
            "thread.started" => self.session = Session::new(event, "thread_id", ""),
            "turn.started" => {
                self.message = None;
                self.error = None;
                self.turn = Turn::Begun;
            }
            "turn.completed" => {
                // It is that of the whole thread.
                self.session.turns += 1;
                self.usage = usage(&event["usage"]).or(self.usage);
                self.turn = Turn::Completed;
            }
            "turn.failed" => self.turn = Turn::Failed(text(&event["error"], "message").to_owned()),
            "item.completed" => self.item(&event["item"]),
            "error" => self.error = Some(text(event, "message").to_owned()),
            _ => {}
        }
    }

    fn show(kind: &str, event: &Value) -> Option<String> {
        let item = &event["item"];
        match (kind, text(item, "type")) {
            ("item.completed", "agent_message") => Some(text(item, "text").to_owned()),
            ("item.started", "command_execution") => Some(
                ToolCall::new("bash", &json!({ "command": plain(text(item, "command")) }))
                    .to_string(),
            ),
            ("item.completed", "file_change") => {
                let changes = item["changes"].as_array()?.iter().map(|change| text(change, "path"));
                Some(format!("Edit {}", changes.collect::<Vec<_>>().join(" ")))
            }
            ("item.started", "mcp_tool_call") => {
                Some(ToolCall::new(text(item, "tool"), &item["arguments"]).to_string())
            }
            ("item.started", "web_search") => Some(ToolCall::new("search", item).to_string()),
            ("error", _) => Some(text(event, "message").to_owned()),
            ("turn.failed", _) => Some(text(&event["error"], "message").to_owned()),
            _ => None,
        }
    }

    fn conclude(self) -> Conclusion {
        let outcome = match (self.turn, self.error) {
            (Turn::Completed, _) => Some(Outcome::Done),
            (Turn::Failed(why), _) => Some(Outcome::Failed(why.as_str().into())),
            (Turn::None | Turn::Begun, Some(error)) => Some(Outcome::Failed(error.as_str().into())),
            (Turn::Begun, None) => Some(Outcome::Unfinished),
            (Turn::None, None) => self.message.as_ref().map(|_| Outcome::Unfinished),
        };
        Conclusion {
            text: self.message.unwrap_or_default(),
            outcome,
            usage: self.usage,
            session: self.session,
        }
    }
}

impl Codex {
    fn item(&mut self, item: &Value) {
        match item {
            // It may have been the answer, and then an earlier message is not.
            Value::Null => self.message = None,
            item if text(item, "type") == "agent_message" => {
                self.message = Some(text(item, "text").to_owned());
            }
            _ => {}
        }
    }
}

/// A command without the shell that runs it, as in `/bin/bash -lc 'cargo test'`.
fn plain(command: &str) -> &str {
    let rest = command.split_once("sh -lc ").or_else(|| command.split_once("sh -c "));
    let rest = rest.filter(|(shell, _)| !shell.contains(' ')).map_or(command, |(_, rest)| rest);
    let unquoted = |quote: char| rest.strip_prefix(quote)?.strip_suffix(quote);
    unquoted('\'').or_else(|| unquoted('"')).unwrap_or(rest)
}

/// The tokens of a thread; cached ones are counted as input, too.
fn usage(usage: &Value) -> Option<Usage> {
    let (input, output) = (number(usage, "input_tokens"), number(usage, "output_tokens"));
    let cache_read = number(usage, "cached_input_tokens");
    usage.is_object().then(|| Usage {
        input: input.saturating_sub(cache_read),
        output,
        cache_read,
        cache_write: number(usage, "cache_write_input_tokens"),
        total: input.saturating_add(output),
        cost: None,
    })
}

#[cfg(test)]
mod tests;
