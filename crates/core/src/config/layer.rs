//! One source of settings, and what it sets.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::LONGEST;
use super::agent_keys::AgentKeys;
use super::checks::{CHECKS, WrittenCheck};
use super::enums::BackendKind;
use super::key::Key;
use super::problem::{Place, Problem, Severity};
use super::shell_words;
use super::value::{Refusal, Value, found, read, read_text};
use crate::agents::Adapter;
use crate::payload;
use crate::suggest::suggest;
use crate::toml_file::one_line;
use crate::unenforced::{self, is_unenforced, is_unenforced_text};
use crate::wire_enum::words;

words! {
    /// Where settings come from. Later ones win.
    #[derive(PartialOrd, Ord)]
    Origin {
        Default = "default",
        Topology = "topology",
        User = "user",
        Preset = "preset",
        Project = "project",
        UserOverride = "user override",
        RepoOverride = "repo override",
        Environment = "environment",
        Flag = "flag",
    }
}

pub const VARIABLE: &str = "AUTOLOOP_SET";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    pub origin: Origin,
    pub name: String,
    pub text: Arc<str>,
    syntax: Syntax,
    tables: Tables,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    Toml,
    /// `key=value; key=value;`
    Pairs,
    /// `key=value`
    Assignment,
    Value(Key),
    Backend,
    MoreArgs,
}

/// Which tables of a layer are read. The others are ignored without a warning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tables {
    #[default]
    All,
    Only(&'static [&'static str]),
    AllBut(&'static str),
}

impl Layer {
    pub fn file(origin: Origin, name: impl Into<String>, text: impl Into<Arc<str>>) -> Layer {
        let (name, text) = (name.into(), text.into());
        Layer { origin, name, text, syntax: Syntax::Toml, tables: Tables::All }
    }

    pub fn with(self, tables: Tables) -> Layer {
        Layer { tables, ..self }
    }

    pub fn variable(text: &str) -> Layer {
        Layer { syntax: Syntax::Pairs, ..Layer::file(Origin::Environment, VARIABLE, text) }
    }

    pub fn set(text: &str) -> Layer {
        Layer::flag("--set", text, Syntax::Assignment)
    }

    /// `--backend`: a command line that replaces `backend.command` and `backend.args`. A `backend.kind` that was
    /// set for another command does not apply to it.
    pub fn backend(text: &str) -> Layer {
        Layer::flag("--backend", text, Syntax::Backend)
    }

    pub fn max_iterations(text: &str) -> Layer {
        Layer::flag("--max-iterations", text, Syntax::Value(Key::MaxIterations))
    }

    /// The words after `--`, which are appended to `backend.args`.
    pub fn more_args<'a>(args: impl IntoIterator<Item = &'a str>) -> Layer {
        Layer::flag("--", &shell_words::join(args), Syntax::MoreArgs)
    }

    fn flag(name: &str, text: &str, syntax: Syntax) -> Layer {
        Layer { syntax, ..Layer::file(Origin::Flag, name, text) }
    }

    pub(crate) fn read(&self) -> LayerContent {
        let mut reader = Reader { layer: self, content: LayerContent::default(), unknown: 0 };
        let text = &*self.text;
        if text.len() > LONGEST {
            let bytes = text.len();
            reader.error(
                0..0,
                format!("the settings have {bytes} bytes: the limit is {LONGEST} (1 MiB)"),
                "",
            );
            return reader.content;
        }
        match self.syntax {
            Syntax::Toml => reader.toml(text),
            Syntax::Pairs => reader.pairs(text),
            Syntax::Assignment => reader.assignment(text),
            Syntax::Value(key) => reader.text(key, text, 0..text.len()),
            Syntax::Backend => reader.agent(&AgentKeys::LOOP, text, 0..text.len()),
            Syntax::MoreArgs => {
                if let Some(args) = reader.words(text, &(0..text.len())) {
                    reader.add(Key::BackendArgs, Change::Append(args), 0..text.len());
                }
            }
        }
        reader.count_unnamed();
        // The parser sorts keys by name; people read from top to bottom.
        reader.content.entries.sort_by_key(|entry| entry.span.start);
        reader.content.checks.sort_by_key(|check| check.span.start);
        if self.syntax == Syntax::Toml {
            reader.prefer_keys();
            reader.contradictions();
        }
        reader.content.problems.sort_by_key(|problem| problem.span.start);
        reader.content
    }
}

#[derive(Debug, Default)]
pub(crate) struct LayerContent {
    pub(crate) entries: Vec<Entry>,
    pub(crate) problems: Vec<Problem>,
    pub(super) checks: Vec<WrittenCheck>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) change: Change,
    pub(crate) span: Range<usize>,
}

/// What a layer does to a setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Replace(Value),
    Append(Vec<String>),
}

/// How many unknown keys of a layer are named one by one.
const NAMED: usize = 20;

pub(super) struct Reader<'l> {
    layer: &'l Layer,
    pub(super) content: LayerContent,
    unknown: usize,
}

impl Reader<'_> {
    fn toml(&mut self, text: &str) {
        match DeTable::parse(text) {
            Ok(root) => self.table("", root.get_ref()),
            Err(error) => {
                let message = format!("invalid TOML: {}", one_line(error.message()));
                self.error(error.span().unwrap_or_default(), message, "");
            }
        }
    }

    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let path = match prefix {
                "" => name.get_ref().to_string(),
                _ => format!("{prefix}.{}", name.get_ref()),
            };
            if prefix.is_empty() && !self.counts(&path) {
                continue;
            }
            if let Some(key) = Key::named(&path) {
                self.value(key, value);
            } else if let (Some(keys), DeValue::String(text)) =
                (AgentKeys::named(&path), value.get_ref())
            {
                self.agent(keys, text, value.span());
            } else if path == CHECKS {
                self.checks(value);
            } else if Key::ALL.iter().any(|key| key.is_in(&path)) {
                match value.get_ref() {
                    DeValue::Table(entries) => self.table(&path, entries),
                    other => self.error(
                        value.span(),
                        format!("{path} is {}", found(other)),
                        format!("expected a table: [{path}]"),
                    ),
                }
            } else if is_unenforced(&path, value.get_ref()) {
                self.unenforced(&path, name.span());
            } else {
                let is_table = prefix.is_empty() && value.get_ref().is_table();
                self.unknown(&path, name.span(), if is_table { "table" } else { "key" });
            }
        }
    }

    fn counts(&self, name: &str) -> bool {
        let table = name.split('.').next().unwrap_or_default();
        match self.layer.tables {
            Tables::All => true,
            Tables::Only(tables) => tables.contains(&table),
            Tables::AllBut(other) => table != other,
        }
    }

    fn unenforced(&mut self, path: &str, span: Range<usize>) {
        let (label, hint) = (unenforced::LABEL.to_owned(), Some(unenforced::HINT.to_owned()));
        self.problem(Severity::Unenforced, span, unenforced::message(path), label, hint);
    }

    /// Reads the kind by which another version of this tool starts claude as `claude`.
    fn is_of_the_sdk(&mut self, key: Key, word: &str, span: &Range<usize>) -> bool {
        let is_kind = AgentKeys::ALL.iter().any(|keys| keys.kind == key);
        if !is_kind || word != BackendKind::SDK {
            return false;
        }
        let command = Value::Text(BackendKind::Claude.name().to_owned());
        self.add(key, Change::Replace(command), span.clone());
        let message = format!("{key} is '{word}', which this version does not support");
        let label = BackendKind::SDK_LABEL.to_owned();
        self.problem(Severity::Warning, span.clone(), message, label, None);
        true
    }

    fn value(&mut self, key: Key, written: &Spanned<DeValue<'_>>) {
        if let DeValue::String(word) = written.get_ref()
            && self.is_of_the_sdk(key, word, &written.span())
        {
            return;
        }
        match read(key.kind(), written) {
            Ok(value) => self.add(key, Change::Replace(value), written.span()),
            Err(refusal) => self.refuse(key, refusal, written.span()),
        }
    }

    fn pairs(&mut self, text: &str) {
        let pairs = payload::find(text).pairs;
        let before = pairs.first().map_or(text.len(), |pair| pair.key.start);
        let is_filler = |c: char| c == ';' || c.is_whitespace();
        let words = text[..before].trim_end_matches(is_filler);
        let start = words.len() - words.trim_start_matches(is_filler).len();
        if start < words.len() {
            let label = "expected key=value; key=value;";
            self.error(start..words.len(), "invalid setting", label);
        }
        for pair in pairs {
            let (name, value) = (&text[pair.key.clone()], &text[pair.value.clone()]);
            let value = payload::unescape(value);
            match (Key::named(name), AgentKeys::named(name)) {
                (Some(key), _) => self.text(key, &value, pair.value),
                (None, Some(keys)) => self.agent(keys, &value, pair.value),
                _ if is_unenforced_text(name, &value) => self.unenforced(name, pair.key),
                _ => self.unknown(name, pair.key, "key"),
            }
        }
    }

    fn assignment(&mut self, text: &str) {
        let Some((name, value)) = text.split_once('=') else {
            return self.error(0..text.len(), "invalid setting", "expected key=value");
        };
        match Key::named(name.trim()) {
            Some(key) => self.text(key, value, name.len() + 1..text.len()),
            None => match AgentKeys::named(name.trim()) {
                Some(keys) => self.agent(keys, value, name.len() + 1..text.len()),
                None => self.unknown(name.trim(), 0..name.len(), "key"),
            },
        }
    }

    fn text(&mut self, key: Key, text: &str, span: Range<usize>) {
        if self.is_of_the_sdk(key, text.trim(), &span) {
            return;
        }
        match read_text(key.kind(), text) {
            Ok(value) => self.add(key, Change::Replace(value), span),
            Err(refusal) => self.refuse(key, refusal, span),
        }
    }

    /// Reads a client like `codex` or `codex:MODEL`, or a command line. What was set for another command does not
    /// apply to it.
    fn agent(&mut self, keys: &AgentKeys, text: &str, span: Range<usize>) {
        let Some(mut words) = self.words(text, &span) else { return };
        let args = words.split_off(words.len().min(1));
        let command = words.concat();
        let (command, model) = match command.split_once(':') {
            Some((client, model)) if Adapter::by_program(client).is_some() => {
                (client.to_owned(), Value::Text(model.to_owned()))
            }
            _ => (command, Value::Unset),
        };
        if command.trim().is_empty() {
            let label = "expected a client like 'claude' or 'codex:MODEL', or a command line";
            return self.error(span, "missing command", label);
        }
        self.text(keys.command, &command, span.clone());
        self.add(keys.args, Change::Replace(Value::List(args)), span.clone());
        self.add(keys.kind, Change::Replace(Value::Unset), span.clone());
        self.add(keys.model, Change::Replace(model), span.clone());
        self.add(keys.output, Change::Replace(Value::Unset), span);
    }

    /// The words of a command line at this place.
    fn words(&mut self, text: &str, span: &Range<usize>) -> Option<Vec<String>> {
        let split = shell_words::split(text);
        split
            .map_err(|bad| {
                // In a file the text may be quoted, so that positions in it are others.
                let is_whole = *span == (0..text.len());
                let span = if is_whole { bad.at..bad.at + 1 } else { span.clone() };
                self.error(span, "invalid command line", bad.to_string());
            })
            .ok()
    }

    fn add(&mut self, key: Key, change: Change, span: Range<usize>) {
        self.content.entries.push(Entry { key, change, span });
    }

    fn refuse(&mut self, key: Key, refusal: Refusal, span: Range<usize>) {
        let Refusal { span: part, found, label, hint } = refusal;
        let message = format!("{key} is {found}");
        self.problem(Severity::Error, part.unwrap_or(span), message, label, hint);
    }

    pub(super) fn unknown(&mut self, path: &str, span: Range<usize>, what: &str) {
        self.unknown += 1;
        if self.unknown > NAMED {
            return;
        }
        let near = match what {
            "table" => suggest(path, Key::ALL.iter().map(|key| key.table()).chain([CHECKS])),
            _ => {
                let names = Key::ALL.iter().map(|key| key.name());
                let of_loop = Key::ALL.iter().filter(|key| key.table() == "event_loop");
                // Of several tables with such a key, that of the loop is the most used one.
                suggest(path, names).or_else(|| suggest(path, of_loop.map(|key| key.name())))
            }
        };
        let shown: String = path.chars().take(60).flat_map(char::escape_debug).collect();
        let message = format!("unknown {what} {shown}");
        let (label, hint) = match near {
            Some(near) => (format!("did you mean {near}?"), None),
            None => {
                let hint = "run `autoloop config show` to list all keys".to_owned();
                (format!("no such {what}"), Some(hint))
            }
        };
        self.problem(self.severity_of_unknown(), span, message, label, hint);
    }

    fn count_unnamed(&mut self) {
        if let Some(more @ 1..) = self.unknown.checked_sub(NAMED) {
            let end = self.layer.text.len();
            let message = format!("{more} more unknown keys");
            self.problem(self.severity_of_unknown(), end..end, message, String::new(), None);
        }
    }

    /// A file may be written for another version of this program; a command line is not.
    pub(super) fn severity_of_unknown(&self) -> Severity {
        match self.layer.origin {
            Origin::Flag => Severity::Error,
            _ => Severity::Warning,
        }
    }

    /// A text that names an agent also resets its other settings, but not those that the same file has.
    fn prefer_keys(&mut self) {
        let is_reset = |entry: &Entry| match &entry.change {
            Change::Replace(Value::List(args)) => args.is_empty(),
            change => *change == Change::Replace(Value::Unset),
        };
        let entries = &mut self.content.entries;
        let set: Vec<Key> =
            entries.iter().filter(|entry| !is_reset(entry)).map(|entry| entry.key).collect();
        entries.retain(|entry| !is_reset(entry) || !set.contains(&entry.key));
    }

    /// Warns about settings that the file contains under two of their names with different values.
    fn contradictions(&mut self) {
        let entries = std::mem::take(&mut self.content.entries);
        for (count, entry) in entries.iter().enumerate() {
            let differs = |one: &&Entry| one.key == entry.key && one.change != entry.change;
            let Some(before) = entries[..count].iter().find(differs) else { continue };
            let line = Place::of(&self.layer.text, before.span.start).line;
            self.problem(
                Severity::Warning,
                entry.span.clone(),
                format!("{} is set twice, to different values", entry.key),
                format!("line {line} sets another value; this one is used"),
                Some("keep one of the two".to_owned()),
            );
        }
        self.content.entries = entries;
    }

    pub(super) fn error(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        label: impl Into<String>,
    ) {
        self.problem(Severity::Error, span, message.into(), label.into(), None);
    }

    pub(super) fn problem(
        &mut self,
        severity: Severity,
        span: Range<usize>,
        message: String,
        label: String,
        hint: Option<String>,
    ) {
        let Layer { name, text, .. } = self.layer;
        let (name, text) = (name.clone(), Arc::clone(text));
        let span = span.start.min(text.len())..span.end.min(text.len());
        self.content.problems.push(Problem { severity, name, text, span, message, label, hint });
    }
}
