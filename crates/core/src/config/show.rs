//! Settings, printed.

use std::fmt::Write;

use crate::format::json_text;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::key::{Key, Kind, Preset};
use super::layer::Origin;
use super::settings::{Provenance, Settings};
use super::value::Value;
use crate::duration;

/// How much is told about each setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Its value.
    Value,
    /// And where that came from.
    Provenance,
}

/// Every setting, as a file that says the same would be written.
pub fn as_toml(settings: &Settings, detail: Detail) -> String {
    let mut text = String::new();
    let mut table = Key::ALL[0].table();
    for key in Key::ALL {
        if key.table() != table {
            table = key.table();
            text.push('\n');
        }
        let line = line(settings, *key);
        match detail {
            Detail::Provenance if !line.starts_with('#') => {
                let from = settings.provenance(*key).to_string();
                // Writing to a string cannot fail.
                let _ = write!(text, "{line:<47}  # {from}");
            }
            Detail::Value | Detail::Provenance => text.push_str(&line),
        }
        text.push('\n');
    }
    text
}

fn line(settings: &Settings, key: Key) -> String {
    match (settings.value(key), settings.origin(key), key.preset()) {
        (Value::Unset, Origin::Default, Preset::Like(other)) => {
            format!("# {key} is not set: as {other}")
        }
        (Value::Unset, Origin::Default, Preset::Nothing(then)) => {
            format!("# {key} is not set: {then}")
        }
        (value, _, _) => format!("{key} = {}", toml(key.kind(), value)),
    }
}

fn toml(kind: Kind, value: &Value) -> String {
    match value {
        Value::Unset => "\"\"".to_owned(),
        Value::Text(text) => quoted(text),
        Value::List(list) => {
            format!("[{}]", list.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
        }
        Value::Flag(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Time(time) => match kind {
            Kind::Millis { .. } => time.as_millis().to_string(),
            _ => quoted(&duration::print(*time)),
        },
    }
}

/// A text as TOML quotes it, with everything escaped that a terminal would obey.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            plain => quoted.push(plain),
        }
    }
    quoted + "\""
}

/// Every setting as one JSON object, by its key. What is not set is null.
pub fn as_json(settings: &Settings, detail: Detail) -> String {
    // A map of strings to plain values always has a JSON form.
    json_text(&Shown { settings, detail })
}

struct Shown<'s> {
    settings: &'s Settings,
    detail: Detail,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Key::ALL.len()))?;
        for key in Key::ALL {
            let value = json(key.kind(), self.settings.value(*key));
            match self.detail {
                Detail::Value => map.serialize_entry(key.name(), &value)?,
                Detail::Provenance => {
                    let from = self.settings.provenance(*key);
                    map.serialize_entry(key.name(), &Explained { value, from })?;
                }
            }
        }
        map.end()
    }
}

struct Explained<'s> {
    value: serde_json::Value,
    from: Provenance<'s>,
}

impl Serialize for Explained<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("value", &self.value)?;
        map.serialize_entry("layer", self.from.origin.name())?;
        if let Some(name) = self.from.name {
            map.serialize_entry("from", name)?;
        }
        if let Some(place) = self.from.place {
            map.serialize_entry("line", &place.line)?;
            map.serialize_entry("column", &place.column)?;
        }
        map.end()
    }
}

fn json(kind: Kind, value: &Value) -> serde_json::Value {
    match value {
        Value::Unset => serde_json::Value::Null,
        Value::Text(text) => text.as_str().into(),
        Value::List(list) => list.clone().into(),
        Value::Flag(flag) => (*flag).into(),
        Value::Number(number) => (*number).into(),
        Value::Time(time) => match (kind, u64::try_from(time.as_millis())) {
            (Kind::Millis { .. }, Ok(millis)) => millis.into(),
            _ => duration::print(*time).into(),
        },
    }
}
