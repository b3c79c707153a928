//! One line for a tool call of an agent, such as `Bash cargo test` or `Edit src/lib.rs`.

use std::fmt;

use serde_json::Value;

use crate::text::{clip, one_line, without_escapes};

const LONGEST: usize = 200;

/// Arguments that say what a call is about, the most telling first.
const MAIN_ARGUMENTS: [&str; 11] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
    "name",
];

pub(super) struct ToolCall {
    name: String,
    about: String,
}

impl ToolCall {
    /// A call with a title for people; the kind of tool is one of the Agent Client Protocol.
    pub(super) fn titled(kind: &str, title: &str) -> ToolCall {
        let about = title.to_owned();
        match kind {
            "other" => ToolCall { name: String::new(), about },
            "execute" => ToolCall { about, ..ToolCall::new("bash", &Value::Null) },
            kind => ToolCall { about, ..ToolCall::new(kind, &Value::Null) },
        }
    }

    pub(super) fn new(tool: &str, arguments: &Value) -> ToolCall {
        let name = match tool {
            "bash" | "run_shell_command" | "exec_command" | "shell" => "Bash".to_owned(),
            tool => {
                // `write_file` becomes `Write file`, which all clients but claude need.
                let words = tool.replace('_', " ");
                let mut letters = words.chars();
                letters
                    .next()
                    .map(|first| first.to_uppercase().chain(letters).collect())
                    .unwrap_or(words)
            }
        };
        let name = if tool.starts_with("mcp_") { tool.to_owned() } else { name };
        let about = MAIN_ARGUMENTS.iter().find_map(|key| match &arguments[key] {
            Value::String(text) => Some(text.clone()),
            Value::Array(words) => {
                Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
            }
            _ => None,
        });
        ToolCall { name, about: about.unwrap_or_default() }
    }
}

impl fmt::Display for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = one_line(&without_escapes(&format!("{} {}", self.name, self.about)));
        f.write_str(&clip(line.trim_end(), LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_one_line() {
        let line = |tool: &str, arguments: &str| {
            ToolCall::new(tool, &serde_json::from_str(arguments).unwrap()).to_string()
        };
        let lines = [
            line("Bash", r#"{"description": "Run tests", "command": "cargo test\n  --all"}"#),
            line("run_shell_command", r#"{"command": "ls"}"#),
            line("exec_command", r#"{"cmd": "ls"}"#),
            line("write_file", r#"{"file_path": "a.rs", "content": "x"}"#),
            line("Edit", r#"{"file_path": "src/lib.rs"}"#),
            line("mcp__loop__emit", "{}"),
            line("shell", r#"{"command": ["sh", "-c", "true"]}"#),
            line("", "null"),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        Bash cargo test --all
        Bash ls
        Bash ls
        Write file a.rs
        Edit src/lib.rs
        mcp__loop__emit
        Bash sh -c true
        ");
    }
}
