//! Renders chains, each with the chains that its steps requested.

use std::fmt::Write;

use serde::Serialize;

use super::{Chain, ChainStep};
use crate::coordinator::Status;
use crate::format::{Format, json_text};
use crate::table;
use crate::text;
use crate::views::usage::{Facts, Sum, Usages};
use crate::wire_enum::Word;

const HEADER: [&str; 5] = ["step", "preset", "run", "ended with", "usage"];

type Row = [String; 5];

/// The maximum depth. Nothing deeper is shown, because forged records may form a cycle.
pub const DEEPEST: usize = 50;

/// The chains of a journal, in the order in which they started, each with its status.
#[derive(Clone, Copy)]
pub struct Tree<'a> {
    chains: &'a [Chain],
    status: &'a dyn Fn(&Chain) -> Status,
    usages: &'a Usages,
}

impl<'a> Tree<'a> {
    pub fn new(
        chains: &'a [Chain],
        status: &'a dyn Fn(&Chain) -> Status,
        usages: &'a Usages,
    ) -> Self {
        Tree { chains, status, usages }
    }

    /// What a chain or a step used, with the chains that its steps requested.
    fn usage(self, run: &str) -> Option<Sum> {
        self.usages.total(Some(run)).known()
    }

    /// The last cell of a row is empty where nothing is known about the whole chain.
    fn rows(self, chain: &Chain) -> Vec<Row> {
        let is_known = self.usage(&chain.id).is_some();
        let with_usage = |[number, preset, run, state]: [String; 4]| {
            let usage = self.usage(&run).map_or_else(|| "-".to_owned(), |usage| usage.to_string());
            [number, preset, run, state, if is_known { usage } else { String::new() }]
        };
        chain.rows().into_iter().map(with_usage).collect()
    }

    pub fn below(self, run: &str) -> impl Iterator<Item = &'a Chain> {
        let run = run.to_owned();
        self.chains.iter().filter(move |chain| chain.parent() == Some(&run))
    }

    /// The outermost chain that contains the last one, or all chains of the outermost run.
    pub fn render_latest(self, format: Format) -> Option<String> {
        let mut top = self.chains.last()?;
        for _ in 0..DEEPEST {
            let Some(parent) = top.parent() else { break };
            let has_it = |chain: &&Chain| chain.step_of(parent).is_some();
            match self.chains.iter().find(has_it) {
                Some(above) => top = above,
                None => return Some(self.render_run(parent, format)),
            }
        }
        Some(self.render(top, format))
    }

    pub fn render(self, chain: &'a Chain, format: Format) -> String {
        match format {
            Format::Markdown => self.markdown(chain, 1),
            Format::Terminal => self.terminal(chain, 0),
            Format::Json => json_text(&self.json(chain, 0)),
        }
    }

    fn render_run(self, run: &str, format: Format) -> String {
        let chains = self.below(run);
        match format {
            Format::Markdown => {
                chains.map(|chain| self.markdown(chain, 1)).collect::<Vec<_>>().join("\n")
            }
            Format::Terminal => chains.map(|chain| self.terminal(chain, 0)).collect(),
            Format::Json => {
                let chains: Vec<_> = chains.map(|chain| self.json(chain, 0)).collect();
                json_text(&RunFacts { run, chains })
            }
        }
    }

    /// The chains that the run of a step requested, unless they form a cycle.
    fn below_step(self, run: Option<&str>, depth: usize) -> Vec<&'a Chain> {
        let run = run.filter(|_| depth < DEEPEST);
        run.into_iter().flat_map(|run| self.below(run)).collect()
    }

    fn state(self, chain: &Chain) -> String {
        let status = (self.status)(chain);
        match &chain.outcome {
            Some(outcome) => format!("{status} ({})", text::one_line(outcome.as_str())),
            None => status.to_string(),
        }
    }

    fn markdown(self, chain: &Chain, level: usize) -> String {
        let mut out = format!(
            "{} Chain {}\n\n- name: {}\n- status: {}\n",
            "#".repeat(level.min(6)),
            chain.id,
            text::one_line(chain.name()),
            self.state(chain),
        );
        if let Some(objective) = chain.objective() {
            let _ = writeln!(out, "- objective: {}", text::one_line(objective));
        }
        if let Some(parent) = chain.parent() {
            let _ = writeln!(out, "- requested by: {}", text::one_line(parent));
        }
        let usage = self.usage(&chain.id);
        if let Some(usage) = usage {
            let _ = writeln!(out, "- usage: {usage}");
        }
        let columns = HEADER.len() - usize::from(usage.is_none());
        let _ =
            writeln!(out, "\n| {} |\n|{}", HEADER[..columns].join(" | "), "---|".repeat(columns));
        for row in self.rows(chain) {
            let cells = row.map(|cell| cell.replace('|', "\\|"));
            let _ = writeln!(out, "| {} |", cells[..columns].join(" | "));
        }
        for step in &chain.steps {
            for below in self.below_step(step.run.as_deref(), level) {
                let _ = write!(out, "\n{}", self.markdown(below, level + 1));
            }
        }
        out
    }

    fn terminal(self, chain: &Chain, depth: usize) -> String {
        let indent = "      ".repeat(depth);
        let name = text::one_line(chain.name());
        let state = self.state(chain);
        let usage = self.usage(&chain.id).map(|usage| format!(", {usage}")).unwrap_or_default();
        let mut out = format!("{indent}chain {} ({name}): {state}{usage}\n", chain.id);
        let rows = self.rows(chain);
        let mut cells = rows.clone();
        for [number, ..] in &mut cells {
            *number = format!("{indent}{number:>3}");
        }
        table::pad(&mut cells);
        for ([_, _, run, ..], cells) in rows.iter().zip(&cells) {
            out.push_str(&table::line(cells));
            for below in self.below_step(Some(run), depth) {
                out.push_str(&self.terminal(below, depth + 1));
            }
        }
        out
    }

    fn json(self, chain: &'a Chain, depth: usize) -> ChainFacts<'a> {
        let step = |[number, preset, run, _]: [String; 4]| {
            let number = number.parse().unwrap_or_default();
            let known = chain.step(number);
            let below = self.below_step(known.and_then(|step| step.run.as_deref()), depth);
            StepFacts {
                step: number,
                preset,
                usage: self.usage(&run).map(|usage| usage.facts()),
                run: Some(run).filter(|run| run != "-"),
                begun: known.is_some(),
                stop_reason: known
                    .and_then(|step| step.stop_reason.as_ref())
                    .map(|reason| text::one_line(reason.as_str())),
                detail: known.and_then(|step| step.detail.as_deref()),
                chains: below.into_iter().map(|it| self.json(it, depth + 1)).collect(),
            }
        };
        ChainFacts {
            chain: &chain.id,
            name: chain.name(),
            objective: chain.objective(),
            parent_id: chain.parent(),
            status: (self.status)(chain).name(),
            outcome: chain.outcome.as_ref().map(Word::as_str),
            began: &chain.times.0,
            last: &chain.times.1,
            usage: self.usage(&chain.id).map(|usage| usage.facts()),
            steps: chain.rows().into_iter().map(step).collect(),
        }
    }
}

#[derive(Serialize)]
struct RunFacts<'a> {
    run: &'a str,
    chains: Vec<ChainFacts<'a>>,
}

#[derive(Serialize)]
struct ChainFacts<'a> {
    chain: &'a str,
    name: &'a str,
    objective: Option<&'a str>,
    parent_id: Option<&'a str>,
    status: &'static str,
    outcome: Option<&'a str>,
    began: &'a str,
    last: &'a str,
    usage: Option<Facts>,
    steps: Vec<StepFacts<'a>>,
}

#[derive(Serialize)]
struct StepFacts<'a> {
    step: u64,
    preset: String,
    run: Option<String>,
    usage: Option<Facts>,
    begun: bool,
    stop_reason: Option<String>,
    detail: Option<&'a str>,
    chains: Vec<ChainFacts<'a>>,
}

impl Chain {
    fn rows(&self) -> Vec<[String; 4]> {
        let presets = self.presets();
        let last = self.steps.last().map_or(0, |step| step.number).min(10_000);
        (1..=last.max(presets.len() as u64))
            .map(|number| {
                let place = usize::try_from(number - 1).unwrap_or(usize::MAX);
                let known = presets.get(place).copied().unwrap_or_default();
                let step = self.step(number);
                let preset = step.map(|step| step.preset.as_str()).filter(|it| !it.is_empty());
                let state = step.map_or_else(|| "not started".to_owned(), ChainStep::state);
                let run = step.and_then(|step| step.run.as_deref()).unwrap_or("-");
                [&number.to_string(), preset.unwrap_or(known), run, &state].map(text::one_line)
            })
            .collect()
    }
}
