//! One place that settings come from, and what it says.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::LONGEST;
use super::enums::BackendKind;
use super::key::Key;
use super::problem::{Problem, Severity};
use super::shell_words;
use super::validate::contradictions;
use super::value::{Refusal, Value, found, read, read_text};
use crate::payload;
use crate::suggest::suggest;
use crate::toml_file::one_line;
use crate::unenforced::{self, is_unenforced, is_unenforced_text};

/// Where settings come from. Later ones win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The `topology.toml` of the loop.
    Topology,
    /// The settings of the person.
    User,
    /// The `autoloops.toml` of a preset that lies somewhere else than the project.
    Preset,
    /// The `autoloops.toml` of the project.
    Project,
    /// What the person prefers for this preset.
    UserOverride,
    /// What the repository prefers for this preset.
    RepoOverride,
    /// The variable AUTOLOOP_SET.
    Environment,
    /// The command line.
    Flag,
}

impl Origin {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::Topology => "topology",
            Origin::User => "user",
            Origin::Preset => "preset",
            Origin::Project => "project",
            Origin::UserOverride => "user override",
            Origin::RepoOverride => "repo override",
            Origin::Environment => "environment",
            Origin::Flag => "flag",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The variable that holds settings.
pub const VARIABLE: &str = "AUTOLOOP_SET";

/// One place that settings come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// What sort of place it is.
    pub origin: Origin,
    /// What it is called: a file, a variable or a flag.
    pub name: String,
    /// What is written there.
    pub text: Arc<str>,
    syntax: Syntax,
    /// Which of its tables count.
    tables: Tables,
}

/// How a layer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// A file.
    Toml,
    /// `key=value; key=value;`
    Pairs,
    /// `key=value`
    Assignment,
    /// The value of a key.
    Value(Key),
    /// A command line for the backend.
    Backend,
    /// Words behind those that the backend has already.
    MoreArgs,
}

/// Which tables of a layer count. The others are passed over in silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tables {
    /// All of them.
    #[default]
    All,
    /// These.
    Only(&'static [&'static str]),
    /// All but this one.
    AllBut(&'static str),
}

impl Layer {
    /// The text of a settings file.
    pub fn file(origin: Origin, name: impl Into<String>, text: impl Into<Arc<str>>) -> Layer {
        Layer {
            origin,
            name: name.into(),
            text: text.into(),
            syntax: Syntax::Toml,
            tables: Tables::All,
        }
    }

    /// The same, with only some of its tables.
    pub fn with(self, tables: Tables) -> Layer {
        Layer { tables, ..self }
    }

    /// What AUTOLOOP_SET holds.
    pub fn variable(text: &str) -> Layer {
        Layer { syntax: Syntax::Pairs, ..Layer::file(Origin::Environment, VARIABLE, text) }
    }

    /// `--set key=value`
    pub fn set(text: &str) -> Layer {
        Layer::flag("--set", text, Syntax::Assignment)
    }

    /// `--backend`: a command line, which takes the place of `backend.command` and `backend.args`. What
    /// `backend.kind` said of another command does not hold for it.
    pub fn backend(text: &str) -> Layer {
        Layer::flag("--backend", text, Syntax::Backend)
    }

    /// `--max-iterations`
    pub fn max_iterations(text: &str) -> Layer {
        Layer::flag("--max-iterations", text, Syntax::Value(Key::MaxIterations))
    }

    /// The words behind `--`, which come behind `backend.args`.
    pub fn more_args<'a>(args: impl IntoIterator<Item = &'a str>) -> Layer {
        Layer::flag("--", &shell_words::join(args), Syntax::MoreArgs)
    }

    fn flag(name: &str, text: &str, syntax: Syntax) -> Layer {
        Layer { syntax, ..Layer::file(Origin::Flag, name, text) }
    }

    /// What the layer says, and what is wrong with it.
    pub(crate) fn read(&self) -> Found {
        let mut reader = Reader { layer: self, found: Found::default(), unknown: 0 };
        let text = &*self.text;
        if text.len() > LONGEST {
            let bytes = text.len();
            let message = format!(
                "the settings are {bytes} bytes long; {LONGEST} bytes (1 MiB) are the most"
            );
            reader.error(Fault { message, ..Fault::default() });
            return reader.found;
        }
        match self.syntax {
            Syntax::Toml => reader.toml(text),
            Syntax::Pairs => reader.pairs(text),
            Syntax::Assignment => reader.assignment(text),
            Syntax::Value(key) => reader.text(key, text, 0..text.len()),
            Syntax::Backend => reader.backend(text),
            Syntax::MoreArgs => {
                if let Some(args) = reader.words(text) {
                    reader.add(Key::BackendArgs, Change::Append(args), 0..text.len());
                }
            }
        }
        reader.told_enough();
        // The parser sorts keys by name; people read from top to bottom.
        reader.found.entries.sort_by_key(|entry| entry.span.start);
        if self.syntax == Syntax::Toml {
            reader.found.problems.extend(contradictions(self, &reader.found.entries));
        }
        reader.found.problems.sort_by_key(|problem| problem.span.start);
        reader.found
    }
}

/// What a layer says.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) entries: Vec<Entry>,
    pub(crate) problems: Vec<Problem>,
}

/// A setting in a layer.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) change: Change,
    /// Where its value stands.
    pub(crate) span: Range<usize>,
}

/// What a layer does to a setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It puts this in the place of what was there.
    Replace(Value),
    /// It puts these behind what was there.
    Append(Vec<String>),
}

/// Unknown keys of one layer that are named one by one.
const NAMED: usize = 20;

/// A problem without what all problems of a layer have in common.
#[derive(Default)]
struct Fault {
    span: Range<usize>,
    message: String,
    label: String,
    hint: Option<String>,
}

struct Reader<'l> {
    layer: &'l Layer,
    found: Found,
    unknown: usize,
}

impl Reader<'_> {
    fn toml(&mut self, text: &str) {
        match DeTable::parse(text) {
            Ok(root) => self.table("", root.get_ref()),
            Err(error) => {
                let message = format!("this is not TOML: {}", one_line(error.message()));
                let span = error.span().unwrap_or_default();
                self.error(Fault { span, message, ..Fault::default() });
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
            } else if Key::ALL.iter().any(|key| key.is_in(&path)) {
                match value.get_ref() {
                    DeValue::Table(entries) => self.table(&path, entries),
                    other => {
                        self.error(Fault {
                            span: value.span(),
                            message: format!("{path} is {}", found(other)),
                            label: format!("accepted is a table: [{path}]"),
                            hint: None,
                        });
                    }
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
        self.problem(
            Severity::Unenforced,
            Fault {
                span,
                message: unenforced::message(path),
                label: unenforced::LABEL.to_owned(),
                hint: Some(unenforced::HINT.to_owned()),
            },
        );
    }

    /// Takes the kind of another version of this tool for the one that starts the same agent.
    fn is_of_the_sdk(&mut self, key: Key, word: &str, span: &Range<usize>) -> bool {
        let is_kind = [Key::BackendKind, Key::ReviewKind, Key::SlotsReviewerKind].contains(&key);
        if !is_kind || word != BackendKind::SDK {
            return false;
        }
        let command = Value::Text(BackendKind::Command.name().to_owned());
        self.add(key, Change::Replace(command), span.clone());
        let message = format!("{key} is '{word}', which this version does not know");
        let label = BackendKind::SDK_LABEL.to_owned();
        let fault = Fault { span: span.clone(), message, label, hint: None };
        self.problem(Severity::Warning, fault);
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
            self.error(Fault {
                span: start..words.len(),
                message: "this is not a setting".to_owned(),
                label: "accepted is key=value; key=value;".to_owned(),
                hint: None,
            });
        }
        for pair in pairs {
            let value = payload::unescape(&text[pair.value.clone()]);
            match Key::named(&text[pair.key.clone()]) {
                Some(key) => self.text(key, &value, pair.value),
                None if is_unenforced_text(&text[pair.key.clone()], &value) => {
                    self.unenforced(&text[pair.key.clone()], pair.key);
                }
                None => self.unknown(&text[pair.key.clone()], pair.key, "key"),
            }
        }
    }

    fn assignment(&mut self, text: &str) {
        let Some((name, value)) = text.split_once('=') else {
            return self.error(Fault {
                span: 0..text.len(),
                message: "this sets nothing".to_owned(),
                label: "accepted is key=value".to_owned(),
                hint: None,
            });
        };
        match Key::named(name.trim()) {
            Some(key) => self.text(key, value, name.len() + 1..text.len()),
            None => self.unknown(name.trim(), 0..name.len(), "key"),
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

    fn backend(&mut self, text: &str) {
        let Some(mut words) = self.words(text) else { return };
        let span = 0..text.len();
        let args = words.split_off(words.len().min(1));
        let command = words.concat();
        if command.trim().is_empty() {
            return self.error(Fault {
                span,
                message: "this names no command".to_owned(),
                label: "accepted is a command line like 'claude -p'".to_owned(),
                hint: None,
            });
        }
        self.text(Key::BackendCommand, &command, span.clone());
        self.add(Key::BackendArgs, Change::Replace(Value::List(args)), span.clone());
        self.add(Key::BackendKind, Change::Replace(Value::Unset), span.clone());
        self.add(Key::BackendOutput, Change::Replace(Value::Unset), span);
    }

    fn words(&mut self, text: &str) -> Option<Vec<String>> {
        shell_words::split(text)
            .map_err(|bad| {
                self.error(Fault {
                    span: bad.at()..bad.at() + 1,
                    message: "this is not a command line".to_owned(),
                    label: bad.to_string(),
                    hint: None,
                });
            })
            .ok()
    }

    fn add(&mut self, key: Key, change: Change, span: Range<usize>) {
        self.found.entries.push(Entry { key, change, span });
    }

    fn refuse(&mut self, key: Key, refusal: Refusal, span: Range<usize>) {
        let Refusal { span: part, found, label, hint } = refusal;
        let message = format!("{key} is {found}");
        self.error(Fault { span: part.unwrap_or(span), message, label, hint });
    }

    fn unknown(&mut self, path: &str, span: Range<usize>, what: &str) {
        self.unknown += 1;
        if self.unknown > NAMED {
            return;
        }
        let near = match what {
            "table" => suggest(path, Key::ALL.iter().map(|key| key.table())),
            _ => suggest(path, Key::ALL.iter().map(|key| key.name())),
        };
        let shown: String = path.chars().take(60).flat_map(char::escape_debug).collect();
        let message = format!("unknown {what} {shown}");
        self.problem(
            self.severity_of_unknown(),
            match near {
                Some(near) => {
                    Fault { span, message, label: format!("did you mean {near}?"), hint: None }
                }
                None => Fault {
                    span,
                    message,
                    label: "nothing is known by this name".to_owned(),
                    hint: Some("`autoloop config show` lists every key that there is".to_owned()),
                },
            },
        );
    }

    /// Says how many unknown keys were not named.
    fn told_enough(&mut self) {
        if let Some(more @ 1..) = self.unknown.checked_sub(NAMED) {
            let end = self.layer.text.len();
            let message = format!("{more} more unknown keys");
            let fault = Fault { span: end..end, message, ..Fault::default() };
            self.problem(self.severity_of_unknown(), fault);
        }
    }

    /// A file may be meant for another version of this program; a command line is meant for this one.
    fn severity_of_unknown(&self) -> Severity {
        match self.layer.origin {
            Origin::Flag => Severity::Error,
            _ => Severity::Warning,
        }
    }

    fn error(&mut self, fault: Fault) {
        self.problem(Severity::Error, fault);
    }

    fn problem(&mut self, severity: Severity, fault: Fault) {
        let Layer { name, text, .. } = self.layer;
        let Fault { span, message, label, hint } = fault;
        self.found.problems.push(Problem {
            severity,
            name: name.clone(),
            text: Arc::clone(text),
            span: span.start.min(text.len())..span.end.min(text.len()),
            message,
            label,
            hint,
        });
    }
}
