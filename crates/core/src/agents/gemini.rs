//! `gemini --output-format stream-json`: an event in every line, the last one of type `result`.
//!
//! The answer comes in pieces, as messages of the assistant; those since the last tool call are the answer. A tool
//! call is reported as a success even if its command failed. The exit code is the status of HTTP modulo 256, and 0
//! after a signal, so only the result says how it ended. `--output-format json` prints one object without a type.

use serde_json::Value;

use super::adapter::{Adapter, Credentials, Flag, ReadOnly, Refused, StateDir};
use super::events::{Client, Conclusion, number, text};
use super::response::Message;
use super::tool_call::ToolCall;
use super::{ClientError, Outcome, Session, Stream, Usage};

pub(super) const ADAPTER: Adapter = Adapter {
    stream: Stream::Gemini,
    title: "Gemini CLI",
    program: "gemini",
    tested: "0.61.0",
    offers: &["acp", "mcp", "resume"],
    subcommand: None,
    unattended: &[Flag {
        add: &["--approval-mode", "yolo"],
        unless: &["-y", "--yolo", "--allowed-tools"],
    }],
    streaming: &[Flag { add: &["-o", "stream-json"], unless: &["--output-format"] }],
    model: Flag { add: &["-m"], unless: &["--model"] },
    turn_limit: None,
    stdin: None,
    refused: &[
        Refused {
            flags: &["-i", "--prompt-interactive"],
            values: &[],
            why: "it would wait for more input",
        },
        Refused {
            flags: &["--approval-mode"],
            values: &["default", "auto_edit", "plan"],
            why: "it would have no shell, so it could not report events",
        },
        Refused {
            flags: &["--acp", "--experimental-acp"],
            values: &[],
            why: "it would speak another protocol",
        },
    ],
    inherits: &["GEMINI_*", "GOOGLE_*", "GCLOUD_*", "CODE_ASSIST_*"],
    providers: &[],
    // One process instead of two, of which the first ignores signals.
    env: &[("GEMINI_CLI_NO_RELAUNCH", "true"), ("GEMINI_CLI_TRUST_WORKSPACE", "true")],
    // It reads servers from files in its home and in the project only; system settings have to belong to root.
    mcp: None,
    read_only: Some(ReadOnly::Policy {
        // The last one does what a variable does already, and ends the list, which would take the prompt.
        args: &["--policy=POLICY", "--skip-trust"],
        content: "[[rule]]\ntoolName = [\"write_file\", \"replace\"]\ndecision = \"deny\"\npriority = 900\n",
    }),
    sandbox: None,
    state: &[StateDir { variable: "GEMINI_CLI_HOME", below: ".gemini", usual: ".gemini" }],
    bookkeeping: &[],
    credentials: Credentials {
        variables: &[
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_GENAI_USE_VERTEXAI",
            "GOOGLE_GENAI_USE_GCA",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ],
        any_api_key: false,
        files: &[("oauth_creds.json", &[]), (".env", &["GEMINI_API_KEY", "GOOGLE_"])],
        advice: "start `gemini` and log in, or set GEMINI_API_KEY",
    },
};

#[derive(Debug, Default)]
pub(super) struct Gemini {
    message: Message,
    outcome: Option<Outcome>,
    session: Session,
    usage: Option<Usage>,
}

impl Client for Gemini {
    fn counts(kind: &str) -> bool {
        matches!(kind, "init" | "message" | "tool_use" | "error" | "result" | "")
    }

    fn take(&mut self, kind: &str, event: &Value) {
        self.outcome = self.outcome.take().or(Some(Outcome::Unfinished));
        match kind {
            "init" => self.session = Session::new(event, "session_id", "model"),
            "message" if text(event, "role") == "assistant" => {
                if event["delta"] != true {
                    self.message.clear();
                }
                self.message.push(text(event, "content"));
            }
            "tool_use" => {
                self.session.turns += 1;
                self.message.clear();
            }
            "error" if text(event, "severity") == "error" => {
                self.outcome = Some(Outcome::Failed(text(event, "message").into()));
            }
            "result" => self.end(event),
            "" if event["response"].is_string() || event["error"].is_object() => self.whole(event),
            _ => {}
        }
    }

    fn show(kind: &str, event: &Value) -> Option<String> {
        match kind {
            "message" if text(event, "role") == "assistant" => {
                Some(text(event, "content").to_owned())
            }
            "tool_use" => {
                Some(ToolCall::new(text(event, "tool_name"), &event["parameters"]).to_string())
            }
            "result" if event["error"].is_object() => {
                Some(text(&event["error"], "message").to_owned())
            }
            _ => None,
        }
    }

    fn conclude(self) -> Conclusion {
        let Gemini { message, outcome, session, usage } = self;
        Conclusion { text: message.into_text(), outcome, usage, session }
    }
}

impl Gemini {
    fn end(&mut self, event: &Value) {
        self.session.turns += 1;
        self.usage = stream_usage(&event["stats"]).or(self.usage);
        self.outcome = Some(match text(event, "status") {
            "success" => Outcome::Done,
            "error" => Outcome::Failed(error(&event["error"])),
            _ if event.is_null() => Outcome::Failed("its result is too long to read".into()),
            other => Outcome::Unknown(other.to_owned()),
        });
    }

    /// Takes the one object of `--output-format json`.
    fn whole(&mut self, event: &Value) {
        self.session = Session::new(event, "session_id", "");
        self.session.model =
            event["stats"]["models"].as_object().and_then(|models| models.keys().next().cloned());
        self.message.clear();
        self.message.push(text(event, "response"));
        let models = event["stats"]["models"].as_object().into_iter().flat_map(|all| all.values());
        for model in models {
            let tokens = &model["tokens"];
            let cached = number(tokens, "cached");
            self.usage.get_or_insert_default().add(Usage {
                input: number(tokens, "prompt").saturating_sub(cached),
                output: number(tokens, "candidates").saturating_add(number(tokens, "thoughts")),
                cache_read: cached,
                total: number(tokens, "total"),
                ..Usage::default()
            });
        }
        self.outcome = Some(match event["error"].is_object() {
            true => Outcome::Failed(error(&event["error"])),
            false => Outcome::Done,
        });
    }
}

fn error(error: &Value) -> ClientError {
    ClientError::new(error["code"].as_u64(), text(error, "message"))
}

/// The tokens of a process; `input_tokens` has the cached ones in it.
fn stream_usage(stats: &Value) -> Option<Usage> {
    let (input, cache_read) = (number(stats, "input_tokens"), number(stats, "cached"));
    let (output, total) = (number(stats, "output_tokens"), number(stats, "total_tokens"));
    stats.is_object().then(|| Usage {
        input: input.saturating_sub(cache_read),
        // Thoughts are part of the total only.
        output: output.max(total.saturating_sub(input)),
        cache_read,
        total,
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests;
