//! Tools that agents call: their descriptions, and the arguments of a call.
//!
//! The JSON Schema that an agent is shown is what its arguments are checked against. Fields that it does not
//! know are ignored, because models add some, except those that look like a misspelled one.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::suggest::suggest;
use crate::text;

/// The maximum size of arguments in bytes. Even if every character is escaped, a record with all of them fits into
/// a line that readers of the journal hold completely.
pub const LONGEST_ARGUMENTS: usize = 512 * 1024;
const SHOWN: usize = 60;

/// A tool, in the form in which the Model Context Protocol lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// The JSON Schema of its arguments.
    #[serde(rename = "inputSchema")]
    pub schema: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid arguments of {tool}: {problem}; expected {expected}")]
pub struct BadArguments {
    tool: String,
    problem: String,
    expected: String,
}

impl ToolSpec {
    /// Reads the arguments of a call. What the schema cannot say is up to the caller.
    pub fn read<T: DeserializeOwned>(&self, arguments: &str) -> Result<T, BadArguments> {
        self.checked(arguments).map_err(|problem| BadArguments {
            tool: self.name.clone(),
            problem,
            expected: signature(&self.schema),
        })
    }

    fn checked<T: DeserializeOwned>(&self, arguments: &str) -> Result<T, String> {
        let bytes = arguments.len();
        if bytes > LONGEST_ARGUMENTS {
            return Err(format!("they have {bytes} bytes: the limit is {LONGEST_ARGUMENTS}"));
        }
        let not_json = |error: serde_json::Error| format!("not valid JSON: {error}");
        let value = serde_json::from_str(arguments).map_err(not_json)?;
        match problem(&self.schema, &value, "") {
            Some(problem) => Err(problem),
            // The schema does not say that no field may occur twice.
            None => serde_json::from_str(arguments).map_err(|error| error.to_string()),
        }
    }
}

/// The first problem of a value at a place.
fn problem(schema: &Value, value: &Value, place: &str) -> Option<String> {
    let expected = schema["type"].as_str().unwrap_or_default();
    let is_expected = match expected {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        _ => true,
    };
    if !is_expected {
        let place = if place.is_empty() { "it" } else { place };
        return Some(format!("{place} must be {}, not {}", with_article(expected), shown(value)));
    }
    if let Some(words) = schema["enum"].as_array().filter(|words| !words.contains(value)) {
        let words: Vec<_> = words.iter().map(Value::to_string).collect();
        return Some(format!("{place} must be {}, not {}", words.join(" or "), shown(value)));
    }
    match value {
        Value::Object(fields) => problem_of_fields(schema, fields, place),
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            problem(&schema["items"], item, &format!("{place}[{index}]"))
        }),
        _ => None,
    }
}

fn problem_of_fields(schema: &Value, fields: &Map<String, Value>, place: &str) -> Option<String> {
    let prefix = if place.is_empty() { String::new() } else { format!("{place}.") };
    let known = schema["properties"].as_object()?;
    let names = known.keys().map(String::as_str);
    let of_field = |(name, value): (&String, &Value)| match known.get(name) {
        // As if it were absent: some clients send null for what they leave out.
        Some(_) if value.is_null() && !is_required(schema, name) => None,
        Some(schema) => problem(schema, value, &format!("{prefix}{name}")),
        None => {
            let meant = suggest(name, names.clone().filter(|name| !fields.contains_key(*name)))?;
            let name = text::shown(name, SHOWN);
            Some(format!("unknown field {prefix}{name}: did you mean {meant}?"))
        }
    };
    let missing = || {
        let mut required = names.clone().filter(|name| is_required(schema, name));
        let missing = required.find(|name| !fields.contains_key(*name))?;
        Some(format!("{prefix}{missing} is missing"))
    };
    fields.iter().find_map(of_field).or_else(missing)
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|other| other == name))
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'o']) { "an" } else { "a" };
    format!("{article} {kind}")
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => text::shown(&format!("the number {number}"), SHOWN),
        Value::String(text) => format!("the string \"{}\"", text::shown(text, SHOWN)),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// A schema in one line: `{loopId: string, taskId?: string}`.
fn signature(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    match schema["type"].as_str().unwrap_or("any") {
        "array" => format!("[{}]", signature(&schema["items"])),
        "object" => {
            let field = |(name, of): (&String, &Value)| {
                let mark = if is_required(schema, name) { "" } else { "?" };
                format!("{name}{mark}: {}", signature(of))
            };
            let fields: Vec<_> =
                schema["properties"].as_object().into_iter().flatten().map(field).collect();
            format!("{{{}}}", fields.join(", "))
        }
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Verdict {
        passed: bool,
        #[serde(rename = "loopId")]
        loop_id: String,
        sure: Option<bool>,
        issues: Option<Vec<Value>>,
    }

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "judge".into(),
            description: "Judge a loop".into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "loopId": { "type": "string" },
                    "passed": { "type": "boolean" },
                    "sure": { "type": "boolean" },
                    "kind": { "type": "string", "enum": ["quick", "deep"] },
                    "issues": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": { "line": { "type": "number" }, "description": { "type": "string" } }
                        }
                    }
                },
                "required": ["loopId", "passed"]
            }),
        }
    }

    fn refused(arguments: &str) -> String {
        let error = spec().read::<Verdict>(arguments).unwrap_err().to_string();
        let (problem, expected) = error.split_once("; expected ").unwrap();
        assert_eq!(expected, signature(&spec().schema));
        problem.strip_prefix("invalid arguments of judge: ").unwrap().to_owned()
    }

    #[test]
    fn what_is_expected_is_said_in_one_line() {
        assert_snapshot!(spec().read::<Verdict>("1").unwrap_err(), @r#"invalid arguments of judge: it must be an object, not the number 1; expected {loopId: string, passed: boolean, sure?: boolean, kind?: "quick" | "deep", issues?: [{line?: number, description?: string}]}"#);
    }

    #[test]
    fn a_problem_names_its_place() {
        let refused: Vec<_> = [
            "",
            "{",
            "[]",
            "null",
            "\"{}\"",
            "{}",
            r#"{"loopId": "a"}"#,
            r#"{"loopId": "a", "passed": "yes"}"#,
            r#"{"loopId": "a", "passed": null}"#,
            r#"{"loopId": 5, "passed": true}"#,
            r#"{"loopId": "a", "passed": true, "sure": 1}"#,
            r#"{"loopId": "a", "passed": true, "kind": "slow"}"#,
            r#"{"loopId": "a", "passed": true, "kind": 1}"#,
            r#"{"loopId": "a", "passed": true, "issues": {}}"#,
            r#"{"loopId": "a", "passed": true, "issues": [{}, "x"]}"#,
            r#"{"loopId": "a", "passed": true, "issues": [{}, {}, {"line": "12\n\u0007"}]}"#,
            r#"{"loopId": "a", "passed": true, "issues": [{"descripton": "x"}]}"#,
            r#"{"loopId": "a", "pased": true}"#,
            r#"{"loop_id": "a", "passed": true}"#,
            r#"{"loopId": "a", "passed": true, "passed": false}"#,
            r#"{"loopId": "a", "passed": true} x"#,
        ]
        .into_iter()
        .map(refused)
        .collect();
        assert_snapshot!(refused.join("\n"), @r#"
        not valid JSON: EOF while parsing a value at line 1 column 0
        not valid JSON: EOF while parsing an object at line 1 column 1
        it must be an object, not an array
        it must be an object, not null
        it must be an object, not the string "{}"
        loopId is missing
        passed is missing
        passed must be a boolean, not the string "yes"
        passed must be a boolean, not null
        loopId must be a string, not the number 5
        sure must be a boolean, not the number 1
        kind must be "quick" or "deep", not the string "slow"
        kind must be a string, not the number 1
        issues must be an array, not an object
        issues[1] must be an object, not the string "x"
        issues[2].line must be a number, not the string "12\n\u{7}"
        unknown field issues[0].descripton: did you mean description?
        unknown field pased: did you mean passed?
        unknown field loop_id: did you mean loopId?
        duplicate field `passed` at line 1 column 40
        not valid JSON: trailing characters at line 1 column 33
        "#);
        assert_snapshot!(refused_size(LONGEST_ARGUMENTS + 1), @"they have 524289 bytes: the limit is 524288");
    }

    fn refused_size(bytes: usize) -> String {
        let text = "x".repeat(bytes - r#"{"loopId": "", "passed": true}"#.len());
        refused(&format!(r#"{{"loopId": "{text}", "passed": true}}"#))
    }

    #[test]
    fn what_may_be_absent_may_be_null_and_unknown_fields_are_ignored() {
        let read = |arguments| spec().read::<Verdict>(arguments).unwrap();
        let plain = read(r#"{"loopId": "a", "passed": true}"#);
        assert_eq!((plain.sure, &plain.issues), (None, &None));
        assert_eq!(plain, read(r#"{"loopId": "a", "passed": true, "sure": null, "issues": null}"#));
        assert_eq!(plain, read(r#"{"loopId": "a", "passed": true, "confidence": 0.9}"#));
        // It is similar to a field, but not meant instead of it.
        let issue = json!({ "line": 1, "lines": [1, 2] });
        let arguments = json!({ "loopId": "a", "passed": true, "issues": [issue] }).to_string();
        assert_eq!(read(&arguments).issues.unwrap(), [issue]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            let _ = spec().read::<Verdict>(&text);
        }
    }
}
