//! `chains.toml`: which chains there are, and how far they may go.

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};

use toml::de::{DeTable, DeValue};

use super::budget::Budget;
use super::render::DEEPEST;
use crate::record::escape;
use crate::tables::{
    self, Misplaced, Misread, UnknownKey, Value, at, list, number, table, text, unknown_keys, wrong,
};
use crate::topic::Topic;

/// A file of chains that cannot be used, and where in its text that is.
pub type BadChains = Misplaced<Fault>;

/// What can be wrong with chains.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// What can be wrong with any file.
    #[error("{0}")]
    Misread(#[from] Misread),
    /// A chain without a name.
    #[error("a chain needs a 'name'")]
    NoName,
    /// A name that would be taken for something else.
    #[error("a chain cannot be called '{}': a name is one word, without commas and slashes", .0.escape_debug())]
    BadName(String),
    /// Two chains with one name.
    #[error("there are two chains called '{}'", .0.escape_debug())]
    Twice(String),
    /// A chain of nothing.
    #[error("chain '{0}' has no steps; it needs steps = [\"…\"] or [[chain.step]]")]
    Empty(String),
    /// Steps in both ways.
    #[error("chain '{0}' has its steps in 'steps' and in [[chain.step]]; keep one of them")]
    Both(String),
    /// A step without a loop.
    #[error("a step needs a 'preset'")]
    NoPreset,
    /// Something that cannot name a loop.
    #[error("'{}' cannot be a step: steps are listed with commas, and a step is the name of a preset, of a chain, or a directory", .0.escape_debug())]
    BadStep(String),
    /// A chain that would never end.
    #[error("chain '{name}' would run itself{}", by_way(.way))]
    Circle {
        /// The chain.
        name: String,
        /// The chains on the way back to it.
        way: Vec<String>,
    },
    /// Chains in chains in chains.
    #[error("chain '{name}' is nested deeper than budget.max_depth = {most} allows")]
    TooDeep {
        /// The chain.
        name: String,
        /// The limit.
        most: u64,
    },
    /// More steps than there may be.
    #[error("chain '{name}' has more steps than budget.max_steps = {most} allows")]
    TooLong {
        /// The chain.
        name: String,
        /// The limit.
        most: u64,
    },
    /// A limit that is none.
    #[error("'{key}' has to be a whole number from {least} to {most}")]
    Limit {
        /// Which.
        key: &'static str,
        /// The least that it can be.
        least: u64,
        /// The most that it can be.
        most: u64,
    },
}

fn by_way(way: &[String]) -> String {
    match way {
        [] => String::new(),
        way => format!(", by way of {}", way.join(", ")),
    }
}

/// All chains of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions {
    /// In the order of the file.
    pub chains: Vec<Definition>,
    /// How far they may go.
    pub budget: Budget,
}

/// A chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Its steps, as they are written.
    pub steps: Vec<StepDefinition>,
}

/// A step of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepDefinition {
    /// The name of a preset or of a chain, or a directory.
    pub preset: String,
    /// The agent of the step as a command line, where it has one of its own.
    pub backend: Option<String>,
    /// Settings of that agent, as `key=value`.
    pub settings: Vec<String>,
    /// Where it stands in the file.
    pub span: Range<usize>,
}

const KEYS: [&str; 2] = ["chain", "budget"];
const CHAIN_KEYS: [&str; 3] = ["name", "steps", "step"];
const STEP_KEYS: [&str; 2] = ["preset", "backend"];
const BACKEND_KEYS: [&str; 5] = ["kind", "command", "args", "prompt_mode", "timeout_ms"];
const BUDGET_KEYS: [&str; 5] =
    ["max_depth", "max_steps", "max_runtime_ms", "max_children", "max_consecutive_failures"];
const CHAINS: &str = "a list of tables: [[chain]]";
const STEPS: &str = "a list of presets, of chains and of directories";
const BACKEND: &str = "a command line, or a table like { command = \"…\" }";

impl Definitions {
    /// Reads the text of a file of chains, and finds the keys in it that mean nothing.
    ///
    /// # Errors
    ///
    /// With the first mistake in it, which may be that a chain would run itself.
    pub fn read(text: &str) -> Result<(Definitions, Vec<UnknownKey>), BadChains> {
        let root = tables::parse(text)?;
        let root = root.get_ref();
        let mut unknown = unknown_keys(root, "", &KEYS);
        let mut definitions = Definitions::default();
        if let Some(value) = root.get("budget") {
            let budget = table(value, "budget", "a table: [budget]")?;
            unknown.extend(unknown_keys(budget, "budget.", &BUDGET_KEYS));
            definitions.budget = read_budget(budget)?;
        }
        let mut spans = Vec::new();
        for value in root.get("chain").map_or(Ok(&[][..]), |value| list(value, "chain", CHAINS))? {
            let table = table(value, "chain", CHAINS)?;
            unknown.extend(unknown_keys(table, "chain.", &CHAIN_KEYS));
            let (span, chain) = read_chain(table, value.span(), &mut unknown)?;
            if definitions.named(&chain.name).is_some() {
                return Err(at(Fault::Twice(chain.name), span));
            }
            spans.push(span);
            definitions.chains.push(chain);
        }
        for (chain, span) in definitions.chains.iter().zip(spans) {
            definitions.expand(&chain.name, &chain.steps).map_err(|mut bad| {
                // What is too much is so as a whole; a circle is closed in one place.
                if !matches!(bad.fault, Fault::Circle { .. }) {
                    bad.span = span;
                }
                bad
            })?;
        }
        // The parser sorts keys by name; people read from top to bottom.
        unknown.sort_by_key(|key| key.span.start);
        Ok((definitions, unknown))
    }

    /// The chain of a name.
    pub fn named(&self, name: &str) -> Option<&Definition> {
        self.chains.iter().find(|chain| chain.name == name)
    }

    /// The steps of a list with commas, as somebody typed it; those of the chains that it names stand
    /// in their place.
    ///
    /// # Errors
    ///
    /// When a step has no name, or there are too many.
    pub fn listed(&self, names: &str) -> Result<Vec<StepDefinition>, Fault> {
        self.listed_below(names, &[])
    }

    /// The same for a chain that a step of other chains asks for, the outermost first: they count for
    /// how deep it is, and it may not run one of them again.
    ///
    /// # Errors
    ///
    /// As for [`Definitions::listed`], and when it is too deep or one of those chains would run itself.
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
        let way = above.iter().map(String::as_str).chain([""]).collect();
        self.expand_on(way, &steps).map_err(|bad| match bad.fault {
            Fault::TooLong { most, .. } => Fault::TooLong { name: names.to_owned(), most },
            Fault::TooDeep { most, .. } => Fault::TooDeep { name: names.to_owned(), most },
            fault => fault,
        })
    }

    /// The steps of a chain, with those of the chains that it names in their place.
    ///
    /// # Errors
    ///
    /// When it would run itself, or is longer or deeper than chains may be.
    pub fn expand(
        &self,
        name: &str,
        steps: &[StepDefinition],
    ) -> Result<Vec<StepDefinition>, BadChains> {
        self.expand_on(vec![name], steps)
    }

    fn expand_on<'a>(
        &'a self,
        way: Vec<&'a str>,
        steps: &'a [StepDefinition],
    ) -> Result<Vec<StepDefinition>, BadChains> {
        let chains = self.chains.iter().map(|chain| (chain.name.as_str(), chain)).collect();
        let mut expansion = Expansion { chains, budget: self.budget, way, found: Vec::new() };
        expansion.add(steps)?;
        Ok(expansion.found)
    }
}

/// Puts the steps of chains in the place of their names.
struct Expansion<'a> {
    chains: HashMap<&'a str, &'a Definition>,
    budget: Budget,
    /// The chains that we are in.
    way: Vec<&'a str>,
    found: Vec<StepDefinition>,
}

impl<'a> Expansion<'a> {
    fn add(&mut self, steps: &'a [StepDefinition]) -> Result<(), BadChains> {
        for step in steps {
            let Some(chain) = self.chains.get(step.preset.as_str()).copied() else {
                if self.found.len() as u64 >= self.budget.max_steps {
                    let fault =
                        Fault::TooLong { name: self.outermost(), most: self.budget.max_steps };
                    return Err(at(fault, step.span.clone()));
                }
                self.found.push(step.clone());
                continue;
            };
            // A chain that somebody listed is called by its list, and a name has no commas.
            let is_in = |list: &&str| list.split(',').any(|name| name.trim() == chain.name);
            if let Some(place) = self.way.iter().position(is_in) {
                let way = self.way[place + 1..].iter().filter(|name| !name.is_empty());
                let way = way.map(ToString::to_string).collect();
                return Err(at(Fault::Circle { name: chain.name.clone(), way }, step.span.clone()));
            }
            if self.way.len() as u64 >= self.budget.max_depth {
                let fault = Fault::TooDeep { name: self.outermost(), most: self.budget.max_depth };
                return Err(at(fault, step.span.clone()));
            }
            self.way.push(&chain.name);
            self.add(&chain.steps)?;
            self.way.pop();
        }
        Ok(())
    }

    fn outermost(&self) -> String {
        self.way.first().copied().unwrap_or_default().to_owned()
    }
}

fn read_budget(table: &DeTable<'_>) -> Result<Budget, BadChains> {
    let limit = |key: &'static str, usual: u64, range: RangeInclusive<u64>| {
        let Some(value) = table.get(key) else { return Ok(usual) };
        match number::<Fault>(value, key) {
            Ok(limit) if range.contains(&limit) => Ok(limit),
            _ => {
                let (least, most) = range.into_inner();
                Err(at(Fault::Limit { key, least, most }, value.span()))
            }
        }
    };
    let usual = Budget::default();
    let failures = usual.max_consecutive_failures;
    Ok(Budget {
        max_depth: limit("max_depth", usual.max_depth, 1..=DEEPEST as u64)?,
        max_steps: limit("max_steps", usual.max_steps, 1..=1_000)?,
        max_runtime_ms: limit("max_runtime_ms", usual.max_runtime_ms, 1..=u64::MAX / 2)?,
        max_children: limit("max_children", usual.max_children, 0..=1_000)?,
        max_consecutive_failures: limit("max_consecutive_failures", failures, 1..=1_000)?,
    })
}

/// A chain, and where its name stands.
fn read_chain(
    table: &DeTable<'_>,
    place: Range<usize>,
    unknown: &mut Vec<UnknownKey>,
) -> Result<(Range<usize>, Definition), BadChains> {
    let Some(value) = table.get("name") else { return Err(at(Fault::NoName, place)) };
    let name: String = text(value, "name")?;
    if Topic::check(&name).is_err() || name.contains('/') || name == "." || name == ".." {
        return Err(at(Fault::BadName(name), value.span()));
    }
    let steps = match (table.get("steps"), table.get("step")) {
        (Some(_), Some(both)) => return Err(at(Fault::Both(name), both.span())),
        (Some(steps), None) => {
            list(steps, "steps", STEPS)?.iter().map(read_name).collect::<Result<Vec<_>, _>>()?
        }
        (None, Some(steps)) => list(steps, "step", "a list of tables: [[chain.step]]")?
            .iter()
            .map(|step| read_step(step, unknown))
            .collect::<Result<_, _>>()?,
        (None, None) => Vec::new(),
    };
    match steps.is_empty() {
        true => Err(at(Fault::Empty(name), value.span())),
        false => Ok((value.span(), Definition { name, steps })),
    }
}

fn read_name(value: &Value<'_>) -> Result<StepDefinition, BadChains> {
    let Some(preset) = value.get_ref().as_str() else { return Err(wrong(value, "steps", STEPS)) };
    match is_step(preset) {
        true => Ok(StepDefinition {
            preset: preset.to_owned(),
            span: value.span(),
            ..StepDefinition::default()
        }),
        false => Err(at(Fault::BadStep(preset.to_owned()), value.span())),
    }
}

/// Whether a text can stand in a list of steps.
fn is_step(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(|c: char| c == ',' || c.is_control())
}

fn read_step(
    value: &Value<'_>,
    unknown: &mut Vec<UnknownKey>,
) -> Result<StepDefinition, BadChains> {
    let entries = table(value, "step", "a list of tables: [[chain.step]]")?;
    unknown.extend(unknown_keys(entries, "chain.step.", &STEP_KEYS));
    let preset = entries.get("preset").ok_or_else(|| at(Fault::NoPreset, value.span()))?;
    let mut step = read_name(preset)?;
    match entries.get("backend").map(|backend| (backend, backend.get_ref())) {
        None => {}
        Some((_, DeValue::String(command))) => step.backend = Some(command.to_string()),
        Some((_, DeValue::Table(settings))) => {
            unknown.extend(unknown_keys(settings, "chain.step.backend.", &BACKEND_KEYS));
            for key in BACKEND_KEYS {
                let Some(value) = settings.get(key) else { continue };
                step.settings.push(format!("backend.{key}={}", setting(value, key)?));
            }
        }
        Some((backend, _)) => return Err(wrong(backend, "backend", BACKEND)),
    }
    Ok(step)
}

/// A value as `--set` takes it. Whether it can be meant is found out where all settings are.
fn setting(value: &Value<'_>, key: &'static str) -> Result<String, BadChains> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(_) => Ok(number::<Fault>(value, key)?.to_string()),
        DeValue::Array(items) => {
            let item = |item: &Value<'_>| match item.get_ref().as_str() {
                Some(text) => Ok(quoted(text)),
                None => Err(wrong(item, key, "a list of texts")),
            };
            let items = items.iter().map(item).collect::<Result<Vec<_>, BadChains>>()?;
            Ok(format!("[{}]", items.join(", ")))
        }
        _ => Err(wrong(value, key, "a text, a number or a list of texts")),
    }
}

/// A text in quotes, as TOML reads it.
fn quoted(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    escape(text, &mut bytes);
    format!("\"{}\"", String::from_utf8_lossy(&bytes))
}
