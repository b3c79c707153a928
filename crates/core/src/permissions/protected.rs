//! The settings that a metareview may change, and the restoring of all others.
//!
//! The list names what is allowed: an unknown key is protected. Keys are compared twice,
//! as they are written and as the settings are read, because one setting has several spellings.

use std::fmt;

use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::config::{self, Key, LONGEST, Layer, Origin, Reading, Settings};
use crate::topology::Topology;

const SETTINGS: &str = "autoloops.toml";

/// The prefix of the protected keys of a role in `topology.toml`: like `backend.*`, they choose the program
/// that runs.
const PROTECTED_ROLE_KEYS: &str = "backend";

/// A settings file with its protected keys restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    pub text: String,
    pub put_back: Vec<PutBack>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutBack {
    pub key: String,
    /// The value before, as written; `None` if there was none.
    pub was: Option<String>,
    /// The value after the review; `None` if it was removed.
    pub became: Option<String>,
}

impl fmt::Display for PutBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.was, &self.became) {
            (Some(was), Some(became)) => write!(f, "{} changed from {was} to {became}", self.key),
            (Some(was), None) => write!(f, "{} = {was} removed", self.key),
            (None, Some(became)) => write!(f, "{} = {became} added", self.key),
            (None, None) => write!(f, "{} changed", self.key),
        }
    }
}

/// Why the keys of a file cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The reviewer's text does not parse.
    #[error("does not parse: {0}")]
    After(String),
    /// The text before the review does not parse.
    #[error("did not parse before the review: {0}")]
    Before(String),
    /// The reviewer's text parses, but contains invalid values.
    #[error("cannot be used: {0}")]
    Unusable(String),
    #[error("has {0} bytes: the limit is {LONGEST} (1 MiB)")]
    TooLong(usize),
}

/// Restores the keys of `autoloops.toml` that a metareview may not change: all but `event_loop.prompt`,
/// `event_loop.prompt_file` and `memory.*`. It may lower `event_loop.max_iterations` and add to
/// `event_loop.required_events`. The layers `beneath` the file decide what applies if the file has no value.
/// On an error the whole file has to be restored.
pub fn repair_settings(old: &str, new: &str, beneath: &[Layer]) -> Result<Repaired, Unreadable> {
    let (old_doc, mut new_doc) = parse_both(old, new)?;
    let before = read(old, beneath);
    let mut put_back = Vec::new();
    let holds = |key, event_loop: &Item| {
        let mut alone = DocumentMut::new();
        alone.insert("event_loop", event_loop.clone());
        let after = read(&alone.to_string(), beneath);
        !has_errors(&after) && may_become(key, &before.settings, &after.settings)
    };
    repair_root(&old_doc, &mut new_doc, &holds, &mut put_back);
    let text = if put_back.is_empty() { new.to_owned() } else { new_doc.to_string() };
    let after = read(&text, beneath);
    if let Some(error) = after.problems.iter().find(|problem| problem.is_error())
        && !has_errors(&before)
    {
        return Err(Unreadable::Unusable(error.in_short()));
    }
    // Two spellings of one setting can change places, and the edited text may not say what was meant.
    let (was, became) = (&before.settings, &after.settings);
    let changed = Key::ALL.iter().copied().filter(|key| !may_become(*key, was, became));
    let hidden: Vec<PutBack> = changed
        .map(|key| PutBack {
            key: key.to_string(),
            was: written(before.settings.value(key)),
            became: written(after.settings.value(key)),
        })
        .collect();
    let is_sound = hidden.is_empty()
        && is_repaired(&text, |again, left| repair_root(&old_doc, again, &holds, left));
    put_back.extend(hidden);
    Ok(Repaired { text: if is_sound { text } else { old.to_owned() }, put_back })
}

fn read(text: &str, beneath: &[Layer]) -> Reading {
    let file = Layer::file(Origin::Project, SETTINGS, text);
    Settings::resolve(&[beneath, &[file]].concat())
}

fn has_errors(reading: &Reading) -> bool {
    reading.problems.iter().any(|problem| problem.is_error())
}

/// Whether a metareview may change a setting to this value.
fn may_become(key: Key, before: &Settings, after: &Settings) -> bool {
    let (was, became) = (before.value(key), after.value(key));
    match key {
        Key::Prompt | Key::PromptFile => true,
        _ if key.table() == "memory" => true,
        Key::MaxIterations => match (was, became) {
            (config::Value::Number(was), config::Value::Number(became)) => became <= was,
            _ => was == became,
        },
        Key::RequiredEvents => list(was).iter().all(|event| list(became).contains(event)),
        _ => was == became,
    }
}

fn list(value: &config::Value) -> &[String] {
    match value {
        config::Value::List(list) => list,
        _ => &[],
    }
}

fn written(value: &config::Value) -> Option<String> {
    match value {
        config::Value::Unset => None,
        config::Value::Text(text) => Some(format!("{text:?}")),
        config::Value::List(list) => Some(format!("{list:?}")),
        config::Value::Flag(flag) => Some(flag.to_string()),
        config::Value::Number(number) => Some(number.to_string()),
        config::Value::Time(time) => Some(format!("{time:?}")),
        config::Value::Cost(cost) => Some(cost.amount().to_string()),
    }
}

/// Restores the keys of the whole file. `holds` decides whether a setting of the event loop changed only as
/// allowed.
fn repair_root(
    old: &Table,
    new: &mut Table,
    holds: &dyn Fn(Key, &Item) -> bool,
    put_back: &mut Vec<PutBack>,
) {
    let is_table = |item: Option<&Item>| item.is_none_or(|item| item.as_table_like().is_some());
    for name in names(old, new) {
        let tables = is_table(old.get(&name)) && is_table(new.get(&name));
        match name.as_str() {
            "memory" if tables => {}
            "event_loop" if tables => repair_event_loop(old, new, holds, put_back),
            _ => repair_key(old, new, &name, &name, put_back),
        }
    }
}

fn repair_event_loop(
    old: &Table,
    new: &mut Table,
    holds: &dyn Fn(Key, &Item) -> bool,
    put_back: &mut Vec<PutBack>,
) {
    let nothing = Item::Table(Table::new());
    let was = old.get("event_loop").unwrap_or(&nothing).as_table_like();
    let had_none = new.get("event_loop").is_none();
    let now = new.entry("event_loop").or_insert_with(|| nothing.clone());
    let written = now.clone();
    if let (Some(was), Some(now)) = (was, now.as_table_like_mut()) {
        for name in names(was, now) {
            let is_free = match name.as_str() {
                "prompt" | "prompt_file" => true,
                "max_iterations" => holds(Key::MaxIterations, &written),
                "required_events" => holds(Key::RequiredEvents, &written),
                _ => false,
            };
            if !is_free {
                repair_key(was, now, &name, &format!("event_loop.{name}"), put_back);
            }
        }
    }
    if had_none && blank(now) {
        new.remove("event_loop");
    }
}

/// Restores the keys of `topology.toml` that choose a role's program. On an error the whole file has to be
/// restored.
pub fn repair_topology(old: &str, new: &str) -> Result<Repaired, Unreadable> {
    let (old_doc, mut new_doc) = parse_both(old, new)?;
    Topology::parse(new).map_err(|bad| Unreadable::After(bad.to_string()))?;
    let mut put_back = Vec::new();
    repair_roles(&old_doc, &mut new_doc, &mut put_back);
    if put_back.is_empty() {
        return Ok(Repaired { text: new.to_owned(), put_back });
    }
    let text = new_doc.to_string();
    let is_sound = is_repaired(&text, |again, left| repair_roles(&old_doc, again, left));
    Ok(Repaired { text: if is_sound { text } else { old.to_owned() }, put_back })
}

/// Whether an edited text leaves nothing to repair: a table can be written in many ways.
fn is_repaired(text: &str, repair: impl FnOnce(&mut Table, &mut Vec<PutBack>)) -> bool {
    let mut left = Vec::new();
    let is_parsed = text.parse::<DocumentMut>().map(|mut again| repair(&mut again, &mut left));
    is_parsed.is_ok() && left.is_empty()
}

fn parse_both(old: &str, new: &str) -> Result<(DocumentMut, DocumentMut), Unreadable> {
    let longest = new.len().max(old.len());
    if longest > LONGEST {
        return Err(Unreadable::TooLong(longest));
    }
    let parse = |text: &str| {
        text.parse::<DocumentMut>().map_err(|error| {
            let place = error.span().map_or(String::new(), |span| {
                let line = text[..span.start.min(text.len())].matches('\n').count() + 1;
                format!("line {line}: ")
            });
            format!("{place}{}", error.message().lines().collect::<Vec<_>>().join("; "))
        })
    };
    Ok((parse(old).map_err(Unreadable::Before)?, parse(new).map_err(Unreadable::After)?))
}

fn repair_roles(old: &Table, new: &mut Table, put_back: &mut Vec<PutBack>) {
    let mut old = old.get("role").cloned();
    let old_roles = roles(old.as_mut());
    let nothing: &dyn TableLike = &Table::new();
    let id_of = |role: &dyn TableLike| role.get("id").and_then(Item::as_str).map(str::to_owned);
    for role in roles(new.get_mut("role")) {
        let Some(id) = id_of(role) else { continue };
        let known = old_roles.iter().find(|old| id_of(&***old).as_ref() == Some(&id));
        let known = known.map_or(nothing, |old| &**old);
        for key in names(known, role) {
            if key.starts_with(PROTECTED_ROLE_KEYS) {
                repair_key(known, role, &key, &format!("role.{id}.{key}"), put_back);
            }
        }
    }
}

fn names(old: &dyn TableLike, new: &dyn TableLike) -> Vec<String> {
    let mut names: Vec<String> =
        old.iter().chain(new.iter()).map(|(name, _)| name.to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

fn roles(item: Option<&mut Item>) -> Vec<&mut dyn TableLike> {
    match item {
        Some(Item::ArrayOfTables(list)) => {
            list.iter_mut().map(|role| role as &mut dyn TableLike).collect()
        }
        Some(Item::Value(Value::Array(list))) => list
            .iter_mut()
            .filter_map(Value::as_inline_table_mut)
            .map(|role: &mut InlineTable| role as &mut dyn TableLike)
            .collect(),
        _ => Vec::new(),
    }
}

/// Restores one key, descending into tables to change as little as possible.
fn repair_key(
    old: &dyn TableLike,
    new: &mut dyn TableLike,
    name: &str,
    key: &str,
    put_back: &mut Vec<PutBack>,
) {
    let was = old.get(name).filter(|item| !blank(item));
    let became = new.get_mut(name).filter(|item| !blank(item));
    match (was, became) {
        (None, None) => {}
        (Some(was), Some(became)) if same(was, became) => {}
        (Some(was), Some(became)) => match (was.as_table_like(), became.as_table_like_mut()) {
            (Some(was), Some(became)) => {
                for name in names(was, became) {
                    repair_key(was, became, &name, &format!("{key}.{name}"), put_back);
                }
            }
            _ => {
                put_back.push(told(key, Some(was), Some(became)));
                place(became, was);
            }
        },
        (Some(was), None) => {
            put_back.push(told(key, Some(was), None));
            new.insert(name, was.clone());
        }
        (None, Some(became)) => {
            put_back.push(told(key, None, Some(became)));
            new.remove(name);
        }
    }
}

/// Whether it is empty: a table without keys equals no table.
fn blank(item: &Item) -> bool {
    let empty = |table: &dyn TableLike| table.iter().all(|(_, item)| blank(item));
    item.is_none() || item.as_table_like().is_some_and(empty)
}

fn place(became: &mut Item, was: &Item) {
    match (became.as_value_mut(), was.as_value()) {
        (Some(slot), Some(value)) => {
            let decor = slot.decor().clone();
            *slot = value.clone();
            *slot.decor_mut() = decor;
        }
        _ => *became = was.clone(),
    }
}

fn told(key: &str, was: Option<&Item>, became: Option<&Item>) -> PutBack {
    let text = |item: &Item| {
        let mut item = item.clone();
        if let Some(value) = item.as_value_mut() {
            value.decor_mut().clear();
        }
        let text = item.to_string().trim().lines().collect::<Vec<_>>().join("; ");
        let mut short: String = text.chars().take(200).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        short
    };
    PutBack { key: key.to_owned(), was: was.map(text), became: became.map(text) }
}

/// Whether two items have the same value, however they are written.
fn same(a: &Item, b: &Item) -> bool {
    meaning(a).is_some_and(|a| Some(a) == meaning(b))
}

/// The value of an item, as text that does not depend on how it is written.
fn meaning(item: &Item) -> Option<String> {
    let value = item.clone().into_value().ok()?;
    let text = format!("item = {}", value.to_string().trim());
    let mut value = toml::Value::Table(toml::from_str(&text).ok()?);
    remove_blank(&mut value);
    // As text, in which a number that is none equals itself.
    Some(format!("{value:?}"))
}

fn remove_blank(value: &mut toml::Value) {
    match value {
        toml::Value::Table(table) => {
            table.iter_mut().for_each(|(_, value)| remove_blank(value));
            table.retain(|_, value| value.as_table().is_none_or(|table| !table.is_empty()));
        }
        toml::Value::Array(list) => list.iter_mut().for_each(remove_blank),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
