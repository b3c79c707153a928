//! What the turns of agents used: tokens and cost by run, role, model or day.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::agents::{Dollars, prices};
use crate::format::json_text;
use crate::record::{BackendUsage, Event, Glance};
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
pub struct Usages(BTreeMap<Key, Sum>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Key {
    run: String,
    role: String,
    model: String,
    day: String,
}

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

    fn of(usage: &BackendUsage) -> Sum {
        Sum {
            turns: 1,
            input_tokens: usage.input_tokens.0,
            output_tokens: usage.output_tokens.0,
            cache_read_tokens: usage.cache_read_tokens.0,
            cache_write_tokens: usage.cache_write_tokens.0,
            total_tokens: usage.total_tokens.0,
            cost: usage.cost_usd.unwrap_or_default(),
            estimated: usage.estimated == Some(true),
        }
    }

    /// The cost; `~` marks an estimate.
    pub fn cost_text(&self) -> String {
        let mark = if self.estimated { "~" } else { "" };
        let amount = self.cost.amount();
        match amount >= 0.995 || amount == 0.0 {
            true => format!("{mark}${amount:.2}"),
            false => format!("{mark}${amount:.4}"),
        }
    }
}

impl View for Usages {
    const NAME: &'static str = "usage";
    const VERSION: u32 = 1;

    fn apply(&mut self, record: &Glance<'_>) {
        let Event::BackendUsage(usage) = record.event() else { return };
        let day = record.ts().map(|ts| ts.chars().take(10).collect()).unwrap_or_default();
        let sum = Sum::of(&usage);
        let key = Key {
            run: record.run().into_owned(),
            role: usage.role.unwrap_or_default(),
            model: usage.model.unwrap_or_default(),
            day,
        };
        self.0.entry(key).or_default().add(&sum);
    }
}

impl Usages {
    /// The usage of one run, or of all.
    pub fn total(&self, run: Option<&str>) -> Sum {
        let mut total = Sum::default();
        self.of_run(run).for_each(|(_, sum)| total.add(sum));
        total
    }

    fn of_run<'u>(&'u self, run: Option<&'u str>) -> impl Iterator<Item = (&'u Key, &'u Sum)> {
        self.0.iter().filter(move |(key, _)| run.is_none_or(|run| key.run == run))
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
            turns: u64,
            input_tokens: u64,
            output_tokens: u64,
            cache_read_tokens: u64,
            cache_write_tokens: u64,
            total_tokens: u64,
            cost_usd: f64,
            estimated: bool,
        }
        let row = |(group, sum): (String, Sum)| Row {
            group,
            turns: sum.turns,
            input_tokens: sum.input_tokens,
            output_tokens: sum.output_tokens,
            cache_read_tokens: sum.cache_read_tokens,
            cache_write_tokens: sum.cache_write_tokens,
            total_tokens: sum.total_tokens,
            cost_usd: sum.cost.amount(),
            estimated: sum.estimated,
        };
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
        a      3      30     6       9       4500   ~$0.7510
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
        2026-11-17  1      10     2       3       1500   $0.2500
        2026-11-18  3      30     6       9       4500   ~$2.50
        total       4      40     8       12      6000   ~$2.75

        ~ estimated from prices of 2026-11, because the client reports no cost
        ");
        insta::assert_snapshot!(usages.text(Some("b"), GroupBy::Run), @r"
        RUN  TURNS  INPUT  OUTPUT  CACHED  TOTAL  COST
        b    1      10     2       3       1500   $2.00
        ");
        assert_eq!(usages.total(Some("a")).cost_text(), "~$0.7510");
        assert_eq!(usages.total(Some("c")).cost_text(), "$0.00");
    }
}
