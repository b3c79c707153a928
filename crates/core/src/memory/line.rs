//! An entry as one JSON line.
//!
//! `{"id": "mem-3", "type": "preference", "category": "style", "text": "…", "source": "…", "created": "…"}`;
//! a note has `key` and `value`, a tombstone `target_id` and `reason`. Unknown keys are ignored, since no
//! line is ever written back.

use serde::{Deserialize, Serialize};

use super::{Entry, Said};
use crate::format::json_line;

/// A line of a memory file, by any writer.
#[derive(Serialize, Deserialize)]
pub struct Line {
    id: String,
    /// The file, if a list contains lines of both tiers.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    #[serde(flatten, with = "SaidFields")]
    said: Said,
    #[serde(default)]
    source: String,
    #[serde(default)]
    created: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Said", tag = "type", rename_all = "lowercase")]
enum SaidFields {
    Learning {
        #[serde(default)]
        text: String,
    },
    Preference {
        #[serde(default)]
        category: String,
        #[serde(default)]
        text: String,
    },
    Meta {
        #[serde(default)]
        key: String,
        #[serde(default)]
        value: String,
    },
    Tombstone {
        #[serde(default, rename = "target_id")]
        target: String,
        #[serde(default)]
        reason: String,
    },
}

impl Line {
    pub fn new(entry: &Entry, tier: Option<String>) -> Self {
        let Entry { id, created, source, said } = entry.clone();
        Line { id, tier, said, source, created }
    }
}

/// Parses one line; `None` if it is not an entry.
pub fn parse(line: &[u8]) -> Option<Entry> {
    let text = String::from_utf8_lossy(line);
    let line: Line = serde_json::from_str(text.trim_matches(['\0', ' ', '\t', '\r'])).ok()?;
    let Line { id, said, source, created, .. } = line;
    Some(Entry { id, created, source, said })
}

pub fn print(entry: &Entry, out: &mut Vec<u8>) {
    out.extend_from_slice(json_line(&Line::new(entry, None)).as_bytes());
    out.push(b'\n');
}
