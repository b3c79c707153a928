//! Settings as text: TOML and JSON.

use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use super::checks::{CHECKS, Check};
use super::key::{Key, Kind, Preset};
use super::layer::Origin;
use super::settings::{Provenance, Settings};
use super::value::Value;
use crate::duration;
use crate::format::{json_text, safe_json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    Value,
    Provenance,
}

/// Prints every setting as a settings file.
pub fn as_toml(settings: &Settings, detail: Detail) -> String {
    let mut text = String::new();
    let mut table = Key::ALL[0].table();
    for key in Key::ALL {
        if key.table() != table {
            table = key.table();
            text.push('\n');
        }
        let mut line = line(settings, *key);
        if detail == Detail::Provenance && !line.starts_with('#') {
            line = format!("{line:<47}  # {}", settings.provenance(*key));
        }
        text += &line;
        text.push('\n');
    }
    for (check, provenance) in settings.checks().zip(settings.checks_provenance()) {
        text.push('\n');
        for (name, value) in fields(check) {
            let mut line = format!("{name} = {}", toml(&value));
            if detail == Detail::Provenance {
                line = format!("{line:<47}  # {provenance}");
            }
            text += &line;
            text.push('\n');
        }
    }
    text
}

fn fields(check: &Check) -> [(String, Json); 2] {
    let millis = u64::try_from(check.timeout.as_millis()).unwrap_or(u64::MAX);
    let name = |field| format!("{CHECKS}.{}.{field}", check.name);
    [(name("command"), check.command.as_str().into()), (name("timeout_ms"), millis.into())]
}

fn line(settings: &Settings, key: Key) -> String {
    match (settings.value(key), settings.origin(key), key.preset()) {
        (Value::Unset, Origin::Default, Preset::Like(other)) => {
            format!("# {key} is not set: as {other}")
        }
        (Value::Unset, Origin::Default, Preset::Nothing(then)) => {
            format!("# {key} is not set: {then}")
        }
        (value, _, _) => format!("{key} = {}", toml(&json(key.kind(), value))),
    }
}

fn toml(value: &Json) -> String {
    match value {
        Json::Null => "\"\"".to_owned(),
        Json::Array(list) => {
            format!("[{}]", list.iter().map(toml).collect::<Vec<_>>().join(", "))
        }
        // TOML reads the numbers, flags and escaped strings of JSON.
        plain => safe_json(&plain.to_string()).into_owned(),
    }
}

pub fn as_json(settings: &Settings, detail: Detail) -> String {
    json_text(&Shown { settings, detail })
}

struct Shown<'s> {
    settings: &'s Settings,
    detail: Detail,
}

#[derive(Serialize)]
struct Explained<'s> {
    value: Json,
    layer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
}

impl<'s> Serialize for Shown<'s> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = |key: Key| json(key.kind(), self.settings.value(key));
        let explained = |value: Json, from: Provenance<'s>| Explained {
            value,
            layer: from.origin.name(),
            from: from.name,
            line: from.place.map(|place| place.line),
            column: from.place.map(|place| place.column),
        };
        let settings = self.settings;
        let of_key = |key: &Key| (key.name().to_owned(), value(*key), settings.provenance(*key));
        let checks = settings.checks().zip(settings.checks_provenance());
        let of_check = |(check, from): (&Check, Provenance<'s>)| {
            fields(check).map(|(name, value)| (name, value, from))
        };
        let all = Key::ALL.iter().map(of_key).chain(checks.flat_map(of_check));
        match self.detail {
            Detail::Value => serializer.collect_map(all.map(|(name, value, _)| (name, value))),
            Detail::Provenance => serializer
                .collect_map(all.map(|(name, value, from)| (name, explained(value, from)))),
        }
    }
}

fn json(kind: Kind, value: &Value) -> Json {
    match value {
        Value::Unset => Json::Null,
        Value::Text(text) => text.as_str().into(),
        Value::List(list) => list.clone().into(),
        Value::Flag(flag) => (*flag).into(),
        Value::Number(number) => (*number).into(),
        Value::Cost(cost) if cost.0.is_multiple_of(1_000_000_000) => {
            (cost.0 / 1_000_000_000).into()
        }
        Value::Cost(cost) => cost.amount().into(),
        Value::Time(time) => match (kind, u64::try_from(time.as_millis())) {
            (Kind::Millis { .. }, Ok(millis)) => millis.into(),
            _ => duration::print(*time).into(),
        },
    }
}
