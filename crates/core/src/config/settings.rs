//! Every setting with its value, and where the value came from.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::checks::{Check, WrittenCheck};
use super::key::{Key, Preset};
use super::layer::{Change, Layer, Origin};
use super::problem::{Place, Problem, Severity};
use super::value::{Value, read_text};
use crate::agents::Dollars;
use crate::wire_enum::WireEnum;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    sources: Vec<Layer>,
    /// Indexed by the key.
    held: Vec<Held>,
    checks: Vec<HeldCheck>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HeldCheck {
    written: WrittenCheck,
    /// The index of the source.
    source: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    value: Value,
    /// The index of the source and the bytes in it; `None` for a default.
    from: Option<(usize, Range<usize>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provenance<'s> {
    pub origin: Origin,
    /// The file, variable or flag; `None` for a default.
    pub name: Option<&'s str>,
    /// `None` unless the origin is a file.
    pub place: Option<Place>,
}

impl fmt::Display for Provenance<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.map(|name| format!(": {}", name.escape_debug())).unwrap_or_default();
        let place = self.place.map(|place| format!(", line {}", place.line)).unwrap_or_default();
        write!(f, "{}{name}{place}", self.origin)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Where a value was invalid, the value of the layer below.
    pub settings: Settings,
    pub problems: Vec<Problem>,
}

impl Reading {
    /// Returns the settings with their warnings, or all problems if one of them is an error.
    pub fn checked(self) -> Result<(Settings, Vec<Problem>), Vec<Problem>> {
        match self.problems.iter().any(Problem::is_error) {
            true => Err(self.problems),
            false => Ok((self.settings, self.problems)),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let held = Key::ALL.iter().map(|key| Held {
            value: match key.preset() {
                Preset::Value(text) => read_text(key.kind(), text).unwrap_or(Value::Unset),
                Preset::Like(_) | Preset::Nothing(_) => Value::Unset,
            },
            from: None,
        });
        Settings { sources: Vec::new(), held: held.collect(), checks: Vec::new() }
    }
}

impl Settings {
    /// Applies layers to the defaults, in any order: a later [`Origin`] wins, and of two layers with the same
    /// origin the last one.
    pub fn resolve(layers: &[Layer]) -> Reading {
        let mut settings = Settings::default();
        let mut problems = Vec::new();
        let mut layers: Vec<&Layer> = layers.iter().collect();
        layers.sort_by_key(|layer| layer.origin);
        for layer in layers {
            let content = layer.read();
            let source = settings.sources.len();
            settings.sources.push(layer.clone());
            for entry in content.entries {
                let held = &mut settings.held[entry.key as usize];
                held.value = match (entry.change, &held.value) {
                    (Change::Replace(value), _) => value,
                    (Change::Append(more), Value::List(list)) => {
                        Value::List(list.iter().cloned().chain(more).collect())
                    }
                    (Change::Append(more), _) => Value::List(more),
                };
                held.from = Some((source, entry.span));
            }
            for written in content.checks {
                let is_other = |held: &HeldCheck| held.written.check.name != written.check.name;
                settings.checks.retain(is_other);
                settings.checks.push(HeldCheck { written, source });
            }
            problems.extend(content.problems);
        }
        Reading { settings, problems }
    }

    /// Takes the completion event from the topology `name`, which overrides the settings; warns if both are
    /// set and differ.
    #[must_use]
    pub fn with_completion(mut self, event: &str, name: &str) -> (Settings, Option<Problem>) {
        let key = Key::CompletionEvent;
        let warning = self.text(key).filter(|set| *set != event).and_then(|set| {
            let message = format!(
                "event_loop.completion_event is '{}', but the completion of {name} is '{}', which wins",
                set.escape_debug(),
                event.escape_debug()
            );
            let problem = self.problem(key, Severity::Warning, message)?;
            let label = "this is ignored".to_owned();
            let hint = Some("remove one of the two, or make them the same".to_owned());
            Some(Problem { label, hint, ..problem })
        });
        let from = Some((self.sources.len(), 0..0));
        self.sources.push(Layer::file(Origin::Topology, name, ""));
        self.held[key as usize] = Held { value: Value::Text(event.to_owned()), from };
        (self, warning)
    }

    #[must_use]
    pub fn with_text(mut self, key: Key, text: String) -> Settings {
        self.held[key as usize].value = Value::Text(text);
        self
    }

    pub fn value(&self, key: Key) -> &Value {
        &self.held[key as usize].value
    }

    pub fn origin(&self, key: Key) -> Origin {
        self.provenance(key).origin
    }

    pub fn provenance(&self, key: Key) -> Provenance<'_> {
        match &self.held[key as usize].from {
            None => Provenance { origin: Origin::Default, name: None, place: None },
            Some((source, span)) => self.written_at(*source, span),
        }
    }

    fn written_at(&self, source: usize, span: &Range<usize>) -> Provenance<'_> {
        let Layer { origin, name, text, .. } = &self.sources[source];
        let in_file = !matches!(origin, Origin::Topology | Origin::Environment | Origin::Flag);
        Provenance {
            origin: *origin,
            name: Some(name),
            place: in_file.then(|| Place::of(text, span.start)),
        }
    }

    /// The checks of the project, by their names; of two layers with a check of the same name, the later one has it.
    pub fn checks(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().map(|held| &held.written.check)
    }

    /// Where each check was set.
    pub(super) fn checks_provenance(&self) -> impl Iterator<Item = Provenance<'_>> {
        self.checks.iter().map(|held| self.written_at(held.source, &held.written.span))
    }

    /// A problem with a value, shown where it was set; `None` for a default.
    pub fn problem(&self, key: Key, severity: Severity, message: String) -> Option<Problem> {
        let (source, span) = self.held[key as usize].from.clone()?;
        let Layer { name, text, .. } = &self.sources[source];
        let (name, text) = (name.clone(), Arc::clone(text));
        Some(Problem { severity, name, text, span, message, label: String::new(), hint: None })
    }

    pub(crate) fn text(&self, key: Key) -> Option<&str> {
        match self.value(key) {
            Value::Text(text) => Some(text),
            Value::Unset => None,
            other => mismatch(key, other),
        }
    }

    pub(crate) fn list(&self, key: Key) -> Option<&[String]> {
        match self.value(key) {
            Value::List(list) => Some(list),
            Value::Unset => None,
            other => mismatch(key, other),
        }
    }

    pub(crate) fn flag(&self, key: Key) -> bool {
        match self.value(key) {
            Value::Flag(flag) => *flag,
            other => mismatch(key, other),
        }
    }

    pub(crate) fn number(&self, key: Key) -> i64 {
        match self.value(key) {
            Value::Number(number) => *number,
            other => mismatch(key, other),
        }
    }

    pub(crate) fn time(&self, key: Key) -> Duration {
        match self.value(key) {
            Value::Time(time) => *time,
            other => mismatch(key, other),
        }
    }

    pub(crate) fn cost(&self, key: Key) -> Dollars {
        match self.value(key) {
            Value::Cost(cost) => *cost,
            other => mismatch(key, other),
        }
    }

    /// The meaning of a word; other words are refused when values are read.
    pub(crate) fn choice<T: WireEnum>(&self, key: Key) -> Option<T> {
        let word = self.text(key)?;
        Some(T::of_word(word).unwrap_or_else(|| mismatch(key, self.value(key))))
    }

    pub(crate) fn word<T: WireEnum>(&self, key: Key) -> T {
        self.choice(key).unwrap_or_else(|| mismatch(key, self.value(key)))
    }

    /// The key that a value is taken from: for an unset one, the key that it defaults to.
    pub(crate) fn source(&self, key: Key) -> Key {
        match (self.value(key), key.preset()) {
            (Value::Unset, Preset::Like(other)) => self.source(other),
            _ => key,
        }
    }
}

/// Cannot happen: values are read according to the table of keys, and the plan asks for each key accordingly.
fn mismatch(key: Key, value: &Value) -> ! {
    unreachable!("{key} is {value:?}, which is not what its kind allows")
}
