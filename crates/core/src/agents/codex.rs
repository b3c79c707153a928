//! `codex exec --json`: an event in every line.
//!
//! A turn begins with `turn.started` and ends with `turn.completed` or `turn.failed`. In between, whatever was
//! done is an item, and the last `agent_message` among the items is the answer. An `error` between them is told
//! also when `codex` gets over it, so it counts only where the turn has no other end.

use serde_json::Value;

use super::events::{Client, Conclusion, number, text};
use super::{Outcome, Usage};

#[derive(Debug, Default)]
pub(super) struct Codex {
    message: Option<String>,
    error: Option<String>,
    turn: Turn,
    usage: Option<Usage>,
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
            "turn.started" | "turn.completed" | "turn.failed" | "item.completed" | "error"
        )
    }

    fn take(&mut self, kind: &str, event: &Value) {
        match kind {
            "turn.started" => {
                self.message = None;
                self.error = None;
                self.turn = Turn::Begun;
            }
            "turn.completed" => {
                // Of the whole thread, so it takes the place of what was told before.
                self.usage = usage(&event["usage"]).or(self.usage);
                self.turn = Turn::Completed;
            }
            "turn.failed" => self.turn = Turn::Failed(text(&event["error"], "message").to_owned()),
            "item.completed" => self.item(&event["item"]),
            "error" => self.error = Some(text(event, "message").to_owned()),
            _ => {}
        }
    }

    fn conclude(self) -> Conclusion {
        let outcome = match (self.turn, self.error) {
            (Turn::Completed, _) => Some(Outcome::Done),
            (Turn::Failed(why), _) => Some(Outcome::Failed(why)),
            (Turn::None | Turn::Begun, Some(error)) => Some(Outcome::Failed(error)),
            (Turn::Begun, None) => Some(Outcome::Unfinished),
            (Turn::None, None) => self.message.as_ref().map(|_| Outcome::Unfinished),
        };
        Conclusion { text: self.message.unwrap_or_default(), outcome, usage: self.usage }
    }
}

impl Codex {
    fn item(&mut self, item: &Value) {
        match item {
            // It may have been the answer, and then what was said before is not.
            Value::Null => self.message = None,
            item if text(item, "type") == "agent_message" => {
                self.message = Some(text(item, "text").to_owned());
            }
            _ => {}
        }
    }
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
