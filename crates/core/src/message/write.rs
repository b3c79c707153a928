//! Writes YAML that every reader of YAML 1.1 and 1.2 reads as the same text.
//!
//! A text is plain only if no reader can take it for anything else, a literal block only if no reader changes its
//! lines, and double-quoted with escapes otherwise.

use std::fmt::Write as _;

use super::yaml::{Entry, Node, Style, Text, Value};

const INDENT: usize = 2;

/// A mapping that is being written, key by key.
#[derive(Debug, Default)]
pub(super) struct Map {
    text: String,
    depth: usize,
}

impl Map {
    pub(super) fn text(&mut self, key: &str, text: &str) -> &mut Self {
        self.key(key);
        scalar(&mut self.text, text, self.depth);
        self
    }

    /// A number or a boolean.
    pub(super) fn literal(&mut self, key: &str, value: impl std::fmt::Display) -> &mut Self {
        self.key(key);
        let _ = writeln!(self.text, " {value}");
        self
    }

    pub(super) fn texts<'t>(
        &mut self,
        key: &str,
        texts: impl IntoIterator<Item = &'t str>,
    ) -> &mut Self {
        let items = texts.into_iter().map(Node::text).collect();
        self.node(key, &Value::List(items))
    }

    /// A list of mappings.
    pub(super) fn maps<T>(
        &mut self,
        key: &str,
        items: &[T],
        write: impl Fn(&T, &mut Map),
    ) -> &mut Self {
        self.key(key);
        if items.is_empty() {
            self.text.push_str(" []\n");
            return self;
        }
        self.text.push('\n');
        for item in items {
            let mut map = Map { text: String::new(), depth: self.depth + 2 };
            write(item, &mut map);
            self.item(&map.text);
        }
        self
    }

    pub(super) fn map(&mut self, key: &str, write: impl FnOnce(&mut Map)) -> &mut Self {
        let mut map = Map { text: String::new(), depth: self.depth + 1 };
        write(&mut map);
        self.key(key);
        match map.text.is_empty() {
            true => self.text.push_str(" {}\n"),
            false => {
                self.text.push('\n');
                self.text.push_str(&map.text);
            }
        }
        self
    }

    /// Keys that this program does not know, as they were read.
    pub(super) fn entries(&mut self, entries: &[Entry]) -> &mut Self {
        for entry in entries {
            self.node(&entry.key, &entry.node.value);
        }
        self
    }

    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    fn key(&mut self, key: &str) {
        let indent = self.depth * INDENT;
        let key = if is_plain(key) { key.to_owned() } else { quoted(key) };
        let _ = write!(self.text, "{:indent$}{key}:", "");
    }

    fn node(&mut self, key: &str, value: &Value) -> &mut Self {
        self.key(key);
        self.value(value);
        self
    }

    /// Writes what comes after a key.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.text.push('\n'),
            Value::Text(text) if is_typed(text) => {
                let _ = writeln!(self.text, " {}", text.text);
            }
            Value::Text(text) => scalar(&mut self.text, &text.text, self.depth),
            Value::List(items) if items.is_empty() => self.text.push_str(" []\n"),
            Value::Map(entries) if entries.is_empty() => self.text.push_str(" {}\n"),
            Value::List(items) => {
                self.text.push('\n');
                for item in items {
                    let mut inner = Map { text: String::new(), depth: self.depth + 2 };
                    match &item.value {
                        Value::Map(entries) if !entries.is_empty() => {
                            inner.entries(entries);
                            self.item(&inner.text);
                        }
                        value => {
                            inner.depth = self.depth + 1;
                            inner.value(value);
                            let indent = (self.depth + 1) * INDENT;
                            let _ = write!(self.text, "{:indent$}-{}", "", inner.text);
                        }
                    }
                }
            }
            Value::Map(entries) => {
                self.text.push('\n');
                let mut inner = Map { text: String::new(), depth: self.depth + 1 };
                self.text.push_str(&inner.entries(entries).finish());
            }
        }
    }

    /// Adds a mapping, written two levels deeper, as an item of a list.
    fn item(&mut self, map: &str) {
        let indent = (self.depth + 1) * INDENT;
        let first = map.trim_start_matches(' ');
        let _ =
            write!(self.text, "{:indent$}- {}", "", if first.is_empty() { "{}\n" } else { first });
    }
}

impl Node {
    fn text(text: &str) -> Node {
        let text = Text { text: text.to_owned(), style: Style::Quoted };
        Node { at: super::problem::Place::START, value: Value::Text(text) }
    }
}

/// Writes a text after a key.
fn scalar(out: &mut String, text: &str, depth: usize) {
    if is_plain(text) {
        let _ = writeln!(out, " {text}");
    } else if is_block(text) {
        let indent = (depth + 1) * INDENT;
        let chomp = if text.ends_with('\n') { "" } else { "-" };
        let _ = writeln!(out, " |{chomp}");
        for line in text.lines() {
            match line {
                "" => out.push('\n'),
                line => {
                    let _ = writeln!(out, "{:indent$}{line}", "");
                }
            }
        }
    } else {
        let _ = writeln!(out, " {}", quoted(text));
    }
}

/// Whether no reader takes the text, without quotes, for anything but this text.
fn is_plain(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    // The words of YAML 1.1 and 1.2 that are no text.
    let is_typed = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"]
        .iter()
        .any(|word| word.eq_ignore_ascii_case(text));
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !is_typed
        && text.split(' ').all(|word| !word.is_empty() && word.chars().all(is_word))
        && text.len() <= 100
}

/// Whether a plain scalar that was read may be a number, a boolean or a date, and has to stay plain.
fn is_typed(text: &Text) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_');
    text.style == Style::Plain
        && text.text.chars().all(is_part)
        && !text.text.starts_with('-')
        && !text.text.is_empty()
}

/// Whether a literal block keeps the text as it is: printable, no blank where a reader could take it for indentation,
/// at most one line end at the end.
fn is_block(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let is_safe_line =
        |line: &str| !line.starts_with('\t') && (line.is_empty() || !line.trim().is_empty());
    body.contains('\n')
        && !body.starts_with([' ', '\n'])
        && !body.ends_with('\n')
        && body.chars().all(|c| c == '\n' || c == '\t' || is_printable(c))
        && body.split('\n').all(is_safe_line)
}

/// Whether all readers agree on an unescaped character.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
        // Marks that change the direction of a text hide what it says.
        && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        let code = u32::from(c);
        let _ = match c {
            '"' => write!(out, "\\\""),
            '\\' => write!(out, "\\\\"),
            '\n' => write!(out, "\\n"),
            '\t' => write!(out, "\\t"),
            '\r' => write!(out, "\\r"),
            c if is_printable(c) => write!(out, "{c}"),
            _ if code <= 0xff => write!(out, "\\x{code:02X}"),
            _ => write!(out, "\\u{code:04X}"),
        };
    }
    out.push('"');
    out
}
