//! Reads the YAML of messages and packets as a tree with places.
//!
//! All scalars are text, because a commit `0123456` or `12345e67` is no number. The tree is built from the events of
//! `saphyr-parser`, and not through serde, because only events have the place of every value, every duplicate key and
//! unknown keys, and because reading through serde ends at the first problem. No other file names this crate.
//!
//! Text that readers of YAML 1.1 and 1.2 read differently is refused: U+0085, U+2028, U+2029 and a lone carriage
//! return end lines in one of them and not in the other.

use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::problem::{Place, Problem, Problems};
use crate::text::{length, shown};

/// The maximum number of bytes in a document. The longest valid message, with all characters escaped, has fewer.
pub const MAX_BYTES: usize = 512 * 1024;
const MAX_DEPTH: usize = 16;
/// Readers limit the length of a key.
const MAX_KEY: usize = 200;
const MAX_NODES: usize = 20_000;
/// An alias can only repeat a text, so they cannot multiply.
const MAX_ALIASES: usize = 64;
/// The length of a quoted value in a problem.
pub(super) const SHOWN: usize = 60;

/// One value and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub at: Place,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    Text(Text),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub text: String,
    pub style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Without quotes: a typed reader may take it for a number, a boolean or a date.
    Plain,
    Quoted,
    /// A literal block, whose lines are lines of the file.
    Literal,
    Folded,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub at: Place,
    pub node: Node,
}

impl Node {
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(&text.text),
            _ => None,
        }
    }

    /// The value of a key, if this is a mapping that has it.
    pub(super) fn entry(&self, key: &str) -> Option<&Node> {
        let Value::Map(entries) = &self.value else { return None };
        entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// Whether a typed reader sees a plain scalar here.
    pub(super) fn is_plain(&self) -> bool {
        matches!(&self.value, Value::Text(Text { style: Style::Plain, .. }))
    }

    /// Whether there is nothing: null, or text of blanks only.
    pub(super) fn is_blank(&self) -> bool {
        match &self.value {
            Value::Null => true,
            Value::Text(text) => text.text.trim().is_empty(),
            _ => false,
        }
    }

    /// What the value is, for a message.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Text(text) => format!("'{}'", shown(&text.text, SHOWN)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Reads one document. `None` if there is a problem that leaves nothing to examine.
pub(super) fn read(bytes: &[u8], problems: &mut Problems) -> Option<Node> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file has {} bytes; the limit is {MAX_BYTES}", bytes.len());
        problems.error(Place::START, message);
        return None;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => read_text(text, problems),
        Err(error) => {
            let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            problems.error(Place::after(valid), "invalid UTF-8; save the file as UTF-8");
            None
        }
    }
}

/// Reads one document that is text already.
pub(super) fn read_text(text: &str, problems: &mut Problems) -> Option<Node> {
    // A mark is only allowed at the beginning, where programs on Windows write it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !check_characters(text, problems) {
        return None;
    }
    let built = Builder::default().build(text, problems);
    built.map_err(|problem| problems.push(problem)).ok()
}

/// Reports characters that may not be in a document unescaped; `false` if there is one.
fn check_characters(text: &str, problems: &mut Problems) -> bool {
    let mut is_clean = true;
    let mut reported = HashSet::new();
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let why = match c {
            '\n' | '\t' => continue,
            '\r' if characters.peek().is_some_and(|(_, next)| *next == '\n') => continue,
            ' '..='~' => continue,
            '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => {
                "ends a line for some YAML readers and not for others"
            }
            '\u{feff}' | '\u{fffe}' | '\u{ffff}' => "is not allowed in YAML",
            c if c.is_control() => "is a control character",
            _ => continue,
        };
        is_clean = false;
        if reported.insert(c) {
            let code = u32::from(c);
            problems.error(
                Place::after(&text[..at]),
                format!(
                    "U+{code:04X} {why}; write it as \"\\u{code:04X}\" in a double-quoted text"
                ),
            );
        }
    }
    is_clean
}

/// A list or a mapping whose end was not read yet.
struct Open {
    node: Node,
    /// The key whose value comes next.
    key: Option<Entry>,
    keys: HashSet<String>,
    /// Whether the mapping has this key already.
    is_duplicate: bool,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    /// Texts with an anchor.
    anchors: HashMap<usize, Node>,
    nodes: usize,
    aliases: usize,
    root: Option<Node>,
}

impl Builder {
    fn build(&mut self, text: &str, problems: &mut Problems) -> Result<Node, Problem> {
        let mut documents = 0;
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| {
                let marker = error.marker();
                let at = Place { line: marker.line(), column: marker.col() + 1 };
                Problem::new(at, format!("invalid YAML: {}", error.info()))
            })?;
            if let Event::DocumentStart(_) = event {
                documents += 1;
                if documents > 1 {
                    return Err(Problem::new(place(span), "a second document; one is expected"));
                }
            }
            self.take(event, span, problems)?;
        }
        let empty = || Problem::new(Place::START, "the document is empty");
        self.root.take().ok_or_else(empty)
    }

    fn take(
        &mut self,
        event: Event<'_>,
        span: Span,
        problems: &mut Problems,
    ) -> Result<(), Problem> {
        let at = place(span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let node = Node {
                    at,
                    value: scalar(&text, style, check_tag(tag.as_deref(), at, problems)),
                };
                if anchor > 0 {
                    self.anchors.insert(anchor, node.clone());
                }
                self.add(node, problems)?;
            }
            Event::SequenceStart(_, tag) => {
                check_tag(tag.as_deref(), at, problems);
                self.enter(Node { at, value: Value::List(Vec::new()) })?;
            }
            Event::MappingStart(_, tag) => {
                check_tag(tag.as_deref(), at, problems);
                self.enter(Node { at, value: Value::Map(Vec::new()) })?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    self.add(open.node, problems)?;
                }
            }
            Event::Alias(anchor) => {
                self.aliases += 1;
                let Some(node) = self.anchors.get(&anchor) else {
                    let message = "an alias may only repeat a text; write the value itself";
                    return Err(Problem::new(at, message));
                };
                if self.aliases > MAX_ALIASES {
                    let message = format!("more than {MAX_ALIASES} aliases; write the values");
                    return Err(Problem::new(at, message));
                }
                let node = Node { at, ..node.clone() };
                self.add(node, problems)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn enter(&mut self, node: Node) -> Result<(), Problem> {
        if self.open.len() == MAX_DEPTH {
            let message = format!("lists and mappings are nested deeper than {MAX_DEPTH} levels");
            return Err(Problem::new(node.at, message));
        }
        if let Some(open) = self.open.last()
            && matches!(open.node.value, Value::Map(_))
            && open.key.is_none()
        {
            return Err(Problem::new(node.at, "a key must be a text"));
        }
        self.open.push(Open { node, key: None, keys: HashSet::new(), is_duplicate: false });
        Ok(())
    }

    /// Adds a complete node to the list or mapping that is being read.
    fn add(&mut self, node: Node, problems: &mut Problems) -> Result<(), Problem> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Problem::new(node.at, format!("more than {MAX_NODES} values")));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut open.node.value, open.key.take()) {
            (Value::List(items), _) => items.push(node),
            (Value::Map(_), Some(_)) if open.is_duplicate => {}
            (Value::Map(entries), Some(entry)) => entries.push(Entry { node, ..entry }),
            (Value::Map(_), None) => {
                let at = node.at;
                let Value::Text(Text { text: key, .. }) = node.value else {
                    return Err(Problem::new(at, "a key must be a text"));
                };
                if length(&key) > MAX_KEY {
                    return Err(Problem::new(
                        at,
                        format!("a key is longer than {MAX_KEY} characters"),
                    ));
                }
                open.is_duplicate = !open.keys.insert(key.clone());
                if open.is_duplicate {
                    problems.error(at, format!("duplicate key '{}'", shown(&key, SHOWN)));
                }
                open.key = Some(Entry { key, at, node: Node { at, value: Value::Null } });
            }
            (Value::Null | Value::Text(_), _) => {}
        }
        Ok(())
    }
}

/// The type that a tag gives to a scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Typed {
    ByItself,
    Text,
}

/// Readers that drop tags and readers that obey them see different values, so only the harmless ones are allowed.
fn check_tag(tag: Option<&Tag>, at: Place, problems: &mut Problems) -> Typed {
    let Some(tag) = tag else { return Typed::ByItself };
    match tag.suffix.as_str() {
        "str" if tag.is_yaml_core_schema() => return Typed::Text,
        "int" | "float" | "bool" | "null" | "seq" | "map" | "timestamp"
            if tag.is_yaml_core_schema() =>
        {
            problems.warning(at, "remove the tag; the type follows from the field");
        }
        _ => problems.error(
            at,
            format!(
                "unknown tag '{}'; quote a text that starts with '!'",
                shown(&tag.to_string(), SHOWN)
            ),
        ),
    }
    Typed::ByItself
}

fn scalar(text: &str, style: ScalarStyle, typed: Typed) -> Value {
    let style = match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::Literal => Style::Literal,
        ScalarStyle::Folded => Style::Folded,
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
    };
    match (style, typed, text) {
        (Style::Plain, Typed::ByItself, "" | "~" | "null" | "Null" | "NULL") => Value::Null,
        (Style::Plain, Typed::Text, text) => {
            Value::Text(Text { text: text.to_owned(), style: Style::Quoted })
        }
        _ => Value::Text(Text { text: text.to_owned(), style }),
    }
}

fn place(span: Span) -> Place {
    Place { line: span.start.line(), column: span.start.col() + 1 }
}
