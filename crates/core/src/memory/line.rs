//! An entry as one JSON line, both ways.
//!
//! `{"id": "mem-3", "type": "preference", "category": "style", "text": "…", "source": "…", "created": "…"}`;
//! a note has `key` and `value`, a tombstone `target_id` and `reason`. Keys that this version does not
//! know are passed over: nothing is ever written back.

use serde::Deserialize;

use super::{Entry, Said};
use crate::record::escape;

/// A line as anybody may have written it.
#[derive(Deserialize)]
struct Written {
    id: String,
    r#type: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    category: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    target_id: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    created: String,
}

/// Reads one line. `None` for what is not an entry.
pub fn parse(line: &[u8]) -> Option<Entry> {
    let text = String::from_utf8_lossy(line);
    let written: Written = serde_json::from_str(text.trim_matches(['\0', ' ', '\t', '\r'])).ok()?;
    let said = match written.r#type.as_str() {
        "learning" => Said::Learning { text: written.text },
        "preference" => Said::Preference { category: written.category, text: written.text },
        "meta" => Said::Meta { key: written.key, value: written.value },
        "tombstone" => Said::Tombstone { target: written.target_id, reason: written.reason },
        _ => return None,
    };
    Some(Entry { id: written.id, created: written.created, source: written.source, said })
}

/// Prints an entry and its newline, escaped by the rule of the journal: one line, whatever it says.
pub fn print(entry: &Entry, out: &mut Vec<u8>) {
    let pairs: Vec<(&str, &str)> = match &entry.said {
        Said::Learning { text } => vec![("type", "learning"), ("text", text)],
        Said::Preference { category, text } => {
            vec![("type", "preference"), ("category", category), ("text", text)]
        }
        Said::Meta { key, value } => vec![("type", "meta"), ("key", key), ("value", value)],
        Said::Tombstone { target, reason } => {
            vec![("type", "tombstone"), ("target_id", target), ("reason", reason)]
        }
    };
    let ends = [("source", entry.source.as_str()), ("created", entry.created.as_str())];
    out.extend_from_slice(b"{\"id\": \"");
    escape(&entry.id, out);
    for (key, value) in pairs.into_iter().chain(ends) {
        out.extend_from_slice(format!("\", \"{key}\": \"").as_bytes());
        escape(value, out);
    }
    out.extend_from_slice(b"\"}\n");
}
