//! What the turns of agents used: tokens and cost by run, role, model or day.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::agents::{Dollars, Usage, prices};
use crate::format::{json_text, tokens};
use crate::record::{BackendUsage, ChainStart, ChainStepStart, Event, Glance, LoopStart};
use crate::review::Contract;
use crate::table;
use crate::view::View;
use crate::wire_enum::words;

words! {
    /// What usage is grouped by.
    GroupBy {
        Run = "run",
        Role = "role",
        Model = "model",
        Day = "day",
    }
}

/// The usage of all runs in a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usages {
    sums: BTreeMap<Key, Sum>,
    /// The run that each branch, step and requested chain is a part of.
    parents: BTreeMap<String, String>,
}

/// The turns of one part of a run are neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Key {
    run: String,
    iteration: u64,
    /// 0 for a turn of a loop.
    slot: u64,
    role: String,
    model: String,
    day: String,
}

/// A part of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// The turns of the loop itself.
    Loop,
    /// The metareview before the iteration.
    Metareview,
    Slot(u64),
}

/// How deep a run may be in other runs, because forged records may make a run a part of itself.
const DEEPEST: usize = 64;

/// The sum of several turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    pub turns: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub total_tokens: u64,
    pub cost: Dollars,
    /// Whether a part of the cost was computed from a table of prices.
    pub estimated: bool,
}

/// A sum for other programs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Facts {
    turns: u64,
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    total_tokens: u64,
    cost_usd: f64,
    estimated: bool,
}

impl Sum {
    pub fn add(&mut self, other: &Sum) {
        let Sum { turns, input_tokens, output_tokens, .. } = *other;
        self.turns += turns;
        self.input_tokens = self.input_tokens.saturating_add(input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        self.cost = Dollars(self.cost.0.saturating_add(other.cost.0));
        self.estimated |= other.estimated;
    }

    /// A cost that a journal of an earlier version lacks is estimated.
    pub fn of(usage: &BackendUsage) -> Sum {
        let tokens = Usage {
            input: usage.input_tokens.0,
            output: usage.output_tokens.0,
            cache_read: usage.cache_read_tokens.0,
            cache_write: usage.cache_write_tokens.0,
            total: usage.total_tokens.0,
            cost: usage.cost_usd,
        };
        let estimate = || prices::estimate(&tokens, usage.model.as_deref());
        Sum {
            turns: 1,
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cache_read_tokens: tokens.cache_read,
            cache_write_tokens: tokens.cache_write,
            total_tokens: tokens.total,
            cost: tokens.cost.unwrap_or_else(estimate),
            estimated: usage.estimated == Some(true) || tokens.cost.is_none(),
        }
    }

    fn all<'s>(sums: impl Iterator<Item = &'s Sum>) -> Sum {
        let mut total = Sum::default();
        sums.for_each(|sum| total.add(sum));
        total
    }

    /// The sum, unless no turn reported what it used.
    pub fn known(self) -> Option<Sum> {
        Some(self).filter(|sum| sum.turns > 0)
    }

    /// The cost; `~` marks an estimate.
    pub fn cost_text(&self) -> String {
        format!("{}{}", if self.estimated { "~" } else { "" }, self.cost)
    }

    pub fn facts(&self) -> Facts {
        Facts {
            turns: self.turns,
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cache_read_tokens: self.cache_read_tokens,
            cache_write_tokens: self.cache_write_tokens,
            total_tokens: self.total_tokens,
            cost_usd: self.cost.amount(),
            estimated: self.estimated,
        }
    }
}

/// Tokens and cost: `41.2k tokens, ~$0.38`.
impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", tokens(self.total_tokens), self.cost_text())
    }
}

impl View for Usages {
    const NAME: &'static str = "usage";
    const VERSION: u32 = 2;

    fn apply(&mut self, record: &Glance<'_>) {
        let run = || record.run().into_owned();
        match record.topic().as_ref() {
            BackendUsage::TOPIC | LoopStart::TOPIC | ChainStart::TOPIC | ChainStepStart::TOPIC => {}
            _ => return,
        }
        match record.event() {
            Event::BackendUsage(usage) => self.count(record, &usage),
            Event::LoopStart(LoopStart { parent: Some(parent), .. })
            | Event::ChainStart(ChainStart { parent_id: Some(parent), .. }) => {
                self.parents.insert(run(), parent);
            }
            Event::ChainStepStart(ChainStepStart { run_id: Some(step), .. }) => {
                self.parents.insert(step, run());
            }
            _ => {}
        }
    }
}

impl Usages {
    fn count(&mut self, record: &Glance<'_>, usage: &BackendUsage) {
        let day = record.ts().map(|ts| ts.chars().take(10).collect()).unwrap_or_default();
        let key = Key {
            run: record.run().into_owned(),
            iteration: record.iteration().parse().unwrap_or_default(),
            slot: usage.slot.unwrap_or_default(),
            role: usage.role.clone().unwrap_or_default(),
            model: usage.model.clone().unwrap_or_default(),
            day,
        };
        self.sums.entry(key).or_default().add(&Sum::of(usage));
    }

    /// The usage of one run with its branches, steps and requested chains, or of all runs.
    pub fn total(&self, run: Option<&str>) -> Sum {
        Sum::all(self.of_run(run).map(|(_, sum)| sum))
    }

    /// The usage of a part of one iteration, without branches.
    pub fn of_part(&self, run: &str, iteration: u64, part: Part) -> Sum {
        let slot = if let Part::Slot(slot) = part { slot } else { 0 };
        let first = Key { run: run.to_owned(), iteration, slot, ..Key::default() };
        let is_here = |key: &Key| key.run == run && (key.iteration, key.slot) == (iteration, slot);
        let turns = self.sums.range(&first..).take_while(|(key, _)| is_here(key));
        let is_review = |key: &Key| key.role == Contract::Metareview.name();
        let is_meant = |key: &Key| match part {
            Part::Loop => !is_review(key),
            Part::Metareview => is_review(key),
            Part::Slot(_) => true,
        };
        Sum::all(turns.filter(|(key, _)| is_meant(key)).map(|(_, sum)| sum))
    }

    fn of_run<'u>(&'u self, run: Option<&'u str>) -> impl Iterator<Item = (&'u Key, &'u Sum)> {
        self.sums.iter().filter(move |(key, _)| run.is_none_or(|run| self.has(run, &key.run)))
    }

    /// Whether a run is this one, or a part of it.
    fn has(&self, run: &str, part: &str) -> bool {
        let above = |part: &&str| self.parents.get(*part).map(String::as_str);
        let mut chain = std::iter::successors(Some(part), above).take(DEEPEST);
        chain.any(|it| it == run)
    }

    /// One row per group, in the order of their names.
    pub fn groups(&self, run: Option<&str>, by: GroupBy) -> Vec<(String, Sum)> {
        let mut groups: BTreeMap<String, Sum> = BTreeMap::new();
        for (key, sum) in self.of_run(run) {
            let name = match by {
                GroupBy::Run => &key.run,
                GroupBy::Role => &key.role,
                GroupBy::Model => &key.model,
                GroupBy::Day => &key.day,
            };
            groups.entry(name.clone()).or_default().add(sum);
        }
        groups.into_iter().collect()
    }

    pub fn text(&self, run: Option<&str>, by: GroupBy) -> String {
        let groups = self.groups(run, by);
        let heading = by.name().to_uppercase();
        let heading = [&*heading, "TURNS", "INPUT", "OUTPUT", "CACHED", "TOTAL", "COST"];
        let row = |name: &str, sum: &Sum| {
            [
                if name.is_empty() { "-" } else { name }.to_owned(),
                sum.turns.to_string(),
                sum.input_tokens.to_string(),
                sum.output_tokens.to_string(),
                sum.cache_read_tokens.saturating_add(sum.cache_write_tokens).to_string(),
                sum.total_tokens.to_string(),
                sum.cost_text(),
            ]
        };
        let rows = groups.iter().map(|(name, sum)| row(name, sum));
        let total = (groups.len() > 1).then(|| row("total", &self.total(run)));
        let rows = [heading.map(str::to_owned)].into_iter().chain(rows).chain(total);
        let mut text = table::print(rows.collect());
        if self.total(run).estimated {
            let date = prices::DATE;
            text.push_str(&format!(
                "\n~ estimated from prices of {date}, because the client reports no cost\n"
            ));
        }
        text
    }

    pub fn json(&self, run: Option<&str>, by: GroupBy) -> String {
        #[derive(Serialize)]
        struct Row {
            group: String,
            #[serde(flatten)]
            usage: Facts,
        }
        let row = |(group, sum): (String, Sum)| Row { group, usage: sum.facts() };
        json_text(&self.groups(run, by).into_iter().map(row).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usages() -> Usages {
        let mut usages = Usages::default();
        for (run, role, model, day, cost) in [
            ("a", "builder", "sonnet", "2026-11-17", "\"cost_usd\": 0.25"),
            ("a", "builder", "sonnet", "2026-11-18", "\"cost_usd\": 0.5"),
            ("a", "critic", "gpt-5", "2026-11-18", "\"cost_usd\": 0.001, \"estimated\": true"),
            ("b", "builder", "sonnet", "2026-11-18", "\"cost_usd\": 2"),
        ] {
            let line = format!(
                r#"{{"run": "{run}", "iteration": "1", "topic": "backend.usage", "fields": {{"input_tokens": 10, "output_tokens": 2, "cache_read_tokens": 3, "cache_write_tokens": 0, "total_tokens": 1500, {cost}, "model": "{model}", "role": "{role}"}}, "ts": "{day}T00:00:00.000Z"}}"#
            );
            usages.apply(&Glance::read(line.as_bytes()).unwrap());
        }
        usages
    }

    #[test]
    fn usage_is_grouped() {
        let usages = usages();
        let texts = [GroupBy::Run, GroupBy::Role, GroupBy::Model, GroupBy::Day]
            .map(|by| usages.text(None, by))
            .join("\n");
        insta::assert_snapshot!(texts, @r"
        RUN    TURNS  INPUT  OUTPUT  CACHED  TOTAL  COST
        a      3      30     6       9       4500   ~$0.75
        b      1      10     2       3       1500   $2.00
        total  4      40     8       12      6000   ~$2.75

        ~ estimated from prices of 2026-11, because the client reports no cost

        ROLE     TURNS  INPUT  OUTPUT  CACHED  TOTAL  COST
        builder  3      30     6       9       4500   $2.75
        critic   1      10     2       3       1500   ~$0.0010
        total    4      40     8       12      6000   ~$2.75

        ~ estimated from prices of 2026-11, because the client reports no cost

        MODEL   TURNS  INPUT  OUTPUT  CACHED  TOTAL  COST
        gpt-5   1      10     2       3       1500   ~$0.0010
        sonnet  3      30     6       9       4500   $2.75
        total   4      40     8       12      6000   ~$2.75

        ~ estimated from prices of 2026-11, because the client reports no cost

        DAY         TURNS  INPUT  OUTPUT  CACHED  TOTAL  COST
        2026-11-17  1      10     2       3       1500   $0.25
        2026-11-18  3      30     6       9       4500   ~$2.50
        total       4      40     8       12      6000   ~$2.75

        ~ estimated from prices of 2026-11, because the client reports no cost
        ");
        insta::assert_snapshot!(usages.text(Some("b"), GroupBy::Run), @r"
        RUN  TURNS  INPUT  OUTPUT  CACHED  TOTAL  COST
        b    1      10     2       3       1500   $2.00
        ");
        assert_eq!(usages.total(Some("a")).cost_text(), "~$0.75");
        assert_eq!(usages.total(Some("c")).known(), None);
        assert_eq!(usages.total(Some("a")).to_string(), "4.5k tokens, ~$0.75");
    }

    fn folded(story: &[(&str, &str, &str)]) -> Usages {
        let mut usages = Usages::default();
        for (run, topic, fields) in story {
            let (run, iteration) = run.split_once('#').unwrap_or((run, ""));
            let line = format!(
                r#"{{"run": "{run}", "iteration": "{iteration}", "topic": "{topic}", "fields": {{{fields}}}}}"#
            );
            usages.apply(&Glance::read(line.as_bytes()).unwrap());
        }
        usages
    }

    #[test]
    fn a_run_has_the_usage_of_its_parts() {
        let usage = r#""total_tokens": 1, "cost_usd": 0.01"#;
        let usages = folded(&[
            ("relay", "chain.step.start", r#""run_id": "otter""#),
            ("otter", "loop.start", ""),
            ("otter#1", "backend.usage", usage),
            ("otter-wave-1-1", "loop.start", r#""parent": "otter""#),
            ("otter-wave-1-1#1", "backend.usage", usage),
            ("asked", "chain.start", r#""parent_id": "otter""#),
            ("asked", "chain.step.start", r#""run_id": "heron""#),
            ("heron#1", "backend.usage", usage),
            ("other#1", "backend.usage", usage),
            // A run that is a part of itself.
            ("odd", "loop.start", r#""parent": "odd""#),
            ("odd#1", "backend.usage", usage),
        ]);
        for (run, turns) in
            [("relay", 3), ("otter", 3), ("asked", 1), ("heron", 1), ("odd", 1), ("crow", 0)]
        {
            assert_eq!(usages.total(Some(run)).turns, turns, "{run}");
        }
        assert_eq!(usages.total(None).turns, 5);
        assert_eq!(usages.groups(Some("otter"), GroupBy::Run).len(), 3);
    }

    #[test]
    fn the_parts_of_an_iteration_are_apart() {
        let usages = folded(&[
            ("otter#1", "backend.usage", r#""total_tokens": 1, "role": "builder""#),
            ("otter#2", "backend.usage", r#""total_tokens": 2, "role": "metareview""#),
            ("otter#2", "backend.usage", r#""total_tokens": 4, "role": "builder""#),
            ("otter#2", "backend.usage", r#""total_tokens": 8, "role": "critic""#),
            ("otter#3", "backend.usage", r#""total_tokens": 16, "role": "builder""#),
            ("crow#1", "backend.usage", r#""total_tokens": 1, "role": "implement", "slot": "1""#),
            ("crow#1", "backend.usage", r#""total_tokens": 2, "role": "implement", "slot": "2""#),
            ("crow#1", "backend.usage", r#""total_tokens": 4, "role": "review", "slot": "2""#),
        ]);
        for (run, iteration, part, total) in [
            ("otter", 1, Part::Loop, 1),
            ("otter", 2, Part::Metareview, 2),
            ("otter", 2, Part::Loop, 12),
            ("crow", 1, Part::Slot(1), 1),
            ("crow", 1, Part::Slot(2), 6),
            ("crow", 2, Part::Slot(1), 0),
        ] {
            assert_eq!(usages.of_part(run, iteration, part).total_tokens, total, "{run} {part:?}");
        }
    }

    #[test]
    fn a_cost_that_is_not_on_record_is_estimated() {
        let usages = folded(&[(
            "otter#1",
            "backend.usage",
            r#""input_tokens": 1000000, "total_tokens": 1000000, "model": "claude-sonnet-4-5""#,
        )]);
        assert_eq!(usages.total(None).to_string(), "1.0M tokens, ~$3.00");
    }
}
