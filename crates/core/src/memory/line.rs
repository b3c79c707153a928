//! An entry as one JSON line, both ways.
//!
//! `{"id": "mem-3", "type": "preference", "category": "style", "text": "…", "source": "…", "created": "…"}`;
//! a note has `key` and `value`, a tombstone `target_id` and `reason`. Keys that this version does not
//! know are passed over: nothing is ever written back.

use serde::{Deserialize, Serialize};

use super::{Entry, Said};
use crate::format::json_line;

/// A line of a memory file, by any writer.
#[derive(Default, Serialize, Deserialize)]
pub struct Line {
    id: String,
    /// The file, if a list contains lines of both tiers.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default)]
    source: String,
    #[serde(default)]
    created: String,
}

impl Line {
    pub fn new(entry: &Entry, tier: Option<String>) -> Self {
        let Entry { id, created, source, said } = entry.clone();
        let line = Line { id, tier, source, created, ..Line::default() };
        match said {
            Said::Learning { text } => Line { r#type: "learning".into(), text: Some(text), ..line },
            Said::Preference { category, text } => Line {
                r#type: "preference".into(),
                category: Some(category),
                text: Some(text),
                ..line
            },
            Said::Meta { key, value } => {
                Line { r#type: "meta".into(), key: Some(key), value: Some(value), ..line }
            }
            Said::Tombstone { target, reason } => Line {
                r#type: "tombstone".into(),
                target_id: Some(target),
                reason: Some(reason),
                ..line
            },
        }
    }

    fn entry(self) -> Option<Entry> {
        let Line { id, source, created, .. } = self;
        let text = self.text.unwrap_or_default();
        let said = match self.r#type.as_str() {
            "learning" => Said::Learning { text },
            "preference" => Said::Preference { category: self.category.unwrap_or_default(), text },
            "meta" => Said::Meta {
                key: self.key.unwrap_or_default(),
                value: self.value.unwrap_or_default(),
            },
            "tombstone" => Said::Tombstone {
                target: self.target_id.unwrap_or_default(),
                reason: self.reason.unwrap_or_default(),
            },
            _ => return None,
        };
        Some(Entry { id, created, source, said })
    }
}

/// Parses one line; `None` if it is not an entry.
pub fn parse(line: &[u8]) -> Option<Entry> {
    let text = String::from_utf8_lossy(line);
    serde_json::from_str::<Line>(text.trim_matches(['\0', ' ', '\t', '\r'])).ok()?.entry()
}

pub fn print(entry: &Entry, out: &mut Vec<u8>) {
    out.extend_from_slice(json_line(&Line::new(entry, None)).as_bytes());
    out.push(b'\n');
}
