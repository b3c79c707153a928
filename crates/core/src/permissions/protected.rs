//! The settings that no metareview may change: what binds it, and what it pays for itself with.

use std::fmt;

use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::config::LONGEST;
use crate::topology::Topology;

/// The tables of `autoloops.toml` that are put back, whole.
pub const PROTECTED_TABLES: [&str; 5] = ["backend", "review", "checks", "limits", "core"];

/// The keys of a role in `topology.toml` that are put back begin with this: they choose the program
/// that runs, just as `backend.*` does.
const PROTECTED_ROLE_KEYS: &str = "backend";

/// A text of settings with the protected keys as they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The text: what was written, but for the keys that were put back.
    pub text: String,
    /// What was put back, in order.
    pub put_back: Vec<PutBack>,
}

/// One key that was put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutBack {
    /// The key, with dots.
    pub key: String,
    /// Its value before, as written; `None` when there was none.
    pub was: Option<String>,
    /// What the reviewer made of it; `None` when it was taken out.
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

/// Why the keys of a text cannot be told apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// What the reviewer wrote does not parse.
    #[error("does not parse: {0}")]
    After(String),
    /// What was there before does not parse, so there is nothing to hold the new text against.
    #[error("did not parse before the review: {0}")]
    Before(String),
    /// The new text is longer than settings may be.
    #[error("is {0} bytes long; {LONGEST} bytes (1 MiB) are the most")]
    TooLong(usize),
}

/// Puts the protected keys of `autoloops.toml` back.
///
/// # Errors
///
/// When one of the texts does not parse; then the whole file has to be put back.
pub fn repair_settings(old: &str, new: &str) -> Result<Repaired, Unreadable> {
    let (old_doc, new_doc) = parse_both(old, new)?;
    Ok(repair(old, new, (&old_doc, new_doc), repair_tables))
}

/// Puts the keys of `topology.toml` back that choose a role's program.
///
/// # Errors
///
/// When one of the texts does not parse as a topology; then the whole file has to be put back.
pub fn repair_topology(old: &str, new: &str) -> Result<Repaired, Unreadable> {
    let (old_doc, new_doc) = parse_both(old, new)?;
    Topology::parse(new).map_err(|bad| Unreadable::After(bad.to_string()))?;
    Ok(repair(old, new, (&old_doc, new_doc), repair_roles))
}

fn parse_both(old: &str, new: &str) -> Result<(DocumentMut, DocumentMut), Unreadable> {
    if new.len() > LONGEST {
        return Err(Unreadable::TooLong(new.len()));
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

type Repair = fn(&Table, &mut Table, &mut Vec<PutBack>);

fn repair(old: &str, new: &str, docs: (&DocumentMut, DocumentMut), with: Repair) -> Repaired {
    let (old_doc, mut new_doc) = docs;
    let mut put_back = Vec::new();
    with(old_doc, &mut new_doc, &mut put_back);
    if put_back.is_empty() {
        return Repaired { text: new.to_owned(), put_back };
    }
    // The edited text is believed only after it was read again: ways to write one table are many.
    let text = new_doc.to_string();
    let sound = text.parse::<DocumentMut>().is_ok_and(|mut again| {
        let mut left = Vec::new();
        with(old_doc, &mut again, &mut left);
        left.is_empty()
    });
    Repaired { text: if sound { text } else { old.to_owned() }, put_back }
}

fn repair_tables(old: &Table, new: &mut Table, put_back: &mut Vec<PutBack>) {
    for name in PROTECTED_TABLES {
        repair_key(old, new, (name, name), put_back);
    }
}

fn repair_roles(old: &Table, new: &mut Table, put_back: &mut Vec<PutBack>) {
    let old_roles = roles(old.get("role"));
    let nothing = Table::new();
    for role in roles_mut(new.get_mut("role")) {
        let Some(id) = role.get("id").and_then(Item::as_str).map(str::to_owned) else { continue };
        let known = old_roles
            .iter()
            .find(|old| old.get("id").and_then(Item::as_str) == Some(&id))
            .map_or(&nothing as &dyn TableLike, |old| *old);
        for key in names(known, role) {
            if key.starts_with(PROTECTED_ROLE_KEYS) {
                repair_key(known, role, (&key, &format!("role.{id}.{key}")), put_back);
            }
        }
    }
}

/// The names in either table, each once.
fn names(old: &dyn TableLike, new: &dyn TableLike) -> Vec<String> {
    let mut names: Vec<String> =
        old.iter().chain(new.iter()).map(|(name, _)| name.to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

fn roles(item: Option<&Item>) -> Vec<&dyn TableLike> {
    match item {
        Some(Item::ArrayOfTables(list)) => list.iter().map(|role| role as &dyn TableLike).collect(),
        Some(Item::Value(Value::Array(list))) => list
            .iter()
            .filter_map(Value::as_inline_table)
            .map(|role| role as &dyn TableLike)
            .collect(),
        _ => Vec::new(),
    }
}

fn roles_mut(item: Option<&mut Item>) -> Vec<&mut dyn TableLike> {
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

/// Puts one key back, going into tables so that as little as possible is touched.
fn repair_key(
    old: &dyn TableLike,
    new: &mut dyn TableLike,
    (name, key): (&str, &str),
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
                    repair_key(was, became, (&name, &format!("{key}.{name}")), put_back);
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

/// Whether there is nothing in it: a table without keys says as much as no table.
fn blank(item: &Item) -> bool {
    let empty = |table: &dyn TableLike| table.iter().all(|(_, item)| blank(item));
    item.is_none() || item.as_table_like().is_some_and(empty)
}

/// Writes a value over another one; a comment behind the line stays.
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

/// Whether two items mean the same, however they are written.
fn same(a: &Item, b: &Item) -> bool {
    if let (Some(a), Some(b)) = (a.as_table_like(), b.as_table_like()) {
        return same_tables(a, b);
    }
    match (a, b) {
        (Item::Value(a), Item::Value(b)) => same_values(a, b),
        (Item::ArrayOfTables(a), Item::ArrayOfTables(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_tables(a, b))
        }
        (Item::None, Item::None) => true,
        _ => false,
    }
}

fn same_tables(a: &dyn TableLike, b: &dyn TableLike) -> bool {
    names(a, b).iter().all(|name| match (a.get(name), b.get(name)) {
        (Some(a), Some(b)) => same(a, b),
        (Some(one), None) | (None, Some(one)) => blank(one),
        (None, None) => true,
    })
}

fn same_values(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.value() == b.value(),
        (Value::Integer(a), Value::Integer(b)) => a.value() == b.value(),
        (Value::Float(a), Value::Float(b)) => a.value().to_bits() == b.value().to_bits(),
        (Value::Boolean(a), Value::Boolean(b)) => a.value() == b.value(),
        (Value::Datetime(a), Value::Datetime(b)) => a.value() == b.value(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_values(a, b))
        }
        (Value::InlineTable(a), Value::InlineTable(b)) => same_tables(a, b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(repaired: &Repaired) -> Vec<String> {
        repaired.put_back.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn protected_keys_come_back_and_everything_else_stays() {
        let old = "# mine\nbackend.command = \"pi\" # cheap\nevent_loop.max_iterations = 9\n\n[review]\nevery_iterations = 3\nsandbox = \"required\"\n";
        let new = "# theirs\nbackend.command = \"sh\" # dear\nbackend.args = [\"-c\"]\nevent_loop.max_iterations = 12\n\n[review]\n# never\nevery_iterations = 300\n\n[memory]\nprompt_budget_chars = 4000\n";
        let repaired = repair_settings(old, new).unwrap();
        insta::assert_snapshot!(repaired.text, @r#"
        # theirs
        backend.command = "pi" # dear
        event_loop.max_iterations = 12

        [review]
        # never
        every_iterations = 3
        sandbox = "required"

        [memory]
        prompt_budget_chars = 4000
        "#);
        assert_eq!(
            told(&repaired),
            [
                r#"backend.args = ["-c"] added"#,
                r#"backend.command changed from "pi" to "sh""#,
                "review.every_iterations changed from 3 to 300",
                r#"review.sandbox = "required" removed"#,
            ]
        );
    }

    #[test]
    fn another_spelling_of_the_same_settings_is_no_change() {
        let old = "backend.command = \"pi\"\nbackend.args = [\"-p\"]\n";
        for new in [
            "[backend]\nargs = ['-p',]\ncommand = '''pi'''\n",
            "backend = { command = \"\\u0070i\", args = [ \"-p\" ] }\n",
            "\"backend\".'args' = [\"-p\"]\nbackend.command='pi'",
        ] {
            let repaired = repair_settings(old, new).unwrap();
            assert_eq!((repaired.text.as_str(), told(&repaired)), (new, vec![]));
        }
    }

    #[test]
    fn no_way_of_writing_gets_a_protected_key_through() {
        let old = "[backend]\ncommand = \"pi\"\n[backend.env]\nA = \"1\"\n[limits]\ncost = 3\n";
        for new in [
            "",
            "backend = { command = \"sh\" }",
            "backend = 3",
            "[[backend]]\ncommand = \"sh\"",
            "[backend]\ncommand = [\"sh\"]\nenv.A = \"2\"",
            "[backend.command]\nx = 1",
            "\"limits\".cost = 99\n[\"backend\"]\n\"comm\\u0061nd\" = \"sh\"",
            "core.state_dir = \"/\"\n[checks]\nx = 1\n[backend]\ncommand = \"pi\"\nenv = { A = \"1\", B = \"2\" }",
        ] {
            let repaired = repair_settings(old, new).unwrap();
            assert!(!repaired.put_back.is_empty(), "{new}");
            let again = repair_settings(old, &repaired.text).unwrap();
            assert_eq!(told(&again), Vec::<String>::new(), "{new} became {}", repaired.text);
        }
    }

    #[test]
    fn a_text_that_does_not_parse_is_told() {
        let told = |old, new| repair_settings(old, new).unwrap_err().to_string();
        assert!(told("", "a = 1\nb = \n").starts_with("does not parse: line 2: "));
        assert!(told("a = ", "").starts_with("did not parse before the review: line 1: "));
        assert_eq!(
            told("", &" ".repeat(LONGEST + 1)),
            "is 1048577 bytes long; 1048576 bytes (1 MiB) are the most"
        );
    }

    #[test]
    fn a_role_keeps_its_program() {
        let old = "[[role]]\nid = \"a\"\nprompt = \"x\"\nbackend_command = \"pi\"\n[[role]]\nid = \"b\"\n";
        let new = "[[role]]\nid = \"b\"\nbackend_command = \"sh\"\n[[role]]\nid = \"a\"\nprompt = \"y\"\n[[role]]\nid = \"c\"\nbackend_args = [\"-c\"]\nemits = [\"x.y\"]\n";
        let repaired = repair_topology(old, new).unwrap();
        insta::assert_snapshot!(repaired.text, @r#"
        [[role]]
        id = "b"
        [[role]]
        id = "a"
        prompt = "y"
        backend_command = "pi"
        [[role]]
        id = "c"
        emits = ["x.y"]
        "#);
        assert_eq!(
            told(&repaired),
            [
                r#"role.b.backend_command = "sh" added"#,
                r#"role.a.backend_command = "pi" removed"#,
                r#"role.c.backend_args = ["-c"] added"#,
            ]
        );
        assert!(matches!(repair_topology(old, "[[role]]\nid = 3"), Err(Unreadable::After(_))));
    }

    fn settings() -> impl Strategy<Value = String> {
        let table = prop::sample::select(vec!["backend", "review", "core", "memory", "event_loop"]);
        let key = prop::sample::select(vec!["a", "b", "c"]);
        let value = prop::sample::select(vec!["1", "\"x\"", "[1, 2]", "{ p = 1 }", "true"]);
        let line = (table, key, value, any::<bool>());
        prop::collection::btree_map(
            prop::sample::select(vec!["backend", "review", "core", "memory", "event_loop"]),
            (
                prop::collection::btree_map(prop::sample::select(vec!["a", "b", "c"]), line, 0..3),
                0..3,
            ),
            0..5,
        )
        .prop_map(|tables| {
            let (mut root, mut rest) = (String::new(), String::new());
            for (name, (keys, style)) in tables {
                let pairs: Vec<String> =
                    keys.iter().map(|(key, line)| format!("{key} = {}", line.2)).collect();
                match style {
                    0 => pairs.iter().for_each(|pair| root.push_str(&format!("{name}.{pair}\n"))),
                    1 => root.push_str(&format!("{name} = {{ {} }}\n", pairs.join(", "))),
                    _ => rest.push_str(&format!("[{name}] # {name}\n{}\n", pairs.join("\n"))),
                }
            }
            root + &rest
        })
    }

    fn part(text: &str, protected: bool) -> toml::Table {
        let mut table: toml::Table = text.parse().unwrap();
        table.retain(|name, value| {
            let empty = value.as_table().is_some_and(toml::Table::is_empty);
            PROTECTED_TABLES.contains(&name) == protected && !empty
        });
        table
    }

    proptest! {
        #[test]
        fn the_protected_part_is_the_old_one_and_the_rest_the_new_one(old in settings(), new in settings()) {
            let repaired = repair_settings(&old, &new).unwrap();
            prop_assert_eq!(part(&repaired.text, true), part(&old, true), "{}", repaired.text);
            prop_assert_eq!(part(&repaired.text, false), part(&new, false), "{}", repaired.text);
        }
    }
}
