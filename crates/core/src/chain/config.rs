//! `chains.toml`: the chains of a project and their limits.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use toml::Spanned;

use super::render::DEEPEST;
use crate::toml_file::{Invalid, TomlFile, UnknownKey, fields};
use crate::topic::Topic;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(default, expecting = "a table: [budget]")]
pub struct Budget {
    pub max_depth: u64,
    /// The maximum number of steps of a chain, including those of nested and of requested chains.
    pub max_steps: u64,
    /// No step starts after this time.
    pub max_runtime_ms: u64,
    /// The maximum number of chains that a run may request; 0 for none.
    pub max_children: u64,
    /// After so many failed chains in succession, a run gets no more.
    pub max_consecutive_failures: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            max_depth: 5,
            max_steps: 50,
            max_runtime_ms: 3_600_000,
            max_children: 10,
            max_consecutive_failures: 3,
        }
    }
}

impl Budget {
    #[must_use]
    pub fn within(self, other: Budget) -> Budget {
        Budget {
            max_depth: self.max_depth.min(other.max_depth),
            max_steps: self.max_steps.min(other.max_steps),
            max_runtime_ms: self.max_runtime_ms.min(other.max_runtime_ms),
            max_children: self.max_children.min(other.max_children),
            max_consecutive_failures: self
                .max_consecutive_failures
                .min(other.max_consecutive_failures),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error(
        "invalid step '{}': expected a preset, a chain or a directory, without commas",
        .0.escape_debug()
    )]
    BadStep(String),
    #[error("chain '{name}' would run itself{}", through(.way))]
    Circle {
        name: String,
        way: Vec<String>,
        /// The step that closes the cycle.
        span: Range<usize>,
    },
    #[error("chain '{name}' is nested deeper than budget.max_depth = {most} allows")]
    TooDeep { name: String, most: u64 },
    #[error("chain '{name}' has more steps than budget.max_steps = {most} allows")]
    TooLong { name: String, most: u64 },
}

fn through(way: &[String]) -> String {
    match way {
        [] => String::new(),
        way => format!(", through {}", way.join(", ")),
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions {
    /// In the order of the file.
    pub chains: Vec<Definition>,
    pub budget: Budget,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    pub name: String,
    /// As written: a step may be the name of a chain.
    pub steps: Vec<StepDefinition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepDefinition {
    pub preset: String,
    /// The command line of the step's own agent.
    pub backend: Option<String>,
    /// Settings of that agent, as `key=value`.
    pub settings: Vec<String>,
    pub span: Range<usize>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct ChainsFile {
    chain: Vec<ChainTable>,
    budget: Budget,
}

#[derive(serde::Deserialize)]
#[serde(expecting = "a table: [[chain]]")]
struct ChainTable {
    #[serde(deserialize_with = "chain_name")]
    name: String,
    steps: Option<Vec<StepName>>,
    step: Option<Vec<StepTable>>,
}

/// A type of its own, so that an error points to the name and not to the list.
#[derive(serde::Deserialize)]
struct StepName(#[serde(deserialize_with = "step_name")] Spanned<String>);

#[derive(serde::Deserialize)]
#[serde(expecting = "a table: [[chain.step]]")]
struct StepTable {
    preset: StepName,
    #[serde(default)]
    backend: Backend,
}

/// A command line, or settings.
#[derive(Default)]
struct Backend {
    line: Option<String>,
    settings: Vec<String>,
}

const BACKEND_KEYS: &[&str] = &["kind", "command", "args", "prompt_mode", "timeout_ms"];

/// A value in the syntax of `--set`. It is validated with all other settings.
#[derive(serde::Deserialize)]
struct Setting(#[serde(deserialize_with = "setting")] String);

impl Definitions {
    pub fn read(text: &str) -> Result<(Definitions, Vec<UnknownKey>), Invalid> {
        let file = TomlFile::parse(text)?;
        let (ChainsFile { chain: tables, budget }, unknown) = file.read(&[
            ("budget", fields::<Budget>()),
            ("chain", fields::<ChainTable>()),
            ("chain.step", fields::<StepTable>()),
            ("chain.step.backend", BACKEND_KEYS),
        ])?;
        for (key, value, limits) in [
            ("max_depth", budget.max_depth, 1..=DEEPEST as u64),
            ("max_steps", budget.max_steps, 1..=1_000),
            ("max_runtime_ms", budget.max_runtime_ms, 1..=u64::MAX / 2),
            ("max_children", budget.max_children, 0..=1_000),
            ("max_consecutive_failures", budget.max_consecutive_failures, 1..=1_000),
        ] {
            if !limits.contains(&value) {
                let (least, most) = limits.into_inner();
                let message = format!("invalid {key} {value}: expected {least} to {most}");
                return Err(file.locate(&["budget", key]).invalid(message));
            }
        }
        let mut definitions = Definitions { chains: Vec::new(), budget };
        for (index, table) in tables.into_iter().enumerate() {
            let place = |key| file.locate(&["chain", &index.to_string(), key]);
            let ChainTable { name, steps, step } = table;
            if definitions.named(&name).is_some() {
                return Err(place("name").invalid(format!("duplicate chain '{name}'")));
            }
            if steps.is_some() && step.is_some() {
                let message = format!("chain '{name}' also has 'steps'; keep one of the two");
                return Err(place("step").invalid(message));
            }
            let plain = |preset| StepTable { preset, backend: Backend::default() };
            let steps = steps.into_iter().flatten().map(plain);
            let steps: Vec<_> =
                steps.chain(step.into_iter().flatten()).map(StepTable::definition).collect();
            if steps.is_empty() {
                return Err(place("name").invalid(format!(
                    "chain '{name}' has no steps; it needs steps = [\"…\"] or [[chain.step]]"
                )));
            }
            definitions.chains.push(Definition { name, steps });
        }
        for (index, chain) in definitions.chains.iter().enumerate() {
            definitions.expand(&chain.name, &chain.steps).map_err(|fault| {
                let name = file.locate(&["chain", &index.to_string(), "name"]);
                let invalid = name.invalid(&fault);
                match fault {
                    // A cycle is closed by one step; the other faults concern the whole chain.
                    Fault::Circle { span, .. } => Invalid { span, ..invalid },
                    _ => invalid,
                }
            })?;
        }
        Ok((definitions, unknown))
    }

    pub fn named(&self, name: &str) -> Option<&Definition> {
        self.chains.iter().find(|chain| chain.name == name)
    }

    pub fn listed(&self, names: &str) -> Result<Vec<StepDefinition>, Fault> {
        self.listed_below(names, &[])
    }

    /// The same for a chain that is requested within other chains, the outermost first: they count
    /// for its depth, and it may not contain them.
    pub fn listed_below(
        &self,
        names: &str,
        above: &[String],
    ) -> Result<Vec<StepDefinition>, Fault> {
        let step = |name: &str| match is_step(name.trim()) {
            true => Ok(StepDefinition { preset: name.trim().to_owned(), ..Default::default() }),
            false => Err(Fault::BadStep(name.to_owned())),
        };
        let steps = names.split(',').map(step).collect::<Result<Vec<_>, _>>()?;
        if above.len() as u64 >= self.budget.max_depth {
            return Err(Fault::TooDeep { name: names.to_owned(), most: self.budget.max_depth });
        }
        let mut way: Vec<&str> = above.iter().map(String::as_str).chain([""]).collect();
        let mut found = Vec::new();
        self.expand_into(&mut found, names, &steps, &mut way)?;
        Ok(found)
    }

    /// Replaces names of chains by their steps. Fails where a chain contains itself, or exceeds the
    /// budget.
    pub fn expand(
        &self,
        name: &str,
        steps: &[StepDefinition],
    ) -> Result<Vec<StepDefinition>, Fault> {
        let mut found = Vec::new();
        self.expand_into(&mut found, name, steps, &mut vec![name])?;
        Ok(found)
    }

    /// `name` is for messages; `way` has the enclosing chains.
    fn expand_into<'a>(
        &'a self,
        found: &mut Vec<StepDefinition>,
        name: &str,
        steps: &'a [StepDefinition],
        way: &mut Vec<&'a str>,
    ) -> Result<(), Fault> {
        let Budget { max_depth, max_steps, .. } = self.budget;
        for step in steps {
            let Some(chain) = self.named(&step.preset) else {
                if found.len() as u64 >= max_steps {
                    return Err(Fault::TooLong { name: name.to_owned(), most: max_steps });
                }
                found.push(step.clone());
                continue;
            };
            // A listed chain is named by its list, and a name has no commas.
            let is_in = |list: &&str| list.split(',').any(|name| name.trim() == chain.name);
            if let Some(place) = way.iter().position(is_in) {
                let way = way[place + 1..].iter().filter(|name| !name.is_empty());
                let way = way.map(ToString::to_string).collect();
                let (name, span) = (chain.name.clone(), step.span.clone());
                return Err(Fault::Circle { name, way, span });
            }
            if way.len() as u64 >= max_depth {
                return Err(Fault::TooDeep { name: name.to_owned(), most: max_depth });
            }
            way.push(&chain.name);
            self.expand_into(found, name, &chain.steps, way)?;
            way.pop();
        }
        Ok(())
    }
}

impl StepTable {
    fn definition(self) -> StepDefinition {
        let StepTable { preset: StepName(preset), backend: Backend { line, settings } } = self;
        let span = preset.span();
        StepDefinition { preset: preset.into_inner(), backend: line, settings, span }
    }
}

impl<'de> Deserialize<'de> for Backend {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Backend;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a command line, or a table like { command = \"…\" }")
            }

            fn visit_str<E>(self, line: &str) -> Result<Backend, E> {
                Ok(Backend { line: Some(line.to_owned()), settings: Vec::new() })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Backend, A::Error> {
                let mut settings = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    if let Some(place) = BACKEND_KEYS.iter().position(|known| *known == key) {
                        let Setting(value) = map.next_value()?;
                        settings.insert(place, format!("backend.{key}={value}"));
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Backend { line: None, settings: settings.into_values().collect() })
            }
        }

        deserializer.deserialize_any(Either)
    }
}

fn chain_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    match Topic::check(&name).is_err() || name.contains('/') || name == "." || name == ".." {
        false => Ok(name),
        true => Err(D::Error::custom(format!(
            "invalid name '{}': expected one word without commas and slashes",
            name.escape_debug()
        ))),
    }
}

fn step_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Spanned<String>, D::Error> {
    let name = Spanned::<String>::deserialize(deserializer)?;
    match is_step(name.get_ref()) {
        true => Ok(name),
        false => Err(D::Error::custom(Fault::BadStep(name.into_inner()))),
    }
}

fn is_step(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(|c: char| c == ',' || c.is_control())
}

fn setting<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = match toml::Value::deserialize(deserializer)? {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number @ 0..) => Some(number.to_string()),
        toml::Value::Array(items) => {
            let items: Option<toml_edit::Array> = items.iter().map(toml::Value::as_str).collect();
            items.map(|items| items.to_string())
        }
        _ => None,
    };
    let expected = "expected a string, a whole number or a list of strings";
    text.ok_or_else(|| D::Error::custom(expected))
}
