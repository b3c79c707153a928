//! Reads the fields of a mapping: each with its own rule, all problems at once.

use super::problem::{Place, Problems};
use super::yaml::{Entry, Node, SHOWN, Style, Text, Value};
use crate::text::{length, shown};
use crate::timestamp::Timestamp;
use crate::wire_enum::WireEnum;

/// What a rule returns: the value, or why the node is invalid.
pub(super) type Ruled<T> = Result<T, String>;

/// The entries of a mapping that were not read yet.
pub(super) struct Fields<'p> {
    /// For problems: `the message`, `entry 1 of 'findings'`.
    name: String,
    at: Place,
    entries: Vec<Entry>,
    problems: &'p mut Problems,
}

impl<'p> Fields<'p> {
    /// `None` if the node is no mapping, which is reported.
    pub(super) fn of(
        name: impl Into<String>,
        node: Node,
        problems: &'p mut Problems,
    ) -> Option<Self> {
        let (name, at) = (name.into(), node.at);
        match node.value {
            Value::Map(entries) => Some(Fields { name, at, entries, problems }),
            _ => {
                let found = node.describe();
                problems.error(at, format!("{name} must be a mapping of fields, not {found}"));
                None
            }
        }
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Node> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at).node)
    }

    /// A field that must be there.
    pub(super) fn required<T>(
        &mut self,
        key: &str,
        rule: impl FnOnce(&Node) -> Ruled<T>,
    ) -> Option<T> {
        match self.take(key) {
            None => {
                let message = format!("missing field '{key}' in {}", self.name);
                self.problems.error(self.at, message);
                None
            }
            Some(node) if node.is_blank() => {
                self.problems.error(node.at, format!("field '{key}' of {} is empty", self.name));
                None
            }
            Some(node) => self.check(key, &node, rule),
        }
    }

    /// A field that may be absent or empty.
    pub(super) fn optional<T>(
        &mut self,
        key: &str,
        rule: impl FnOnce(&Node) -> Ruled<T>,
    ) -> Option<T> {
        let node = self.take(key)?;
        if node.is_blank() { None } else { self.check(key, &node, rule) }
    }

    /// A field that may be absent, but not empty.
    pub(super) fn filled<T>(
        &mut self,
        key: &str,
        rule: impl FnOnce(&Node) -> Ruled<T>,
    ) -> Option<T> {
        self.has(key).then(|| self.required(key, rule)).flatten()
    }

    /// Makes a field that was taken one of the rest.
    pub(super) fn put_back(&mut self, key: &str, node: Node) {
        self.entries.push(Entry { key: key.to_owned(), at: node.at, node });
    }

    pub(super) fn peek(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.peek(key).is_some()
    }

    fn check<T>(
        &mut self,
        key: &str,
        node: &Node,
        rule: impl FnOnce(&Node) -> Ruled<T>,
    ) -> Option<T> {
        rule(node).map_err(|why| self.problems.error(node.at, format!("field '{key}': {why}"))).ok()
    }

    /// The items of a list; a missing or empty one has none.
    pub(super) fn list(&mut self, key: &str) -> Vec<Node> {
        match self.take(key) {
            None => Vec::new(),
            Some(Node { value: Value::List(items), .. }) => items,
            Some(node) if node.is_blank() => Vec::new(),
            Some(node) => {
                let found = node.describe();
                self.problems.error(node.at, format!("field '{key}' must be a list, not {found}"));
                Vec::new()
            }
        }
    }

    /// The items of a list that the rule accepts.
    pub(super) fn items<T>(&mut self, key: &str, rule: impl Fn(&Node) -> Ruled<T>) -> Vec<T> {
        let items = self.list(key);
        items.iter().filter_map(|item| self.check(key, item, &rule)).collect()
    }

    /// The items of a list of mappings, read one by one.
    pub(super) fn maps<T>(&mut self, key: &str, read: impl Fn(&mut Fields<'_>) -> T) -> Vec<T> {
        let items = self.list(key);
        let mut read_item = |(index, item): (usize, Node)| {
            let name = format!("entry {} of '{key}'", index + 1);
            Fields::of(name, item, self.problems).map(|mut fields| read(&mut fields))
        };
        items.into_iter().enumerate().filter_map(&mut read_item).collect()
    }

    /// A nested mapping; `None` if it is missing, empty or none.
    pub(super) fn map(&mut self, key: &str) -> Option<Fields<'_>> {
        let node = self.take(key).filter(|node| !node.is_blank())?;
        Fields::of(format!("field '{key}'"), node, self.problems)
    }

    pub(super) fn place(&self, key: &str) -> Place {
        self.peek(key).map_or(self.at, |node| node.at)
    }

    pub(super) fn error(&mut self, at: Place, message: impl Into<String>) {
        self.problems.error(at, message);
    }

    pub(super) fn warning(&mut self, at: Place, message: impl Into<String>) {
        self.problems.warning(at, message);
    }

    /// The entries that nothing asked for: unknown keys, kept as they are.
    pub(super) fn rest(self) -> Vec<Entry> {
        self.entries
    }

    pub(super) fn take_rest(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries)
    }
}

fn scalar(node: &Node) -> Ruled<&Text> {
    match &node.value {
        Value::Text(text) => Ok(text),
        _ => Err(format!("expected a text, found {}", node.describe())),
    }
}

/// Any text, also with several lines.
pub(super) fn text(most: usize) -> impl Fn(&Node) -> Ruled<String> {
    move |node| {
        let text = &scalar(node)?.text;
        match length(text.trim()) {
            count if count > most => Err(format!("{count} characters; the limit is {most}")),
            _ => Ok(text.clone()),
        }
    }
}

/// A text in one line, without control characters, trimmed.
pub(super) fn line(most: usize) -> impl Fn(&Node) -> Ruled<String> {
    move |node| {
        let text = text(most)(node)?.trim().to_owned();
        match text.chars().find(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
            Some(c) => Err(format!("U+{:04X} is not allowed in one line of text", u32::from(c))),
            None => Ok(text),
        }
    }
}

/// One of the words of an enum.
pub(super) fn word<T: WireEnum>(words: &'static [&'static str]) -> impl Fn(&Node) -> Ruled<T> {
    move |node| {
        let expected = words.join(", ");
        let text = node.as_text().unwrap_or_default();
        T::of_word(text)
            .ok_or_else(|| format!("expected one of {expected}, found {}", node.describe()))
    }
}

/// A whole number in ASCII digits, as readers of YAML 1.1 and 1.2 agree on it.
pub(super) fn number(least: u64, most: u64) -> impl Fn(&Node) -> Ruled<u64> {
    move |node| {
        let digits = node.as_text().map(str::trim).filter(|text| is_number(text));
        let number = digits.and_then(|text| text.parse().ok());
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            let found = node.describe();
            match most {
                u64::MAX => format!("expected a whole number from {least}, found {found}"),
                _ => format!("expected a whole number from {least} to {most}, found {found}"),
            }
        })
    }
}

fn is_number(text: &str) -> bool {
    let is_octal = text.len() > 1 && text.starts_with('0');
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && !is_octal
}

/// A finite number that is not negative.
pub(super) fn amount(node: &Node) -> Ruled<f64> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    let text = node.as_text().map(str::trim).filter(|text| text.chars().all(is_part));
    let amount = text.and_then(|text| text.parse::<f64>().ok());
    let amount = amount.filter(|amount| amount.is_finite() && *amount >= 0.0);
    amount.ok_or_else(|| format!("expected a number from 0, found {}", node.describe()))
}

/// `true` or `false` without quotes. YAML 1.1 reads `yes` and `on` as booleans and YAML 1.2 does not.
pub(super) fn boolean(node: &Node) -> Ruled<bool> {
    match node.as_text().filter(|_| node.is_plain()) {
        Some("true" | "True" | "TRUE") => Ok(true),
        Some("false" | "False" | "FALSE") => Ok(false),
        _ => Err(format!("expected true or false without quotes, found {}", node.describe())),
    }
}

/// `2026-02-13T10:00:00Z`, a real date and time in UTC without fractions.
pub(super) fn moment(node: &Node) -> Ruled<Timestamp> {
    let text = node.as_text().unwrap_or_default().trim();
    let has_shape = text.len() == 20
        && text.bytes().zip(b"dddd-dd-ddTdd:dd:ddZ").all(|(found, shape)| match shape {
            b'd' => found.is_ascii_digit(),
            shape => found == *shape,
        });
    let is_real = !text.starts_with("0000") && !text.ends_with("60Z");
    let parsed = Some(text).filter(|_| has_shape && is_real).and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| {
        format!("expected a UTC time like 2026-02-13T10:00:00Z, found {}", node.describe())
    })
}

/// A UTC time to the second, as in `2026-02-13T10:00:00Z`.
pub fn print_moment(moment: Timestamp) -> String {
    let text = moment.to_string();
    format!("{}Z", text.split('.').next().unwrap_or_default())
}

/// An id: a letter or digit, then letters, digits and `._:@+-`.
pub(super) fn id(node: &Node) -> Ruled<String> {
    let id = line(200)(node)?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._:@+-".contains(c);
    match id.starts_with(|c: char| c.is_ascii_alphanumeric()) && id.chars().all(is_part) {
        true => Ok(id),
        false => Err(format!("invalid id '{id}': expected letters, digits and ._:@+-")),
    }
}

/// `F-001` or `NIT-001`.
pub(super) fn numbered(prefix: &'static str) -> impl Fn(&Node) -> Ruled<String> {
    move |node| {
        let text = node.as_text().unwrap_or_default().trim();
        let digits = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
        let is_one = |digits: &str| {
            (3..=6).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        match digits.is_some_and(is_one) {
            true => Ok(text.to_owned()),
            false => Err(format!("expected an id like {prefix}-001, found {}", node.describe())),
        }
    }
}

/// A path below the project or the workspace, with `/` between its parts.
pub(super) fn relative_path(node: &Node) -> Ruled<String> {
    let path = line(500)(node)?;
    let part = |part: &str| matches!(part, "" | "." | "..");
    let why = match &*path {
        path if path.starts_with('/') => "is absolute",
        path if path.contains('\\') => "contains a backslash",
        path if path.contains("://") || path.starts_with("file:") => "is a URL",
        path if path.starts_with(['~', '-']) => "begins with a character that a shell may replace",
        path if path.as_bytes().get(1) == Some(&b':') => "names a drive",
        path if path.trim_end_matches('/').split('/').any(part) => {
            "has an empty part, '.' or '..' in it"
        }
        _ => return Ok(path),
    };
    Err(format!("'{}' {why}; write a relative path without '..'", shown(&path, SHOWN)))
}

/// The name of a branch, as git allows it, without characters that a shell obeys.
pub(super) fn branch(node: &Node) -> Ruled<String> {
    let name = line(250)(node)?;
    let part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let forbidden = |c: char| c.is_whitespace() || "~^:?*[\\$`;|&<>()'\"{}!".contains(c);
    let is_valid = !name.starts_with('-')
        && !name.ends_with('.')
        && !name.contains("..")
        && name != "@"
        && !name.split('/').any(part)
        && !name.contains(forbidden);
    match is_valid {
        true => Ok(name),
        false => Err(format!("invalid name of a branch '{}'", shown(&name, SHOWN))),
    }
}

/// A commit id, possibly shortened. Always a text: `0123456` keeps its zero.
pub(super) fn commit(node: &Node) -> Ruled<String> {
    let id = node.as_text().unwrap_or_default().trim();
    let is_hex = id.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_hex && matches!(id.len(), 7..=40 | 64) {
        true => Ok(id.to_owned()),
        false => Err(format!(
            "expected a commit id of 7 to 40 hexadecimal digits, found {}",
            node.describe()
        )),
    }
}

/// Whether a scalar is a literal block, whose lines can be found in the file.
pub(super) fn is_literal(node: &Node) -> bool {
    matches!(&node.value, Value::Text(Text { style: Style::Literal, .. }))
}
