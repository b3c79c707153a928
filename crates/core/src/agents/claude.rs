//! `claude -p` with `--output-format stream-json` or `json`: a message in every line, the last one of type
//! `result`.
//!
//! The result is the answer and says how it ended. Its exit code does not: an interrupted `claude` exits with
//! 0. The `subtype` of a result is `success` even when the API refused the request, so `is_error` is asked
//! first. Where work goes on behind a result, because something that ran in the background has ended,
//! another result follows, and only the last one counts.

use serde_json::Value;

use super::events::{Client, Conclusion, number, spoken, text};
use super::{Dollars, Outcome, Usage};

#[derive(Debug, Default)]
pub(super) struct Claude {
    spoken: Option<String>,
    /// The result, unless other messages follow it.
    result: Option<Ending>,
    usage: Option<Usage>,
}

#[derive(Debug)]
struct Ending {
    /// The answer, if there is one.
    text: Option<String>,
    outcome: Outcome,
}

impl Client for Claude {
    fn counts(kind: &str) -> bool {
        matches!(kind, "assistant" | "result")
    }

    fn take(&mut self, kind: &str, event: &Value) {
        match kind {
            // What an agent of the agent says is not its answer.
            "assistant" if event["parent_tool_use_id"].is_null() => {
                self.result = None;
                let text = spoken(&event["message"]["content"]);
                // A failure is told in words, as if it were spoken.
                let is_told = event["error"].is_null() && event["is_api_error_message"] != true;
                self.spoken =
                    Some(text).filter(|text| is_told && !text.is_empty()).or(self.spoken.take());
            }
            "result" => {
                self.count(event);
                self.result = Some(Ending::of(event));
            }
            _ => {}
        }
    }

    fn conclude(self) -> Conclusion {
        let (text, outcome) = match (self.result, self.spoken) {
            (None, None) => (None, None),
            (None, spoken) => (spoken, Some(Outcome::Unfinished)),
            (Some(result), spoken) => (result.text.or(spoken), Some(result.outcome)),
        };
        Conclusion { text: text.unwrap_or_default(), outcome, usage: self.usage }
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
    fn of(event: &Value) -> Ending {
        if event.is_null() {
            let why = "its result is too long to be read".to_owned();
            return Ending { text: None, outcome: Outcome::Failed(why) };
        }
        let failed = event["is_error"] == true || !matches!(text(event, "subtype"), "success" | "");
        match failed {
            true => Ending { text: None, outcome: Ending::failure(event) },
            false => Ending { text: answer(event), outcome: Ending::success(event) },
        }
    }

    fn success(event: &Value) -> Outcome {
        match text(event, "stop_reason") {
            "refusal" => Outcome::Failed("the model refused to answer".to_owned()),
            "max_tokens" | "model_context_window_exceeded" => Outcome::CutShort,
            _ => Outcome::Done,
        }
    }

    fn failure(event: &Value) -> Outcome {
        if text(event, "terminal_reason").starts_with("aborted") {
            return Outcome::Aborted;
        }
        let told = event["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let told = told.chain(event["result"].as_str()).filter(|text| !text.is_empty());
        let told = told.collect::<Vec<_>>().join("; ");
        Outcome::Failed(match (text(event, "subtype"), told.is_empty()) {
            ("error_max_turns", _) => "it reached its limit of turns".to_owned(),
            ("error_max_budget_usd", _) => "it reached its limit of cost".to_owned(),
            (_, false) => told,
            ("success" | "", true) => String::new(),
            (subtype, true) => subtype.to_owned(),
        })
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
